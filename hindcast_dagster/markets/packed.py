"""A collected series as a month holds thousands of them: a small frame and one row of what was asked."""

import collections
import statistics
from collections.abc import Sequence
from typing import Any, Final, NamedTuple

import polars as pl

from hindcast_dagster.contracts.markets import PRICES
from hindcast_dagster.markets.collect import Series
from hindcast_dagster.markets.stored import Got

_LAST: Final = 30


class Packed(NamedTuple):
    """One market's series, packed."""

    points: pl.DataFrame
    """Contract PRICES, one market."""
    row: dict[str, Any]
    """Contract SERIES."""
    last: Got | None
    """The last window that has points, with its last few: what the No side is compared with."""
    rejected: int


def pack(series: Series) -> Packed:
    """Pack one series; runs where it was collected, so that a month never holds all points as objects."""
    last = next((got._replace(points=sorted(got.points)[-_LAST:]) for got in reversed(series.got) if got.points), None)
    return Packed(_points(series), _row(series), last, series.rejected)


def points_frame(packed: Sequence[Packed]) -> pl.DataFrame:
    """Return the points of all series (contract PRICES)."""
    return pl.concat([PRICES.empty(), *(each.points for each in packed)]).sort(PRICES.order)


def stats(packed: Sequence[Packed]) -> dict[str, Any]:
    """Return counts for the manifest."""
    rows = [each.row for each in packed]
    status = collections.Counter(row["status"] for row in rows)
    return {
        "series": len(rows),
        "points": sum(row["points"] for row in rows),
        "no_price_history": status["no_price_history"],
        "no_token": status["no_token"],
        "empty_windows": sum(len(row["empty_windows"]) for row in rows),
        "rejected": sum(each.rejected for each in packed),
        "routes": dict(sorted(collections.Counter(row["route"] for row in rows if row["route"]).items())),
    }


def _points(series: Series) -> pl.DataFrame:
    columns = {
        "market_id": [series.market_id] * len(series.points),
        "at": [point.at for point, _ in series.points],
        "price": [point.price for point, _ in series.points],
        "route": [route for _, route in series.points],
        "step_s": [point.step_s for point, _ in series.points],
    }
    return pl.DataFrame(columns, schema=PRICES.polars)


def _row(series: Series) -> dict[str, Any]:
    routes = sorted({route for _, route in series.points})
    steps = [point.step_s for point, _ in series.points]
    return {
        "market_id": series.market_id,
        "token": series.token,
        "status": "no_token" if series.token is None else "ok" if series.points else "no_price_history",
        "route": "mixed" if len(routes) > 1 else next(iter(routes), None),
        "step_s": int(statistics.mode(steps)) if steps else 0,
        "points": len(series.points),
        "first_at": series.points[0][0].at if series.points else None,
        "last_at": series.points[-1][0].at if series.points else None,
        "windows": len(series.got),
        "empty_windows": [got.window.start for got in series.got if got.route is None],
        "fetched_at": series.fetched_at,
    }
