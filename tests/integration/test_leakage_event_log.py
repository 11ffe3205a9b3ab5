"""A key that a run used is nowhere in what Dagster keeps: run config, event log, compute logs, error chains."""

import dagster as dg
import pytest

from hindcast_dagster.definitions import build_definitions
from hindcast_dagster.llm.openai_compatible import KEY_VARIABLE
from hindcast_dagster.settings import load
from hindcast_dagster.storage.store import open_store
from tests.forecast_world import FORECAST, question, seal_eval_set
from tests.scripted_llm import Fault, Script, Stage, scripted_server

SECRET = "sk-zqxsecret0123456789"
MODEL, SET = "qwen3-8b", "small"


@pytest.mark.slow
@pytest.mark.parametrize(
    "answer",
    [FORECAST, Fault(status=401, message=f"Incorrect API key provided: {SECRET}."), Fault(status=400, message=SECRET)],
    ids=["answered", "refused by a server that repeats the key", "a bad request that repeats the key"],
)
def test_a_key_is_nowhere_in_dagsters_storage(tmp_path, monkeypatch, capfd, answer):
    monkeypatch.setenv(KEY_VARIABLE, SECRET)
    home = tmp_path / "dagster"
    home.mkdir()
    (home / "dagster.yaml").write_text("telemetry:\n  enabled: false\n")
    store = open_store(tmp_path / "root")
    seal_eval_set(store, [question(1)], name=SET)
    with scripted_server(Script(Stage("any", "", [answer]))) as server:
        monkeypatch.setenv("HINDCAST_DATA_ROOT", str(store.root))
        monkeypatch.setenv("HINDCAST_LLM__BASE_URL", server.base_url)
        definitions = build_definitions(load(data_root=str(store.root)))
        with dg.DagsterInstance.from_config(str(home)) as instance:
            instance.add_dynamic_partitions("models", [MODEL])
            instance.add_dynamic_partitions("eval_sets", [SET])
            result = definitions.resolve_implicit_global_asset_job_def().execute_in_process(
                instance=instance,
                partition_key=dg.MultiPartitionKey({"model": MODEL, "eval_set": SET}),
                asset_selection=[dg.AssetKey("zero_shot_forecasts")],
                run_config={"ops": {"zero_shot_forecasts": {"config": {"runs": 1}}}},
                raise_on_error=False,
            )
        assert server.headers[0]["authorization"] == f"Bearer {SECRET}", "the run did use the key"
    assert result.success == (answer is FORECAST)
    kept = [path for path in tmp_path.rglob("*") if path.is_file()]
    assert any(path.suffix == ".db" and path.stat().st_size > 10_000 for path in kept), "the event log is among them"
    assert [path for path in kept if SECRET.encode() in path.read_bytes()] == []
    said = capfd.readouterr()
    assert SECRET not in said.out + said.err
