"""Schedules: the daily look at the markets and the weekly vintage. Off until someone turns them on in the UI."""

from typing import Any

import dagster as dg

from assets.partitions import EVAL_SETS
from hindcast_dagster import clock
from hindcast_dagster.automation import decide
from hindcast_dagster.automation.jobs import FREEZE, MARKET_MONTH, freeze
from resources.store import StorageRoot


@dg.schedule(
    job_name=MARKET_MONTH,
    cron_schedule="0 4 * * *",
    execution_timezone="UTC",
    description="Every day at 04:00 UTC: the markets and prices of this month and the last.",
)
def daily_markets(context: dg.ScheduleEvaluationContext, root: StorageRoot) -> Any:
    """Request this close month and the one before it: a market may resolve days after it closed."""
    today = clock.instant(context.scheduled_execution_time)
    this = clock.month_of(today)
    window = root.settings().window
    wanted = [
        month
        for month in (clock.shift_month(this, -1), this)
        if window.first_close_month <= month <= (window.last_month or this)
    ]
    if not wanted:
        return dg.SkipReason(f"The window of close months ended with {window.last_month}.")
    return [dg.RunRequest(partition_key=month, run_key=f"{month}:{clock.iso(today)[:10]}") for month in wanted]


@dg.schedule(
    job_name=FREEZE,
    cron_schedule="0 6 * * 1",
    execution_timezone="UTC",
    description=(
        "Every Monday at 06:00 UTC: re-run on newly resolved markets. Freezes the next vintage; the sensors "
        "`predictions` (within automation.max_cost) and `scores` take it to the report."
    ),
)
def weekly_rerun(context: dg.ScheduleEvaluationContext, root: StorageRoot) -> Any:
    """Register the next vintage and freeze it. The models follow through the sensor `predictions`, if allowed."""
    found = decide.next_vintage(root.store(), root.settings())
    if found is None:
        return dg.SkipReason("automation.vintage_of is not set or not sealed, or too few markets have resolved since.")
    context.instance.add_dynamic_partitions(EVAL_SETS, [found.name])
    return freeze(found)


def schedules() -> list[Any]:
    """Return every schedule."""
    return [daily_markets, weekly_rerun]
