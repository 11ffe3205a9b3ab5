"""Forecasts: the baselines, and one prediction partition per model and eval set for each arm (paper, section 5)."""

import time
from typing import Any

import dagster as dg

from assets import shell
from assets.partitions import Partitions
from hindcast_dagster.contracts.forecasts import FORECASTS
from hindcast_dagster.storage.manifest import Manifest
from hindcast_dagster.storage.store import Store
from resources.archive import ArchiveResource
from resources.store import StorageRoot

GROUP = "forecasts"
_ARMS = {
    "zero_shot": "One call per question, no retrieval: the parametric-memory floor (paper, 5.1).",
    "retrieval": "A bounded research loop over the archive at t0, then a forecast (paper, 5.2).",
}


class RunConfig(dg.Config):
    """How much is asked. Finished forecasts are never asked again."""

    runs: int | None = None
    """Runs per question; empty: the setting forecast.runs."""
    limit: int | None = None
    """Only the first N questions; empty: the setting forecast.question_limit."""
    max_cost: float | None = None
    """Stop before this many US dollars; empty: the setting llm.max_cost."""


def build(partitions: Partitions) -> list[Any]:
    """Return the assets of this stage."""

    @dg.asset(
        partitions_def=partitions.eval_sets,
        group_name=GROUP,
        kinds={"parquet"},
        owners=shell.OWNERS,
        code_version=str(FORECASTS.version),
        deps=["eval_set"],
        check_specs=[shell.contract_spec("market_baseline")],
        description="Forecasters without a model: market price at t0, 0.5, base rates, counted evidence (paper, 6).",
    )
    def market_baseline(context: dg.AssetExecutionContext, root: StorageRoot) -> dg.MaterializeResult:
        from hindcast_dagster.forecast import baselines

        store, began = root.store(), time.monotonic()
        manifest = baselines.build(store, root.settings(), eval_set=context.partition_key)
        return shell.published(store, manifest, contract=FORECASTS, began=began)

    return [market_baseline, *(_arm(partitions, arm) for arm in _ARMS)]


def _arm(partitions: Partitions, arm: str) -> dg.AssetsDefinition:
    name = f"{arm}_forecasts"
    indexes = [] if arm == "zero_shot" else ["submission_index", "comment_index"]

    @dg.asset(
        name=name,
        partitions_def=partitions.predictions,
        group_name=GROUP,
        kinds={"parquet", "llm"},
        owners=shell.OWNERS,
        code_version=str(FORECASTS.version),
        deps=["eval_set", *(dg.AssetDep(table, partition_mapping=dg.AllPartitionMapping()) for table in indexes)],
        check_specs=[shell.contract_spec(name), shell.watch_spec(name), _parse_rate_spec(name)],
        pool="llm",
        description=_ARMS[arm],
    )
    def forecasts(
        context: dg.AssetExecutionContext, config: RunConfig, root: StorageRoot, archive: ArchiveResource
    ) -> dg.MaterializeResult:
        from hindcast_dagster.forecast.run import build as run_arm
        from hindcast_dagster.operation import cost

        keys = context.partition_key.keys_by_dimension
        store, settings, began = root.store(), root.settings(), time.monotonic()
        before = cost.units(store, name, (keys["model"], keys["eval_set"]))
        manifest = run_arm(
            store,
            settings,
            arm=arm,
            model=keys["model"],
            eval_set=keys["eval_set"],
            runs=config.runs,
            limit=config.limit,
            max_cost=config.max_cost,
            archive=archive.open(keys["eval_set"]) if indexes else None,
        )
        asked = cost.units(store, name, manifest.key) - before
        found_finished = max(manifest.rows - asked, 0)
        share = found_finished / manifest.rows if manifest.rows else None
        spent = cost.of(store, manifest)._replace(reused=share)._asdict()
        return shell.published(
            store,
            manifest,
            contract=FORECASTS,
            settings=settings,
            began=began,
            work=(asked, found_finished),
            checks=[_parse_rate(store, manifest)],
            **{key: value for key, value in spent.items() if value is not None},
        )

    return forecasts


def _parse_rate_spec(name: str) -> dg.AssetCheckSpec:
    return dg.AssetCheckSpec(
        name="parse_rate", asset=name, description="At most 3 in 216 replies without a forecast (paper, B.3)."
    )


def _parse_rate(store: Store, manifest: Manifest) -> dg.AssetCheckResult:
    from hindcast_dagster.storage.tables import read_table

    frame = read_table(store.partition(manifest.table, *manifest.key).look(), FORECASTS)
    unparsed = frame.filter(frame["status"] == "unparsed").height
    return dg.AssetCheckResult(
        check_name="parse_rate",
        passed=unparsed * 216 <= 3 * frame.height,
        severity=dg.AssetCheckSeverity.WARN,
        description=f"{unparsed} of {frame.height} replies held no forecast.",
    )
