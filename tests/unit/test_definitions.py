"""The asset graph: it loads, it is the one that the snapshot shows, and settings and resources can be swapped."""

import json
from pathlib import Path
from typing import Any

import dagster as dg
import pytest

from assets import partitions
from hindcast_dagster.definitions import build_definitions
from hindcast_dagster.errors import HindcastError
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
