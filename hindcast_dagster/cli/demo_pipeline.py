"""The demo's pipeline: materialises the asset graph partition by partition in one Dagster instance."""

import os
import time
from collections.abc import Callable
from importlib.resources import files
from pathlib import Path
from typing import Any, Final

from hindcast_dagster import clock
from hindcast_dagster.cli.context import Context
from hindcast_dagster.errors import HindcastError, UsageError
from hindcast_dagster.settings import Settings
from hindcast_dagster.storage.files import write_atomic

EVAL_SET: Final = "demo"


class Pipeline:
    """Materialises the asset graph partition by partition in one Dagster instance."""

    def __init__(self, here: Context, model: str) -> None:
        from hindcast_dagster.automation.processes import bury
        from hindcast_dagster.definitions import build_definitions

        self.here, self.model, self.store = here, model, here.store
        self.settings: Settings = here.settings
        self.definitions = build_definitions(self.settings)
        self.instance = instance()
        bury(self.instance)
        self.started = time.monotonic()

    def run(self) -> None:
        """Run every stage in order; skip what is sealed."""
        window = self.settings.window
        months = clock.months(*window.months())
        self._stage("sample world", self._world)
        self._stage("submissions", lambda: self._months("submission_month", months[:-1], ("submission_index",)))
        self._stage("comments", lambda: self._months("comment_month", months[:-1], ("comment_index",)))
        self._stage("markets", lambda: self._months("market_month", months, ("markets", "market_prices")))
        self._stage("coverage", lambda: self._months("coverage_month", months, ("coverage_probe",)))
        self._stage("eval set", self._eval_set)
        self._stage("forecasts", self._forecasts)
        self._stage("scores", lambda: self._job("evaluate", EVAL_SET))

    def _stage(self, name: str, work: Callable[[], None]) -> None:
        began = time.monotonic()
        with self.here.err.status(f"{name} ..."):
            work()
        self.here.err.print(f"  {name:<13} {time.monotonic() - began:6.1f} s")

    def _world(self) -> None:
        from hindcast_dagster.sample.world import generate
        from hindcast_dagster.sample.write import write

        sample = self.settings.sample
        write(self.store, generate(months=sample.months, seed=sample.seed, first_month=sample.first_month))

    def _months(self, job: str, months: list[str], tables: tuple[str, ...]) -> None:
        for month in months:
            if any(self.store.partition(table, month).manifest() is None for table in tables):
                self._job(job, month)

    def _eval_set(self) -> None:
        self.instance.add_dynamic_partitions("eval_sets", [EVAL_SET])
        self.instance.add_dynamic_partitions("models", [self.model])
        if self.store.partition("eval_set", EVAL_SET).manifest() is None:
            self._assets(["eval_set"], EVAL_SET)

    def _forecasts(self) -> None:
        import dagster as dg

        key = dg.MultiPartitionKey({"model": self.model, "eval_set": EVAL_SET})
        if self.store.partition("zero_shot_forecasts", self.model, EVAL_SET).manifest() is None:
            self._assets(["zero_shot_forecasts"], key)
        if self.store.partition("retrieval_forecasts", self.model, EVAL_SET).manifest() is None:
            self._assets(["retrieval_forecasts"], key)

    def _assets(self, names: list[str], partition: str) -> None:
        import dagster as dg

        job = self.definitions.resolve_implicit_global_asset_job_def()
        self._execute(job, partition, asset_selection=[dg.AssetKey(name) for name in names])

    def _job(self, name: str, partition: str) -> None:
        self._execute(self.definitions.resolve_job_def(name), partition)

    def _execute(self, job: Any, partition: str, **more: Any) -> None:
        from hindcast_dagster.automation.processes import PID_TAG

        config = {"loggers": {"console": {"config": {"log_level": "CRITICAL"}}}}
        result = job.execute_in_process(
            instance=self.instance,
            partition_key=partition,
            run_config=config,
            raise_on_error=False,
            tags={PID_TAG: str(os.getpid())},
            **more,
        )
        if not result.success:
            raise _failure(result)


class DemoFailed(HindcastError):
    """A step of the demo failed for a reason that no error of ours explains."""


def _failure(result: Any) -> HindcastError:
    for event in result.all_events:
        if event.is_failure and event.step_key:
            error = event.event_specific_data.error
            cause = error.cause or error
            return DemoFailed(f"Step {event.step_key} failed: {cause.message.strip()}")
    return DemoFailed("A run failed without a failed step.")


def instance() -> Any:
    """Return the Dagster instance of DAGSTER_HOME, made here if it is not set; data never lies in it."""
    import dagster as dg

    if not os.environ.get("DAGSTER_HOME"):
        os.environ["DAGSTER_HOME"] = str(Path.cwd() / ".dagster_home")
    home = Path(os.environ["DAGSTER_HOME"])
    if not home.is_absolute():
        raise UsageError(f"DAGSTER_HOME is {home}: it must be an absolute path.")
    if not (home / "dagster.yaml").exists():
        write_atomic(home / "dagster.yaml", files("hindcast_dagster").joinpath("dagster.yaml").read_bytes())
    return dg.DagsterInstance.get()
