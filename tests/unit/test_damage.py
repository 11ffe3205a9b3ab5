"""Files that are damaged at rest: noticed before their content is used, and always to be made again (docs/reliability.md)."""

import os
import shutil

import polars as pl
import pytest

from hindcast_dagster.archive import integrity
from hindcast_dagster.archive.open import open_archive
from hindcast_dagster.contracts.markets import PRICES
from hindcast_dagster.errors import InputRefused, NotReady
from hindcast_dagster.scoring import query
from hindcast_dagster.storage.files import disk_error, is_unchanged, sha256_file
from hindcast_dagster.storage.lease import Lease
from hindcast_dagster.storage.manifest import Input
from hindcast_dagster.storage.store import open_store
from hindcast_dagster.storage.tables import publish_table, read_table, restore_table
from tests.archive_world import ToyEmbedder, seal, use
from tests.toy_archive import document

MONTH = "2026-01"


def prices(value, market="m"):
    return PRICES.frame([{"market_id": market, "at": 1_700_000_000, "price": value, "route": "clob", "step_s": 60}])


def publish(store, value, *, month=MONTH, **more):
    return publish_table(store.partition("market_prices", month), prices(value), PRICES, code_version="1", **more)


def forge(path, frame):
    """Write other content that the format reads happily, and give the file its old times back."""
    stat = path.stat()
    frame.write_parquet(path)
    os.utime(path, ns=(stat.st_atime_ns, stat.st_mtime_ns + 1))


def test_content_that_parquet_reads_but_nobody_sealed_is_refused(store):
    publish(store, 0.5)
    partition = store.partition("market_prices", MONTH)
    path = partition.require().file("data.parquet")
    forge(path, prices(0.9))
    assert pl.read_parquet(path)["price"].to_list() == [0.9]
    with pytest.raises(InputRefused, match="not what was sealed"):
        read_table(partition.require(), PRICES)
    for asked in (
        "select * from market_prices",
        "select * from query_table('market_' || 'prices')",
        "select * from query('select * from market_' || 'prices')",
        f"select * from '{path}'",
    ):
        with pytest.raises(InputRefused, match="not what was sealed"):
            query.run(store, asked)
    assert query.run(store, "select 1 as one").rows == [(1,)]
    assert partition.intact() is None
    publish(store, 0.5)
    assert partition.intact() is not None
    assert read_table(partition.require(), PRICES)["price"].to_list() == [0.5]


def test_a_manifest_that_cannot_be_read_stops_only_the_queries_that_name_its_table(store):
    publish(store, 0.5)
    folder = store.root / "tables" / "leak_audit" / "e"
    folder.mkdir(parents=True)
    (folder / "manifest.json").write_text("{")
    assert query.run(store, "select price from market_prices").rows == [(0.5,)]
    for table in ("leak_audit", "LEAK_AUDIT", '"leak_audit_more"'):
        with pytest.raises(InputRefused, match="leak_audit"):
            query.run(store, f"select * from {table}")


def test_a_file_is_read_once_for_its_hash_until_it_changes(tmp_path, monkeypatch):
    path = tmp_path / "file"
    path.write_text("a")
    good = sha256_file(path)
    assert is_unchanged(path, good)
    monkeypatch.setattr("hindcast_dagster.storage.files.sha256_file", lambda _: "read again")
    assert is_unchanged(path, good)
    path.write_text("b!")
    assert not is_unchanged(path, good)


def test_a_broken_manifest_elsewhere_stops_no_publication_and_still_pins(store):
    pinned = publish(store, 0.1)
    publish(store, 0.4, month="2026-02", pins=[Input(table="market_prices", key=(MONTH,), version=pinned.version)])
    (store.partition("market_prices", "2026-02").path / "manifest.json").write_text("{")
    for value in (0.2, 0.3, 0.4):
        publish(store, value)
    partition = store.partition("market_prices", MONTH)
    assert read_table(partition.at_version(pinned.version), PRICES)["price"].to_list() == [0.1]
    assert len(list(partition.path.glob("v-*"))) == 3, "the present one, the one before, and the pinned one"


