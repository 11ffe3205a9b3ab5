"""One forecast as a person reads it: what it said, and every step on the way."""

from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Final

from hindcast_dagster.clock import iso
from hindcast_dagster.errors import UsageError
from hindcast_dagster.evidence.labels import LABELS
from hindcast_dagster.forecast.forecaster import Step
from hindcast_dagster.forecast.records import TraceRecord, to_record
from hindcast_dagster.questions.question import Question

_LISTED: Final = 5
"""Documents of a step that are listed by id and date; the rest is counted."""
_REPLY: Final = 1200  # characters of a reply that are shown
_WIDTH: Final = 20
_HEAD: Final = (
    "prob_yes", "choice", "status", "confidence", "conflict", "parse_step", "stop_reason", "rounds", "prior_category",
    "prior_yes", "evidence_quality", "yes_score", "no_score", "rationale",
)  # fmt: skip


def chosen(questions: Sequence[Question], name: str) -> Question:
    """Return the question with this id, or the only one whose id begins so. Raises `UsageError`."""
    exact = [question for question in questions if question.id == name]
    found = exact or [question for question in questions if name and question.id.startswith(name)]
    if len(found) != 1:
        what = f"{len(found)} questions of the eval set begin with" if found else "No question of the eval set has"
        raise UsageError(f"{what} the id {name!r}.")
    return found[0]


def visible(question: Question) -> dict[str, Any]:
    """Return what a forecaster may know of a question, as JSON values: the allow-list of prompts, and the id."""
    return {
        "id": question.id,
        "text": question.text,
        "criteria": question.criteria,
        "options": list(question.options),
        "t0": question.t0.epoch,
        "planned_close": question.planned_close,
    }


def document(record: TraceRecord, question: Question) -> dict[str, Any]:
    """Return the journaled forecast as JSON, with the question's text."""
    return {"forecast_id": record.forecast_id, "question": question.text, **to_record(record)}


def text(record: TraceRecord, question: Question) -> str:
    """Return the forecast and its trace as plain text."""
    return "\n".join(_lines(record, question))


def _lines(record: TraceRecord, question: Question) -> Iterator[str]:
    identity, made = record.identity, record.forecast
    yield question.text
    yield f"{identity.arm} / {identity.model}, run {identity.run}, standing at {iso(identity.t0)}"
    yield ""
    for name in _HEAD:
        value = getattr(made, name)
        if value not in (None, ""):
            yield f"{name:{_WIDTH}} {value}"
    for name, value in made.extra.items():
        if value is not None:
            yield f"{name:{_WIDTH}} {_short(value)}"
    yield f"{'documents':{_WIDTH}} {len(made.trace.documents())}"
    yield ""
    for number, step in enumerate(record.steps, start=1):
        yield from _step(number, step)


def _step(number: int, step: Step) -> Iterator[str]:
    yield f"{number:3} {step.kind} {step.name}: {_summary(step)}"
    for seen in step.seen[:_LISTED]:
        yield f"      {seen.key} {iso(seen.created_at)}"
    if len(step.seen) > _LISTED:
        yield f"      ... and {len(step.seen) - _LISTED} more"
    if reply := step.detail.get("reply"):
        yield from (f"      | {line}" for line in str(reply)[:_REPLY].splitlines())


def _summary(step: Step) -> str:
    detail = step.detail
    if step.kind == "call":
        if "error" in detail:
            return str(detail["error"])
        return (
            f"{detail['tokens_in']} + {detail['tokens_out']} tokens, {detail['latency_s']:.2f} s, "
            f"{detail['finish_reason']}, prompt {detail['messages_sha256'][:12]}"
        )
    if step.kind == "search" and "query" in detail:
        return f"{detail['query']!r}, {len(step.seen)} hits {detail['note']}".rstrip()
    shown = {name: value for name, value in detail.items() if name not in {"seen", "cutoff"}}
    return _short(shown)


def _short(value: object) -> str:
    said = words(value)
    return said if len(said) <= _REPLY else said[:_REPLY] + " ..."


def words(value: object, *, depth: int = 0) -> str:
    """Return a value of a trace as a person reads it: "yes: 2 strong, 1 weak; no: nothing" for two tallies."""
    if value is None or isinstance(value, bool):
        return "-" if value is None else "yes" if value else "no"
    if isinstance(value, list | tuple):
        return (" / " if depth > 1 else ", ").join(words(each, depth=depth + 1) for each in value) or "none"
    if not isinstance(value, Mapping):
        return str(value)
    if value.keys() >= set(LABELS):
        return ", ".join(f"{value[name]} {name}" for name in (*LABELS, "unlabelled") if value.get(name)) or "nothing"
    told = {name: words(each, depth=depth + 1) for name, each in value.items() if each is not None and each != {}}
    names = sorted(told, key=lambda name: name == "no")  # the journal sorts names; people say yes and no
    parts = [f"{name}{':' if isinstance(value[name], Mapping) else ''} {told[name]}" for name in names]
    return f"({', '.join(parts)})" if depth else "; ".join(parts) or "-"
