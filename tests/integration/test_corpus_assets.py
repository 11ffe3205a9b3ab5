"""The corpus inside Dagster: dumps are observed by their hash, a month is sealed with its checks and its ledger shown."""

import dagster as dg
import pytest
from dagster._core.definitions.observe import observe  # as `dagster` has no public name for it

from assets import corpus, partitions
from hindcast_dagster.definitions import build_definitions
from hindcast_dagster.sample.world import generate
from hindcast_dagster.sample.write import write
from hindcast_dagster.settings import load
from hindcast_dagster.storage.files import sha256_file
from hindcast_dagster.storage.store import open_store
from resources.store import StorageRoot
from tests.unit.test_backfill import write_dump

FIRST, SECOND = "2024-01", "2024-02"


@pytest.fixture(scope="module")
def world(tmp_path_factory):
    store = open_store(tmp_path_factory.mktemp("corpus") / "root")
    write(store, generate(months=2, first_month=FIRST))
    window = {"first_month": FIRST, "last_month": SECOND, "first_close_month": FIRST}
    return store, load(data_root=str(store.root), window=window)


def test_dumps_are_observed_by_their_hash_and_others_are_left_alone(world):
    store, settings = world
    stray = store.root / "dumps" / "RC_2019-05.zst"
    stray.write_bytes(b"outside the window")
    dumps = corpus.build(partitions.build(settings.window))[0]
    with dg.DagsterInstance.ephemeral() as instance:
        root = StorageRoot(data_root=str(store.root))
        assert observe([dumps], instance=instance, resources={"root": root}).success
        seen = instance.fetch_observations(dg.AssetKey("reddit_dumps"), limit=10).records
    stray.unlink()
    found = {record.asset_observation.partition: record.asset_observation.data_version for record in seen}
    assert found == {
        month: "+".join(f"{kind}:{sha256_file(store.root / 'dumps' / f'{prefix}_{month}.zst')}"
                        for kind, prefix in (("comments", "RC"), ("submissions", "RS")))
        for month in (FIRST, SECOND)
    }  # fmt: skip


def test_a_month_is_sealed_with_checks_and_its_ledger_is_shown(world):
    _, settings = world
    job = build_definitions(settings).resolve_implicit_global_asset_job_def()
    with dg.DagsterInstance.ephemeral() as instance:
        result = job.execute_in_process(
            instance=instance,
            partition_key=FIRST,
            asset_selection=[dg.AssetKey("submissions"), dg.AssetKey("comments")],
        )
    checks = {(each.asset_key.to_user_string(), each.check_name): each for each in result.get_asset_check_evaluations()}
    for kind in ("submissions", "comments"):
        assert checks[kind, "contract"].passed
        health = checks[kind, "month_health"]
        assert health.severity == dg.AssetCheckSeverity.WARN
        assert health.metadata["verdict"].value in {"ok", "unknown"}
        (made,) = result.asset_materializations_for_node(kind)
        shown = made.metadata
        dropped = sum(record.data["count"] for record in shown["dropped"].records)
        assert shown["lines"].value == shown["kept"].value + dropped
        assert shown["dagster/row_count"].value == shown["kept"].value > 0
        assert shown["dagster/column_schema"].value.columns


def test_a_check_reads_its_own_month_only(store):
    """One that looks at all partitions cannot run before the last is there, and then fails good months for a bad one."""
    months = ("2025-01", "2025-02", "2025-03")
    for month in months:
        write_dump(store, month)
    store.area("dumps", "RC_2025-02.ndjson").write_bytes(b"")
    settings = load(data_root=str(store.root), window={"first_month": months[0], "last_month": months[-1]})
    job = build_definitions(settings).resolve_implicit_global_asset_job_def()
    found = {}
    with dg.DagsterInstance.ephemeral() as instance:
        for month in months:
            result = job.execute_in_process(
                instance=instance, partition_key=month, asset_selection=[dg.AssetKey("comments")]
            )
            found[month] = {each.check_name: each for each in result.get_asset_check_evaluations()}
    assert [found[month]["month_health"].passed for month in months] == [True, False, True]
    for month in months:
        assert found[month]["contract"].passed
        assert month in found[month]["contract"].description
        assert found[month]["watch"].description.startswith(f"{month}: ")
