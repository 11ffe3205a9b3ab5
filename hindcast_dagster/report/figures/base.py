"""What the figures share: inline data, names, one colour per arm, and which cells a small multiple shows.

Values are passed inline and every field is typed, so that a text from outside is data in a chart and never markup.
"""

from typing import Any, Final

import polars as pl

from hindcast_dagster.report import theme
from hindcast_dagster.report.gather import Gathered
from hindcast_dagster.report.theme import Mode, arm_name, colours
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
    """Return at most PANELS cells, lowest Brier first."""
    cells = gathered.cells.filter(pl.col("n") > 0).sort("brier")
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
