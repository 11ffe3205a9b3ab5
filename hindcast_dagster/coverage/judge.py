"""What a coverage judge is: it reads what the archive holds about a question and says how far it supports each side.

What belongs here: the protocol, the `Finding` that a judge returns, and its form in a journal. A judge gets a
`Question`, which has no field for the outcome: it weighs both hypotheses without knowing which came true, and
`coverage.rows` turns the contrast towards the resolved side afterwards.
"""

import asyncio
import threading
from dataclasses import dataclass, field
from typing import Any, Final, Protocol, Self, runtime_checkable

from hindcast_dagster.archive.protocol import ArchiveView, Document, Filters, SearchAnswer
from hindcast_dagster.errors import InputRefused
from hindcast_dagster.evidence.labels import LABELS, Quality, Tallies, Tally
from hindcast_dagster.questions.question import Question

SUBMISSIONS: Final = Filters(doc_type="submission")


@dataclass(frozen=True, slots=True)
class Block:
    """One post that the probe read, and the label that it got for each side; None: no usable label, or not asked."""

    key: str
    created_at: int
    yes: str | None
    no: str | None


@dataclass(frozen=True, slots=True)
class Finding:
    """What one judge found for one question at one cutoff."""

    tallies: Tallies
    contrast: float | None
    """In [-1, 1], positive towards Yes; None: the judge gave none that is usable."""
    quality: Quality | None
    queries: dict[str, list[str]]
    """Search texts per side."""
    blocks: tuple[Block, ...]
    economics: dict[str, int] = field(default_factory=dict)
    """calls, tokens_in, tokens_out; empty without a model."""
    replies: tuple[str, ...] = ()
    """Raw replies of the judge model, for a person who doubts a label."""

    def __post_init__(self) -> None:
        if self.contrast is not None and not -1 <= self.contrast <= 1:
            raise InputRefused(f"A contrast lies in [-1, 1], found {self.contrast!r}.")

    def as_record(self) -> dict[str, Any]:
        """Return JSON values for a journal."""
        return {
            "yes": self.tallies.yes.as_dict(),
            "no": self.tallies.no.as_dict(),
            "contrast": self.contrast,
            "evidence_quality": self.quality,
            "queries": self.queries,
            "blocks": [[block.key, block.created_at, block.yes, block.no] for block in self.blocks],
            "economics": self.economics,
            "replies": list(self.replies),
        }

    @classmethod
    def of_record(cls, record: dict[str, Any]) -> Self:
        """Read what `as_record` wrote. Raises `InputRefused` for anything else."""
        try:
            return cls(
                tallies=Tallies(yes=_tally(record["yes"]), no=_tally(record["no"])),
                contrast=record["contrast"],
                quality=record["evidence_quality"],
                queries=record["queries"],
                blocks=tuple(Block(*values) for values in record["blocks"]),
                economics=record["economics"],
                replies=tuple(record["replies"]),
            )
        except (KeyError, TypeError, AttributeError) as error:
            raise InputRefused(f"A journal record of the coverage probe is damaged ({error!r}): delete it.") from error


@runtime_checkable
class Judge(Protocol):
    """Reads both sides of a question. Safe for many concurrent calls."""

    @property
    def name(self) -> str:
        """Roster slug, or evidence_count."""
        ...

    @property
    def version(self) -> str:
        """Hash of prompts, decoding and settings: a change of any of them probes anew."""
        ...

    async def read(self, question: Question, view: ArchiveView) -> Finding:
        """Search the view and weigh what it returns for both sides. Raises `Unreachable` when a model is away."""
        ...

    async def close(self) -> None:
        """Release what the judge holds."""
        ...


class Searcher:
    """Runs the searches of one judge off the event loop, one batch at a time: an embedder is not shared by threads."""

    def __init__(self, k: int) -> None:
        self._k, self._slot = k, threading.Lock()  # not an asyncio lock: a judge may serve several event loops

    async def __call__(self, view: ArchiveView, texts: list[str]) -> list[SearchAnswer]:
        """Return the answers to a batch of queries over submissions."""
        return await asyncio.to_thread(self._search, view, texts)

    def _search(self, view: ArchiveView, texts: list[str]) -> list[SearchAnswer]:
        with self._slot:
            return view.search_many(texts, k=self._k, filters=SUBMISSIONS)


def documents(answers: list[SearchAnswer]) -> list[Document]:
    """Return the distinct posts of several searches, in the order in which they were first returned."""
    found = (hit.document for answer in answers for hit in answer.hits)
    return list({document.key: document for document in found}.values())


def _tally(values: dict[str, int]) -> Tally:
    return Tally(**{name: int(values[name]) for name in (*LABELS, "unlabelled")})
