"""The asset graph: it loads, it is the one that the snapshot shows, and settings and resources can be swapped."""

import json
import os
import re
import subprocess
import sys
from importlib.resources import files
from pathlib import Path
from typing import Any

import dagster as dg
import pytest

from assets import partitions, shell
from hindcast_dagster.automation.processes import PID_TAG, bury
from hindcast_dagster.definitions import build_definitions
from hindcast_dagster.errors import HindcastError
from hindcast_dagster.operation import drift
from hindcast_dagster.settings import Settings, Window, load

SNAPSHOT = Path(__file__).parents[1] / "golden" / "graph.json"


def shape(definitions: dg.Definitions) -> dict[str, Any]:
    graph = definitions.resolve_asset_graph()
    return {key.to_user_string(): _node(graph.get(key)) for key in sorted(graph.get_all_asset_keys())}


def _node(node: Any) -> dict[str, Any]:
    found = node.partitions_def
    dimensions = getattr(found, "partitions_defs", None)
    return {
        "group": node.group_name,
        "after": sorted(parent.to_user_string() for parent in node.parent_keys),
        "partitions": [p.name for p in dimensions] if dimensions else [getattr(found, "name", None) or "month"],
        "kinds": sorted(node.kinds),
        "owners": sorted(node.owners) if node.is_materializable else [],
        "checks": sorted(check.name for check in node.check_keys),
    }


@pytest.fixture(scope="module")
def definitions() -> dg.Definitions:
    return build_definitions(load(data_root="unused"))


def test_the_graph_is_the_one_of_the_snapshot(definitions: dg.Definitions) -> None:
    """A change of the graph is deliberate: write the new snapshot with `python -m tests.unit.test_definitions`."""
    assert shape(definitions) == json.loads(SNAPSHOT.read_text(encoding="utf-8"))


def test_definitions_load_and_every_asset_says_what_it_is(definitions: dg.Definitions) -> None:
    dg.Definitions.validate_loadable(definitions)
    for spec in definitions.resolve_all_asset_specs():
        assert spec.description, spec.key
        assert spec.group_name, spec.key


PAPER = re.compile(r"\(paper, [0-9]")


def test_every_asset_tells_what_it_is_and_where_the_paper_has_it(definitions: dg.Definitions) -> None:
    """No asset may lack a group, kinds, an owner, a code version, its sentence, or the columns of its table."""
    for spec in definitions.resolve_all_asset_specs():
        name = spec.key.to_user_string()
        assert spec.group_name, name
        assert spec.kinds, name
        assert spec.description, name
        assert PAPER.search(spec.description), f"{name} names no section of the paper"
        if name == "reddit_dumps":  # a source: Dagster keeps neither owner nor code version of one
            continue
        assert spec.owners, name
        assert spec.code_version, name
        if name != "report":
            assert spec.metadata["dagster/column_schema"].columns, name


NO_TABLE = {"submission_index", "comment_index", "report"}


def test_every_table_is_checked_and_what_has_to_stop_does(definitions: dg.Definitions) -> None:
    graph = definitions.resolve_asset_graph()
    checks: dict[str, set[str]] = {}
    for key in graph.asset_check_keys:
        checks.setdefault(key.asset_key.to_user_string(), set()).add(key.name)
    for spec in definitions.resolve_all_asset_specs():
        name = spec.key.to_user_string()
        if name not in NO_TABLE | {"reddit_dumps"}:
            assert "contract" in checks[name], name
    for name in drift.TABLES:
        if name in checks:
            assert "watch" in checks[name], name
    assert "verified" in checks["submission_index"] & checks["comment_index"]
    assert "market_beats_a_coin" in checks["scored_forecasts"]
    assert "nothing_leaked" in checks["leak_audit"]


