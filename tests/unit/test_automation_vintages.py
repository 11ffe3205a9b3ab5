"""Newly resolved markets to scores without a person: vintages, the money ceiling, and what must never start a run."""

import json
from collections.abc import Iterator
from typing import Any

import dagster as dg
import pytest

from assets.partitions import EVAL_SETS, MODELS
from hindcast_dagster import clock
from hindcast_dagster.automation import decide, schedules, sensors, spending
from hindcast_dagster.contracts.forecasts import FORECASTS
from hindcast_dagster.contracts.questions import EVAL_SET
from hindcast_dagster.definitions import build_definitions
from hindcast_dagster.evalset.build import build
from hindcast_dagster.markets.fetch import fetch
from hindcast_dagster.settings import Settings, load
from hindcast_dagster.storage.store import Store
from hindcast_dagster.storage.tables import publish_table
from resources.llm import LlmResource
from resources.store import StorageRoot
from tests.score_world import question
from tests.toy_polymarket import ToyPolymarket, serving

# 2026-11, raised by Dagster's own code for the tags that it gives to runs of a two-dimensional partition
pytestmark = pytest.mark.filterwarnings("ignore:Non-compliant tag keys like .'dagster/partition:DeprecationWarning")

SENSORS = {sensor.name: sensor for sensor in sensors.sensors(60)}
WEEK = spending.WEEK_S
ROSTER = """
[models.cheap]
name = "Cheap"
family = "test"
hub_id = "test/cheap"
licence = "MIT"
cutoff_source = "test"
context_length = 4096
price = { tokens_in = 1.0, tokens_out = 1.0 }

[models.dear]
name = "Dear"
family = "test"
hub_id = "test/dear"
licence = "MIT"
cutoff_source = "test"
context_length = 4096
price = { tokens_in = 9.0, tokens_out = 9.0 }
"""


@pytest.fixture
def toy() -> Iterator[ToyPolymarket]:
    with serving(ToyPolymarket()) as served:
        yield served


@pytest.fixture
def instance() -> Iterator[dg.DagsterInstance]:
    with dg.DagsterInstance.ephemeral() as found:
        yield found


def configure(store: Store, **automation: Any) -> None:
    """Write the settings that sensors read, as an operator would."""
    store.root.mkdir(parents=True, exist_ok=True)
    (store.root / "roster.toml").write_text(ROSTER, encoding="utf-8")
    lines = ["[llm]", f"roster_file = {json.dumps(str(store.root / 'roster.toml'))}", "[automation]"]
    lines += [f"{name} = {json.dumps(value)}" for name, value in automation.items()]
    (store.root / "hindcast.toml").write_text("\n".join(lines) + "\n", encoding="utf-8")


def tick(sensor: Any, store: Store, instance: dg.DagsterInstance, cursor: str | None = None) -> Any:
    root = StorageRoot(data_root=str(store.root))
    given: dict[str, Any] = {"root": root}
    if sensor.name == "partitions":
        given["llm"] = LlmResource(root=root)
    with dg.build_sensor_context(cursor=cursor, resources=given, instance=instance) as context:
        return sensor(context)


def launchable(result: dg.SensorResult, store: Store, instance: dg.DagsterInstance, job: str) -> list[str]:
    """Resolve every request as the daemon does and return the partitions; unknown keys and bad config raise."""
    found = build_definitions(load(data_root=str(store.root))).resolve_job_def(job)
    for request in result.run_requests or []:
        resolved = request.with_resolved_tags_and_config(
            found, dynamic_partitions_requests=result.dynamic_partitions_requests or [], dynamic_partitions_store=instance
        )  # fmt: skip
        dg.validate_run_config(found, resolved.run_config)
    return sorted(str(request.partition_key) for request in result.run_requests or [])


def seal_set(store: Store, name: str) -> None:
    publish_table(store.partition("eval_set", name), EVAL_SET.frame([question(0)]), EVAL_SET, code_version="1")


