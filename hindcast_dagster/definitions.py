"""The Definitions that Dagster loads: `build_definitions(...)` and `defs`, nothing else."""

from typing import Any

import dagster as dg

from assets import archive, columns, corpus, evaluation, forecasts, markets, partitions, scores
from hindcast_dagster.automation.jobs import jobs
from hindcast_dagster.automation.schedules import schedules
from hindcast_dagster.automation.sensors import sensors
from hindcast_dagster.settings import Settings, load
from resources.archive import ArchiveResource
from resources.llm import LlmResource
from resources.polymarket import PolymarketResource
from resources.store import StorageRoot

_STAGES = (corpus, archive, markets, evaluation, forecasts, scores)


def build_definitions(settings: Settings | None = None, **resources: Any) -> dg.Definitions:
    """Return the whole pipeline for `settings` (default: the environment's), with resources overridden by name."""
    found = settings or load()
    dimensions = partitions.build(found.window)
    root = StorageRoot(data_root=found.data_root)
    standard = {
        "root": root,
        "archive": ArchiveResource(root=root),
        "polymarket": PolymarketResource(root=root),
        "llm": LlmResource(root=root),
    }
    return dg.Definitions(
        assets=[columns.explained(asset) for stage in _STAGES for asset in stage.build(dimensions)],
        jobs=jobs(),
        sensors=sensors(found.automation.every_s),
        schedules=schedules(),
        resources=standard | resources,
        executor=dg.multiprocess_executor.configured({"max_concurrent": 2, "start_method": {"spawn": {}}}),
    )


defs = build_definitions()
