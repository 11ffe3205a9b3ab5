"""Many partitions at once: which there are, in which order, and how one of them is made by the library.

What belongs here: tasks and the work of one task. Processes, progress and the terminal are in `cli.backfill`; the same
tasks through Dagster are in `cli.dagster_backfill`.
"""

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any, Final, Literal, NamedTuple

from hindcast_dagster import clock, keys
from hindcast_dagster.corpus import dumps
from hindcast_dagster.errors import UsageError
from hindcast_dagster.settings import Settings
from hindcast_dagster.storage.manifest import Manifest
from hindcast_dagster.storage.store import Store

if TYPE_CHECKING:
    from hindcast_dagster.operation.fresh import Need  # `fresh` loads the archive: a fifth of a second of every command

Group = Literal["history", "closed", "predictions"]
Progress = Callable[[float, float | None, str], None]
LONGEST: Final = 600  # months of one backfill: more is a slip of the keyboard


class Task(NamedTuple):
    """One partition, or the few that belong together, to be made in one go. JSON values only: it goes to a process."""

    group: Group
    key: tuple[str, ...]
    """history: (kind, month); closed: (month,); predictions: (arm, model, eval set)."""
    options: dict[str, Any]

    @property
    def name(self) -> str:
        """As a person reads it."""
        return " / ".join(("markets", *self.key) if self.group == "closed" else self.key)


def months(first: str, last: str) -> list[str]:
    """Return the months from first to last, both included. Raises `UsageError`."""
    keys.month(first)
    keys.month(last)
    if first > last:
        raise UsageError(f"The window ends ({last}) before it begins ({first}).")
    found = clock.months(first, last)
    if len(found) > LONGEST:
        raise UsageError(f"{first} to {last} are {len(found)} months; at most {LONGEST} in one backfill.")
    return found


def history(span: Sequence[str], kinds: Sequence[str], *, accept_hollow: bool) -> list[Task]:
    """Return the tasks of history: month by month, so that what is ready early is whole months."""
    named = [dumps.kind_of(kind) for kind in kinds]
    return [Task("history", (kind, month), {"accept_hollow": accept_hollow}) for month in span for kind in named]


def closed(span: Sequence[str], *, judge: str | None, as_of: str) -> list[Task]:
    """Return the tasks of close months: markets, prices and, with a judge, the coverage probe."""
    return [Task("closed", (month,), {"judge": judge, "as_of": as_of}) for month in span]


def predictions(
    arms: Sequence[str], models: Sequence[str], eval_sets: Sequence[str], **options: float | None
) -> list[Task]:
    """Return the tasks of every model on every eval set, arm by arm."""
    for name in eval_sets:
        keys.slug(name, what="eval set name")
    for model in models:
        keys.slug(model, what="model")
    return [
        Task("predictions", (arm, model, name), dict(options)) for name in eval_sets for model in models for arm in arms
    ]


def need(store: Store, settings: Settings, task: Task) -> "Need":
    """Return why a task has work to do; fresh ones are not started."""
    from hindcast_dagster.operation import fresh

    if task.group == "history":
        kind, month = task.key
        return fresh.history(store, settings, kind=kind, month=month)
    if task.group == "closed":
        return fresh.closed_month(store, month=task.key[0], **task.options)
    arm, model, name = task.key
    return fresh.predictions(store, settings, arm=arm, model=model, eval_set=name, runs=task.options.get("runs"))


def do(store: Store, settings: Settings, task: Task, *, progress: Progress | None = None) -> Manifest:
    """Make a task with the library and return the last manifest. Raises what its stages raise."""
    return {"history": _history, "closed": _closed, "predictions": _predictions}[task.group](
        store, settings, task, progress
    )


def _history(store: Store, settings: Settings, task: Task, progress: Progress | None) -> Manifest:
    from hindcast_dagster.archive.build import build_comments, build_submissions
    from hindcast_dagster.corpus.build import build
    from hindcast_dagster.operation import fresh

    kind, month = task.key
    if fresh.history(store, settings, kind=kind, month=month).table == kind:
        build(store, settings, month=month, kind=kind, progress=progress)
    index = build_submissions if kind == "submissions" else build_comments
    accept = bool(task.options.get("accept_hollow"))
    return index(store, settings, month=month, accept_hollow=accept, progress=progress)


def _closed(store: Store, settings: Settings, task: Task, progress: Progress | None) -> Manifest:
    from hindcast_dagster.coverage import probe
    from hindcast_dagster.markets import build as markets
    from hindcast_dagster.markets import prices
    from hindcast_dagster.sample.reach import reachable

    month, judge = task.key[0], task.options.get("judge")
    with reachable(settings) as reached:
        made = markets.build(store, reached, month=month)
        made = prices.build(store, reached, month=month, progress=progress)
    if judge:
        as_of = str(task.options.get("as_of", "close"))
        made = probe.build(store, settings, month=month, judge=judge, as_of=as_of, progress=progress)
    return made


def _predictions(store: Store, settings: Settings, task: Task, progress: Progress | None) -> Manifest:
    from hindcast_dagster.forecast.run import build

    arm, model, name = task.key
    return build(store, settings, arm=arm, model=model, eval_set=name, progress=progress, **task.options)


def walk(store: Store, settings: Settings, *, progress: Progress | None = None) -> int:
    """Walk the listing once, for all close months of a backfill; return the markets that it brought."""
    from hindcast_dagster.markets.fetch import fetch
    from hindcast_dagster.sample.reach import reachable

    with reachable(settings) as reached:
        report = fetch(store, reached, closed_from=_NEVER, closed_to=_NEVER, prices=False, progress=progress)
    return report.fetched


_NEVER: Final = "2005-12-01"  # no market closed then: the walk is wanted, not its months