def test_the_instance_template_loads_as_dagster_reads_it(tmp_path: Path) -> None:
    """A misspelt key would be refused here; what matters is asked for by value."""
    from dagster._core.definitions.run_request import InstigatorType

    from hindcast_dagster.automation.launcher import LocalRunLauncher

    text = files("hindcast_dagster").joinpath("dagster.yaml").read_text(encoding="utf-8")
    (tmp_path / "dagster.yaml").write_text(text)
    with dg.DagsterInstance.from_config(str(tmp_path)) as instance:
        concurrency = instance.get_concurrency_config()
        assert concurrency.run_queue_config is not None
        assert concurrency.run_queue_config.max_concurrent_runs == 3
        assert concurrency.pool_config.default_pool_limit == 1
        assert isinstance(instance.run_launcher, LocalRunLauncher)
        assert instance.run_monitoring_enabled
        assert instance.get_settings("run_monitoring")["free_slots_after_run_end_seconds"] == 60
        assert instance.run_retries_enabled
        assert instance.get_settings("run_retries")["retry_on_asset_or_op_failure"] is False
        assert not instance.telemetry_enabled
        assert not instance.nux_enabled
        ticks = instance.get_tick_retention_settings(InstigatorType.SENSOR)
        assert set(ticks.values()) - {-1} == {7, 30, 90}


def test_every_pool_of_an_asset_is_one_that_the_template_speaks_of(definitions: dg.Definitions) -> None:
    text = files("hindcast_dagster").joinpath("dagster.yaml").read_text(encoding="utf-8")
    graph = definitions.resolve_asset_graph()
    pools = {pool for key in graph.materializable_asset_keys for pool in graph.get(key).pools or ()}
    assert pools == {"embedding", "polymarket", "llm"}
    assert all(f"`{pool}`" in text for pool in pools)


class TestLostRuns:
    """Runs whose process was killed are ended and give their slot back; those that live are left alone."""

    def run(self, instance: dg.DagsterInstance, pid: int) -> str:
        run = instance.create_run_for_job(
            dg.job(name="nothing")(lambda: None), status=dg.DagsterRunStatus.STARTED, tags={PID_TAG: str(pid)}
        )
        return run.run_id

    def test_the_dead_are_buried(self) -> None:
        with dg.DagsterInstance.ephemeral() as instance:
            process = subprocess.Popen([sys.executable, "-c", ""])
            process.wait()
            dead, living = self.run(instance, process.pid), self.run(instance, os.getpid())
            assert bury(instance) == 1
            assert instance.get_run_by_id(dead).status == dg.DagsterRunStatus.FAILURE
            assert instance.get_run_by_id(living).status == dg.DagsterRunStatus.STARTED

    def test_the_launcher_asks_the_process_of_a_run(self) -> None:
        from dagster._core.launcher import WorkerStatus

        from hindcast_dagster.automation.launcher import LocalRunLauncher

        launcher = LocalRunLauncher()
        assert launcher.supports_check_run_worker_health
        with dg.DagsterInstance.ephemeral() as instance:
            launcher.register_instance(instance)
            process = subprocess.Popen([sys.executable, "-c", ""])
            process.wait()
            for pid, meant in ((process.pid, WorkerStatus.FAILED), (os.getpid(), WorkerStatus.RUNNING)):
                run = instance.get_run_by_id(self.run(instance, pid))
                assert launcher.check_run_worker_health(run).status == meant

    def test_a_server_that_is_gone_has_lost_its_run_and_a_run_without_one_is_left_alone(self, tmp_path: Path) -> None:
        from dagster._core.launcher import WorkerStatus

        from hindcast_dagster.automation.launcher import LocalRunLauncher

        launcher = LocalRunLauncher()
        nothing = dg.job(name="nothing")(lambda: None)
        info = json.dumps({"socket": str(tmp_path / "gone.sock"), "host": "localhost"})
        with dg.DagsterInstance.ephemeral() as instance:
            launcher.register_instance(instance)
            for tags, meant in (({".dagster/grpc_info": info}, WorkerStatus.FAILED), ({}, WorkerStatus.RUNNING)):
                run = instance.create_run_for_job(nothing, status=dg.DagsterRunStatus.STARTED, tags=tags)
                assert launcher.check_run_worker_health(run).status == meant


