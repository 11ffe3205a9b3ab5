"""What the figures share: inline data, names, one colour per arm, and which cells a small multiple shows.

Values are passed inline and every field is typed, so that a text from outside is data in a chart and never markup.
"""

from typing import Any, Final

import polars as pl

from hindcast_dagster.report import theme
from hindcast_dagster.report.gather import Gathered
from hindcast_dagster.report.theme import PALETTES, WIDTH, Mode, arm_name, colours
from hindcast_dagster.scoring.inputs import BASELINE, MARKET

PANELS: Final = 6
"""Panels of a small multiple: more cells than this are shown best first, and the caption says so."""


def inline(frame: pl.DataFrame) -> Any:
    """Return a frame as values inside the specification."""
    import altair as alt

    return alt.Data(values=frame.to_dicts())


def named(gathered: Gathered, frame: pl.DataFrame) -> pl.DataFrame:
    """Add `name` and `arm_name`: model and arm as a person reads them."""
    names = {slug: facts.name for slug, facts in gathered.facts.items()}
    return frame.with_columns(
        pl.col("model").replace_strict(names, default=pl.col("model"), return_dtype=pl.String).alias("name"),
        pl.col("arm").map_elements(arm_name, return_dtype=pl.String).alias("arm_name"),
    )


def arm_scale(arms: list[str], mode: Mode) -> Any:
    """Return the colour scale over the names of arms."""
    import altair as alt

    found = colours(arms, mode)
    return alt.Scale(domain=[arm_name(arm) for arm in arms], range=[found[arm] for arm in arms])


def arm_order(frame: pl.DataFrame) -> list[str]:
    """Return the arms of a frame, the known ones in their usual order first."""
    known = list(theme.ARM_NAMES)
    return sorted(frame["arm"].unique().to_list(), key=lambda arm: (known.index(arm) if arm in known else 99, arm))


def best_cells(gathered: Gathered, *, with_market: bool) -> pl.DataFrame:
    """Return at most PANELS cells, those that may be ranked first, lowest Brier first."""
    cells = gathered.cells.filter(pl.col("n") > 0).sort("ranked", "brier", descending=[True, False])
    market = (pl.col("model") == BASELINE) & (pl.col("arm") == MARKET)
    asked = cells.filter(pl.col("model") != BASELINE).head(PANELS - with_market)
    kept = pl.concat([asked, cells.filter(market)]) if with_market else asked
    return named(gathered, kept).with_columns(
        pl.when(pl.col("model") == BASELINE)
        .then(pl.col("arm_name"))
        .otherwise(pl.col("name") + ", " + pl.col("arm_name").str.to_lowercase())
        .alias("panel")
    )


def arm_colour(frame: pl.DataFrame, mode: Mode, *, title: str | None = None) -> Any:
    """Return the colour encoding of `arm_name` with a legend on top."""
    import altair as alt

    legend = alt.Legend(title=title, orient="top", columns=3)
    return alt.Color("arm_name:N", scale=arm_scale(arm_order(frame), mode), legend=legend)


def labels(frame: pl.DataFrame, *, x: str, y: str) -> pl.DataFrame:
    """Return the rows whose label has room: no kept label lies within a sixth of the width and a 25th of the height."""
    spans = [max(max(frame[name].to_list()) - min(frame[name].to_list()), 1e-9) for name in (x, y)]
    kept: list[dict[str, Any]] = []
    for row in frame.sort(y).iter_rows(named=True):
        near = (abs(row[x] - other[x]) < spans[0] / 6 and abs(row[y] - other[y]) < spans[1] / 25 for other in kept)
        if not any(near):
            kept.append(row)
    return pl.DataFrame(kept, schema=frame.schema)


def panels(order: list[str]) -> Any:
    """Return the facet over `panel`, in this order; the arm stands below the model, as two names need two lines."""
    import altair as alt

    return alt.Facet("panel:N", title=None, sort=order, header=alt.Header(labelExpr="split(datum.label, ', ')"))


def brier_scale(values: list[float], *, room: float = 0.12) -> Any:
    """Return a scale around Brier scores that ends at 0: padding alone would draw a score below it."""
    import altair as alt

    low, high = min(values), max(values)
    spare = max(high - low, 0.02) * room
    return alt.Scale(domain=[max(low - spare, 0), high + spare], nice=False)


def named_points(shown: pl.DataFrame, mode: Mode, x: Any, y: Any, *, log: bool = False, below: Any = None) -> Any:
    """Draw one mark per cell at (x, y), coloured by arm, with the model's name where there is room, over `below`.

    A mark is hollow where the cell has no place in an order. Names stand on the side that has room.
    """
    import altair as alt

    placed = shown.with_columns((pl.col("x").log() if log else pl.col("x")).alias("at"))
    span = placed.select(((pl.col("at").min() + pl.col("at").max()) / 2).alias("middle"))["middle"][0]
    room = labels(placed, x="at", y="y").select("model", "arm")
    keep = ["name", "arm_name", "x", "y", "ranked", "right"]
    placed = placed.with_columns((pl.col("at") > span).alias("right"))
    colour = arm_colour(shown, mode)
    points = alt.Chart(inline(placed.select(keep))).encode(x=x, y=y, color=colour)
    dots = points.transform_filter("datum.ranked").mark_point(filled=True, size=100, opacity=0.9)
    rings = points.transform_filter("!datum.ranked").mark_point(filled=False, size=90, strokeWidth=2)
    named_rows = placed.join(room, on=["model", "arm"], how="semi").select(keep)
    words = alt.Chart(inline(named_rows)).encode(x=x, y=y, text="name:N")
    text = {"fontSize": 11, "dy": -7, "color": PALETTES[mode].muted}
    left = words.transform_filter("!datum.right").mark_text(align="left", dx=6, **text)
    right = words.transform_filter("datum.right").mark_text(align="right", dx=-6, **text)
    layers = [*([] if below is None else [below]), dots, rings, left, right]
    return alt.layer(*layers).properties(width=WIDTH - 110, height=260)
