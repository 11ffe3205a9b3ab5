"""evidence_count: a forecaster that searches the archive and counts cue words. No model, no randomness.

The floor under the retrieval agent: what a search and a word list are worth. It moves the base rate by the contrast of
the evidence, and where there is none it stays on the base rate. What it reads is fixed: a budget that a data root sets
for its model (`agent.hits_per_query`, `agent.expanded`) is none of a baseline's that has no model.
"""

import math
from typing import Final

from hindcast_dagster.archive.protocol import ArchiveView, Document, Filters
from hindcast_dagster.evidence import cues
from hindcast_dagster.evidence.labels import contrast, quality
from hindcast_dagster.forecast import tracing
from hindcast_dagster.forecast.forecaster import Forecast
from hindcast_dagster.questions.question import Question

QUERIES: Final = 5
HITS: Final = 20
"""Posts that each query returns."""
READ: Final = 20
"""Posts that are read, the nearest first: the paper's numbers for the agent, so the two are compared fairly."""
STRENGTH: Final = 3.0
"""Logits that a contrast of 1 moves the base rate."""
_FLOOR: Final = 0.02
"""Prior and result stay in [0.02, 0.98]: counting words is no ground for certainty."""


class EvidenceCount:
    """Five searches, the best posts read for cue words, the base rate moved by their contrast."""

    arm = "evidence_count"
    version = f"evidence_count-{cues.REVISION}-k{HITS}-r{READ}"

    def forecast(self, question: Question, archive: ArchiveView, *, run: int) -> Forecast:
        """Forecast one question; every run is the same."""
        del run
        found = self._best(question, archive)
        yes, no = cues.tallies(question, found)
        c = contrast(yes, no)
        tracing.note("tally", yes=yes.as_dict(), no=no.as_dict(), contrast=round(c, 6))
        return Forecast(
            prob_yes=moved(question.base_rate, c),
            confidence=round(abs(c), 6),
            rationale=f"{len(found)} posts read, contrast {c:+.2f} on a base rate of {question.base_rate:.2f}.",
            prior_yes=question.base_rate,
            evidence_quality=quality(yes, no),
            yes_score=yes.score,
            no_score=no.score,
            extra={"tally": {"yes": yes.as_dict(), "no": no.as_dict()}, "contrast": round(c, 6)},
        )

    @staticmethod
    def _best(question: Question, archive: ArchiveView) -> list[Document]:
        texts = cues.queries(question, count=QUERIES)
        answers = archive.search_many(texts, k=HITS, filters=Filters(doc_type="submission"))
        best: dict[str, tuple[float, Document]] = {}
        for hit in (hit for answer in answers for hit in answer.hits):
            known = best.get(hit.document.key)
            if known is None or hit.distance < known[0]:
                best[hit.document.key] = (hit.distance, hit.document)
        ranked = sorted(best.items(), key=lambda item: (item[1][0], item[0]))
        return [document for _, (_, document) in ranked[:READ]]


def moved(prior: float, c: float) -> float:
    """Return the prior moved by a contrast in [-1, 1], rounded to four places; in [0.02, 0.98]."""
    start = min(max(prior, _FLOOR), 1 - _FLOOR)
    logit = math.log(start / (1 - start)) + STRENGTH * c
    return round(min(max(1 / (1 + math.exp(-logit)), _FLOOR), 1 - _FLOOR), 4)
