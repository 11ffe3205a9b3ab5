"""Control arms: the retrieval agent in a world that is wrong on purpose, to measure what a right one is worth.

`unsealed` lets the agent read until some days after the close: how much a leaky archive would have bought. `placebo`
gives it another market's evidence: what remains of retrieval's effect is prompt, not information. All have a namespace
of their own (`controls`): no control is ever ranked, audited as a forecast, or exported as one. `paper` shows it the
texts and votes of after t0 that strict mode keeps back, as the paper did: what that mode is worth, on the same pairs.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final, Literal, NamedTuple, get_args

from hindcast_dagster.archive.protocol import Archive, ArchiveView
from hindcast_dagster.clock import DAY, Cutoff
from hindcast_dagster.contracts.forecasts import FORECASTS
from hindcast_dagster.errors import NotReady, UsageError
from hindcast_dagster.forecast import arms, money, rows
from hindcast_dagster.forecast import plan as planning
from hindcast_dagster.forecast.forecaster import Forecast, Forecaster
from hindcast_dagster.forecast.job import Job, alone, take_stock
from hindcast_dagster.forecast.plan import Plan
from hindcast_dagster.forecast.records import TraceRecord, mode_of
from hindcast_dagster.forecast.run import perform, positive
from hindcast_dagster.forecast.tracing import TracedModel
from hindcast_dagster.forecast.unasked import unasked
from hindcast_dagster.forecast.work import Progress
from hindcast_dagster.leakage.placebo import Placebo, partners
from hindcast_dagster.llm.protocol import ChatModel
from hindcast_dagster.questions.load import frozen, load
from hindcast_dagster.questions.question import Question, ResolvedQuestion
from hindcast_dagster.settings import Settings
from hindcast_dagster.storage.journal import Journal
from hindcast_dagster.storage.manifest import Input, Manifest
from hindcast_dagster.storage.store import Store
from hindcast_dagster.storage.tables import publish_table

Kind = Literal["unsealed", "placebo", "paper"]
KINDS: Final[tuple[Kind, ...]] = get_args(Kind)
TABLE: Final = "controls"
ARM: Final = "retrieval"
CODE_VERSION: Final = "1"
DAYS: Final = 7
PAPER: Final = "paper"
VERSIONS: Final = {"placebo": "partners-1", PAPER: "paper-1"}

ViewOf = Callable[[Archive, Question], ArchiveView]


@dataclass(frozen=True)
class ControlJob(Job):
    """A job whose views are not those of t0, or not of the question."""

    view_of: ViewOf = lambda archive, question: archive.at(question.t0)

    def view(self, question: Question) -> ArchiveView:
        """Return the wrong view."""
        assert self.archive is not None
        return self.view_of(self.archive, question)


class ControlArm:
    """An arm under another name, so that nobody takes its forecasts for honest ones."""

    uses_archive = True

    def __init__(self, inner: Forecaster, kind: Kind, version: str) -> None:
        self._inner, self.arm, self.version = inner, f"{inner.arm}_{kind}", f"{inner.version}+{version}"

    async def forecast(self, question: Question, archive: ArchiveView, *, run: int) -> Forecast:
        """Forecast as the inner arm does."""
        made = self._inner.forecast(question, archive, run=run)
        return made if isinstance(made, Forecast) else await made


def build(
    store: Store,
    settings: Settings,
    *,
    kind: Kind,
    model: str,
    eval_set: str,
    days: int = DAYS,
    runs: int | None = None,
    limit: int | None = None,
    chat: ChatModel | None = None,
    archive: Archive | None = None,
    progress: Progress | None = None,
    max_cost: float | None = None,
) -> Manifest:
    """Run a control of the retrieval agent over an eval set and seal the partition controls / kind / model / set.

    `days` after the close is where `unsealed` stands. Resumed like any forecast. `max_cost` (US dollars) stops before
    it is exceeded; what was finished is sealed and the manifest says `stopped`. `chat` and `archive` stand in for the
    roster's and the store's (for `paper` an archive in paper mode). Raises `NotReady` when the eval set or its archive
    is missing, `UsageError` for a wrong name, or for `paper` when the settings are in that mode already.
    """
    order = _checked(store, _Order(kind, model, eval_set, days, runs, limit))
    settings = _mode_of(kind, settings)
    own = chat or _open(settings, model)
    job, eval_input = _prepare(store, settings, order, own, archive)
    with alone(job):
        stopped = perform(job, settings, own_model=None if chat else own, max_cost=max_cost, progress=progress)
        return _seal(store, job, order, eval_input, stopped=stopped)


def plan(
    store: Store,
    settings: Settings,
    *,
    kind: Kind,
    model: str,
    eval_set: str,
    days: int = DAYS,
    runs: int | None = None,
    limit: int | None = None,
    archive: Archive | None = None,
) -> Plan:
    """Return what `build` would ask for, without asking (`--dry-run`). Same arguments, same errors."""
    order = _checked(store, _Order(kind, model, eval_set, days, runs, limit))
    settings = _mode_of(kind, settings)
    job, _ = _prepare(store, settings, order, unasked(settings, model), archive)
    take_stock(job, overwrite=False, dry=True)
    return planning.plan(job, settings, money.price_of(settings, model))


class _Order(NamedTuple):
    kind: Kind
    model: str
    eval_set: str
    days: int
    runs: int | None
    limit: int | None

    @property
    def days_after_close(self) -> int | None:
        return self.days if self.kind == "unsealed" else None


def _checked(store: Store, order: _Order) -> _Order:
    """Return the order. Raises what is wrong with it before a model is opened."""
    if order.kind not in KINDS or order.days < 0:
        raise UsageError(
            f"A control is {' or '.join(KINDS)}, 0 days or more after the close; found {order.kind!r}, {order.days}."
        )
    for number, option in ((order.runs, "--runs"), (order.limit, "--limit")):
        if number is not None:
            positive(number, option)
    frozen(store, order.eval_set)
    return order


def _mode_of(kind: Kind, settings: Settings) -> Settings:
    return _in_paper_mode(settings) if kind == PAPER else settings


def _prepare(
    store: Store, settings: Settings, order: _Order, model: ChatModel, archive: Archive | None
) -> tuple[ControlJob, Input]:
    kind, days = order.kind, order.days
    sealed = frozen(store, order.eval_set)
    resolved = load(store, order.eval_set)[: order.limit or settings.forecast.question_limit]
    view_of, asked = _world(kind, resolved, days)
    if not asked:
        raise NotReady(f"{order.eval_set} has no other event whose evidence could be a placebo: use a larger set.")
    version = f"{days}d" if kind == "unsealed" else VERSIONS[kind]
    job = ControlJob(
        arm=ControlArm(arms.make(arms.factory(ARM), model=TracedModel(model), settings=settings), kind, version),
        arm_name=ARM,
        model=order.model,
        revision=model.revision,
        eval_set=order.eval_set,
        questions=asked,
        every=frozenset(one.question.id for one in resolved),
        runs=settings.forecast.runs if order.runs is None else order.runs,
        journal=Journal(store, TABLE, kind, order.model, order.eval_set),
        archive_mode=mode_of(settings),
        archive=archive or _archive(store, settings, sealed.manifest.pins),
        view_of=view_of,
    )
    return job, sealed.as_input


def _world(kind: Kind, resolved: Sequence[ResolvedQuestion], days: int) -> tuple[ViewOf, tuple[Question, ...]]:
    """Return how a question is shown the archive, and the questions that can be asked so."""
    every = tuple(one.question for one in resolved)
    if kind == "unsealed":
        until = {one.question.id: Cutoff(one.close_at + days * DAY) for one in resolved}
        return (lambda archive, question: archive.at(until[question.id])), every
    if kind == PAPER:
        return (lambda archive, question: archive.at(question.t0)), every
    others: Mapping[str, Question] = partners(every)
    asked = tuple(question for question in every if question.id in others)
    return (lambda archive, question: Placebo(archive.at(question.t0), others[question.id])), asked


def _in_paper_mode(settings: Settings) -> Settings:
    if settings.archive.mode == PAPER:
        raise UsageError(
            "archive.mode is paper already: the difference is measured from forecasts made in strict mode."
        )
    return settings.model_copy(update={"archive": settings.archive.model_copy(update={"mode": PAPER})})


def _open(settings: Settings, model: str) -> ChatModel:
    from hindcast_dagster.llm.open import open_model

    return open_model(settings, model)


def _archive(store: Store, settings: Settings, pins: Sequence[Input]) -> Archive:
    from hindcast_dagster.archive.open import open_archive

    return open_archive(store, settings, pins=pins, verify=True)


def late(found: Sequence[TraceRecord]) -> dict[str, int]:
    """Return how many documents were shown with a text, and with votes, that are of after t0 or of unknown time.

    Counted once per question, however many runs saw it.
    """
    texts: set[tuple[str, str]] = set()
    votes: set[tuple[str, str]] = set()
    for record in found:
        for seen in (seen for step in record.steps for seen in step.seen):
            if seen.text_as_of >= record.t0:
                texts.add((record.question_id, seen.key))
            if seen.engagement_shown and (seen.engagement_as_of is None or seen.engagement_as_of >= record.t0):
                votes.add((record.question_id, seen.key))
    return {"texts": len(texts), "votes": len(votes)}


def _seal(store: Store, job: Job, order: _Order, eval_input: Input, *, stopped: bool) -> Manifest:
    found = [record for record in job.done.values() if record.question_id in job.every]
    stats: dict[str, Any] = rows.counts(found) | {
        "kind": order.kind,
        "days_after_close": order.days_after_close,
        "arm_version": job.arm.version,
        "questions": len({record.question_id for record in found}),
        "missing": len(job.pending()),
        "stopped": stopped,
        "archive_mode": job.archive_mode,
        "late": late(found),
        "never_ranked": True,
    }
    ordered = sorted(found, key=lambda record: (record.question_id, record.run))
    return publish_table(
        store.partition(TABLE, order.kind, job.model, job.eval_set),
        FORECASTS.frame([rows.row(record) for record in ordered]),
        FORECASTS,
        code_version=CODE_VERSION,
        inputs=[eval_input],
        stats=stats,
    )
