"""Sensors and schedules: nothing is asked twice, nothing that is still being copied is read, nothing spends unasked."""

import os
import time
from pathlib import Path

import dagster as dg
import pytest

from assets import partitions
from assets.partitions import EVAL_SETS, MODELS
from hindcast_dagster import clock
from hindcast_dagster.automation import decide, schedules, sensors
from hindcast_dagster.contracts.forecasts import FORECASTS
from hindcast_dagster.contracts.questions import EVAL_SET
from hindcast_dagster.definitions import build_definitions
from hindcast_dagster.settings import Window, load
from hindcast_dagster.storage.store import Store
from hindcast_dagster.storage.tables import publish_table
from resources.llm import LlmResource
from resources.store import StorageRoot

SENSORS = {sensor.name: sensor for sensor in sensors.sensors(60)}


def put(store: Store, name: str, content: bytes = b"{}\n", *, age: float = 3600) -> Path:
    path = store.area("dumps") / name
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(content)
    os.utime(path, (time.time() - age, time.time() - age))
    return path


def tick(store: Store, cursor: str | None = None) -> dg.SensorResult | dg.SkipReason:
    context = dg.build_sensor_context(cursor=cursor, resources={"root": StorageRoot(data_root=str(store.root))})
    return SENSORS["new_dumps"](context)  # type: ignore[no-any-return]


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
        (request,) = again.run_requests or []
        assert request.tags["hindcast/reason"] == "changed"
        assert request.tags["hindcast/note"].startswith("built before from ")

    def test_a_fresh_instance_does_not_read_again_what_was_sealed_after_its_dump(self, store: Store) -> None:
        path = put(store, "RS_2024-01.zst")
        seal_month(store, "submissions", "2024-01")
        assert isinstance(tick(store), dg.SkipReason)
        os.utime(path, (time.time() + 60, time.time() + 60))
        assert (
            decide.new_dumps(store, {}, now=time.time() + 120, settle_s=0, window=("2024-01", "2024-01"))[0].before
            is None
        )

    def test_a_file_that_is_still_being_copied_waits(self, store: Store) -> None:
        put(store, "RS_2024-01.zst", age=1)
        assert isinstance(tick(store), dg.SkipReason)

    def test_two_files_for_one_month_are_left_to_a_person(self, store: Store) -> None:
        put(store, "RS_2024-01.zst", b"a")
        put(store, "RS_2024-01.ndjson", b"b")
        assert isinstance(tick(store), dg.SkipReason)

    def test_a_month_outside_the_window_is_no_partition_and_stops_nothing(self, store: Store) -> None:
        put(store, "RS_2004-01.zst")
        put(store, "RS_2024-01.zst")
        result = tick(store)
        assert isinstance(result, dg.SensorResult)
        assert [request.partition_key for request in result.run_requests or []] == ["2024-01"]

    @pytest.mark.parametrize("name", ["RS_2024-13.zst", "notes.txt", "RS_2024-01.zst.part"])
    def test_other_files_are_nobodys_month(self, store: Store, name: str) -> None:
        put(store, name)
        assert isinstance(tick(store), dg.SkipReason)


def seal_month(store: Store, kind: str, month: str) -> None:
    with store.partition(kind, month).draft() as draft:
        draft.seal(rows=0, schema_version="x", code_version="x")


def seal_eval_set(store: Store, name: str) -> None:
    publish_table(store.partition("eval_set", name), EVAL_SET.empty(), EVAL_SET, code_version="1")


def seal_forecasts(store: Store, model: str, name: str) -> None:
    for table in ("zero_shot_forecasts", "retrieval_forecasts"):
        partition = store.partition(table, model, name)
        publish_table(partition, FORECASTS.empty(), FORECASTS, code_version="1")


