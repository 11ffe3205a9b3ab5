"""Storage: atomic publish, sealed manifests, pinned versions, journals, and the faults that a disk offers."""

import json
import os
import shutil
import signal
import subprocess
import sys
import threading
from pathlib import Path

import polars as pl
import pytest

from hindcast_dagster.contracts.markets import PRICES
from hindcast_dagster.contracts.table import Contract, ContractBroken
from hindcast_dagster.errors import InputRefused, NotReady, UsageError
from hindcast_dagster.storage import files
from hindcast_dagster.storage.journal import Journal, identity_hash
from hindcast_dagster.storage.manifest import Input, Manifest
from hindcast_dagster.storage.store import NotSealed, Store, open_store
from hindcast_dagster.storage.tables import publish_table, read_table


def prices(*values: float) -> pl.DataFrame:
    return PRICES.frame(
        [
            {"market_id": "m", "at": 1_700_000_000 + i, "price": p, "route": "clob", "step_s": 60}
            for i, p in enumerate(values)
        ]
    )


def publish(store: Store, *values: float, key: str = "2026-01", **more: object) -> Manifest:
    return publish_table(store.partition("market_prices", key), prices(*values), PRICES, code_version="1", **more)  # type: ignore[arg-type]


def visible(store: Store) -> list[str]:
    base = store.root / "tables" / "market_prices" / "2026-01"
    return sorted(p.name for p in base.iterdir() if not p.name.startswith(".lock"))


def test_a_sealed_partition_reads_back(store: Store) -> None:
    manifest = publish(store, 0.25, 0.75)
    sealed = store.partition("market_prices", "2026-01").require()
    assert sealed.manifest == manifest
    assert read_table(sealed, PRICES)["price"].to_list() == [0.25, 0.75]
    assert store.sealed_keys("market_prices") == [("2026-01",)]
    assert store.tables() == ["market_prices"]


def test_identical_input_gives_an_identical_partition(tmp_path: Path) -> None:
    one, two = open_store(tmp_path / "a"), open_store(tmp_path / "b")
    first, second = publish(one, 0.5), publish(two, 0.5)
    assert first.without_time() == second.without_time()
    again = publish(one, 0.5)
    assert again.version == first.version
    assert visible(one) == ["manifest.json", f"v-{first.version[:32]}"]


def test_what_is_missing_is_named_with_its_command(store: Store) -> None:
    with pytest.raises(NotSealed, match=r"market_prices 2026-01.*`hindcast markets fetch`") as caught:
        store.partition("market_prices", "2026-01").require(made_by="hindcast markets fetch")
    assert caught.value.exit_code == 4


def test_a_failed_draft_leaves_nothing_and_an_older_partition_untouched(store: Store) -> None:
    publish(store, 0.5)
    before = visible(store)
    with pytest.raises(RuntimeError), store.partition("market_prices", "2026-01").draft() as draft:
        (draft.path / "half").write_bytes(b"half")
        raise RuntimeError
    assert visible(store) == before
    assert read_table(store.partition("market_prices", "2026-01").require(), PRICES)["price"].to_list() == [0.5]


def test_rebuilds_do_not_grow_the_disk_and_readers_keep_the_previous_version(store: Store) -> None:
    publish(store, 0.1)
    reader = store.partition("market_prices", "2026-01").require()
    for value in (0.2, 0.3, 0.4):
        current = publish(store, value)
        if value == 0.2:
            assert read_table(reader, PRICES)["price"].to_list() == [0.1]
    assert len([name for name in visible(store) if name.startswith("v-")]) == 2
    assert f"v-{current.version[:32]}" in visible(store)


def test_a_pinned_version_outlives_rebuilds(store: Store) -> None:
    first = publish(store, 0.1)
    publish_table(store.partition("eval_set", "q"), prices(0.1), PRICES, code_version="1", pins=[first.as_input])
    for value in (0.2, 0.3, 0.4):
        publish(store, value)
    pinned = store.partition("market_prices", "2026-01").at_version(first.version)
    assert read_table(pinned, PRICES)["price"].to_list() == [0.1]


@pytest.mark.parametrize(
    "name", ["v-next", "v-2025", "v-1", "v-" + "0" * 31, "draft-1", "manifest", "ready-v-1", "con"]
)
def test_no_name_that_a_key_may_have_hides_a_partition_or_what_it_pins(store: Store, name: str) -> None:
    first = publish(store, 0.1)
    for key in ((name,), (name, "x"), ("x", name)):
        publish_table(store.partition("eval_set", *key), prices(0.1), PRICES, code_version="1", pins=[first.as_input])
        assert key in store.sealed_keys("eval_set")
        assert store.pinned("market_prices", ("2026-01",)) == {first.version}
        store.partition("eval_set", *key).unseal()


