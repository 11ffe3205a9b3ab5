"""Archive: one LanceDB table per month and kind, sealed and verified (paper, section 3.2)."""

import time
from typing import Any

import dagster as dg

from assets import shell
from assets.partitions import Partitions
from hindcast_dagster.storage.manifest import Manifest
from hindcast_dagster.storage.remedy import remedy
from hindcast_dagster.storage.store import Store
from resources.store import StorageRoot

GROUP = "archive"
VERIFIED = "verified"


class IndexConfig(dg.Config):
    """How a month is indexed."""

    accept_hollow: bool = False
    """Build the index although the month's health is hollow."""


def build(partitions: Partitions) -> list[Any]:
    """Return the assets of this stage."""

    @dg.asset(
        partitions_def=partitions.months,
        group_name=GROUP,
        kinds={"lancedb", "embedding"},
        owners=shell.OWNERS,
        code_version="1",
        deps=["submissions"],
        check_specs=[_verified_spec("submission_index")],
        pool="embedding",
        description="Submissions of a month with vectors and indexes, searchable under any cutoff (paper, 3.2).",
    )
    def submission_index(
        context: dg.AssetExecutionContext, config: IndexConfig, root: StorageRoot
    ) -> dg.MaterializeResult:
        from hindcast_dagster.archive.build import build_submissions

        store, began = root.store(), time.monotonic()
        month = context.partition_key
        manifest = build_submissions(store, root.settings(), month=month, accept_hollow=config.accept_hollow)
        checks = [_verified(store, manifest)]
        return shell.published(store, manifest, checks=checks, began=began)

    @dg.asset(
        partitions_def=partitions.months,
        group_name=GROUP,
        kinds={"lancedb"},
        owners=shell.OWNERS,
        code_version="1",
        deps=["comments"],
        check_specs=[_verified_spec("comment_index")],
        description="Comments of a month for look-ups by id, thread and author; no vectors (paper, 3.2).",
    )
    def comment_index(
        context: dg.AssetExecutionContext, config: IndexConfig, root: StorageRoot
    ) -> dg.MaterializeResult:
        from hindcast_dagster.archive.build import build_comments

        store, began = root.store(), time.monotonic()
        manifest = build_comments(
            store, root.settings(), month=context.partition_key, accept_hollow=config.accept_hollow
        )
        checks = [_verified(store, manifest)]
        return shell.published(store, manifest, checks=checks, began=began)

    return [submission_index, comment_index]


def _verified_spec(name: str) -> dg.AssetCheckSpec:
    said = (
        "Rows, ids, indexes, vectors and the cutoff predicate were proved before sealing; the files are those sealed."
    )
    return dg.AssetCheckSpec(name=VERIFIED, asset=name, blocking=True, description=said)


def _verified(store: Store, manifest: Manifest) -> dg.AssetCheckResult:
    """Hold the month's files against their checksums, and repeat what was proved when it was sealed."""
    from hindcast_dagster.archive.integrity import damage

    damaged = damage(store.partition(manifest.table, *manifest.key).look().path)
    again = remedy(manifest.table, manifest.key)
    rows = [{"what": each.name, "passed": each.passed, "detail": each.detail, "do": ""} for each in manifest.checks]
    rows.append(
        {"what": "files as sealed", "passed": damaged is None, "detail": damaged or "", "do": (damaged and again) or ""}
    )
    bad = [row for row in rows if not row["passed"]]
    said = f"{manifest.key[0]}: {len(rows) - len(bad)} of {len(rows)} proofs hold"
    return dg.AssetCheckResult(
        check_name=VERIFIED,
        passed=not bad,
        description=f"{said}; {bad[0]['what']}: {bad[0]['detail']}; {again}." if bad else f"{said}.",
        metadata={"proofs": shell.rows_table(rows)},
    )
