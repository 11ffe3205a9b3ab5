"""Reports sealed partitions to a Dagster instance: its history is a view on the manifests and can be made again."""

import os
from typing import Any

from hindcast_dagster.settings import Settings
from hindcast_dagster.storage.manifest import Manifest
from hindcast_dagster.storage.store import Store


def report_all(store: Store, settings: Settings) -> tuple[str, dict[str, int]]:
    """Report a materialisation for every sealed partition that an asset exists for; return the home and counts.

    A version that the instance already knows is left alone.

    Dynamic keys (eval sets, models) are registered first. Partitions of tables without an asset, or outside the window
    of months, are left out of the count.
    """
    import dagster as dg

    from hindcast_dagster.cli.demo_pipeline import instance
    from hindcast_dagster.definitions import build_definitions

    graph = build_definitions(settings).resolve_asset_graph()
    home = instance()
    home.add_dynamic_partitions("eval_sets", [key[0] for key in store.sealed_keys("eval_set")])
    told: dict[str, int] = {}
    for table in store.tables():
        key = dg.AssetKey(table)
        if not graph.has(key) or not graph.get(key).is_materializable:
            continue
        partitions = graph.get(key).partitions_def
        for manifest in store.manifests(table):
            if len(manifest.key) > 1:
                home.add_dynamic_partitions("models", [manifest.key[0]])
            partition = _partition(manifest)
            with dg.partition_loading_context(dynamic_partitions_store=home):
                known = partitions is None or partitions.has_partition_key(partition)
            if known and not _knows(home, key, partition, manifest):
                _report(home, key, partition, manifest)
                told[table] = told.get(table, 0) + 1
    return str(os.environ["DAGSTER_HOME"]), told


def _knows(home: Any, key: Any, partition: str, manifest: Manifest) -> bool:
    """Return whether the newest materialisation of a partition is of this version."""
    import dagster as dg

    filters = dg.AssetRecordsFilter(asset_key=key, asset_partitions=[partition])
    records = home.fetch_materializations(filters, limit=1).records
    tags = records[0].asset_materialization.tags if records else {}
    return (tags or {}).get("dagster/data_version") == manifest.version


def _partition(manifest: Manifest) -> str:
    import dagster as dg

    if len(manifest.key) == 1:
        return manifest.key[0]
    return dg.MultiPartitionKey({"model": manifest.key[0], "eval_set": manifest.key[1]})


def _report(home: Any, key: Any, partition: str, manifest: Manifest) -> None:
    import dagster as dg

    home.report_runless_asset_event(
        dg.AssetMaterialization(
            asset_key=key,
            partition=partition,
            metadata={"dagster/row_count": dg.MetadataValue.int(manifest.rows), "version": manifest.version[:12]},
            tags={"dagster/data_version": manifest.version},
            description="Registered again from its sealed manifest.",
        )
    )
