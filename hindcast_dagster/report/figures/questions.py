"""Figures of questions: topics, forecasts against prices, and one market over time."""

from typing import Any, Final

import polars as pl

from hindcast_dagster.clock import iso
from hindcast_dagster.report.absent import NotMeasured
from hindcast_dagster.report.figures.base import arm_colour, best_cells, inline, named, panels
from hindcast_dagster.report.gather import Gathered
from hindcast_dagster.report.theme import PALETTES, WIDTH, Mode
from hindcast_dagster.scoring.inputs import BASELINE

FOLDED: Final = 0.04
"""A topic below this share is drawn as part of Other, as in the paper's figure 3."""


def topics(gathered: Gathered, mode: Mode) -> Any:
    """Draw the share and the count of each topic; small ones are folded into Other (paper, figure 3)."""
    import altair as alt

    questions = gathered.given.questions
    if not questions.height:
        return None
    counts = (
        questions.group_by("topic", maintain_order=True)
        .len("count")
        .with_columns((pl.col("count") / questions.height).alias("share"))
    )
    folded = (
        counts.with_columns(
            pl.when(pl.col("share") < FOLDED).then(pl.lit("Other")).otherwise(pl.col("topic")).alias("topic")
        )
        .group_by("topic", maintain_order=True)
        .agg(pl.col("count").sum(), pl.col("share").sum())
        .with_columns((pl.col("topic") == "Other").alias("last"))
        .sort(["last", "count", "topic"], descending=[False, True, False])
        .with_columns(
            pl.format("{} %  ({})", (100 * pl.col("share")).round(1), pl.col("count")).alias("label"), pl.col("share")
        )
        .drop("last")
    )
    y = alt.Y("topic:N", sort=folded["topic"].to_list(), title=None)
    base = alt.Chart(inline(folded)).encode(
        y=y, x=alt.X("share:Q", title="Share of questions", axis=alt.Axis(format="%"))
    )
    bars = base.mark_bar(color=PALETTES[mode].series["retrieval"], cornerRadiusEnd=2, height=18)
    labels = base.mark_text(align="left", dx=6, color=PALETTES[mode].muted).encode(text="label:N")
    return (bars + labels).properties(width=WIDTH - 150, height=28 * folded.height)


def scatter(gathered: Gathered, mode: Mode) -> Any:
    """Draw the forecast (mean over runs) against the market's price at t0, one mark per question."""
    import altair as alt

    cells = best_cells(gathered, with_market=False)
    shown = (
        gathered.scored.filter(pl.col("price_at_t0").is_not_null())
        .join(cells.select("model", "arm", "panel"), on=["model", "arm"], how="inner")
        .group_by("panel", "question_id", maintain_order=True)
        .agg(pl.col("prob_yes").mean(), pl.col("price_at_t0").first(), pl.col("outcome").first())
        .with_columns(pl.when(pl.col("outcome") == 1).then(pl.lit("Yes")).otherwise(pl.lit("No")).alias("resolved"))
        .sort("panel", "question_id")
    )
    if not shown.height:
        return None
    axis = {"values": [0, 0.5, 1], "format": ".1~f"}
    unit = alt.Scale(domain=[0, 1])
    x = alt.X("price_at_t0:Q", scale=unit, title="Market price at t0", axis=alt.Axis(**axis))
    y = alt.Y("prob_yes:Q", scale=unit, title="Forecast", axis=alt.Axis(**axis))
    diagonal = (
        alt.Chart(alt.Data(values=[{"price_at_t0": 0, "prob_yes": 0}, {"price_at_t0": 1, "prob_yes": 1}]))
        .mark_line(strokeDash=[4, 4], color=PALETTES[mode].muted, strokeWidth=1)
        .encode(x=x, y=y)
    )
    resolved = alt.Scale(domain=["Yes", "No"], range=[PALETTES[mode].good, PALETTES[mode].bad])
    dots = (
        alt.Chart()
        .mark_point(filled=True, size=34, opacity=0.7)
        .encode(
            x=x,
            y=y,
            color=alt.Color("resolved:N", scale=resolved, legend=alt.Legend(title="Resolved", orient="top")),
            shape=alt.Shape("resolved:N", scale=alt.Scale(domain=["Yes", "No"], range=["circle", "triangle"])),
        )
    )
    panel = alt.layer(diagonal, dots).properties(width=170, height=170)
    data = inline(shown.select("panel", "prob_yes", "price_at_t0", "resolved"))
    return panel.facet(facet=panels(cells["panel"].to_list()), columns=3, data=data)


