"""Figures with one mark per cell: Brier by model, accuracy against knowledge cutoff, the lookback sweep."""

from typing import Any, Final

import polars as pl

from hindcast_dagster.report.figures.base import arm_colour, brier_scale, inline, named, named_points
from hindcast_dagster.report.gather import Gathered
from hindcast_dagster.report.theme import PALETTES, WIDTH, Mode
from hindcast_dagster.scoring.inputs import BASELINE, MARKET

ROW: Final = 34


def headline(gathered: Gathered, mode: Mode) -> Any:
    """Draw Brier per model, one mark per arm with its SD over runs, and the baselines as rules."""
    import altair as alt

    cells = named(gathered, gathered.cells.filter(pl.col("n") > 0))
    asked = cells.filter(pl.col("model") != BASELINE).with_columns(
        (pl.col("brier") - pl.col("brier_sd").fill_null(0)).alias("low"),
        (pl.col("brier") + pl.col("brier_sd").fill_null(0)).alias("high"),
    )
    if not asked.height:
        return None
    rules = cells.filter((pl.col("model") == BASELINE) & pl.col("arm").is_in([MARKET, "constant_half", "base_rate"]))
    order = asked.sort("brier")["name"].unique(maintain_order=True).to_list()
    colour = arm_colour(pl.concat([asked.select("arm"), rules.select("arm")]), mode)
    y = alt.Y("name:N", sort=order, title=None)
    values = [*asked["low"], *asked["high"], *rules["brier"]]
    x = alt.X("brier:Q", title="Brier score, lower is better", scale=brier_scale(values, room=0.05))
    keep = ["name", "arm_name", "brier", "low", "high", "ranked"]
    points = alt.Chart(inline(asked.select(keep)))
    span = points.mark_rule(strokeWidth=2, opacity=0.35, color=PALETTES[mode].muted).encode(
        y=y, x=alt.X("min(brier):Q"), x2="max(brier):Q"
    )
    bars = points.mark_rule(strokeWidth=2).encode(y=y, x=alt.X("low:Q"), x2="high:Q", color=colour)
    dots = points.transform_filter("datum.ranked").mark_point(filled=True, size=110, opacity=1)
    rings = points.transform_filter("!datum.ranked").mark_point(filled=False, size=110, strokeWidth=2)
    lines = (
        alt.Chart(inline(rules.select("arm_name", "brier")))
        .mark_rule(strokeDash=[5, 4], strokeWidth=1.6)
        .encode(x=x, color=colour)
    )
    marks = [each.encode(y=y, x=x, color=colour) for each in (dots, rings)]
    return alt.layer(lines, span, bars, *marks).properties(width=WIDTH - 130, height=max(ROW * len(order), 2 * ROW))


def knowledge(gathered: Gathered, mode: Mode) -> Any:
    """Draw accuracy against each model's knowledge cutoff; models without a published one cannot be drawn."""
    import altair as alt

    cutoffs = {slug: facts.cutoff for slug, facts in gathered.facts.items() if facts.cutoff is not None}
    cells = named(gathered, gathered.cells.filter((pl.col("n") > 0) & pl.col("model").is_in(list(cutoffs))))
    if cells["model"].n_unique() < 2:  # noqa: PLR2004 - one model shows no relation
        return None
    shown = cells.with_columns(pl.col("model").replace_strict(cutoffs, return_dtype=pl.Int64).alias("at")).with_columns(
        (pl.col("at") * 1000).alias("x"), pl.col("accuracy").alias("y")
    )
    x = alt.X("x:T", title="Knowledge cutoff", axis=alt.Axis(format="%b %Y", tickCount=5), scale=alt.Scale(padding=30))
    y = alt.Y("y:Q", title="Accuracy", axis=alt.Axis(format="%"), scale=alt.Scale(zero=False, padding=14))
    return named_points(shown, mode, x, y)


def _sweep_chart(gathered: Gathered, mode: Mode, metric: str, title: str, form: str) -> Any:
    import altair as alt

    kept = gathered.sweep.filter((pl.col("model") != BASELINE) | (pl.col("arm") == MARKET))
    if not kept.height:
        return None
    shown = named(gathered, kept).with_columns(
        (pl.col(metric) - pl.col(f"{metric}_sd").fill_null(0)).alias("low"),
        (pl.col(metric) + pl.col(f"{metric}_sd").fill_null(0)).alias("high"),
        pl.col(metric).alias("value"),
    )
    colour = arm_colour(shown, mode)
    base = alt.Chart(inline(shown.select("name", "arm_name", "fraction", "value", "low", "high"))).encode(
        x=alt.X(
            "fraction:Q",
            title="t0 as a share of the market's life",
            axis=alt.Axis(format="%", values=[0.25, 0.5, 0.75, 1]),
        ),
        color=colour,
        strokeDash=alt.StrokeDash("name:N", legend=alt.Legend(title=None, orient="top")),
    )
    y = {"title": title, "scale": alt.Scale(zero=False), "axis": alt.Axis(format=form)}
    band = base.mark_area(opacity=0.15).encode(y=alt.Y("low:Q", **y), y2="high:Q")
    line = base.mark_line(point=True).encode(y=alt.Y("value:Q", **y))
    return (band + line).properties(width=WIDTH - 80, height=240)


def sweep_brier(gathered: Gathered, mode: Mode) -> Any:
    """Draw Brier against the lookback fraction (paper, figure 5)."""
    return _sweep_chart(gathered, mode, "brier", "Brier score", ".3f")


def sweep_accuracy(gathered: Gathered, mode: Mode) -> Any:
    """Draw accuracy against the lookback fraction (paper, figure 7)."""
    return _sweep_chart(gathered, mode, "accuracy", "Accuracy", "%")
