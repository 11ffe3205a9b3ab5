"""Scoring an eval set from its forecasts to its comparisons, in the one order in which that works."""

from collections.abc import Callable

from hindcast_dagster.forecast import baselines
from hindcast_dagster.forecast.records import BASELINES
from hindcast_dagster.scoring import build, compare
from hindcast_dagster.settings import Settings
from hindcast_dagster.storage.manifest import Manifest
from hindcast_dagster.storage.store import Store


def evaluate(
    store: Store, settings: Settings, *, eval_set: str, progress: Callable[[int, int, str], None] | None = None
) -> list[Manifest]:
    """Seal scores, tables and comparisons of an eval set, and before them the baselines where they are missing.

    The baselines are what every model is compared with. Raises `NotReady` when no forecast is sealed.
    """
    made = []
    if store.partition(BASELINES, eval_set).manifest() is None:
        made.append(baselines.build(store, settings, eval_set=eval_set, progress=progress))
    return [
        *made,
        build.build_scored(store, settings, eval_set=eval_set),
        build.build_tables(store, settings, eval_set=eval_set),
        compare.build(store, settings, eval_set=eval_set),
    ]
