"""Which questions a model may be asked: the first N, and with `llm.allow_contaminated` off none that it may know.

A question whose t0 lies before the model's knowledge cutoff may be answered from memory (Li et al.: "act as if it is
t0" does not remove it). It is flagged in the manifest, or not asked at all.
"""

from collections import Counter
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from typing import NamedTuple

from hindcast_dagster.errors import UsageError
from hindcast_dagster.forecast.money import entry_or_none
from hindcast_dagster.forecast.records import NO_MODEL
from hindcast_dagster.llm.roster import Contamination as Said
from hindcast_dagster.questions.question import Question
from hindcast_dagster.settings import Settings


@dataclass(frozen=True, slots=True)
class Contamination:
    """How many of the asked questions lie where, and how many were not asked for that reason."""

    after_cutoff: int = 0
    before_cutoff: int = 0
    no_cutoff: int = 0
    refused: int = 0

    def as_dict(self) -> dict[str, int]:
        """Return JSON values."""
        return asdict(self)


class Sifted(NamedTuple):
    """The questions to ask, and the counts."""

    questions: tuple[Question, ...]
    contamination: Contamination


def sift(every: Sequence[Question], settings: Settings, *, model: str, limit: int | None) -> Sifted:
    """Return the first `limit` questions, and what the roster says about the model's knowledge of them.

    A model outside the roster counts as `no_cutoff`. Raises `UsageError` when refusing leaves nothing to ask.
    """
    chosen = list(every[:limit])
    if model == NO_MODEL:
        return Sifted(tuple(chosen), Contamination())
    entry = entry_or_none(settings, model)
    told: list[Said] = [entry.contamination(question.t0) if entry else "no_cutoff" for question in chosen]
    kept = [
        (question, said)
        for question, said in zip(chosen, told, strict=True)
        if settings.llm.allow_contaminated or said == "after_cutoff"
    ]
    if chosen and not kept:
        raise UsageError(
            f"{model} may know the outcome of all {len(chosen)} questions (its cutoff is unknown or later than every "
            "t0), and llm.allow_contaminated is off: use later questions, or another model."
        )
    counts = Counter[str](said for _, said in kept)
    flags = Contamination(**counts, refused=len(chosen) - len(kept))
    return Sifted(tuple(question for question, _ in kept), flags)
