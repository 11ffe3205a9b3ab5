"""The Forecaster interface and what it returns: a `Forecast` with a `Trace` of all that was seen.

A custom arm needs only `arm`, `version` and `forecast`; see docs/forecasters.md.
"""

from collections.abc import Awaitable
from dataclasses import dataclass, field
from typing import Any, Literal, Protocol, runtime_checkable

from hindcast_dagster.archive.protocol import ArchiveView, Document
from hindcast_dagster.errors import InputRefused
from hindcast_dagster.questions.question import Question

Status = Literal["ok", "unparsed", "failed"]


@dataclass(frozen=True, slots=True)
class Seen:
    """One document that a model saw: enough to audit it, never its text."""

    key: str
    """Prefixed id: t3_ or t1_."""
    created_at: int
    text_as_of: int
    engagement_as_of: int | None
    engagement_shown: bool
    """The score or comment count was shown."""

    @classmethod
    def of(cls, document: Document) -> "Seen":
        """Return the record of a document as it was handed out."""
        return cls(
            key=document.key,
            created_at=document.created_at,
            text_as_of=document.text_as_of,
            engagement_as_of=document.engagement_as_of,
            engagement_shown=document.score is not None or document.num_comments is not None,
        )


@dataclass(slots=True)
class Step:
    """One step of a forecast: a model call, a search or a look-up."""

    kind: Literal["call", "search", "lookup", "parse", "note"]
    name: str
    detail: dict[str, Any] = field(default_factory=dict)
    """JSON values: message hash, parameters, tokens, latency, finish reason, query, k, filters, refusals, ..."""
    seen: list[Seen] = field(default_factory=list)


@dataclass(slots=True)
class Trace:
    """Everything that one forecast did and saw, in order."""

    steps: list[Step] = field(default_factory=list)

    def documents(self) -> set[str]:
        """Return the keys of every distinct document that was seen."""
        return {seen.key for step in self.steps for seen in step.seen}


@dataclass(slots=True)
class Forecast:
    """One forecast. Validates itself: an `ok` forecast without a probability in [0, 1] cannot exist."""

    prob_yes: float | None
    status: Status = "ok"
    confidence: float | None = None
    rationale: str = ""
    conflict: str | None = None
    parse_step: str | None = None
    stop_reason: str | None = None
    rounds: int | None = None
    prior_category: str | None = None
    prior_yes: float | None = None
    evidence_quality: str | None = None
    yes_score: float | None = None
    no_score: float | None = None
    extra: dict[str, Any] = field(default_factory=dict)
    """Confidence and yield per round, tallies per side, raw replies: JSON values, kept in the journal."""
    trace: Trace = field(default_factory=Trace)

    def __post_init__(self) -> None:
        valid = (
            isinstance(self.prob_yes, int | float) and not isinstance(self.prob_yes, bool) and 0 <= self.prob_yes <= 1
        )
        if (self.status == "ok") != valid:
            raise InputRefused(f"A forecast with status {self.status} cannot have the probability {self.prob_yes!r}.")

    @property
    def choice(self) -> str | None:
        """Yes exactly when the probability is above one half (paper, section 4.2); None without a probability."""
        return None if self.prob_yes is None else ("Yes" if self.prob_yes > 0.5 else "No")  # noqa: PLR2004


@runtime_checkable
class Forecaster(Protocol):
    """An arm. `forecast` may be sync or async; `run` is 1.. and only changes seeds."""

    arm: str
    version: str
    """Hash or name of prompts and settings: part of the identity of every forecast."""

    def forecast(self, question: Question, archive: ArchiveView, *, run: int) -> Forecast | Awaitable[Forecast]:
        """Forecast one question from what the view shows. The view stands at `question.t0`."""
        ...
