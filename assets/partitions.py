"""The partitions that the assets share, built from the settings when the definitions are."""

from typing import Final, NamedTuple

import dagster as dg

from hindcast_dagster import clock
from hindcast_dagster.settings import Window

EVAL_SETS: Final = "eval_sets"
MODELS: Final = "models"


class Partitions(NamedTuple):
    """Every partition dimension of the pipeline."""

    months: dg.MonthlyPartitionsDefinition
    close_months: dg.MonthlyPartitionsDefinition
    eval_sets: dg.DynamicPartitionsDefinition
    models: dg.DynamicPartitionsDefinition
    predictions: dg.MultiPartitionsDefinition


def build(window: Window) -> Partitions:
    """Return the partitions for a window of months (both ends included; Dagster's own end is exclusive).

    Without a last month the window ends with the current one, also in a process that runs into the next month.
    """
    first, last = window.first_month, window.last_month
    eval_sets = dg.DynamicPartitionsDefinition(name=EVAL_SETS)
    models = dg.DynamicPartitionsDefinition(name=MODELS)
    return Partitions(
        months=_monthly(first, last),
        close_months=_monthly(window.first_close_month, last),
        eval_sets=eval_sets,
        models=models,
        predictions=dg.MultiPartitionsDefinition({"model": models, "eval_set": eval_sets}),
    )


def _monthly(first: str, last: str | None) -> dg.MonthlyPartitionsDefinition:
    end = clock.shift_month(last, 1) if last else None
    return dg.MonthlyPartitionsDefinition(
        start_date=first,
        end_date=end,
        fmt="%Y-%m",
        end_offset=1,  # without it the current month is no partition: Dagster waits for its end
    )
