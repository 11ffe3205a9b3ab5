"""Archive: one LanceDB table per month and kind, sealed and verified (paper, section 3.2)."""

from typing import Any

import dagster as dg

from assets import shell
from assets.partitions import Partitions
from resources.store import StorageRoot

GROUP = "archive"


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
        description="Submissions of a month with vectors and indexes; every row is searchable under any cutoff (3.2).",
    )
    def submission_index(
        context: dg.AssetExecutionContext, config: IndexConfig, root: StorageRoot
    ) -> dg.MaterializeResult:
        from hindcast_dagster.archive.build import build_submissions

        store = root.store()
        month = context.partition_key
        manifest = build_submissions(store, root.settings(), month=month, accept_hollow=config.accept_hollow)
        return shell.published(store, manifest, **_scalars(manifest.stats))

    @dg.asset(
        partitions_def=partitions.months,
        group_name=GROUP,
        kinds={"lancedb"},
        owners=shell.OWNERS,
        code_version="1",
        deps=["comments"],
        description="Comments of a month for look-ups by id, thread and author; no vectors (paper, 3.2).",
    )
    def comment_index(
        context: dg.AssetExecutionContext, config: IndexConfig, root: StorageRoot
    ) -> dg.MaterializeResult:
        from hindcast_dagster.archive.build import build_comments

        store = root.store()
        manifest = build_comments(
            store, root.settings(), month=context.partition_key, accept_hollow=config.accept_hollow
        )
        return shell.published(store, manifest, **_scalars(manifest.stats))

    return [submission_index, comment_index]


def _scalars(stats: dict[str, Any]) -> dict[str, Any]:
    return {key: value for key, value in stats.items() if isinstance(value, str | int | float | bool)}
