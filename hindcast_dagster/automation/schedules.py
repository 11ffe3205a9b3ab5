"""Schedules: the daily look at the markets and the weekly vintage. Off until someone turns them on in the UI."""

from typing import Any

import dagster as dg

from assets.partitions import EVAL_SETS
from hindcast_dagster import clock
from hindcast_dagster.automation import decide
from hindcast_dagster.automation.jobs import FREEZE, MARKET_MONTH
from resources.store import StorageRoot


@dg.schedule(
    job_name=MARKET_MONTH,
    cron_schedule="0 4 * * *",
    execution_timezone="UTC",
    description="Every day at 04:00 UTC: the markets and prices of this month and the last.",
)
def daily_markets(context: dg.ScheduleEvaluationContext) -> Any:
    """Request this close month and the one before it: a market may resolve days after it closed."""
    today = clock.instant(context.scheduled_execution_time)
    this = clock.month_of(today)
    return [
        dg.RunRequest(partition_key=month, run_key=f"{month}:{clock.iso(today)[:10]}")
        for month in (clock.shift_month(this, -1), this)
    ]


@dg.schedule(
    job_name=FREEZE,
    cron_schedule="0 6 * * 1",
    execution_timezone="UTC",
    description="Every Monday at 06:00 UTC: the next vintage of automation.vintage_of, when enough markets resolved.",
)
def weekly_vintage(context: dg.ScheduleEvaluationContext, root: StorageRoot) -> Any:
    """Register the next vintage and freeze it. The models follow through the sensor `predictions`, if allowed."""
    found = decide.next_vintage(root.store(), root.settings())
    if found is None:
        return dg.SkipReason("automation.vintage_of is not set or not sealed, or too few markets have resolved since.")
    context.instance.add_dynamic_partitions(EVAL_SETS, [found.name])
    config = {"policy": found.policy, "archive_end": found.archive_end, "vintage": found.previous}
    return dg.RunRequest(
        partition_key=found.name,
        run_key=found.name,
        run_config={"ops": {"eval_set": {"config": config}}},
        tags={"hindcast/newly-resolved": str(found.markets)},
    )


def schedules() -> list[Any]:
    """Return every schedule."""
    return [daily_markets, weekly_vintage]
