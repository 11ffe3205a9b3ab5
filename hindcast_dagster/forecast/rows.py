"""From journaled forecasts to the rows, counts and checks of a sealed partition."""

import hashlib
import json
from collections import Counter, defaultdict
from collections.abc import Sequence
from typing import Any, Final

from hindcast_dagster.forecast.records import SEEN, TraceRecord
from hindcast_dagster.storage.manifest import Check

TOLERATED: Final = (3, 216)
"""Unparsed forecasts that the paper had at most, and of how many (appendix B.3)."""
SIGHTINGS: Final = "sightings"
"""What the manifest calls the hash over all that the forecasts of the partition saw."""


def row(record: TraceRecord) -> dict[str, Any]:
    """Return the row of the FORECASTS contract for one forecast."""
    made, identity = record.forecast, record.identity
    calls = [step.detail for step in record.steps if step.kind == "call"]
    return {
        "forecast_id": record.forecast_id,
        "eval_set": record.eval_set,
        "question_id": identity.question_id,
        "t0": identity.t0,
        "model": identity.model,
        "model_revision": identity.model_revision or _revision(calls),
        "arm": identity.arm,
        "arm_version": identity.arm_version,
        "archive_snapshot": identity.archive_snapshot,
        "run": identity.run,
        "status": made.status,
        "prob_yes": None if made.prob_yes is None else float(made.prob_yes),
        "choice": made.choice,
        "confidence": made.confidence,
        "conflict": made.conflict,
        "parse_step": made.parse_step,
        "stop_reason": made.stop_reason,
        "rounds": made.rounds,
        "prior_category": made.prior_category,
        "prior_yes": made.prior_yes,
        "evidence_quality": made.evidence_quality,
        "yes_score": _number(made.yes_score),
        "no_score": _number(made.no_score),
        "documents": len(made.trace.documents()),
        "calls": len(calls),
        "tokens_in": sum(call.get("tokens_in", 0) for call in calls),
        "tokens_out": sum(call.get("tokens_out", 0) for call in calls),
        "tokens_trimmed": int(made.extra.get("tokens_trimmed", 0)),
        "seconds": round(sum(call.get("latency_s", 0.0) for call in calls), 6),
        "cost": record.cost,
    }


def counts(found: Sequence[TraceRecord]) -> dict[str, Any]:
    """Return what a person wants to know about a partition, as JSON values for its manifest."""
    statuses = Counter(record.forecast.status for record in found)
    steps = Counter(record.forecast.parse_step for record in found if record.forecast.parse_step)
    stops = Counter(record.forecast.stop_reason for record in found if record.forecast.stop_reason)
    conflicts = Counter(record.forecast.conflict for record in found if record.forecast.conflict)
    costs = [record.cost for record in found if record.cost is not None]
    return {
        "statuses": dict(sorted(statuses.items())),
        "parse_rate": round(statuses["ok"] / len(found), 6) if found else None,
        "parse_steps": dict(sorted(steps.items())),
        "stop_reasons": dict(sorted(stops.items())),
        "conflicts": dict(sorted(conflicts.items())),
        "calls": _calls(found),
        "cost": round(sum(costs), 6) if costs else None,
        "identical_runs": identical_runs(found),
        SIGHTINGS: sightings(found),
    }


def sightings(found: Sequence[TraceRecord]) -> str:
    """Return the hash over every document of every trace with its instants: a row holds their number alone."""
    whole = Sightings()
    for record in sorted(found, key=lambda record: record.forecast_id):
        whole.add(record)
    return whole.sha256


class Sightings:
    """The same hash, record by record in the order of their ids (which is that of a journal)."""

    def __init__(self) -> None:
        self._hash = hashlib.sha256()

    def add(self, record: TraceRecord) -> None:
        """Count in what one forecast saw."""
        seen = [[getattr(seen, name) for name in SEEN] for step in record.steps for seen in step.seen]
        self._hash.update(json.dumps([record.forecast_id, seen]).encode())

    @property
    def sha256(self) -> str:
        """The hash over all of them."""
        return self._hash.hexdigest()


def identical_runs(found: Sequence[TraceRecord]) -> bool | None:
    """Return whether every question got the same probability in all its runs; None where no question has two runs."""
    by_question: dict[str, list[float | None]] = defaultdict(list)
    for record in found:
        by_question[record.question_id].append(record.forecast.prob_yes)
    repeated = [values for values in by_question.values() if len(values) > 1]
    return all(len(set(values)) == 1 for values in repeated) if repeated else None


def checks(found: Sequence[TraceRecord]) -> list[Check]:
    """Return the warning of the paper's parse rate: above 3 unparsed in 216."""
    unparsed = sum(record.forecast.status == "unparsed" for record in found)
    most, of = TOLERATED
    said = f"{unparsed} of {len(found)} replies gave no forecast; the paper has at most {most} in {of}"
    return [Check(name="parse_rate", passed=unparsed * of <= most * len(found), detail=said)]


def _calls(found: Sequence[TraceRecord]) -> dict[str, dict[str, int]]:
    """Per kind of call: how many, and how many replies were cut by max_tokens or ended inside a thought."""
    kinds: dict[str, Counter[str]] = defaultdict(Counter)
    for record in found:
        for step in record.steps:
            if step.kind == "call":
                kinds[step.name]["calls"] += 1
                kinds[step.name]["cut"] += step.detail.get("finish_reason") == "length"
                kinds[step.name]["unfinished_thought"] += bool(step.detail.get("unfinished_thought"))
    return {name: dict(sorted(kinds[name].items())) for name in sorted(kinds)}


def _revision(calls: Sequence[dict[str, Any]]) -> str | None:
    return next((call["model_revision"] for call in calls if call.get("model_revision")), None)


def _number(value: float | None) -> float | None:
    return None if value is None else float(value)
