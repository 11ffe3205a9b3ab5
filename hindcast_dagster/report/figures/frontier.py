"""Figures of cost: Brier against tokens, seconds and money of one forecast, and the frontier of what is worth it.

A cell lies on the frontier when no other is both cheaper and better. Cells without a cost (baselines, imports, models
without a price in the roster) cannot be drawn; cells that answered other questions are drawn hollow, beside the line.
"""

from typing import Any

import polars as pl

from hindcast_dagster.report.figures.base import brier_scale, inline, named, named_points
from hindcast_dagster.report.gather import Gathered
from hindcast_dagster.report.theme import PALETTES, Mode


def tokens(gathered: Gathered, mode: Mode) -> Any:
    """Draw Brier against the tokens of one forecast."""
    return _frontier(gathered, mode, metric="tokens", title="Tokens per forecast", form="~s")


def seconds(gathered: Gathered, mode: Mode) -> Any:
    """Draw Brier against the seconds that the calls of one forecast took."""
    return _frontier(gathered, mode, metric="seconds", title="Seconds per forecast", form="~r")


def money(gathered: Gathered, mode: Mode) -> Any:
    """Draw Brier against the US dollars of one forecast."""
    return _frontier(gathered, mode, metric="cost", title="US $ per forecast", form="~g")


def best_for_price(cells: pl.DataFrame) -> pl.DataFrame:
    """Return the cells (columns x: price, y: Brier) than which none is both cheaper and better, cheapest first."""
    ranked = cells.sort("x", "y")
    return ranked.filter(pl.col("y") < pl.col("y").cum_min().shift(1).fill_null(float("inf")))


def _frontier(gathered: Gathered, mode: Mode, *, metric: str, title: str, form: str) -> Any:
    import altair as alt

    spent = gathered.tables["metrics"].filter(pl.col("metric") == metric).select("model", "arm", "value")
    cells = gathered.cells.filter(pl.col("n") > 0).join(spent, on=["model", "arm"], how="inner")
    shown = named(gathered, cells.filter(pl.col("value") > 0)).with_columns(
        pl.col("value").alias("x"), pl.col("brier").alias("y")
    )
    if shown.height < 2:  # noqa: PLR2004 - one mark is no frontier
        return None
    scale = alt.Scale(type="log", nice=False, padding=24)
    x = alt.X("x:Q", title=title, scale=scale, axis=alt.Axis(format=form, tickCount=4, grid=False))
    y = alt.Y("y:Q", title="Brier score", scale=brier_scale(shown["y"].to_list()))
    line = (
        alt.Chart(inline(best_for_price(shown.filter(pl.col("ranked"))).select("x", "y")))
        .mark_line(interpolate="step-after", strokeDash=[4, 3], strokeWidth=1.4, color=PALETTES[mode].muted)
        .encode(x=x, y=y)
    )
    return named_points(shown, mode, x, y, log=True, below=line)
