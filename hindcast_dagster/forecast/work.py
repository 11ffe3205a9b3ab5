"""Doing the pending forecasts of a job: concurrent, each written the moment it is finished.

What ends the work early keeps everything that was finished: an unreachable service, a cutoff violation, the money
limit, Ctrl-C. A forecaster's own error costs its forecast only, unless the first few all fail the same way.
"""

import asyncio
import contextlib
import inspect
import json
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Final

from hindcast_dagster import clock
from hindcast_dagster.contracts.forecasts import FORECASTS
from hindcast_dagster.errors import CutoffViolation, NotReady, UsageError
from hindcast_dagster.forecast import rows
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
        """Forecast one unit after the other; the disk takes the last one while the next is asked for."""
        writing: asyncio.Task[None] | None = None
        try:
            for unit in waiting:
                if not await self.purse.reserve():
                    self.stopped = True
                    break
                forecast = await forecast_once(self.job, unit)
                cost = cost_of(forecast, self.purse.price)
                self.purse.settle(cost)
                before, writing = writing, asyncio.create_task(self._keep(unit, forecast, cost))
                await _to_the_end(before)
        except BaseException:
            with contextlib.suppress(Exception):  # what ended the work is said, not what its last write met after it
                await _to_the_end(writing)
            raise
        await _to_the_end(writing)

    async def _keep(self, unit: Unit, forecast: Forecast, cost: float | None) -> None:
        """Write a forecast that is finished, and count it."""
        made = TraceRecord(unit.identity.forecast_id, self.job.eval_set, unit.identity, forecast, cost, clock.now())
        record = await asyncio.to_thread(_written, self.job, made)
        self.job.done[record.forecast_id] = record
        self.finished += 1
        self.failed += record.forecast.status == "failed"
        if self._untried and self.failed == self.finished >= min(HOPELESS, self._total):
            error = record.forecast.extra["error"]
            raise UsageError(f"Every forecast of {self.job.arm.arm} fails; the first error: {error}")
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
            return _own(await _asked(job.arm.forecast, unit, view), trace)
    except (NotReady, CutoffViolation):
        raise
    except (Exception, SystemExit) as error:  # noqa: BLE001 - an arm is foreign code; its error costs one forecast
        return _failed(error, trace)
    finally:
        view.end()


async def _asked(forecast: Callable[..., Any], unit: Unit, view: TracedView) -> Any:
    """Call an arm, sync or async; a sync one runs in a thread so that it holds nobody up."""
    if inspect.iscoroutinefunction(forecast):
        return await forecast(unit.question, view, run=unit.run)

    def called() -> Any:
        try:
            return forecast(unit.question, view, run=unit.run)
        except StopIteration as error:  # a future cannot hold one: whoever waits for it would wait for ever
            raise RuntimeError("StopIteration") from error

    made = await asyncio.to_thread(called)
    return await made if inspect.isawaitable(made) else made


def _own(made: object, trace: Trace) -> Forecast:
    """Return what an arm made as a forecast of its own: an arm may hand out one object twice, or change it later."""
    if not isinstance(made, Forecast):
        raise UsageError(f"An arm must return a Forecast, found {type(made).__name__}.")
    steps = [] if made.trace is trace else made.trace.steps
    return replace(made, trace=Trace([*trace.steps, *steps]))


def _failed(error: BaseException, trace: Trace) -> Forecast:
    said = f"{type(error).__name__}: {error}".encode(errors="replace").decode()
    return Forecast(prob_yes=None, status="failed", extra={"error": said}, trace=trace)


def _written(job: Job, record: TraceRecord) -> TraceRecord:
    """Journal a forecast and return it.

    One of foreign code that journal or table cannot hold becomes a failed one that says why not: what an arm puts in it
    must not end the work of the others now, nor the sealing of them all later. Our own arms are tested (and this takes
    half as long as a call costs).
    """
    if not type(job.arm).__module__.startswith("hindcast_dagster."):
        try:
            json.dumps(to_record(record), allow_nan=False, ensure_ascii=False).encode()
            FORECASTS.frame([rows.row(record)])
        except Exception as error:  # noqa: BLE001 - values of foreign code
            record = replace(record, forecast=_failed(error, Trace()))
    job.journal.write(record.forecast_id, to_record(record))
    return record


async def _to_the_end(writing: asyncio.Task[None] | None) -> None:
    """Wait for the disk; what is finished is written even when the work ends meanwhile."""
    if writing is None:
        return
    try:
        await asyncio.shield(writing)
    except asyncio.CancelledError:
        await writing
        raise


def _first(errors: BaseExceptionGroup[BaseException]) -> BaseException:
    """Return the error that ended the work: a violation before all others."""
    flat: list[BaseException] = []
    for error in errors.exceptions:
        flat += [_first(error)] if isinstance(error, BaseExceptionGroup) else [error]
    return next((error for error in flat if isinstance(error, CutoffViolation)), flat[0])
