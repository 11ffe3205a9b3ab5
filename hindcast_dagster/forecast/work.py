"""Doing the pending forecasts of a job: concurrent, each written the moment it is finished.

What ends the work early keeps everything that was finished: an unreachable service, a cutoff violation, the money
limit, Ctrl-C. A forecaster's own error costs its forecast only, unless the first few all fail the same way.
"""

import asyncio
import inspect
import json
from collections.abc import Callable, Coroutine, Sequence
from dataclasses import dataclass, field
from typing import Any, Final

from hindcast_dagster import clock
from hindcast_dagster.errors import CutoffViolation, NotReady, UsageError
from hindcast_dagster.forecast.forecaster import Forecast, Trace
from hindcast_dagster.forecast.job import Job, Unit
from hindcast_dagster.forecast.money import Purse, cost_of
from hindcast_dagster.forecast.records import TraceRecord, to_record
from hindcast_dagster.forecast.tracing import TracedView, recording

Progress = Callable[[int, int, str], None]

HOPELESS: Final = 3
"""When the first so many forecasts all fail, the arm is broken and the work stops."""


@dataclass
class Work:
    """One pass over pending units."""

    job: Job
    purse: Purse
    progress: Progress | None = None
    finished: int = 0
    failed: int = 0
    stopped: bool = False
    """The money limit ended the work before every unit was done."""
    _total: int = field(default=0, init=False)
    _untried: bool = field(default=True, init=False)
    """No forecast of this job was ever finished, so nothing shows that the arm works."""

    async def do(self, units: Sequence[Unit], *, concurrency: int) -> None:
        """Forecast all units with at most `concurrency` at once. Raises what ended the work early."""
        self._total, self._untried = len(units), not self.job.done
        waiting = iter(units)  # shared by the workers: memory stays flat however many units there are
        self._tell("")
        try:
            async with asyncio.TaskGroup() as group:
                for _ in range(min(concurrency, len(units))):
                    group.create_task(self._worker(waiting))
        except BaseExceptionGroup as errors:
            raise _first(errors) from None

    async def _worker(self, waiting: Any) -> None:
        for unit in waiting:
            if not await self.purse.reserve():
                self.stopped = True
                return
            await self._one(unit)

    async def _one(self, unit: Unit) -> None:
        forecast = await forecast_once(self.job, unit)
        cost = cost_of(forecast, self.purse.price)
        self.purse.settle(cost)
        record = TraceRecord(unit.identity.forecast_id, self.job.eval_set, unit.identity, forecast, cost, clock.now())
        await _to_the_end(asyncio.to_thread(self.job.journal.write, record.forecast_id, to_record(record)))
        self.job.done[record.forecast_id] = record
        self.finished += 1
        self.failed += forecast.status == "failed"
        if self._untried and self.failed == self.finished >= min(HOPELESS, self._total):
            raise UsageError(f"Every forecast of {self.job.arm.arm} fails; the first error: {forecast.extra['error']}")
        self._tell(unit.question.id)

    def _tell(self, word: str) -> None:
        if self.progress is not None:
            self.progress(self.finished, self._total, word)


async def forecast_once(job: Job, unit: Unit) -> Forecast:
    """Make one forecast and return it with its whole trace. An error of the arm becomes a `failed` forecast."""
    trace = Trace()
    view = TracedView(job.view(unit.question), trace)
    try:
        with recording(trace):
            made = _checked(await _asked(job.arm.forecast, unit, view))
    except (NotReady, CutoffViolation):
        raise
    except Exception as error:  # noqa: BLE001 - an arm is foreign code; its error costs one forecast
        made = Forecast(prob_yes=None, status="failed", extra={"error": f"{type(error).__name__}: {error}"})
    trace.steps.extend(made.trace.steps)
    made.trace = trace
    return made


async def _asked(forecast: Callable[..., Any], unit: Unit, view: TracedView) -> Any:
    """Call an arm, sync or async; a sync one runs in a thread so that it holds nobody up."""
    if inspect.iscoroutinefunction(forecast):
        return await forecast(unit.question, view, run=unit.run)
    made = await asyncio.to_thread(forecast, unit.question, view, run=unit.run)
    return await made if inspect.isawaitable(made) else made


def _checked(made: object) -> Forecast:
    if not isinstance(made, Forecast):
        raise UsageError(f"An arm must return a Forecast, found {type(made).__name__}.")
    json.dumps([made.extra, made.rationale], allow_nan=False)  # what the journal cannot hold fails here
    return made


async def _to_the_end(writing: Coroutine[Any, Any, None]) -> None:
    """Wait for the disk without holding the loop; what is finished is written even when the work ends meanwhile."""
    task = asyncio.create_task(writing)
    try:
        await asyncio.shield(task)
    except asyncio.CancelledError:
        await task
        raise


def _first(errors: BaseExceptionGroup[BaseException]) -> BaseException:
    """Return the error that ended the work: a violation before all others."""
    flat: list[BaseException] = []
    for error in errors.exceptions:
        flat += [_first(error)] if isinstance(error, BaseExceptionGroup) else [error]
    return next((error for error in flat if isinstance(error, CutoffViolation)), flat[0])
