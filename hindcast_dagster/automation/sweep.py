"""The preset job `lookback_sweep`: the paper's table 7 in one launch (two models, four points, five runs, both arms).

Three steps: build the sets, ask, score. Each calls the functions that the assets call and reports what it sealed
as materialisations of those assets. All cells are asked in one step, one after the other: one ceiling holds for their
money together, and a launch that was stopped or killed goes on where it was.
"""

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, Final

import dagster as dg
from pydantic import Field

from assets import shell
from assets.partitions import EVAL_SETS, MODELS
from hindcast_dagster.storage.manifest import Manifest
from resources.store import StorageRoot

if TYPE_CHECKING:
    from hindcast_dagster.evalset.lookback import Order

LOOKBACK_SWEEP: Final = "lookback_sweep"


class SweepConfig(dg.Config):
    """A sweep. With the eval set alone it is the paper's."""

    eval_set: str
    """The sealed eval set whose markets are swept."""
    models: list[str] = Field(default_factory=lambda: ["ministral-8b", "qwen3-8b"])
    """Roster slugs; none for arms without a model."""
    arms: list[str] = Field(default_factory=lambda: ["zero_shot", "retrieval"])
    points: int | None = None
    """A trajectory of so many points; empty: 25, 50, 75 and 100 % of a market's life."""
    runs: int = 5
    limit: int | None = None
    """Only the first N questions of each set."""
    max_cost: float | None = None
    """Stop before this many US dollars are spent on all cells together; empty: the setting llm.max_cost."""
    dry_run: bool = False
    """Build the sets and say what would be asked; ask and score nothing."""

    def order(self) -> "Order":
        """Return the sweep as the library takes it. Raises `UsageError`."""
        from hindcast_dagster.evalset.lookback import Order
        from hindcast_dagster.evalset.sweep import points

        return Order(self.eval_set, tuple(self.models), tuple(self.arms), points(self.points), self.runs, self.limit)


@dg.op(description="Seal the eval sets of the sweep and register them, and the models, as partitions.")
def sweep_sets(context: dg.OpExecutionContext, config: SweepConfig, root: StorageRoot) -> None:
    """Build what is asked about. It asks no model."""
    from hindcast_dagster.evalset.sweep import build_sweep

    order = config.order()
    built = build_sweep(root.store(), root.settings(), name=order.eval_set, fractions=order.fractions)
    context.instance.add_dynamic_partitions(EVAL_SETS, [manifest.key[0] for manifest in built.sets.values()])
    context.instance.add_dynamic_partitions(MODELS, list(order.models))
    for manifest in built.sets.values():
        _report(context, manifest)
    context.add_output_metadata({"left_out": built.left_out})


@dg.op(ins={"after": dg.In(dg.Nothing)}, pool="llm", description="Make the missing forecasts of every cell.")
def sweep_forecasts(context: dg.OpExecutionContext, config: SweepConfig, root: StorageRoot) -> None:
    """Ask cell by cell, after saying what that comes to at most."""
    from hindcast_dagster.evalset import lookback

    store, settings, order = root.store(), root.settings(), config.order()
    plans = lookback.plan(store, settings, order)
    total = dict(lookback.totals(plans))
    context.log.info("At most: %s.", ", ".join(f"{name} {value}" for name, value in total.items()))
    asked: list[dict[str, Any]] = []
    if not config.dry_run:
        for each in lookback.ask(store, settings, order, max_cost=config.max_cost):
            _report(context, each.manifest)
            asked.append(each.as_dict())
            if each.manifest.stats["stopped"]:
                context.log.warning("The money limit was reached: launch the same sweep again to go on.")
    shown = [each.as_dict() for each in plans] if config.dry_run else asked
    context.add_output_metadata({"planned": dg.MetadataValue.json(total), "cells": dg.MetadataValue.json(shown)})


@dg.op(ins={"after": dg.In(dg.Nothing)}, description="Score, compare, audit and report every set of the sweep.")
def sweep_scores(context: dg.OpExecutionContext, config: SweepConfig, root: StorageRoot) -> None:
    """Evaluate each set as the job `evaluate` does; the reports come last, so that each shows the whole sweep."""
    from hindcast_dagster.evalset.sweep import names_of
    from hindcast_dagster.leakage import audit
    from hindcast_dagster.report import build as reporting
    from hindcast_dagster.scoring.evaluate import evaluate
    from hindcast_dagster.scoring.sweep import sweep

    if config.dry_run:
        return
    store, settings, order = root.store(), root.settings(), config.order()
    sets = list(names_of(order.eval_set, order.fractions).values())
    for name in sets:
        for manifest in [*evaluate(store, settings, eval_set=name), audit.build(store, settings, eval_set=name)]:
            _report(context, manifest)
    for name in sets:
        _report(context, reporting.build(store, settings, eval_set=name))
    rows = sweep(store, sets[-1]).to_dicts()
    context.add_output_metadata({"sweep": shell.rows_table([_row(row) for row in rows if row["eval_set"] in sets])})


def _row(row: dict[str, Any]) -> dict[str, Any]:
    return {name: row[name] for name in ("model", "arm", "fraction", "accuracy", "brier")}


def _report(context: dg.OpExecutionContext, manifest: Manifest) -> None:
    """Tell Dagster of a sealed partition, under the asset that it belongs to."""
    context.log_event(
        dg.AssetMaterialization(
            asset_key=manifest.table,
            partition=_partition(manifest.key),
            metadata={"dagster/row_count": manifest.rows, "version": manifest.version[:12]},
            tags={"dagster/data_version": manifest.version},
        )
    )


def _partition(key: Sequence[str]) -> str:
    return key[0] if len(key) == 1 else dg.MultiPartitionKey({"model": key[0], "eval_set": key[1]})


@dg.config_mapping
def _everywhere(config: SweepConfig) -> dg.RunConfig:
    """Hand one configuration to every step."""
    return dg.RunConfig(ops=dict.fromkeys(("sweep_sets", "sweep_forecasts", "sweep_scores"), config))


@dg.job(
    name=LOOKBACK_SWEEP,
    config=_everywhere,
    description="Lookback sweep over an eval set (paper, table 7): builds its sets, asks both arms, scores. Resumable; "
    "max_cost limits all of it; dry_run asks nothing. Spends model time.",
)
def lookback_sweep() -> None:
    """Build the sets, ask, score."""
    sweep_scores(after=sweep_forecasts(after=sweep_sets()))
