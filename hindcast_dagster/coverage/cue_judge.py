"""The judge without a language model: cue words and thresholds (`evidence.cues`), the same on every machine.

It lets the demo, the tests and anybody without a GPU probe a pool. What it can and cannot read is told in `cues`.
"""

from typing import Final

from hindcast_dagster.archive.protocol import ArchiveView
from hindcast_dagster.coverage.judge import Block, Finding, Searcher, documents
from hindcast_dagster.evidence import cues
from hindcast_dagster.evidence.claim import claim_of
from hindcast_dagster.evidence.labels import Tallies, Tally, contrast, quality
from hindcast_dagster.questions.question import Question
from hindcast_dagster.settings import Coverage
from hindcast_dagster.storage.journal import identity_hash

NAME: Final = "evidence_count"


class CueJudge:
    """Reads every returned post for both sides; one set of queries serves both, since no hypothesis steers it."""

    name = NAME

    def __init__(self, settings: Coverage) -> None:
        self._settings, self._search = settings, Searcher(settings.hits_per_query)

    @property
    def version(self) -> str:
        """Hash of the reading's revision and of the settings that it uses."""
        used = {"queries": self._settings.queries_per_side, "hits": self._settings.hits_per_query}
        return identity_hash({"judge": NAME, "revision": cues.REVISION, **used})[:16]

    async def read(self, question: Question, view: ArchiveView) -> Finding:
        """Search with the question's own words and label what comes back."""
        texts = cues.queries(question, count=self._settings.queries_per_side)
        answers = await self._search(view, texts)
        claim, found = claim_of(question.text), documents(answers)
        readings = [cues.read(claim, post.text, title=post.title or "") for post in found]
        tallies = Tallies(yes=Tally.of(read.yes for read in readings), no=Tally.of(read.no for read in readings))
        return Finding(
            tallies=tallies,
            contrast=contrast(*tallies),
            quality=quality(*tallies),
            queries={"both": texts},
            blocks=tuple(
                Block(post.key, post.created_at, read.yes, read.no) for post, read in zip(found, readings, strict=True)
            ),
        )

    async def close(self) -> None:
        """Nothing to release."""
