"""Running an arm over an eval set: prepare, ask what is missing, seal (design, section 4, "identity of a forecast").

This is the one way to forecasts, for the asset, the command line and a program of one's own.
"""

import asyncio
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Final

from hindcast_dagster import keys
from hindcast_dagster.archive.protocol import Archive
from hindcast_dagster.errors import UsageError
from hindcast_dagster.forecast import arms, money
from hindcast_dagster.forecast import plan as planning
from hindcast_dagster.forecast.contamination import Contamination, sift
from hindcast_dagster.forecast.job import Job, alone, take_stock
from hindcast_dagster.forecast.pinned import pinned_archive
from hindcast_dagster.forecast.records import NO_MODEL, journal_of, mode_of
from hindcast_dagster.forecast.seal import seal
from hindcast_dagster.forecast.tracing import TracedModel
from hindcast_dagster.forecast.unasked import unasked
from hindcast_dagster.forecast.work import Progress, Work
from hindcast_dagster.llm.protocol import ChatModel
from hindcast_dagster.llm.purse import open_purse
from hindcast_dagster.questions.load import frozen
from hindcast_dagster.questions.question import Question
from hindcast_dagster.settings import Settings
from hindcast_dagster.storage.manifest import Input, Manifest
from hindcast_dagster.storage.store import Store

EMBEDDED: Final = 2
"""Forecasts in flight with the embedded model: more would only wait, and be lost together when the run is killed."""


def build(
    store: Store,
    settings: Settings,
    *,
    arm: str,
    model: str = NO_MODEL,
    eval_set: str,
    runs: int | None = None,
    limit: int | None = None,
    progress: Progress | None = None,
    overwrite: bool = False,
    max_cost: float | None = None,
    chat: ChatModel | None = None,
    archive: Archive | None = None,
    name: str | None = None,
) -> Manifest:
    """Make every missing forecast of (arm, model, eval set) and seal the partition `<arm>_forecasts`.

    `runs` and `limit` default to the settings; `limit` takes the first questions in the order of the eval set. The
    setting `forecast.question_limit` saves calls: an arm that takes no model answers every question.
    Finished forecasts are read from the journal and never asked again. `overwrite` replaces forecasts that were made
    with other prompts, settings, revision or archive. `max_cost` (US dollars) stops before it is exceeded; what was
    finished is sealed and the manifest says `stopped`. `chat` and `archive` stand in for the roster's and the store's.
    `name` is the arm's name in the tables when it is not its own.
    Raises `NotReady` when the eval set, its archive or the service is missing, `UsageError` for wrong names.
    """
    order = _Order(arm, model, eval_set, runs=runs, limit=limit, chat=chat, archive=archive, name=name)
    ready = _prepare(store, settings, order)
    with alone(ready.job):
        return _forecast(store, settings, ready, progress=progress, overwrite=overwrite, max_cost=max_cost)


def _forecast(
    store: Store, settings: Settings, ready: "_Ready", *, progress: Progress | None, overwrite: bool,
    max_cost: float | None,
) -> Manifest:  # fmt: skip
    stopped = perform(
        ready.job, settings, own_model=ready.own_model, overwrite=overwrite, max_cost=max_cost, progress=progress
    )
    return seal(store, ready.job, ready.eval_input, ready.contamination, stopped=stopped)


def perform(
    job: Job, settings: Settings, *, own_model: ChatModel | None, overwrite: bool = False,
    max_cost: float | None = None, progress: Progress | None = None,
) -> bool:  # fmt: skip
    """Make what a job lacks and return whether the money ended it. `own_model` is closed at the end."""
    take_stock(job, overwrite=overwrite)
    price = money.price_of(settings, job.model)
    pending = job.pending()
    total = planning.plan(job, settings, price).cost if price is not None else None
    purse = open_purse(settings, price, max_cost=max_cost, total=total, units=len(pending))
    work = Work(job, purse, progress)
    asyncio.run(_worked(work, pending, own_model, _concurrency(settings, job.model)))
    return work.stopped


