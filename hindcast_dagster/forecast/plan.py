"""What a run would ask for, before it asks: forecasts, calls, tokens and money, as upper estimates."""

from dataclasses import asdict, dataclass
from typing import Any, Final

from hindcast_dagster.forecast.fields import fields
from hindcast_dagster.forecast.job import Job, Unit
from hindcast_dagster.llm.roster import Price
from hindcast_dagster.llm.tokens import CHARACTERS_PER_TOKEN
from hindcast_dagster.settings import Settings

_FIXED: Final = 500
"""Tokens of a built-in prompt without question and evidence."""
_REPORT: Final = 1200
"""Tokens of an evidence report as a later call reads it."""


@dataclass(frozen=True, slots=True)
class Plan:
    """An estimate from above: every call of the arm is made and fills its reply budget; retries are not counted."""

    arm: str
    model: str
    eval_set: str
    questions: int
    runs: int
    done: int
    pending: int
    calls: int | None
    """None for an arm whose calls nobody but its author knows."""
    tokens_in: int | None
    tokens_out: int | None
    cost: float | None
    """US dollars; None without a price in the roster."""

    def as_dict(self) -> dict[str, Any]:
        """Return JSON values."""
        return asdict(self)


def plan(job: Job, settings: Settings, price: Price | None) -> Plan:
    """Return what is left to do for a job."""
    pending = job.pending()
    kinds = kinds_of_calls(job.arm_name, settings)
    calls = tokens_in = tokens_out = cost = None
    if kinds is not None:
        calls = len(pending) * len(kinds)
        tokens_in = sum(_tokens_in(unit, kinds, settings) for unit in pending)
        tokens_out = len(pending) * sum(getattr(settings.decoding, kind).max_tokens for kind in kinds)
        cost = price.of(tokens_in=tokens_in, tokens_out=tokens_out) if price else None
    done = sum(unit.identity.forecast_id in job.done for unit in job.units)
    return Plan(
        arm=job.arm.arm, model=job.model, eval_set=job.eval_set, questions=len(job.questions), runs=job.runs,
        done=done, pending=len(pending), calls=calls, tokens_in=tokens_in, tokens_out=tokens_out, cost=cost,
    )  # fmt: skip


def kinds_of_calls(arm: str, settings: Settings) -> list[str] | None:
    """Return the calls of one forecast without retries, or None for a custom arm."""
    if arm == "zero_shot":
        return ["zero_shot"]
    if arm == "retrieval":
        rounds = settings.agent.rounds
        return ["seed_queries", *["summary"] * rounds, *["reflection"] * (rounds - 1), "tally", "forecast"]
    return None


def _tokens_in(unit: Unit, kinds: list[str], settings: Settings) -> int:
    text = sum(len(value) for value in fields(unit.question).values())
    each = _FIXED + round(text / CHARACTERS_PER_TOKEN)
    evidence = {"summary": settings.agent.evidence_tokens + _REPORT, "tally": settings.agent.evidence_tokens,
                "reflection": _REPORT, "forecast": _REPORT}  # fmt: skip
    return sum(each + evidence.get(kind, 0) for kind in kinds)
