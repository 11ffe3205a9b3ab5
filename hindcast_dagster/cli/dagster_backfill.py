"""A task of a backfill as a run of Dagster, in this process: checks and history stand in the UI afterwards."""

import os
from typing import Any

from hindcast_dagster.errors import HindcastError
from hindcast_dagster.operation.backfill import Task
from hindcast_dagster.settings import Settings
from hindcast_dagster.storage.store import Store


class RunFailed(HindcastError):
    """A step failed for a reason that no error of ours explains."""


def do(store: Store, settings: Settings, task: Task) -> int:
    """Run the jobs of a task one after the other; return the rows of the last table. Raises what its step raised."""
    from hindcast_dagster.automation.processes import PID_TAG
    from hindcast_dagster.cli.demo_pipeline import instance
    from hindcast_dagster.definitions import build_definitions

    definitions, home = build_definitions(settings), instance()
    steps = _jobs(task)
    for job, table, config in steps:
        result = _resolved(definitions, job).execute_in_process(
            instance=home,
            partition_key=_partition(task, home),
            run_config={"ops": config, "loggers": {"console": {"config": {"log_level": "CRITICAL"}}}},
            tags={PID_TAG: str(os.getpid()), "hindcast/backfill": task.group},
            raise_on_error=False,
            **_only(job, table),
        )
        if not result.success:
            raise _failure(result)
    key = task.key if task.group == "closed" else task.key[1:]
    return store.partition(steps[-1][1], *key).require().manifest.rows


def _resolved(definitions: Any, job: str) -> Any:
    return definitions.resolve_job_def(job) if job else definitions.resolve_implicit_global_asset_job_def()


def _only(job: str, table: str) -> dict[str, Any]:
    """Return the selection of a run without a job of its own: one asset."""
    import dagster as dg

    return {} if job else {"asset_selection": [dg.AssetKey(table)]}


def _jobs(task: Task) -> list[tuple[str, str, dict[str, Any]]]:
    """Return (job, its last table, configuration of its ops); "" is a run of that table alone."""
    if task.group == "history":
        kind = task.key[0]
        job, table = {
            "submissions": ("submission_month", "submission_index"),
            "comments": ("comment_month", "comment_index"),
        }[kind]
        return [(job, table, {table: {"config": {"accept_hollow": bool(task.options.get("accept_hollow"))}}})]
    if task.group == "closed":
        found = [("market_month", "market_prices", {"markets": {"config": {"refresh": False}}})]
        judge = {"judge": task.options.get("judge"), "as_of": task.options.get("as_of")}
        probe = ("coverage_month", "coverage_probe", {"coverage_probe": {"config": judge}})
        return [*found, probe] if judge["judge"] else found
    arm = task.key[0]
    table = f"{arm}_forecasts"
    options = {name: value for name, value in task.options.items() if value is not None}
    return [("", table, {table: {"config": options}})]


def _partition(task: Task, home: Any) -> str:
    import dagster as dg

    if task.group == "closed":
        return task.key[0]
    if task.group == "history":
        return task.key[1]
    _, model, name = task.key
    home.add_dynamic_partitions("models", [model])
    home.add_dynamic_partitions("eval_sets", [name])
    return dg.MultiPartitionKey({"model": model, "eval_set": name})


def _failure(result: Any) -> HindcastError:
    """Return the error of the failed step, with the exit code of the kind that it was."""
    kinds = {kind.__name__: kind for kind in _descendants(HindcastError)}
    for event in result.all_events:
        if event.is_failure and event.step_key:
            error = event.event_specific_data.error
            cause = error.cause or error
            kind = kinds.get(cause.cls_name or "", RunFailed)
            text = cause.message.strip().split(": ", 1)[-1]
            return kind(text) if kind is not RunFailed else RunFailed(f"Step {event.step_key} failed: {text}")
    return RunFailed("A run failed without a failed step: a blocking check did not pass.")


def _descendants(kind: type[HindcastError]) -> set[type[HindcastError]]:
    found = set(kind.__subclasses__())
    return found | {each for child in found for each in _descendants(child)}
