"""Further measures of a cell, pooled over its runs: the `metrics` and `calibration` files of the score tables."""

from typing import Any, Final

import polars as pl

from hindcast_dagster.contracts.analysis import CALIBRATION, EVENT_SUMS, METRICS
from hindcast_dagster.scoring import metrics
from hindcast_dagster.scoring.cells import CELL
from hindcast_dagster.scoring.inputs import BASELINE, Inputs
from hindcast_dagster.scoring.ranking import MIN_QUESTIONS

SKILL_FLOOR: Final = 0.005
"""Below this Brier of the market no skill is stated: one call in two hundred would turn the ratio over."""
FORMS: tuple[metrics.Form, ...] = ("equal_width", "equal_mass")


def _cells(frame: pl.DataFrame) -> list[tuple[str, str, pl.DataFrame]]:
    return sorted(
        ((str(model), str(arm), part) for (model, arm), part in frame.partition_by(CELL, as_dict=True).items()),
        key=lambda cell: cell[:2],
    )


def measures(given: Inputs, scored: pl.DataFrame) -> pl.DataFrame:
    """Return one row per cell and measure that is defined (contract METRICS)."""
    spent = {(model, arm): _economy(part) for model, arm, part in _cells(given.forecasts)}
    rows = [
        {"model": model, "arm": arm, "n": part.height, "metric": name, "value": float(value)}
        for model, arm, part in _cells(scored)
        for name, value in (_quality(part) | spent[model, arm]).items()
        if value is not None
    ]
    return METRICS.frame(rows)


def _quality(part: pl.DataFrame) -> dict[str, float | None]:
    p, y = part["prob_yes"], part["outcome"]
    clean = part.filter(pl.col("beyond_cutoff") == "after")
    parts = metrics.murphy(p, y)
    named = {f"murphy_{name}": value for name, value in parts._asdict().items()} if parts else {}
    return {
        "baseline_score": metrics.baseline_score(p, y),
        "log_clipped": metrics.clipped_count(p),
        **_skill(part.filter(pl.col("price_at_t0").is_not_null())),
        "ece_equal_width": metrics.ece(p, y, form="equal_width"),
        "ece_equal_mass": metrics.ece(p, y, form="equal_mass"),
        "sharpness": metrics.sharpness(p),
        "clean_n": clean.height,
        "clean_brier": metrics.brier(clean["prob_yes"], clean["outcome"]),
        "clean_accuracy": metrics.accuracy(clean["prob_yes"], clean["outcome"]),
        **named,
    }


def _skill(priced: pl.DataFrame) -> dict[str, float | None]:
    """Return the skill against the market, with what it stands on; none from few questions or an all but sure market.

    Skill divides by the market's Brier: one question that the market knew would read as minus thousands.
    """
    reference = metrics.brier(priced["price_at_t0"], priced["outcome"])
    questions = priced["question_id"].n_unique()
    told = reference is not None and reference >= SKILL_FLOOR and questions >= MIN_QUESTIONS
    skill = metrics.brier_skill(priced["prob_yes"], priced["outcome"], priced["price_at_t0"]) if told else None
    return {"brier_skill": skill, "skill_questions": questions, "market_brier": reference}


def _economy(part: pl.DataFrame) -> dict[str, float | None]:
    """Return means per forecast, failed ones included: they were paid for too. Baselines cost nothing to speak of."""
    if part["model"][0] == BASELINE:
        return {}
    return part.select(
        (pl.col("tokens_in") + pl.col("tokens_out")).mean().alias("tokens"),
        pl.col("tokens_in").mean(),
        pl.col("tokens_out").mean(),
        pl.col("seconds").mean(),
        pl.col("calls").mean(),
        pl.col("cost").mean(),
        pl.col("documents").mean(),
        (pl.col("tokens_trimmed") > 0).mean().alias("trimmed_share"),
    ).row(0, named=True)


def calibration(scored: pl.DataFrame) -> pl.DataFrame:
    """Return the reliability bins of every cell in both forms (contract CALIBRATION)."""
    rows: list[dict[str, Any]] = [
        {"model": model, "arm": arm, "form": form, "bin": number, **each._asdict()}
        for model, arm, part in _cells(scored)
        for form in FORMS
        for number, each in enumerate(metrics.reliability(part["prob_yes"], part["outcome"], form=form))
    ]
    return CALIBRATION.frame(rows)


def event_sums(scored: pl.DataFrame) -> pl.DataFrame:
    """Return, per event with several legs and per cell, what the forecasts add up to (contract EVENT_SUMS).

    Legs of an exclusive event should not add up to more than one; only complete runs count.
    """
    legs = (
        scored.filter(pl.col("event_id").is_not_null())
        .group_by("event_id", *CELL, "run", maintain_order=True)
        .agg(
            pl.len().alias("legs"),
            pl.col("prob_yes").sum().alias("sum_p"),
            pl.when(pl.col("price_at_t0").null_count() == 0).then(pl.col("price_at_t0").sum()).alias("sum_price"),
            pl.col("outcome").sum().alias("resolved_yes"),
        )
    )
    size = pl.col("legs").max().over("event_id")
    return (
        legs.filter((size > 1) & (pl.col("legs") == size))
        .group_by("event_id", *CELL, maintain_order=True)
        .agg(
            pl.col("legs").first().cast(pl.Int64),
            pl.col("sum_p").mean(),
            pl.col("sum_price").first(),
            pl.col("resolved_yes").first(),
        )
        .select(EVENT_SUMS.schema.names)
        .sort(EVENT_SUMS.order)
    )