def chosen_market(gathered: Gathered) -> str | None:
    """Return the question whose price moved most before its t0, of those that some model forecast."""
    if isinstance(gathered.prices, NotMeasured):
        return None
    asked = gathered.scored.filter(pl.col("model") != BASELINE)["question_id"].unique().to_list()
    known = gathered.given.questions.filter(pl.col("id").is_in(asked)).select(pl.col("id").alias("market_id"), "t0")
    moves = (
        gathered.prices.join(known, on="market_id", how="inner")
        .filter(pl.col("at") < pl.col("t0"))
        .group_by("market_id", maintain_order=True)
        .agg(pl.len().alias("points"), (pl.col("price").max() - pl.col("price").min()).alias("move"))
        .filter(pl.col("points") > 2)  # noqa: PLR2004 - two points are no trajectory
        .sort(["move", "market_id"], descending=[True, False])
    )
    return str(moves["market_id"][0]) if moves.height else None


def trajectory(gathered: Gathered, mode: Mode) -> Any:
    """Draw one market's price over time, its t0, and what each arm forecast there (paper, figure 1)."""
    import altair as alt

    market = chosen_market(gathered)
    if market is None or isinstance(gathered.prices, NotMeasured):
        return None
    series = gathered.prices.filter(pl.col("market_id") == market).select(
        pl.col("at").map_elements(iso, return_dtype=pl.String).alias("when"), "price"
    )
    made = pl.concat([gathered.scored.select(gathered.swept.columns), gathered.swept])
    forecasts = named(
        gathered,
        made.filter((pl.col("question_id") == market) & (pl.col("model") != BASELINE))
        .group_by("model", "arm", "t0", maintain_order=True)
        .agg(pl.col("prob_yes").mean())
        .with_columns(pl.col("t0").map_elements(iso, return_dtype=pl.String).alias("when"))
        .sort("model", "arm", "t0"),
    )
    x = alt.X(
        "when:T", title=None, scale=alt.Scale(padding=12), axis=alt.Axis(format="%d %b %y", tickCount=5, labelAngle=0)
    )
    scale = alt.Scale(domain=[0, 1])
    line = (
        alt.Chart(inline(series))
        .mark_line(interpolate="step-after", color=PALETTES[mode].series["market_price"], strokeWidth=2)
        .encode(x=x, y=alt.Y("price:Q", scale=scale, title="Probability of Yes"))
    )
    cut = alt.Chart(inline(forecasts.select("when").unique().sort("when"))).mark_rule(strokeDash=[3, 3]).encode(x=x)
    name = cut.mark_text(align="center", y=-8, text="t0", color=PALETTES[mode].muted)
    marks = (
        alt.Chart(inline(forecasts.select("when", "prob_yes", "arm_name", "name")))
        .mark_point(filled=True, size=90, shape="square", opacity=0.9)
        .encode(
            x=x,
            y=alt.Y("prob_yes:Q", scale=scale),
            color=arm_colour(forecasts, mode, title="Forecasts"),
        )
    )
    return alt.layer(line, cut, name, marks).properties(width=WIDTH - 60, height=240)


def trajectory_caption(gathered: Gathered) -> str:
    """Return what the trajectory shows: its question."""
    text = dict(gathered.given.questions.select("id", "text").iter_rows()).get(chosen_market(gathered) or "", "")
    return (
        f"\N{LEFT DOUBLE QUOTATION MARK}{text}\N{RIGHT DOUBLE QUOTATION MARK} The question whose price moved most "
        "before its t0: the price over its life, t0, and the forecasts made there (means over runs), those of lookback "
        "sets of the same markets included."
    )
