"""Jobs: the selections of assets that an operator launches or backfills, and the registration of dynamic keys."""

from typing import Any, Final

import dagster as dg
from pydantic import Field

from assets.partitions import EVAL_SETS, MODELS
from hindcast_dagster import keys
from hindcast_dagster.automation.decide import Vintage
from hindcast_dagster.automation.sweep import lookback_sweep
from resources.llm import LlmResource


def _job(name: str, assets: tuple[str, ...], description: str) -> Any:
    return dg.define_asset_job(name, selection=dg.AssetSelection.assets(*assets), description=description)


SUBMISSION_MONTH: Final = "submission_month"
COMMENT_MONTH: Final = "comment_month"
MARKET_MONTH: Final = "market_month"
COVERAGE_MONTH: Final = "coverage_month"
FREEZE: Final = "freeze"
PREDICT: Final = "predict"
EVALUATE: Final = "evaluate"

_SCORES: Final = ("market_baseline", "scored_forecasts", "score_tables", "comparisons", "leak_audit", "report")


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


JOBS: Final[dict[str, Any]] = {
    name: _job(name, assets, description)
    for name, assets, description in (
        (SUBMISSION_MONTH, ("submissions", "submission_index"), "A month of submissions: filter, embed, index."),
        (COMMENT_MONTH, ("comments", "comment_index"), "A month of comments: filter, index."),
        (MARKET_MONTH, ("markets", "market_prices"), "A close month of markets and their prices."),
        (COVERAGE_MONTH, ("coverage_probe",), "Probe the markets of a close month."),
        (FREEZE, ("eval_set",), "Freeze an eval set; its configuration is the run's."),
        (PREDICT, ("zero_shot_forecasts", "retrieval_forecasts"), "Both arms of one model; spends model time."),
        (EVALUATE, _SCORES, "Score everything that an eval set has, audit it, write the report."),
    )
}


def freeze(vintage: Vintage) -> dg.RunRequest:
    """Return the request that freezes a vintage."""
    return dg.RunRequest(
        job_name=FREEZE,
        partition_key=vintage.name,
        run_key=vintage.run_key,
        run_config={"ops": {"eval_set": {"config": vintage.config}}},
        tags={"hindcast/newly-resolved": str(vintage.markets), "hindcast/vintage-of": vintage.previous},
    )


def jobs() -> list[Any]:
    """Return every job."""
    return [*JOBS.values(), lookback_sweep, register_partitions]