def test_a_name_that_looks_like_a_version_is_refused(store: Store) -> None:
    for key in (("v-" + "0" * 32,), ("m", "v-" + "a" * 32)):
        with pytest.raises(UsageError, match="choose another name"):
            store.partition("eval_set", *key)


def test_what_cannot_be_removed_is_not_said_to_be_gone(store: Store, tmp_path: Path) -> None:
    """A link is what anybody can make that nobody can remove as a folder; another owner's files end the same way."""
    partition, elsewhere = store.partition("market_prices", "2026-01"), tmp_path / "elsewhere"
    kept = publish(store, 0.1)
    elsewhere.mkdir()
    for name, remove in {
        f"v-{'0' * 32}": lambda: partition.drop_versions(keep=[kept.version]),
        ".draft-x": partition.drop_drafts,
        ".ready-x": partition.unseal,
    }.items():
        link = partition.path / name
        link.symlink_to(elsewhere)
        with pytest.raises(NotReady, match="could not be removed"):
            remove()
        link.unlink()


def test_a_version_that_is_gone_is_said_to_be(store: Store) -> None:
    publish(store, 0.1)
    with pytest.raises(NotSealed, match="no longer"):
        store.partition("market_prices", "2026-01").at_version("0" * 64)


@pytest.mark.parametrize("damage", [b"", b"{", b"[]", b'{"manifest_version": 99}', b"\xff\xfe"])
def test_a_broken_manifest_is_refused_and_a_rebuild_repairs_it(store: Store, damage: bytes) -> None:
    publish(store, 0.5)
    partition = store.partition("market_prices", "2026-01")
    (partition.path / "manifest.json").write_bytes(damage)
    with pytest.raises(InputRefused, match=r"manifest\.json"):
        partition.require()
    publish(store, 0.5)
    assert read_table(partition.require(), PRICES).height == 1


@pytest.mark.parametrize("damage", ["truncated", "deleted"])
def test_damaged_data_is_refused_and_a_rebuild_repairs_it(store: Store, damage: str) -> None:
    publish(store, 0.5)
    partition = store.partition("market_prices", "2026-01")
    data = partition.require().file("data.parquet")
    if damage == "deleted":
        data.unlink()
    else:
        data.write_bytes(data.read_bytes()[:100])
    with pytest.raises((InputRefused, NotReady)):
        read_table(partition.require(), PRICES)
    publish(store, 0.5)
    assert read_table(partition.require(), PRICES)["price"].to_list() == [0.5]


