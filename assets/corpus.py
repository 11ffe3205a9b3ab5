"""Corpus: dumps as they lie on disk, and the filtered, sealed month partitions made from them (paper, section 3.1)."""

import time
import warnings
from typing import Any

import dagster as dg

from assets import shell
from assets.partitions import Partitions
from hindcast_dagster.contracts.documents import BY_KIND
from hindcast_dagster.storage.manifest import Manifest
from hindcast_dagster.storage.store import Store
from resources.store import StorageRoot

GROUP = "corpus"
HEALTH_CHECK = "month_health"


def build(partitions: Partitions) -> list[Any]:
    """Return the assets of this stage."""
    with warnings.catch_warnings():
        # 2026-11, Dagster 1.13: the only decorator for a source that is observed per partition is marked beta
        warnings.simplefilter("ignore", dg.BetaWarning)
        dumps = _dumps(partitions)
    return [dumps, _documents(partitions, "submissions"), _documents(partitions, "comments")]


def _dumps(partitions: Partitions) -> Any:
    @dg.observable_source_asset(
        name="reddit_dumps",
        partitions_def=partitions.months,
        group_name=GROUP,
        tags={"dagster/kind/zstd": ""},
        description="Monthly Pushshift / Arctic Shift dumps as they lie under dumps/, with their sha256 (paper, 3.1).",
    )
    def reddit_dumps(context: dg.OpExecutionContext, root: StorageRoot) -> dg.DataVersionsByPartition:
        """Record the sha256 of every dump that a partition exists for."""
        from hindcast_dagster.corpus import dumps, fingerprints

        known = set(partitions.months.get_partition_keys())
        by_month: dict[str, list[str]] = {}
        store = root.store()
        for found in dumps.find(store):
            if found.month not in known:
                context.log.warning("%s lies outside the window of months and is not observed.", found.path.name)
                continue
            by_month.setdefault(found.month, []).append(
                f"{found.kind}:{fingerprints.described(store, found.path).sha256}"
            )
        return dg.DataVersionsByPartition({month: "+".join(sorted(parts)) for month, parts in by_month.items()})

    return reddit_dumps


def _documents(partitions: Partitions, kind: str) -> dg.AssetsDefinition:
    contract = BY_KIND[kind]

    @dg.asset(
        name=kind,
        partitions_def=partitions.months,
        group_name=GROUP,
        kinds={"parquet", "reddit"},
        owners=shell.OWNERS,
        code_version=str(contract.version),
        deps=["reddit_dumps"],
        check_specs=[shell.contract_spec(kind), shell.watch_spec(kind), _health_spec(kind)],
        description=f"Filtered {kind} of a month by time, with a ledger of all that was dropped (paper, 3.1).",
    )
    def documents(context: dg.AssetExecutionContext, root: StorageRoot) -> dg.MaterializeResult:
        from hindcast_dagster.corpus.build import build as build_month

        store, settings, began = root.store(), root.settings(), time.monotonic()
        manifest = build_month(store, settings, month=context.partition_key, kind=kind)
        return shell.published(
            store,
            manifest,
            contract=contract,
            settings=settings,
            began=began,
            checks=[_health(store, manifest, kind)],
        )

    return documents


def _health_spec(kind: str) -> dg.AssetCheckSpec:
    return dg.AssetCheckSpec(
        name=HEALTH_CHECK,
        asset=kind,
        description="Settled share, pass rate and mean score against the neighbouring months: ok, hollow or unknown.",
    )


def _health(store: Store, manifest: Manifest, kind: str) -> dg.AssetCheckResult:
    """Warn about a hollow month and about an empty file; sealing is never blocked by it, building an index on it is."""
    from hindcast_dagster.corpus import health

    found = health.check(store, manifest.key[0], kind)
    return dg.AssetCheckResult(
        check_name=HEALTH_CHECK,
        passed=found.verdict != "hollow" and not health.is_empty(found.numbers),
        severity=dg.AssetCheckSeverity.WARN,
        description=f"{manifest.key[0]}: {found.verdict}: {found.advice}",
        metadata={"verdict": found.verdict},
    )