def answer(store: Store, model: str, name: str, *, cost: float = 0.0, stopped: bool = False) -> None:
    for table in decide.FORECASTS:
        stats = {"cost": cost / 2, "stopped": stopped}
        partition = store.partition(table, model, name)
        publish_table(partition, FORECASTS.empty(), FORECASTS, code_version="1", stats=stats)


def resolved(toy: ToyPolymarket, store: Store, numbers: range) -> Settings:
    """Let markets resolve and fetch them."""
    settings = toy.settings(store.root)
    for number in numbers:
        toy.add(number)
    fetch(store, settings)
    return settings


class TestVintages:
    @pytest.fixture
    def main(self, toy: ToyPolymarket, store: Store) -> Settings:
        """A root whose eval set `main` holds markets 1 and 2."""
        configure(store, vintage_of="main", vintage_min=2)
        settings = resolved(toy, store, range(1, 3))
        build(store, settings, name="main", policy="days_before:3", max_price_age_h=48)
        return settings

    def test_too_few_resolved_markets_ask_for_nothing(
        self, toy: ToyPolymarket, store: Store, main: Settings, instance: dg.DagsterInstance
    ) -> None:
        assert isinstance(tick(SENSORS["vintages"], store, instance), dg.SkipReason)
        resolved(toy, store, range(3, 4))
        assert isinstance(tick(SENSORS["vintages"], store, instance), dg.SkipReason)

    def test_enough_of_them_become_the_next_vintage_with_the_policy_of_the_last(
        self, toy: ToyPolymarket, store: Store, main: Settings, instance: dg.DagsterInstance
    ) -> None:
        resolved(toy, store, range(3, 6))
        result = tick(SENSORS["vintages"], store, instance)
        assert launchable(result, store, instance, "freeze") == ["main-v2"]
        config = result.run_requests[0].run_config["ops"]["eval_set"]["config"]
        assert config == {"policy": "days_before:3", "archive_end": "", "max_price_age_h": 48.0, "vintage": "main"}
        build(store, main, name="main-v2", **config | {"archive_end": None})
        assert isinstance(tick(SENSORS["vintages"], store, instance), dg.SkipReason)
        resolved(toy, store, range(6, 9))
        assert launchable(tick(SENSORS["vintages"], store, instance), store, instance, "freeze") == ["main-v3"]

    def test_a_crash_between_tick_and_run_repeats_the_run_key_and_more_markets_change_it(
        self, toy: ToyPolymarket, store: Store, main: Settings, instance: dg.DagsterInstance
    ) -> None:
        resolved(toy, store, range(3, 6))
        keys = [tick(SENSORS["vintages"], store, instance).run_requests[0].run_key for _ in range(2)]
        assert keys[0] == keys[1]
        resolved(toy, store, range(6, 7))
        assert tick(SENSORS["vintages"], store, instance).run_requests[0].run_key != keys[0]

    def test_the_weekly_schedule_asks_for_the_same(self, toy: ToyPolymarket, store: Store, main: Settings) -> None:
        root = StorageRoot(data_root=str(store.root))
        with (
            dg.DagsterInstance.local_temp() as instance,  # a schedule wants one that it can open itself
            dg.build_schedule_context(instance=instance, resources={"root": root}) as context,
        ):
            assert isinstance(schedules.weekly_rerun(context), dg.SkipReason)
            resolved(toy, store, range(3, 6))
            request = schedules.weekly_rerun(context)
            assert (request.partition_key, request.tags["hindcast/newly-resolved"]) == ("main-v2", "3")
            assert instance.get_dynamic_partitions(EVAL_SETS) == ["main-v2"]

    def test_a_new_vintage_is_scored_with_the_baselines_alone_and_its_base_is_not(
        self, store: Store, instance: dg.DagsterInstance
    ) -> None:
        configure(store, vintage_of="main")
        seal_set(store, "main")
        assert isinstance(tick(SENSORS["scores"], store, instance), dg.SkipReason)
        seal_set(store, "main-v2")
        first = tick(SENSORS["scores"], store, instance)
        assert launchable(first, store, instance, "evaluate") == ["main-v2"]
        assert isinstance(tick(SENSORS["scores"], store, instance, first.cursor), dg.SkipReason)
        answer(store, "cheap", "main-v2")
        assert launchable(tick(SENSORS["scores"], store, instance, first.cursor), store, instance, "evaluate") == ["main-v2"]  # fmt: skip


