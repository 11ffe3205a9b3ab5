"""Evaluation: did the corpus discuss a market before it resolved, and which questions are asked (paper, section 4)."""

import time
from typing import TYPE_CHECKING, Any

import dagster as dg
from pydantic import Field

from assets import shell
from assets.partitions import Partitions
from hindcast_dagster.clock import T0Policy
from hindcast_dagster.contracts.coverage import COVERAGE
from hindcast_dagster.contracts.questions import EVAL_SET
from hindcast_dagster.errors import UsageError
from hindcast_dagster.settings import Settings
from hindcast_dagster.storage.manifest import Manifest
from hindcast_dagster.storage.store import Store
from resources.archive import ArchiveResource
from resources.store import StorageRoot

if TYPE_CHECKING:
    from hindcast_dagster.evalset.config import Asked

GROUP = "evaluation"


class ProbeConfig(dg.Config):
    """Who judges, and from where."""

    judge: str = "evidence_count"
    """A roster slug, or evidence_count, which needs no model."""
    as_of: str = "close"
    """close: as the paper; t0: what a forecaster could see."""
    policy: str = ""
    """With as_of t0: where t0 lies; empty: day_before_close."""
    archive_end: str = ""
    """No cutoff later than this; empty: none."""
    pool_of: str = ""
    """Every market that this eval set was chosen from, at the set's own t0 (with as_of t0): what a twin needs."""


class EvalSetConfig(dg.Config):
    """What an eval set holds: the choices of `hindcast evalset build`, `twin` and `sweep`.

    The set is immutable: another configuration needs another name.
    """

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
    """A date is meant with its whole day."""
    max_price_age_h: float | None = None
    """Drop prices older than so many hours at t0."""
    size: int | None = None
    """Select so many, balanced by outcome, then topic."""
    seed: int = 0
    keep: str = "auto"
    """Evidence that a selection keeps: auto (strong where probed), any, or strong,weak,none."""
    topics_by: str = ""
    """A model of the roster that sorts questions whose tags tell no topic; empty: none."""
    balanced: bool = False
    """Without a size: as many as the rarer outcome allows."""
    per_event: int | None = None
    """Select at most so many markets of one event."""
    price_band: list[float] = Field(default_factory=list)
    """Select only prices at t0 within these two; empty: all."""
    min_lead_h: float | None = None
    """Select only markets that close at least so many hours after t0."""
    twin_of: str = ""
    """Make the outcome-blind twin of this eval set; the partition is its name with -blind. Nothing else is chosen."""
    sweep_of: str = ""
    """Make one set of the lookback sweep over this eval set; the partition is one of its names, such as NAME-l25."""
    points: int | None = None
    """With sweep_of: a trajectory of so many points; empty: the paper's 25, 50, 75 and 100 %."""


def seal_eval_set(store: Store, settings: Settings, *, name: str, config: EvalSetConfig) -> Manifest:
    """Seal the eval set that a run's configuration asks for. Raises `UsageError` for choices that contradict."""
    from hindcast_dagster.evalset import build, sweep, twin

    derived = EvalSetConfig(twin_of=config.twin_of, sweep_of=config.sweep_of, points=config.points)
    if not config.twin_of and not config.sweep_of:
        return build.build(store, settings, name=name, **_asked(config))
    if config != derived or (config.twin_of and config.sweep_of):
        raise UsageError("A twin and a set of a sweep follow from another eval set: choose nothing beside its name.")
    if config.sweep_of:
        fractions = sweep.points(config.points)
        return sweep.build_point(store, settings, name=config.sweep_of, point=name, fractions=fractions)
    if name != twin.name_of(config.twin_of):
        raise UsageError(f"The twin of {config.twin_of} is the partition {twin.name_of(config.twin_of)}, not {name}.")
    return twin.build_twin(store, settings, name=config.twin_of)


def _asked(config: EvalSetConfig) -> "Asked":
    """Return a run's choices as those of `evalset.build.build`; an empty text or list is no choice."""
    from hindcast_dagster.evalset.config import Asked, Choice, price_band

    return Asked(
        policy=config.policy,
        archive_end=config.archive_end or None,
        market_ids=config.market_ids or None,
        vintage=config.vintage or None,
        closed_from=config.closed_from or None,
        closed_to=config.closed_to or None,
        max_price_age_h=config.max_price_age_h,
        size=config.size,
        seed=config.seed,
        keep=config.keep,
        topics_by=config.topics_by or None,
        choice=Choice(
            balanced=config.balanced,
            per_event=config.per_event,
            price_band=price_band(config.price_band),
            min_lead_h=config.min_lead_h,
        ),
    )


def _economics(manifest: Manifest, config: ProbeConfig) -> dict[str, int]:
    """Return calls and tokens of the probe that was just made; empty for a judge without a model."""
    probe = manifest.stats["probes"].get(f"{config.judge}/{config.as_of}", {})
    return dict(probe.get("economics", {}))


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
        check_specs=[shell.contract_spec("coverage_probe"), shell.watch_spec("coverage_probe")],
        description="Per market: tallies of evidence for both sides, contrastive score, evidence quality (paper, 4.1).",
    )
    def coverage_probe(
        context: dg.AssetExecutionContext, config: ProbeConfig, root: StorageRoot, archive: ArchiveResource
    ) -> dg.MaterializeResult:
        from hindcast_dagster.coverage import probe
        from hindcast_dagster.evalset.pool import span_of

        store, settings, month = root.store(), root.settings(), context.partition_key
        began = time.monotonic()
        span = span_of(store, settings, config.pool_of) if config.pool_of else None
        manifest = probe.build(
            store,
            settings,
            month=month,
            judge=config.judge,
            as_of=config.as_of,
            policy=T0Policy.parse(config.policy) if config.policy else None,
            archive_end=config.archive_end or None,
            at=span.at if span else None,
            market_ids=frozenset(span.months.get(month, ())) if span else None,
            archive=archive.open(),
        )
        return shell.published(
            store,
            manifest,
            contract=COVERAGE,
            settings=settings,
            began=began,
            judge=config.judge,
            as_of=config.as_of,
            economics=shell.counts_table(_economics(manifest, config)),
        )

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
        check_specs=[shell.contract_spec("eval_set"), shell.watch_spec("eval_set")],
        description="A frozen list of (market, t0) with the price at t0; pins what it was made from (paper, 4.2).",
    )
    def eval_set(context: dg.AssetExecutionContext, config: EvalSetConfig, root: StorageRoot) -> dg.MaterializeResult:
        from hindcast_dagster.evalset.checks import warnings

        store, settings, began = root.store(), root.settings(), time.monotonic()
        manifest = seal_eval_set(store, settings, name=context.partition_key, config=config)
        for warning in warnings(manifest.checks):
            context.log.warning(warning)
        return shell.published(
            store,
            manifest,
            contract=EVAL_SET,
            settings=settings,
            began=began,
            warnings=dg.MetadataValue.json(warnings(manifest.checks)),
        )

    return [coverage_probe, eval_set]
