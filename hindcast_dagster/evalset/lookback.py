"""Asking a sweep: models x arms x points of the markets' lives (paper, section 6 and table 7).

What belongs here: the order of the cells, one ceiling for all of their money, and resuming: a finished forecast is in
its journal and is never asked for again. Scores are `scoring`'s.
"""

from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Final, NamedTuple

from hindcast_dagster.archive.protocol import Archive
from hindcast_dagster.errors import NotReady, UsageError
from hindcast_dagster.evalset.sweep import PAPER, names_of, require_markets
from hindcast_dagster.forecast import money, records, run
from hindcast_dagster.forecast.plan import Plan
from hindcast_dagster.forecast.work import Progress
from hindcast_dagster.llm.purse import limit_of
from hindcast_dagster.questions.load import TABLE, frozen
from hindcast_dagster.settings import Settings
from hindcast_dagster.storage.manifest import Manifest
from hindcast_dagster.storage.store import Store

PAPER_MODELS: Final = ("ministral-8b", "qwen3-8b")
"""The two models of table 7."""
ARMS: Final = ("zero_shot", "retrieval")
RUNS: Final = 5


class Cell(NamedTuple):
    """One model under one arm at one point."""

    model: str
    arm: str
    fraction: float
    eval_set: str


class Order(NamedTuple):
    """A sweep as it is asked for."""

    eval_set: str
    """The set whose markets are swept."""
    models: tuple[str, ...] = PAPER_MODELS
    """Roster slugs; "none" for an arm without a model."""
    arms: tuple[str, ...] = ARMS
    fractions: tuple[float, ...] = PAPER
    runs: int | None = RUNS
    limit: int | None = None
    """Only the first N questions of each set."""

    def cells(self) -> list[Cell]:
        """Return the cells in the order of asking: a model stays served until it is done. Raises `UsageError`."""
        if not self.models or not self.arms:
            raise UsageError("A sweep needs at least one model and one arm.")
        sets = names_of(self.eval_set, self.fractions).items()
        return [
            Cell(model, arm, fraction, name)
            for model in dict.fromkeys(self.models)
            for arm in dict.fromkeys(self.arms)
            for fraction, name in sets
        ]


class Asked(NamedTuple):
    """A cell that was asked: its sealed partition, and what this call paid for it (US dollars; None: no price)."""

    cell: Cell
    manifest: Manifest
    spent: float | None

    def as_dict(self) -> dict[str, Any]:
        """Return JSON values."""
        stats = self.manifest.stats
        counts = {"forecasts": self.manifest.rows, "missing": stats["missing"], "stopped": stats["stopped"]}
        return self.cell._asdict() | counts | {"statuses": stats["statuses"], "spent": self.spent}


def plan(store: Store, settings: Settings, order: Order, *, archive: Archive | None = None) -> list[Plan]:
    """Return what `ask` would ask for, cell by cell, without asking or writing anything.

    Raises `NotReady` when a set of the sweep is not sealed or its markets are not here, and whatever
    `forecast.run.plan` raises.
    """
    frozen(store, order.eval_set)
    cells = order.cells()
    for cell in cells:
        if store.partition(TABLE, cell.eval_set).manifest() is None:
            require_markets(store, order.eval_set)
            points = "" if order.fractions == PAPER else f" --points {len(order.fractions)}"
            raise NotReady(
                f"The set {cell.eval_set} of the sweep is not sealed: run `hindcast evalset sweep {order.eval_set}"
                f"{points}` first, which asks no model."
            )
    return [
        run.plan(
            store, settings, arm=cell.arm, model=cell.model, eval_set=cell.eval_set, runs=order.runs,
            limit=order.limit, archive=archive,
        )
        for cell in cells
    ]  # fmt: skip


def ask(
    store: Store,
    settings: Settings,
    order: Order,
    *,
    max_cost: float | None = None,
    archive: Archive | None = None,
    progress: Progress | None = None,
) -> Iterator[Asked]:
    """Make the missing forecasts of every cell and yield each cell as it is sealed.

    `max_cost` (default: the setting llm.max_cost) limits what this call spends on all cells together. When it is
    reached the cell is sealed with what it has, says `stopped`, and is the last one; the same call again goes on from
    there. The sets of the sweep must be sealed (`evalset.sweep.build_sweep`).
    """
    left = limit_of(settings, max_cost)
    for cell in order.cells():
        before = _paid(store, settings, cell)
        manifest = run.build(
            store, settings, arm=cell.arm, model=cell.model, eval_set=cell.eval_set, runs=order.runs,
            limit=order.limit, max_cost=left, archive=archive, progress=progress,
        )  # fmt: skip
        after = _paid(store, settings, cell, arm=str(manifest.stats["arm"]))
        spent = None if after is None else round(after - (before or 0.0), 6)
        if left is not None and spent is not None:
            left = max(left - spent, 0.0)
        yield Asked(cell, manifest, spent)
        if manifest.stats["stopped"]:
            return


def _paid(store: Store, settings: Settings, cell: Cell, *, arm: str | None = None) -> float | None:
    """Return what the journal of a cell has cost so far; None for a model without a price."""
    if money.price_of(settings, cell.model) is None:
        return None
    journal = records.journal_of(store, arm=arm or _name_of(settings, cell), model=cell.model, eval_set=cell.eval_set)
    return sum(record.cost or 0.0 for record in records.records_in(journal))


def _name_of(settings: Settings, cell: Cell) -> str:
    """Return the name of an arm in tables and journals, which a class of one's own chooses itself."""
    from hindcast_dagster.forecast import arms
    from hindcast_dagster.forecast.tracing import TracedModel
    from hindcast_dagster.forecast.unasked import unasked

    if cell.arm in arms.BUILT_IN:
        return cell.arm
    made_by = arms.factory(cell.arm)
    model = TracedModel(unasked(settings, cell.model)) if arms.takes_model(made_by) else None
    return arms.make(made_by, model=model, settings=settings).arm


def totals(plans: Sequence[Plan]) -> Mapping[str, float | int | None]:
    """Return the sums over a plan; None where one of its cells is not known."""
    found: dict[str, float | int | None] = {}
    for name in ("done", "pending", "calls", "tokens_in", "tokens_out", "cost"):
        values = [getattr(each, name) for each in plans if not (name == "cost" and each.calls == 0)]
        found[name] = None if any(value is None for value in values) else sum(values)
    return found