def test_every_contract_check_is_blocking(definitions: dg.Definitions) -> None:
    graph = definitions.resolve_asset_graph()
    contracts = [key for key in graph.asset_check_keys if key.name == "contract"]
    assert len(contracts) >= 12
    assert all(graph.get(key).check_spec.blocking for key in contracts if hasattr(graph.get(key), "check_spec"))


def test_months_span_both_ends() -> None:
    dimensions = partitions.build(Window(first_month="2025-08", last_month="2026-01", first_close_month="2025-12"))
    assert dimensions.months.get_partition_keys() == [
        "2025-08", "2025-09", "2025-10", "2025-11", "2025-12", "2026-01",
    ]  # fmt: skip
    assert dimensions.close_months.get_partition_keys() == ["2025-12", "2026-01"]


def test_an_asset_launched_alone_is_refused_by_name(settings: Settings) -> None:
    job = build_definitions(settings).resolve_implicit_global_asset_job_def()
    with dg.DagsterInstance.ephemeral() as instance, pytest.raises(HindcastError, match="submissions 2026-01"):
        job.execute_in_process(
            instance=instance, partition_key="2026-01", asset_selection=[dg.AssetKey("submission_index")]
        )


class TestRegistration:
    def register(self, settings: Settings, instance: dg.DagsterInstance, **config: list[str]) -> None:
        job = build_definitions(settings).resolve_job_def("register_partitions")
        job.execute_in_process(instance=instance, run_config={"ops": {"register": {"config": config}}})

    def test_known_names_become_partitions(self, settings: Settings) -> None:
        with dg.DagsterInstance.ephemeral() as instance:
            self.register(settings, instance, eval_sets=["first"], models=["qwen3-8b"])
            assert instance.get_dynamic_partitions(partitions.EVAL_SETS) == ["first"]
            assert instance.get_dynamic_partitions(partitions.MODELS) == ["qwen3-8b"]

    @pytest.mark.parametrize("config", [{"eval_sets": ["a|b"]}, {"eval_sets": [""]}, {"models": ["Qwen/Qwen3-8B"]}])
    def test_odd_names_and_unknown_models_do_not(self, settings: Settings, config: dict[str, list[str]]) -> None:
        with dg.DagsterInstance.ephemeral() as instance:
            with pytest.raises(HindcastError):
                self.register(settings, instance, **config)
            assert instance.get_dynamic_partitions(partitions.EVAL_SETS) == []
            assert instance.get_dynamic_partitions(partitions.MODELS) == []


if __name__ == "__main__":
    SNAPSHOT.write_text(
        json.dumps(shape(build_definitions(load(data_root="unused"))), indent=1) + "\n", encoding="utf-8"
    )


def test_what_a_manifest_counted_is_metadata_and_what_is_nested_deeper_is_not() -> None:
    stats = {
        "kept": 7, "clean": True, "sha": "ab", "nothing": None, "empty": {}, "dropped": {"bot": 2, "low_score": 5},
        "rules": {"deep": {"x": 1}}, "funnel": [{"step": "markets", "markets": 4, "paper": {"markets": 7913}}],
    }  # fmt: skip
    shown = shell._counted(stats)
    assert shown.keys() == {"kept", "clean", "sha", "dropped", "funnel"}
    assert [record.data for record in shown["dropped"].records] == [
        {"of": "low_score", "count": 5}, {"of": "bot", "count": 2},
    ]  # fmt: skip
    assert [record.data for record in shown["funnel"].records] == [{"step": "markets", "markets": 4}]


def test_pictures_are_one_entry() -> None:
    said = shell.pictures({"topic_mix": b"one", "reliability": b"two"}).value
    assert said.count("data:image/png;base64,") == 2
    assert "### topic mix" in said