def plan(
    store: Store,
    settings: Settings,
    *,
    arm: str,
    model: str = NO_MODEL,
    eval_set: str,
    runs: int | None = None,
    limit: int | None = None,
    overwrite: bool = False,
    chat: ChatModel | None = None,
    archive: Archive | None = None,
    name: str | None = None,
) -> planning.Plan:
    """Return what `build` would ask for, without asking (`--dry-run`). Same arguments, same errors."""
    wanted = chat is None and model != NO_MODEL and arms.takes_model(arms.factory(arm))
    named = unasked(settings, model) if wanted else chat
    order = _Order(arm, model, eval_set, runs=runs, limit=limit, chat=named, archive=archive, name=name)
    ready = _prepare(store, settings, order)
    take_stock(ready.job, overwrite=overwrite, dry=True)
    return planning.plan(ready.job, settings, money.price_of(settings, ready.job.model))


@dataclass(frozen=True)
class _Order:
    arm: str
    model: str
    eval_set: str
    runs: int | None
    limit: int | None
    chat: ChatModel | None
    archive: Archive | None
    name: str | None


@dataclass(frozen=True)
class _Ready:
    job: Job
    eval_input: Input
    own_model: ChatModel | None
    """The model that this run opened and closes."""
    contamination: Contamination


def _prepare(store: Store, settings: Settings, order: _Order) -> _Ready:
    sealed = frozen(store, order.eval_set)
    made_by = arms.factory(order.arm)
    asks_model = arms.takes_model(made_by)
    chat = _model(settings, order, wanted=asks_model)
    arm = arms.make(made_by, model=TracedModel(chat) if chat else None, settings=settings, name=order.name)
    every = _questions(store, order.eval_set)
    usual = settings.forecast.question_limit if asks_model else None
    limit = usual if order.limit is None else positive(order.limit, "--limit")
    asked = sift(every, settings, model=order.model, limit=limit)
    job = Job(
        arm=arm,
        arm_name=order.arm,
        model=keys.slug(order.model, what="model"),
        revision=chat.revision if chat else None,
        eval_set=order.eval_set,
        questions=asked.questions,
        every=frozenset(question.id for question in every),
        runs=positive(settings.forecast.runs if order.runs is None else order.runs, "--runs"),
        journal=journal_of(store, arm=arm.arm, model=order.model, eval_set=order.eval_set),
        archive_mode=mode_of(settings),
        archive=_archive(store, settings, order, sealed.manifest.pins) if _reads_archive(arm) else None,
    )
    return _Ready(job, sealed.as_input, chat if order.chat is None else None, asked.contamination)


def _model(settings: Settings, order: _Order, *, wanted: bool) -> ChatModel | None:
    if not wanted:
        return None
    if order.chat is not None:
        return order.chat
    if order.model == NO_MODEL:
        raise UsageError(f"The arm {order.arm} needs a model: name one with --model (see `hindcast models list`).")
    from hindcast_dagster.llm.open import open_model

    return open_model(settings, order.model)


def _questions(store: Store, eval_set: str) -> list[Question]:
    """Return the questions without what happened: outcomes stay on the scoring side."""
    from hindcast_dagster.questions.load import load

    return [resolved.question for resolved in load(store, eval_set)]


def _archive(store: Store, settings: Settings, order: _Order, pins: Sequence[Input]) -> Archive:
    if order.archive is not None:
        return order.archive
    return pinned_archive(store, settings, eval_set=order.eval_set, pins=pins)


def _reads_archive(arm: Any) -> bool:
    return bool(getattr(arm, "uses_archive", True))


def _concurrency(settings: Settings, model: str) -> int:
    """Return how many forecasts are made at once: few with the embedded model, which answers one call at a time."""
    entry = money.entry_or_none(settings, model)
    embedded = entry is not None and entry.backend == "embedded"
    return min(settings.llm.concurrency, EMBEDDED) if embedded else settings.llm.concurrency


def positive(number: int, option: str) -> int:
    """Return a number of an option. Raises `UsageError` below 1."""
    if number < 1:
        raise UsageError(f"{option} must be 1 or more, found {number}.")
    return number


async def _worked(work: Work, pending: Sequence[Any], model: ChatModel | None, concurrency: int) -> None:
    try:
        await work.do(pending, concurrency=concurrency)
    finally:
        if model is not None:
            await model.close()
