"""Sensors and schedules: nothing is asked twice, nothing that is still being copied is read, nothing spends unasked."""

import os
import time
from pathlib import Path

import dagster as dg
import pytest

from assets.partitions import EVAL_SETS, MODELS
from hindcast_dagster.automation import decide, schedules, sensors
from hindcast_dagster.contracts.forecasts import FORECASTS
from hindcast_dagster.contracts.questions import EVAL_SET
from hindcast_dagster.definitions import build_definitions
from hindcast_dagster.settings import Settings, load
from hindcast_dagster.storage.store import Store
from hindcast_dagster.storage.tables import publish_table
from resources.llm import LlmResource
from resources.store import StorageRoot


def put(store: Store, name: str, content: bytes = b"{}\n", *, age: float = 3600) -> Path:
    path = store.area("dumps") / name
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(content)
    os.utime(path, (time.time() - age, time.time() - age))
    return path


def tick(store: Store, cursor: str | None = None) -> dg.SensorResult | dg.SkipReason:
    context = dg.build_sensor_context(cursor=cursor, resources={"root": StorageRoot(data_root=str(store.root))})
    return sensors.new_dumps(context)  # type: ignore[no-any-return]


class TestNewDumps:
    def test_a_new_dump_asks_for_its_month_and_kind(self, store: Store) -> None:
        put(store, "RS_2024-01.zst")
        put(store, "RC_2024-02.ndjson", b"[]\n")
        result = tick(store)
        assert isinstance(result, dg.SensorResult)
        asked = {
            (request.job_name, request.partition_key, request.tags["hindcast/reason"])
            for request in result.run_requests or []
        }
        assert asked == {("submission_month", "2024-01", "new"), ("comment_month", "2024-02", "new")}

    def test_the_next_tick_asks_for_nothing(self, store: Store) -> None:
        put(store, "RS_2024-01.zst")
        first = tick(store)
        assert isinstance(first, dg.SensorResult)
        assert isinstance(tick(store, first.cursor), dg.SkipReason)

    def test_a_crash_between_tick_and_cursor_repeats_the_same_run_keys(self, store: Store) -> None:
        put(store, "RS_2024-01.zst")
        one, two = tick(store), tick(store)
        assert isinstance(one, dg.SensorResult)
        assert isinstance(two, dg.SensorResult)
        assert [r.run_key for r in one.run_requests or []] == [r.run_key for r in two.run_requests or []]

    def test_changed_content_is_asked_for_again_and_a_renamed_file_is_not(self, store: Store) -> None:
        path = put(store, "RS_2024-01.zst", b"one\n")
        cursor = tick(store).cursor  # type: ignore[union-attr]
        path.rename(path.with_name("RS_v2_2024-01.zst"))
        assert isinstance(tick(store, cursor), dg.SkipReason)
        put(store, "RS_v2_2024-01.zst", b"two\n")
        again = tick(store, cursor)
        assert isinstance(again, dg.SensorResult)
        assert [r.tags["hindcast/reason"] for r in again.run_requests or []] == ["changed"]

    def test_a_file_that_is_still_being_copied_waits(self, store: Store) -> None:
        put(store, "RS_2024-01.zst", age=1)
        assert isinstance(tick(store), dg.SkipReason)

    def test_two_files_for_one_month_are_left_to_a_person(self, store: Store) -> None:
        put(store, "RS_2024-01.zst", b"a")
        put(store, "RS_2024-01.ndjson", b"b")
        assert isinstance(tick(store), dg.SkipReason)

    @pytest.mark.parametrize("name", ["RS_2024-13.zst", "notes.txt", "RS_2024-01.zst.part"])
    def test_other_files_are_nobodys_month(self, store: Store, name: str) -> None:
        put(store, name)
        assert isinstance(tick(store), dg.SkipReason)


def seal_eval_set(store: Store, name: str) -> None:
    publish_table(store.partition("eval_set", name), EVAL_SET.empty(), EVAL_SET, code_version="1")


def seal_forecasts(store: Store, model: str, name: str, **stats: object) -> None:
    for table in ("zero_shot_forecasts", "retrieval_forecasts"):
        partition = store.partition(table, model, name)
        publish_table(partition, FORECASTS.empty(), FORECASTS, code_version="1", stats=dict(stats))


class TestSpending:
    def spending(self, store: Store, **llm: object) -> Settings:
        automation = {"vintage_of": "main", "spend": True, "models": ("qwen3-8b",)}
        return load(data_root=str(store.root), automation=automation, llm=llm)

    def test_nothing_is_asked_without_leave_and_limit(self, store: Store) -> None:
        seal_eval_set(store, "main")
        assert decide.wanted_predictions(store, load(data_root=str(store.root))) == []
        assert decide.wanted_predictions(store, self.spending(store)) == []

    def test_with_both_only_what_is_missing(self, store: Store) -> None:
        seal_eval_set(store, "main")
        seal_eval_set(store, "main-v2")
        seal_eval_set(store, "other")
        seal_forecasts(store, "qwen3-8b", "main")
        assert decide.wanted_predictions(store, self.spending(store, max_cost=5.0)) == [("qwen3-8b", "main-v2")]


def test_new_forecasts_are_evaluated_once(store: Store) -> None:
    seal_eval_set(store, "main")
    root = StorageRoot(data_root=str(store.root))
    assert isinstance(sensors.scores(dg.build_sensor_context(resources={"root": root})), dg.SkipReason)
    seal_forecasts(store, "qwen3-8b", "main")
    result = sensors.scores(dg.build_sensor_context(resources={"root": root}))
    assert isinstance(result, dg.SensorResult)
    assert [request.partition_key for request in result.run_requests or []] == ["main"]
    again = sensors.scores(dg.build_sensor_context(cursor=result.cursor, resources={"root": root}))
    assert isinstance(again, dg.SkipReason)


def test_roster_models_and_eval_sets_become_partitions(store: Store) -> None:
    seal_eval_set(store, "main")
    root = StorageRoot(data_root=str(store.root))
    resources = {"root": root, "llm": LlmResource(root=root)}
    with (
        dg.DagsterInstance.ephemeral() as instance,
        dg.build_sensor_context(instance=instance, resources=resources) as context,
    ):
        result = sensors.partitions(context)
        by_name = {
            request.partitions_def_name: request.partition_keys for request in result.dynamic_partitions_requests
        }
        assert by_name[EVAL_SETS] == ["main"]
        assert "qwen3-8b" in by_name[MODELS]
        for name, found in by_name.items():
            instance.add_dynamic_partitions(name, found)
        assert isinstance(sensors.partitions(context), dg.SkipReason)


def test_no_vintage_without_a_base(store: Store) -> None:
    assert decide.next_vintage(store, load(data_root=str(store.root))) is None
    assert decide.next_vintage(store, load(data_root=str(store.root), automation={"vintage_of": "main"})) is None


def test_the_daily_look_takes_this_month_and_the_last() -> None:
    from datetime import UTC, datetime

    context = dg.build_schedule_context(scheduled_execution_time=datetime(2026, 1, 1, 4, tzinfo=UTC))
    assert [request.partition_key for request in schedules.daily_markets(context)] == ["2025-12", "2026-01"]


def test_everything_is_off_until_someone_turns_it_on(store: Store) -> None:
    repository = build_definitions(load(data_root=str(store.root))).get_repository_def()
    switched = [*repository.sensor_defs, *repository.schedule_defs]
    assert len(switched) == 6
    assert all(each.default_status.value == "STOPPED" for each in switched)