def test_new_forecasts_are_evaluated_once(store: Store) -> None:
    seal_eval_set(store, "main")
    root = StorageRoot(data_root=str(store.root))
    assert isinstance(SENSORS["scores"](dg.build_sensor_context(resources={"root": root})), dg.SkipReason)
    seal_forecasts(store, "qwen3-8b", "main")
    with dg.DagsterInstance.ephemeral() as instance:

        def tick_scores(cursor: str | None = None) -> dg.SensorResult | dg.SkipReason:
            with dg.build_sensor_context(cursor=cursor, resources={"root": root}, instance=instance) as context:
                return SENSORS["scores"](context)  # type: ignore[no-any-return]

        result, repeated = tick_scores(), tick_scores()
        assert isinstance(result, dg.SensorResult)
        assert isinstance(repeated, dg.SensorResult)
        assert [request.partition_key for request in result.run_requests or []] == ["main"]
        assert [r.run_key for r in result.run_requests or []] == [r.run_key for r in repeated.run_requests or []]
        assert isinstance(tick_scores(result.cursor), dg.SkipReason)


def test_roster_models_and_eval_sets_become_partitions(store: Store) -> None:
    seal_eval_set(store, "main")
    root = StorageRoot(data_root=str(store.root))
    resources = {"root": root, "llm": LlmResource(root=root)}
    with (
        dg.DagsterInstance.ephemeral() as instance,
        dg.build_sensor_context(instance=instance, resources=resources) as context,
    ):
        result, repeated = SENSORS["partitions"](context), SENSORS["partitions"](context)
        assert result.dynamic_partitions_requests == repeated.dynamic_partitions_requests  # a crash before the cursor
        by_name = {
            request.partitions_def_name: request.partition_keys for request in result.dynamic_partitions_requests
        }
        assert by_name[EVAL_SETS] == ["main"]
        assert "qwen3-8b" in by_name[MODELS]
        for name, found in by_name.items():
            instance.add_dynamic_partitions(name, found)
        assert isinstance(SENSORS["partitions"](context), dg.SkipReason)


def test_no_vintage_without_a_base(store: Store) -> None:
    assert decide.next_vintage(store, load(data_root=str(store.root))) is None
    assert decide.next_vintage(store, load(data_root=str(store.root), automation={"vintage_of": "main"})) is None


@pytest.mark.parametrize(
    ("last_month", "asked"),
    [(None, ["2025-12", "2026-01"]), ("2026-01", ["2025-12", "2026-01"]), ("2025-12", ["2025-12"]), ("2025-11", None)],
)
def test_the_daily_look_takes_this_month_and_the_last_of_the_window(
    store: Store, last_month: str | None, asked: list[str] | None
) -> None:
    from datetime import UTC, datetime

    store.root.mkdir(parents=True)
    if last_month:
        (store.root / "hindcast.toml").write_text(f'[window]\nlast_month = "{last_month}"\n', encoding="utf-8")
    root = StorageRoot(data_root=str(store.root))
    context = dg.build_schedule_context(
        scheduled_execution_time=datetime(2026, 1, 1, 4, tzinfo=UTC), resources={"root": root}
    )
    result = schedules.daily_markets(context)
    found = None if isinstance(result, dg.SkipReason) else [request.partition_key for request in result]
    assert found == asked
    known = build_definitions(root.settings()).resolve_job_def("market_month").partitions_def
    assert known is not None
    assert set(found or []) <= set(known.get_partition_keys())


def test_an_open_window_holds_the_current_month_and_grows_without_a_restart() -> None:
    from datetime import UTC, datetime

    months = partitions.build(Window(first_month="2025-08")).close_months
    assert months.get_partition_keys()[-1] == clock.month_of(clock.now())
    assert months.get_partition_keys(current_time=datetime(2031, 3, 1, 0, 1, tzinfo=UTC))[-1] == "2031-03"


def test_everything_is_off_until_someone_turns_it_on(store: Store) -> None:
    repository = build_definitions(load(data_root=str(store.root))).get_repository_def()
    switched = [*repository.sensor_defs, *repository.schedule_defs]
    assert len(switched) == 7
    assert all(each.default_status.value == "STOPPED" for each in switched)