def test_two_publishers_at_once_end_with_one_of_them(store: Store) -> None:
    threads = [threading.Thread(target=publish, args=(store, value)) for value in (0.1, 0.2, 0.3, 0.4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    value = read_table(store.partition("market_prices", "2026-01").require(), PRICES)["price"].to_list()
    assert value in [[0.1], [0.2], [0.3], [0.4]]
    assert not [name for name in visible(store) if name.startswith(".draft")]


_LOOP = """
import sys
from hindcast_dagster.storage.store import open_store
from tests.unit.test_storage import publish
store = open_store(sys.argv[1])
print("ready", flush=True)
i = 0
while True:
    i += 1
    publish(store, (i % 97) / 100)
"""


@pytest.mark.slow
def test_kill_9_at_any_time_leaves_a_readable_partition(tmp_path: Path) -> None:
    store = open_store(tmp_path)
    publish(store, 0.5)
    root = Path(__file__).resolve().parents[2]
    for round_ in range(6):
        env = os.environ | {"PYTHONPATH": str(root)}
        process = subprocess.Popen([sys.executable, "-c", _LOOP, str(tmp_path)], stdout=subprocess.PIPE, env=env)
        assert process.stdout is not None
        process.stdout.readline()
        threading.Event().wait(0.05 + 0.037 * round_)
        process.send_signal(signal.SIGKILL)
        process.wait()
        process.stdout.close()
        assert read_table(store.partition("market_prices", "2026-01").require(), PRICES).height == 1
    publish(store, 0.5)


def test_a_full_disk_is_one_sentence(store: Store, monkeypatch: pytest.MonkeyPatch) -> None:
    def full(*_: object, **__: object) -> None:
        raise OSError(28, "No space left on device")

    publish(store, 0.5)
    monkeypatch.setattr(files.os, "fsync", full)
    with pytest.raises(NotReady, match="No space left"):
        publish(store, 0.6)
    monkeypatch.undo()
    assert read_table(store.partition("market_prices", "2026-01").require(), PRICES)["price"].to_list() == [0.5]
    assert not [name for name in visible(store) if name.startswith(".draft")]


def test_an_unwritable_root_is_one_sentence(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("not a folder")
    with pytest.raises(UsageError, match="cannot be written"):
        publish(open_store(tmp_path / "file"), 0.5)


@pytest.mark.parametrize("root", ["s3://bucket/x", "", "a\x00b", "run[1]", "run*", "run?", "{a,b}"])
def test_roots_that_are_not_local_paths_are_refused(root: str) -> None:
    with pytest.raises(UsageError):
        open_store(root)


@pytest.mark.parametrize("part", ["..", "a/b", "", "a\x00", "2026-01/../.."])
def test_no_key_leaves_the_root(store: Store, part: str) -> None:
    with pytest.raises(UsageError):
        store.partition("market_prices", part)
    with pytest.raises(UsageError):
        store.area("raw", part)


class TestContracts:
    def test_a_missing_extra_or_mistyped_column_is_named(self) -> None:
        good = prices(0.5)
        for bad, said in [
            (good.drop("route"), "missing"),
            (good.with_columns(x=pl.lit(1)), "unknown"),
            (good.with_columns(pl.col("at").cast(pl.String)), "at is String"),
        ]:
            with pytest.raises(ContractBroken, match=said):
                PRICES.check(bad)

    def test_nulls_duplicates_and_disorder_are_refused(self) -> None:
        good = prices(0.5, 0.6)
        with pytest.raises(ContractBroken, match="nulls"):
            PRICES.check(good.with_columns(price=pl.lit(None, dtype=pl.Float64)))
        with pytest.raises(ContractBroken, match="repeat a key"):
            PRICES.check(pl.concat([good, good]).sort("market_id", "at"))
        with pytest.raises(ContractBroken, match="not sorted"):
            PRICES.check(good.reverse())

    def test_an_empty_table_keeps_its_schema(self, store: Store) -> None:
        publish_table(store.partition("market_prices", "2026-01"), PRICES.empty(), PRICES, code_version="1")
        read = read_table(store.partition("market_prices", "2026-01").require(), PRICES)
        assert read.is_empty()
        assert read.schema == PRICES.polars

    def test_a_table_of_an_older_contract_is_refused(self, store: Store) -> None:
        older = Contract("market_prices", 0, PRICES.schema, PRICES.primary_key, PRICES.order)
        publish_table(store.partition("market_prices", "2026-01"), prices(0.5), older, code_version="1")
        with pytest.raises(InputRefused, match="market_prices/0"):
            read_table(store.partition("market_prices", "2026-01").require(), PRICES)


class TestJournal:
    def test_a_finished_unit_is_found_again(self, store: Store) -> None:
        journal = Journal(store, "zero_shot_forecasts", "m", "q")
        unit = identity_hash({"run": 1, "question": "ü"})
        assert unit not in journal
        assert journal.read(unit) is None
        journal.write(unit, {"p": 0.5})
        assert unit in journal
        assert journal.read(unit) == {"p": 0.5}
        assert list(Journal(store, "zero_shot_forecasts", "m", "q").records()) == [(unit, {"p": 0.5})]

    def test_identity_does_not_depend_on_key_order(self) -> None:
        assert identity_hash({"a": 1, "b": 2}) == identity_hash({"b": 2, "a": 1})
        assert identity_hash({"a": 1}) != identity_hash({"a": 2})

    def test_a_damaged_unit_is_named(self, store: Store) -> None:
        journal = Journal(store, "t", "m", "q")
        unit = identity_hash({})
        journal.write(unit, {})
        (journal.path / f"{unit}.json").write_text("{")
        with pytest.raises(InputRefused, match=unit):
            journal.read(unit)


def test_a_manifest_is_canonical_json(store: Store) -> None:
    manifest = publish(
        store, 0.5, inputs=[Input(table="b", key=("1",), version="v"), Input(table="a", key=("1",), version="v")]
    )
    assert [item.table for item in manifest.inputs] == ["a", "b"]
    assert Manifest.model_validate(json.loads(manifest.to_json())) == manifest
    shutil.rmtree(store.root)
