"""The Question: what every forecaster gets, whatever the source, and the ResolvedQuestion that only scoring sees.

The split is the point: a forecaster's object has no field for the outcome or the actual close.
"""

from dataclasses import dataclass
from typing import Final, Literal

from hindcast_dagster.clock import Cutoff

Outcome = Literal["Yes", "No"]
Duration = Literal["short", "medium", "long"]

PROMPT_FIELDS: Final = frozenset({"text", "criteria", "options", "t0", "planned_close"})
"""All that a prompt may contain of a question. A test fails on any other field that reaches a prompt."""


@dataclass(frozen=True, slots=True)
class Question:
    """A binary question as it stands at t0."""

    id: str
    source: str
    event_id: str | None
    text: str
    criteria: str
    """Resolution criteria without addenda."""
    options: tuple[str, ...]
    t0: Cutoff
    planned_close: int | None
    """Epoch seconds; the close as it was planned, never the actual one."""
    topic: str
    duration: Duration
    tags: tuple[str, ...]
    price_at_t0: float | None
    """For scoring and the market baseline; shown to a model only by an arm that says so in its name."""
    base_rate: float
    reference_rate: float


@dataclass(frozen=True, slots=True)
class ResolvedQuestion:
    """A question with what happened: for scoring only."""

    question: Question
    outcome: Outcome
    close_at: int
    price_age_s: int | None
    flags: tuple[str, ...]

    @property
    def y(self) -> int:
        """1 when the question resolved Yes."""
        return int(self.outcome == "Yes")
