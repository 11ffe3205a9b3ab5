"""Jobs: the selections of assets that an operator launches or backfills, and the registration of dynamic keys."""

from typing import Any

import dagster as dg
from pydantic import Field

from assets.partitions import EVAL_SETS, MODELS
from hindcast_dagster import keys
from resources.llm import LlmResource

HISTORY = dg.define_asset_job(
    "history",
    selection=dg.AssetSelection.assets("submissions", "comments", "submission_index", "comment_index"),
    description="A month of the archive: filter the dumps, embed, index. Backfill it over the months you hold.",
)
MARKET_MONTH = dg.define_asset_job(
    "market_month",
    selection=dg.AssetSelection.assets("markets", "market_prices"),
    description="A close month of markets and prices.",
)
COVERAGE = dg.define_asset_job(
    "coverage", selection=dg.AssetSelection.assets("coverage_probe"), description="Probe the markets of a close month."
)
EVALUATE = dg.define_asset_job(
    "evaluate",
    selection=dg.AssetSelection.assets(
        "market_baseline", "scored_forecasts", "score_tables", "comparisons", "leak_audit", "report"
    ),
    description="Score everything that an eval set has, audit it, write the report.",
)
PREDICT = dg.define_asset_job(
    "predict",
    selection=dg.AssetSelection.assets("zero_shot_forecasts", "retrieval_forecasts"),
    description="Both arms of one model on one eval set. Spends model time; never started by itself.",
)


class Registration(dg.Config):
    """Keys to register. Dagster does not validate dynamic keys, so this job is the only way in."""

    eval_sets: list[str] = Field(default_factory=list)
    models: list[str] = Field(default_factory=list)


@dg.op
def register(context: dg.OpExecutionContext, config: Registration, llm: LlmResource) -> None:
    """Check the slugs, and that each model is in the roster, then add them as partitions. Keys are never deleted."""
    for name in config.eval_sets:
        keys.slug(name, what="eval set name")
    roster = llm.roster()
    for model in config.models:
        roster.get(model)
    context.instance.add_dynamic_partitions(EVAL_SETS, config.eval_sets)
    context.instance.add_dynamic_partitions(MODELS, config.models)


@dg.job(description="Register names of eval sets and roster models as partitions.")
def register_partitions() -> None:
    """Register dynamic partitions."""
    register()


def jobs() -> list[Any]:
    """Return every job."""
    return [HISTORY, MARKET_MONTH, COVERAGE, EVALUATE, PREDICT, register_partitions]