class TestTheCeiling:
    @pytest.fixture(autouse=True)
    def main(self, store: Store) -> None:
        configure(store, vintage_of="main", spend=True, max_cost=10.0, models=["cheap", "dear"])
        for name in ("main", "main-v2"):  # only the vintage is asked about: people ask the base set themselves
            seal_set(store, name)

    def test_what_is_left_is_split_and_handed_to_the_runs(self, store: Store, instance: dg.DagsterInstance) -> None:
        result = tick(SENSORS["predictions"], store, instance)
        assert launchable(result, store, instance, "predict") == ["main-v2|cheap", "main-v2|dear"]
        limits = [
            each["config"]["max_cost"]
            for request in result.run_requests
            for each in request.run_config["ops"].values()
        ]  # fmt: skip
        assert len(limits) == 4
        assert sum(limits) == pytest.approx(10.0)

    def test_promised_money_is_not_promised_again_and_unspent_money_comes_back(
        self, store: Store, instance: dg.DagsterInstance
    ) -> None:
        first = tick(SENSORS["predictions"], store, instance)
        seal_set(store, "main-v3")
        assert isinstance(tick(SENSORS["predictions"], store, instance, first.cursor), dg.SkipReason)
        answer(store, "cheap", "main-v2", cost=1.5)
        second = tick(SENSORS["predictions"], store, instance, first.cursor)
        assert launchable(second, store, instance, "predict") == ["main-v3|cheap", "main-v3|dear"]
        assert [request.tags["hindcast/max-cost"] for request in second.run_requests] == ["1.7500", "1.7500"]

    def test_a_crash_between_tick_and_cursor_repeats_keys_and_limits(
        self, store: Store, instance: dg.DagsterInstance
    ) -> None:
        one, two = (tick(SENSORS["predictions"], store, instance).run_requests for _ in range(2))
        assert [(each.run_key, each.run_config) for each in one] == [(each.run_key, each.run_config) for each in two]

    def test_what_failed_or_stopped_at_its_limit_is_asked_again_a_week_later(self, store: Store) -> None:
        settings, now = load(data_root=str(store.root)), clock.now()
        promised = {"cheap/main-v2": spending.Promise(now, 5.0), "dear/main-v2": spending.Promise(now, 5.0)}
        answer(store, "cheap", "main-v2", cost=5.0, stopped=True)
        assert spending.wanted(store, settings, promised, now=now + WEEK - 1) == []
        later = spending.wanted(store, settings, promised, now=now + WEEK + 1)
        assert [(each.model, each.usd) for each in later] == [("cheap", 5.0), ("dear", 5.0)]
        assert all(str((now + WEEK + 1) // WEEK) in each.run_key for each in later)

    def test_money_that_people_spent_counts(self, store: Store, instance: dg.DagsterInstance) -> None:
        answer(store, "dear", "main-v2", cost=10.0)
        assert isinstance(tick(SENSORS["predictions"], store, instance), dg.SkipReason)

    @pytest.mark.parametrize("missing", ["spend", "max_cost", "models", "vintage_of"])
    def test_without_leave_ceiling_models_or_set_nothing_is_asked(
        self, store: Store, instance: dg.DagsterInstance, missing: str
    ) -> None:
        full = {"vintage_of": "main", "spend": True, "max_cost": 10.0, "models": ["cheap"]}
        configure(store, **{name: value for name, value in full.items() if name != missing})
        assert isinstance(tick(SENSORS["predictions"], store, instance), dg.SkipReason)

    def test_a_model_without_a_price_is_named_and_not_asked(self, store: Store, instance: dg.DagsterInstance) -> None:
        configure(store, vintage_of="main", spend=True, max_cost=10.0, models=["qwen3-8b"])
        result = tick(SENSORS["predictions"], store, instance)
        assert isinstance(result, dg.SkipReason)
        assert "not asked: qwen3-8b" in str(result.skip_message)


class TestNothingStartsByItself:
    def settled(self, store: Store, instance: dg.DagsterInstance) -> dict[str, str | None]:
        """Tick everything once on a root with something of all kinds; return the cursors."""
        configure(store, vintage_of="main", spend=True, max_cost=10.0, models=["cheap"], settle_s=0)
        for name in ("main", "main-v2"):
            seal_set(store, name)
        answer(store, "cheap", "main-v2", cost=1.0)
        dump = store.area("dumps", "RS_2024-01.ndjson")
        dump.parent.mkdir(parents=True, exist_ok=True)
        dump.write_bytes(b"{}\n")
        cursors = {}
        for sensor in SENSORS.values():
            result = tick(sensor, store, instance)
            cursors[sensor.name] = getattr(result, "cursor", None)
            for request in getattr(result, "dynamic_partitions_requests", None) or []:
                instance.add_dynamic_partitions(request.partitions_def_name, request.partition_keys)
        return cursors

    def test_an_edited_docstring_requests_no_run(
        self, store: Store, instance: dg.DagsterInstance, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        """D9: neither another description nor another code version of every asset, nor a wider window, starts a run."""
        import assets.shell

        cursors = self.settled(store, instance)
        original = dg.asset

        def edited(**options: Any) -> Any:
            return original(**options | {"description": "Edited.", "code_version": "edited"})

        monkeypatch.setattr(dg, "asset", edited)
        monkeypatch.setattr(assets.shell, "OWNERS", ["team:others"])
        window = {"first_month": "2005-12", "last_month": "2030-01"}
        definitions = build_definitions(load(data_root=str(store.root), window=window))
        specs = [spec for spec in definitions.resolve_all_asset_specs() if spec.code_version == "edited"]
        assert len(specs) >= 15
        assert all(spec.automation_condition is None for spec in specs)
        found = {sensor.name: sensor for sensor in definitions.get_repository_def().sensor_defs}
        assert found.keys() == cursors.keys()
        for name, sensor in found.items():
            assert isinstance(tick(sensor, store, instance, cursors[name]), dg.SkipReason), name

    def test_a_deleted_dynamic_partition_comes_back_and_breaks_no_later_tick(
        self, store: Store, instance: dg.DagsterInstance
    ) -> None:
        """D11: whatever a sensor asks for, it registers with it; what was answered is not asked again."""
        cursors = self.settled(store, instance)
        for dimension in (EVAL_SETS, MODELS):
            for key in instance.get_dynamic_partitions(dimension):
                instance.delete_dynamic_partition(dimension, key)
        seal_set(store, "main-v3")
        for sensor, job, keys in (
            (SENSORS["predictions"], "predict", ["main-v3|cheap"]),
            (SENSORS["scores"], "evaluate", ["main-v3"]),
        ):
            result = tick(sensor, store, instance, cursors[sensor.name])
            assert launchable(result, store, instance, job) == keys
        again = tick(SENSORS["partitions"], store, instance, cursors["partitions"])
        by_name = {each.partitions_def_name: each.partition_keys for each in again.dynamic_partitions_requests}
        assert by_name[EVAL_SETS] == ["main", "main-v2", "main-v3"]
        assert "cheap" in by_name[MODELS]

    def test_a_changed_roster_entry_is_told_once_and_asks_for_nothing(
        self, store: Store, instance: dg.DagsterInstance
    ) -> None:
        cursors = self.settled(store, instance)
        (store.root / "roster.toml").write_text(ROSTER.replace('name = "Cheap"', 'name = "Cheaper"'), encoding="utf-8")
        told = tick(SENSORS["partitions"], store, instance, cursors["partitions"])
        assert isinstance(told, dg.SensorResult)
        assert not told.run_requests
        assert not told.dynamic_partitions_requests
        assert isinstance(tick(SENSORS["partitions"], store, instance, told.cursor), dg.SkipReason)
