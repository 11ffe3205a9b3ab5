"""Evaluation: did the corpus discuss a market before it resolved, and which questions are asked (paper, section 4)."""

from typing import Any, Literal, cast

import dagster as dg
from pydantic import Field

from assets import shell
from assets.partitions import Partitions
from hindcast_dagster.contracts.coverage import COVERAGE
from hindcast_dagster.contracts.questions import EVAL_SET
from resources.archive import ArchiveResource
from resources.store import StorageRoot

GROUP = "evaluation"


class ProbeConfig(dg.Config):
    """Who judges, and from where."""

    judge: str = "evidence_count"
    """A roster slug, or evidence_count, which needs no model."""
    as_of: str = "close"
    """close: as the paper; t0: what a forecaster could see."""


class EvalSetConfig(dg.Config):
    """What an eval set holds. The set is immutable: another configuration needs another name."""

    policy: str = "day_before_close"
    """day_before_close, lookback:F, days_before:N or fixed:T."""
    archive_end: str = ""
    """An instant that caps every t0; empty: none."""
    vintage: str = ""
    """Markets that resolved since this eval set was built; empty: all, or those of the window."""
    market_ids: list[str] = Field(default_factory=list)
    """Exactly these markets; empty: all, those of the window, or the vintage's."""
    closed_from: str = ""
    closed_to: str = ""
    max_price_age_h: float | None = None
    size: int | None = None
    seed: int = 0


def build(partitions: Partitions) -> list[Any]:
    """Return the assets of this stage."""
    everything = dg.AllPartitionMapping()

    @dg.asset(
        partitions_def=partitions.close_months,
        group_name=GROUP,
        kinds={"parquet"},
        owners=shell.OWNERS,
        code_version=str(COVERAGE.version),
        deps=["markets", dg.AssetDep("submission_index", partition_mapping=everything)],
        check_specs=[shell.contract_spec("coverage_probe")],
        description="Per market: tallies of evidence for both sides, contrastive score, evidence quality (paper, 4.1).",
    )
    def coverage_probe(
        context: dg.AssetExecutionContext, config: ProbeConfig, root: StorageRoot, archive: ArchiveResource
    ) -> dg.MaterializeResult:
        from hindcast_dagster.coverage import probe

        store = root.store()
        manifest = probe.build(
            store,
            root.settings(),
            month=context.partition_key,
            judge=config.judge,
            as_of=cast("Literal['close', 't0']", config.as_of),  # checked by the probe
            archive=archive.open(),
        )
        return shell.published(store, manifest, contract=COVERAGE, judge=config.judge, as_of=config.as_of)

    @dg.asset(
        partitions_def=partitions.eval_sets,
        group_name=GROUP,
        kinds={"parquet"},
        owners=shell.OWNERS,
        code_version=str(EVAL_SET.version),
        deps=[
            dg.AssetDep(name, partition_mapping=everything)
            for name in ("markets", "market_prices", "coverage_probe", "submission_index", "comment_index")
        ],
        check_specs=[shell.contract_spec("eval_set")],
        description="A frozen list of (market, t0) with the price at t0; pins what it was made from (paper, 4.2).",
    )
    def eval_set(context: dg.AssetExecutionContext, config: EvalSetConfig, root: StorageRoot) -> dg.MaterializeResult:
        from hindcast_dagster.clock import T0Policy
        from hindcast_dagster.evalset.build import build as build_set

        store = root.store()
        manifest = build_set(
            store,
            root.settings(),
            name=context.partition_key,
            policy=T0Policy.parse(config.policy),
            archive_end=config.archive_end or None,
            market_ids=config.market_ids or None,
            vintage=config.vintage or None,
            closed_from=config.closed_from or None,
            closed_to=config.closed_to or None,
            max_price_age_h=config.max_price_age_h,
            size=config.size,
            seed=config.seed,
        )
        stats = manifest.stats
        return shell.published(
            store,
            manifest,
            contract=EVAL_SET,
            policy=config.policy,
            excluded=shell.counts_table(stats["excluded"]),
            flags=shell.counts_table(stats["flags"], name="flag"),
            funnel=dg.MetadataValue.json(stats["funnel"]),
        )

    return [coverage_probe, eval_set]
