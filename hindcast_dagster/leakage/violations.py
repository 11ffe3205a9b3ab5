"""What a violation is, and the rules that find one in a trace, each a pure function.

What belongs here: rules about one forecast. They take t0 from the eval set and the instants from the corpus; what the
trace itself claims is only compared with them. Rules about the eval set itself are in `questions`.
"""

from collections.abc import Iterator, Mapping
from typing import Any, Final, Literal, NamedTuple, get_args

from hindcast_dagster.forecast.forecaster import Seen, Step
from hindcast_dagster.forecast.records import TraceRecord
from hindcast_dagster.leakage.corpus import Facts
from hindcast_dagster.storage.manifest import Manifest

Kind = Literal[
    "created_after_t0",  # a document that did not exist at t0
    "text_after_t0",  # strict mode: a text that was edited or restored at or after t0
    "engagement_after_t0",  # strict mode: votes or counts shown that were read at or after t0, or nobody knows when
    "unknown_document",  # no sealed month holds it
    "trace_mismatch",  # the trace and the corpus, or the trace and the sealed forecast, tell different things
    "cutoff_after_t0",  # a tool answered under a later cutoff
    "t0_mismatch",  # the forecast stood at another instant than the eval set says
    "unknown_question",  # the eval set does not hold the question
    "missing_trace",  # a sealed forecast without a trace
    "price_after_t0",  # the price at t0 was taken after t0
    "price_mismatch",  # the price at t0 is not the last one of the series before t0
    "question_after_t0",  # the question's text or rules hold a note that was added later
    "question_mismatch",  # the question's text or rules are not the market's
    "t0_after_close",  # t0 does not lie before the close
]
KINDS: tuple[str, ...] = get_args(Kind)
LATE_KINDS: frozenset[str] = frozenset({"text_after_t0", "engagement_after_t0"})
"""What strict mode forbids and paper mode, like the paper, does not."""
_IDENTITY: Final = ("question_id", "t0", "model", "arm", "arm_version", "archive_snapshot", "run")
_MADE: Final = ("status", "prob_yes", "choice")


class Violation(NamedTuple):
    """One finding. Its fields but the detail are the key of table `leak_audit`; set-level findings have run 0."""

    kind: Kind
    question_id: str
    model: str
    arm: str
    run: int
    step: str
    document: str | None
    detail: str

    @property
    def key(self) -> tuple[Any, ...]:
        """What makes two findings the same."""
        return self[:-1]


class Frozen(NamedTuple):
    """A question as its eval set froze it: what every forecast of it must have stood on."""

    t0: int
    fingerprint: str
    """Over everything that a prompt may contain of the question."""
    price: float | None


def of_trace(record: TraceRecord, frozen: Frozen | None, facts: Mapping[str, Facts]) -> Iterator[Violation]:
    """Yield every violation of one forecast; `frozen` is None when the eval set does not hold the question."""
    if frozen is None:
        yield _found(record, "unknown_question", "identity", None, f"{record.eval_set} does not hold it.")
        return
    t0 = frozen.t0
    yield from _of_identity(record, frozen)
    hide = (record.identity.archive_mode or "").endswith("/hide")
    for index, step in enumerate(record.steps):
        name = f"{index}:{step.name}"
        if _answered(step) and not _before_or_at(cutoff := step.detail.get("cutoff"), t0):
            yield _found(record, "cutoff_after_t0", name, None, f"The tool answered under {cutoff!r}, t0 is {t0}.")
        for seen in step.seen:
            for kind, detail in of_document(seen, facts.get(seen.key), t0, hide=hide):
                yield _found(record, kind, name, seen.key, detail)


def _of_identity(record: TraceRecord, frozen: Frozen) -> Iterator[Violation]:
    if record.t0 != frozen.t0:
        detail = f"It stood at {record.t0}, the eval set says {frozen.t0}."
        yield _found(record, "t0_mismatch", "identity", None, detail)
    elif record.identity.question_sha256 != frozen.fingerprint:
        yield _found(
            record, "question_mismatch", "identity", None, "It was asked another text than the eval set holds."
        )
    given = record.forecast.prob_yes
    if record.arm == "market_price" and given is not None and given != frozen.price:
        detail = f"The market baseline forecasts {given}, the price at t0 is {frozen.price}."
        yield _found(record, "price_mismatch", "forecast", None, detail)


def of_row(record: TraceRecord, row: Mapping[str, Any]) -> Iterator[Violation]:
    """Yield where a sealed forecast and its trace tell different things: a document taken out of a trace shows here."""
    told: dict[str, Any] = {name: getattr(record.identity, name) for name in _IDENTITY}
    told |= {name: getattr(record.forecast, name) for name in _MADE}
    for name, value in (told | {"documents": len(record.forecast.trace.documents())}).items():
        if row[name] != value:
            detail = f"The trace gives {name} {value!r}, the sealed forecast {row[name]!r}."
            yield _found(record, "trace_mismatch", f"sealed:{name}", None, detail)


def other_sightings(manifest: Manifest) -> Violation:
    """Return the violation of a partition whose traces name other documents, or instants, than when it was sealed."""
    model, arm = manifest.key[0], str(manifest.stats.get("arm", manifest.table))
    detail = "Its traces do not name the documents and instants that they named when it was sealed."
    return Violation("trace_mismatch", "", model, arm, 0, "sealed:sightings", None, detail)


def untraced(row: Mapping[str, Any]) -> Violation:
    """Return the violation of a sealed forecast whose trace is gone."""
    where = (row["question_id"], row["model"], row["arm"], row["run"])
    return Violation("missing_trace", *where, "sealed", None, f"The journal has lost {row['forecast_id'][:12]}.")


def of_document(seen: Seen, fact: Facts | None, t0: int, *, hide: bool = False) -> Iterator[tuple[Kind, str]]:
    """Yield (kind, detail) for one document that a model saw; with `hide` late votes forbid the row altogether."""
    if fact is None:
        yield "unknown_document", "No sealed month of the corpus holds it."
        return
    if fact.created_at >= t0:
        yield "created_after_t0", f"Created at {fact.created_at}, t0 is {t0}."
    if fact.text_as_of >= t0:
        yield "text_after_t0", f"Its text is of {fact.text_as_of}, t0 is {t0}."
    if (seen.engagement_shown or hide) and (fact.engagement_as_of is None or fact.engagement_as_of >= t0):
        yield "engagement_after_t0", f"Its votes are of {fact.engagement_as_of}, t0 is {t0}."
    if (claimed := Facts(seen.created_at, seen.text_as_of, seen.engagement_as_of)) != fact:
        yield "trace_mismatch", f"The trace says {tuple(claimed)}, the corpus {tuple(fact)}."


def _answered(step: Step) -> bool:
    """Return whether a tool answered, so that it must name its cutoff: one that refused hands out nothing."""
    return step.kind in {"search", "lookup"} and (step.detail.get("cutoff") is not None or bool(step.seen))


def _before_or_at(cutoff: object, t0: int) -> bool:
    return isinstance(cutoff, int) and not isinstance(cutoff, bool) and cutoff <= t0


def _found(record: TraceRecord, kind: Kind, step: str, document: str | None, detail: str) -> Violation:
    return Violation(kind, record.question_id, record.model, record.arm, record.run, step, document, detail)
