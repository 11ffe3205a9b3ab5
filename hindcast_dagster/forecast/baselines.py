"""The forecasters without a model: the market's price at t0, 0.5, the base rate, the reference class, counted evidence.

Each is a row like any other arm's (model "none", run 1), so every table can hold a model against them. Only here is a
price used as a forecast.
"""

from collections.abc import Callable, Iterator, Sequence
from typing import Any, Final

from hindcast_dagster import clock
from hindcast_dagster.archive.protocol import Archive
from hindcast_dagster.contracts.forecasts import FORECASTS
from hindcast_dagster.errors import NotReady
from hindcast_dagster.forecast import fields, rows
from hindcast_dagster.forecast.evidence_count import EvidenceCount
from hindcast_dagster.forecast.forecaster import Forecast, Trace
from hindcast_dagster.forecast.pinned import pinned_archive
from hindcast_dagster.forecast.records import BASELINES, NO_MODEL, Identity, TraceRecord, mode_of, records_in, to_record
from hindcast_dagster.forecast.tracing import TracedView, recording
from hindcast_dagster.questions.load import frozen, load
from hindcast_dagster.questions.question import Question
from hindcast_dagster.settings import Settings
from hindcast_dagster.storage.journal import Journal
from hindcast_dagster.storage.manifest import Input, Manifest
from hindcast_dagster.storage.store import Store
from hindcast_dagster.storage.tables import publish_table

Progress = Callable[[int, int, str], None]

CODE_VERSION: Final = "1"
VERSION: Final = "1"

RULES: Final[dict[str, Callable[[Question], float | None]]] = {
    "market_price": lambda question: question.price_at_t0,
    "constant_half": lambda _: 0.5,
    "base_rate": lambda question: question.base_rate,
    "reference_class": lambda question: question.reference_rate,
}
"""Forecasts that follow from the question alone. None: this question has none, and is counted as left out."""


def build(
    store: Store,
    settings: Settings,
    *,
    eval_set: str,
    archive: Archive | None = None,
    progress: Progress | None = None,
) -> Manifest:
    """Seal `market_baseline` of an eval set. Raises `NotSealed` when the eval set is missing.

    A question without a price at t0 has no `market_price` row. Without a searchable month `evidence_count` is left
    out. The manifest counts both under `left_out`. `archive` stands in for the store's own.
    """
    sealed = frozen(store, eval_set)
    questions = [resolved.question for resolved in load(store, eval_set)]
    found = [record for arm in RULES for record in _by_rule(eval_set, arm, questions)]
    left_out: dict[str, Any] = {arm: missing for arm in RULES if (missing := len(questions) - _count(found, arm))}
    searched, reason = _archive(store, settings, eval_set, sealed.manifest.pins, archive)
    if searched is None:
        left_out["evidence_count"] = reason
    else:
        found += _by_search(eval_set, settings, searched, questions, progress)
    _journal(store, eval_set, found)
    return publish_table(
        store.partition(BASELINES, eval_set),
        FORECASTS.frame([rows.row(record) for record in found]),
        FORECASTS,
        code_version=CODE_VERSION,
        inputs=[sealed.as_input],
        stats=rows.counts(found) | {"runs": 1, "questions": len(questions), "left_out": left_out},
    )


def _by_rule(eval_set: str, arm: str, questions: Sequence[Question]) -> Iterator[TraceRecord]:
    for question in questions:
        value = RULES[arm](question)
        if value is not None:
            identity = _identity(question, arm=arm, version=f"{arm}-{VERSION}", snapshot=None)
            yield _record(eval_set, identity, Forecast(prob_yes=value))


def _by_search(
    eval_set: str, settings: Settings, archive: Archive, questions: Sequence[Question], progress: Progress | None
) -> Iterator[TraceRecord]:
    arm, mode = EvidenceCount(), mode_of(settings)
    for done, question in enumerate(questions, start=1):
        trace = Trace()
        with recording(trace):
            made = arm.forecast(question, TracedView(archive.at(question.t0), trace), run=1)
        made.trace = trace
        identity = _identity(question, arm=arm.arm, version=arm.version, snapshot=archive.snapshot, mode=mode)
        yield _record(eval_set, identity, made)
        if progress is not None:
            progress(done, len(questions), question.id)


def _archive(
    store: Store, settings: Settings, eval_set: str, pins: Sequence[Input], given: Archive | None
) -> tuple[Archive | None, str]:
    """Return an archive that can be searched, or None and the reason."""
    try:
        archive = given if given is not None else pinned_archive(store, settings, eval_set=eval_set, pins=pins)
    except NotReady as error:
        return None, str(error)
    return (archive, "") if archive.months else (None, "The archive has no searchable month.")


def _identity(question: Question, *, arm: str, version: str, snapshot: str | None, mode: str | None = None) -> Identity:
    return Identity(
        question_id=question.id,
        question_sha256=fields.fingerprint(question),
        t0=question.t0.epoch,
        model=NO_MODEL,
        model_revision=None,
        arm=arm,
        arm_version=version,
        archive_snapshot=snapshot,
        archive_mode=mode,
        run=1,
    )


def _record(eval_set: str, identity: Identity, forecast: Forecast) -> TraceRecord:
    return TraceRecord(identity.forecast_id, eval_set, identity, forecast, cost=None, made_at=clock.now())


def _journal(store: Store, eval_set: str, found: Sequence[TraceRecord]) -> None:
    """Make the journal hold exactly these forecasts: they cost nothing, so an older rule's are dropped."""
    journal = Journal(store, BASELINES, eval_set)
    wanted = {record.forecast_id for record in found}
    for record in list(records_in(journal)):
        if record.forecast_id not in wanted:
            (journal.path / f"{record.forecast_id}.json").unlink()
    for record in found:
        if record.forecast_id not in journal:
            journal.write(record.forecast_id, to_record(record))


def _count(found: Sequence[TraceRecord], arm: str) -> int:
    return sum(record.arm == arm for record in found)
