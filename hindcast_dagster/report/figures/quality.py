"""Figures of quality: reliability, and what an arm changes per topic."""

from typing import Any

import polars as pl

from hindcast_dagster.report.figures.base import best_cells, inline, panels
from hindcast_dagster.report.gather import Gathered
from hindcast_dagster.report.theme import PALETTES, WIDTH, Mode, arm_name


def topic_effects(gathered: Gathered, mode: Mode) -> Any:
    """Draw recoveries minus regressions per topic (paper, figure 6), one panel per arm."""
    import altair as alt

    effects = gathered.tables["effects"].filter(pl.col("by") == "topic")
    if not effects.height:
        return None
    shown = effects.sort("net", descending=True).with_columns(
        pl.col("arm").map_elements(arm_name, return_dtype=pl.String).alias("arm_name"),
        (pl.col("net") >= 0).alias("gain"),
        pl.format("{} ({} / {})", pl.col("net"), pl.col("recoveries"), pl.col("regressions")).alias("label"),
    )
    colour = alt.condition("datum.net >= 0", alt.value(PALETTES[mode].good), alt.value(PALETTES[mode].bad))
    order = shown["group"].unique(maintain_order=True).to_list()
    reach = max(int(shown["net"].abs().max() or 1), 1) * 1.6  # type: ignore[arg-type]
    base = alt.Chart().encode(
        y=alt.Y("group:N", sort=order, title=None),
        x=alt.X("net:Q", title="Recoveries minus regressions", scale=alt.Scale(domain=[-reach, reach])),
    )
    bars = base.mark_bar(height=16, cornerRadiusEnd=2).encode(color=colour)
    right = base.transform_filter("datum.net >= 0").mark_text(align="left", dx=5).encode(text="label:N")
    left = base.transform_filter("datum.net < 0").mark_text(align="right", dx=-5).encode(text="label:N")
    panel = alt.layer(bars, right, left).properties(width=WIDTH - 160, height=26 * len(order))
    keep = ["arm_name", "group", "net", "label"]
    data = inline(shown.select(keep))
    if shown["arm"].n_unique() == 1:
        return panel.properties(data=data)
    return panel.facet(row=alt.Row("arm_name:N", title=None), data=data)


def reliability(gathered: Gathered, mode: Mode) -> Any:
    """Draw the share of Yes against the mean forecast of each equal-width bin, mark size by bin size."""
    import altair as alt

    cells = best_cells(gathered, with_market=True)
    bins = gathered.tables["calibration"].filter(pl.col("form") == "equal_width")
    shown = bins.join(cells.select("model", "arm", "panel"), on=["model", "arm"], how="inner")
    if not shown.height:
        return None
    unit = alt.Scale(domain=[0, 1])
    axis = {"values": [0, 0.5, 1], "format": ".1~f"}
    x = alt.X("mean_p:Q", scale=unit, title="Mean forecast", axis=alt.Axis(**axis))
    y = alt.Y("share_yes:Q", scale=unit, title="Share of Yes", axis=alt.Axis(**axis))
    base = alt.Chart().encode(x=x, y=y)
    diagonal = (
        alt.Chart(alt.Data(values=[{"mean_p": 0, "share_yes": 0}, {"mean_p": 1, "share_yes": 1}]))
        .mark_line(strokeDash=[4, 4], color=PALETTES[mode].muted, strokeWidth=1)
        .encode(x=x, y=y)
    )
    colour = PALETTES[mode].series["retrieval"]
    line = base.mark_line(color=colour, strokeWidth=1.5)
    dots = base.mark_point(filled=True, color=colour, opacity=0.9).encode(
        size=alt.Size("n:Q", scale=alt.Scale(range=[25, 220]), legend=None)
    )
    panel = alt.layer(diagonal, line, dots).properties(width=170, height=170)
    order = cells["panel"].to_list()
    keep = ["panel", "mean_p", "share_yes", "n"]
    return panel.facet(facet=panels(order), columns=3, data=inline(shown.select(keep).sort("mean_p")))