def test_a_broken_manifest_comes_back_from_its_only_copy(store):
    manifest = publish(store, 0.1)
    partition = store.partition("market_prices", MONTH)
    (partition.path / "manifest.json").write_text('{"tab')
    assert partition.mended() == manifest
    assert partition.manifest() == manifest
    publish(store, 0.2)
    (partition.path / "manifest.json").write_text("")
    with pytest.raises(InputRefused, match="not a readable manifest"):
        partition.mended()


def test_lost_data_of_an_immutable_partition_comes_back_only_as_it_was(store):
    manifest = publish(store, 0.1, stats={"config": 1})
    partition = store.partition("market_prices", MONTH)
    shutil.rmtree(partition.require().path)
    with pytest.raises(InputRefused, match="has changed since"):
        restore_table(partition, prices(0.2), PRICES, manifest=manifest)
    again = restore_table(partition, prices(0.1), PRICES, manifest=manifest)
    assert again.without_time() == manifest.without_time()
    assert read_table(partition.require(), PRICES)["price"].to_list() == [0.1]


def test_a_draft_goes_with_its_process_and_not_by_the_clock(store):
    partition = store.partition("market_prices", MONTH)
    with partition.draft() as living:
        os.utime(living.path, (0, 0))
        left = partition.path / ".draft-killed"
        left.mkdir()
        publish(store, 0.1)
        assert living.path.is_dir(), "another process writes it, however old it looks"
        assert not left.exists(), "nobody holds it"
    held = Lease(partition.require().path)
    assert held is not None


@pytest.fixture
def archived(tmp_path, monkeypatch, settings):
    use(monkeypatch, ToyEmbedder())
    store = open_store(tmp_path / "archived")
    seal(store, settings, [document("p1", "2026-01-05", "a bridge"), document("c1", "2026-01-06", "yes", link_id="p1")])
    return store


def files_of(store):
    return sorted(
        path
        for path in store.root.glob("tables/*_index/*/v-*/**/*")
        if path.is_file() and path.name != "manifest.json" and path.stat().st_size
    )


def test_every_file_of_an_archive_month_is_checked_before_paid_work(archived, settings):
    open_archive(archived, settings, verify=True)
    found = files_of(archived)
    assert {"lance", "columns", "vectors"} <= {part for path in found for part in path.parts}
    for path in found:
        good = path.read_bytes()
        path.write_bytes(good[:-1] + bytes([good[-1] ^ 1]))
        with pytest.raises(InputRefused, match="build that month again"):
            open_archive(archived, settings, verify=True)
        path.write_bytes(good)
    open_archive(archived, settings, verify=True)
    found[0].with_name("more").write_text("x")
    with pytest.raises(InputRefused, match="more"):
        integrity.require_undamaged(
            [found[0].parents[k] for k in range(4) if (found[0].parents[k] / "manifest.json").is_file()]
        )


def test_a_root_that_cannot_be_written_is_not_ready():
    for number in (13, 1, 30):
        found = disk_error(OSError(number, "x"), "/data")
        assert isinstance(found, NotReady)
        assert found.exit_code == 4
        assert "cannot be written" in str(found)


def test_a_full_disk_is_seen_whatever_a_library_calls_it(store, monkeypatch):
    """numpy says "10944 requested and 8064 written", Polars "Invalid thrift: transport error"."""
    partition = store.partition("market_prices", MONTH)
    for error in (OSError("10944 requested and 8064 written"), RuntimeError("Invalid thrift: transport error")):
        with pytest.raises(type(error)), partition.draft():
            raise error
        with monkeypatch.context() as patch:
            full = os.statvfs_result((4096, 4096, 10, 0, 0, 10, 0, 0, 0, 255))
            patch.setattr("hindcast_dagster.storage.files.os.statvfs", lambda _, full=full: full)
            with pytest.raises(NotReady, match="No space left"), partition.draft():
                raise error
