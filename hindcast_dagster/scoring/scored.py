"""Each forecast against the outcome and the market: the rows of `scored_forecasts`."""

from collections.abc import Mapping

import polars as pl

from hindcast_dagster.contracts.scores import SCORED
from hindcast_dagster.scoring.inputs import BASELINE, Inputs
from hindcast_dagster.scoring.metrics import HALF


def score(inputs: Inputs, *, cutoffs: Mapping[str, int | None]) -> pl.DataFrame:
    """Score every parsed forecast (contract SCORED).

    `cutoffs` holds each model's knowledge cutoff in epoch seconds, None where unknown. A question is `after` it when
    its t0 is not earlier; a baseline knows nothing, so every question is. A forecast without a probability has no
    score: it stays missing and is counted in its cell.
    """
    facts = inputs.questions.select(
        pl.col("id").alias("question_id"),
        "event_id",
        "topic",
        "duration",
        (pl.col("outcome") == "Yes").cast(pl.Int64).alias("outcome"),
        "price_at_t0",
    )
    parsed = inputs.forecasts.filter(pl.col("status") == "ok")
    error = (pl.col("prob_yes") - pl.col("outcome")) ** 2
    return (
        parsed.join(facts, on="question_id", how="inner", validate="m:1")
        .with_columns(
            error.alias("brier"),
            ((pl.col("prob_yes") > HALF) == (pl.col("outcome") == 1)).alias("correct"),
            (pl.col("prob_yes") == HALF).alias("tie"),
            (pl.col("prob_yes") - pl.col("price_at_t0")).abs().alias("market_gap"),
            _beyond(cutoffs).alias("beyond_cutoff"),
        )
        .select(SCORED.schema.names)
        .sort(SCORED.order)
    )


def _beyond(cutoffs: Mapping[str, int | None]) -> pl.Expr:
    known = {model: cutoff for model, cutoff in cutoffs.items() if cutoff is not None}
    cutoff = pl.col("model").replace_strict(known, default=None, return_dtype=pl.Int64)
    return (
        pl.when(pl.col("model") == BASELINE)
        .then(pl.lit("after"))
        .when(cutoff.is_null())
        .then(pl.lit("unknown"))
        .when(pl.col("t0") >= cutoff)
        .then(pl.lit("after"))
        .otherwise(pl.lit("before"))
    )
