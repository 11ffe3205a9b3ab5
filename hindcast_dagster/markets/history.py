"""One window of one price history on one of the two routes: how it is asked for and what the answer means.

What belongs here: the CLOB (`/prices-history`) and the Data API (`/v2/prices-history`) with their habits. A window
spans at most 15 days. Nearly every failure of the CLOB is an empty 200, so empty is a state with a reason, never "no
price". The Data API ends a series with a settlement point (price 0 or 1, no resolution), which is not a price.
"""

import math
from typing import Any, Final, Literal, NamedTuple

from hindcast_dagster import clock
from hindcast_dagster.markets import fields
from hindcast_dagster.markets.http import Answer, Client

Route = Literal["clob", "data"]
ROUTES: Final[tuple[Route, Route]] = ("clob", "data")
WINDOW_S: Final = 15 * clock.DAY
MARGIN_S: Final = clock.HOUR  # trading may begin shortly before the start that Gamma tells
_PAGES: Final = 50  # pages of one window that the Data API may spread over


class Point(NamedTuple):
    """One price of one side."""

    at: int
    price: float
    step_s: int


class Window(NamedTuple):
    """A stretch of time that is asked for in one go, epoch seconds."""

    start: int
    end: int


def windows(opened: int, closed: int) -> list[Window]:
    """Return the windows of at most 15 days, oldest first, that cover a market's life; neighbours share a boundary."""
    first = opened - MARGIN_S
    starts = range(first, max(closed, first + 1), WINDOW_S)
    return [Window(start, min(start + WINDOW_S, closed)) for start in starts if start < closed]


def ask(client: Client, route: Route, token: str, window: Window, *, step_minutes: int) -> list[Answer]:
    """Ask one route for one window; several answers when the Data API pages. Raises `Unreachable` or `Rejected`.

    A window without width asks the Data API for the last point at or before its instant (`as_of`).
    """
    if route == "clob":
        query: dict[str, str | int] = {
            "market": token, "startTs": window.start, "endTs": window.end, "fidelity": step_minutes,
        }  # fmt: skip
        return [client.get("/prices-history", query, accept=_clob_shape)]
    if window.start == window.end:
        return _ask_data(client, {"token_id": token, "as_of": window.end})
    return _ask_data(client, {"token_id": token, "start": window.start, "end": window.end})


def _ask_data(client: Client, query: dict[str, str | int]) -> list[Answer]:
    answers: list[Answer] = []
    seen: set[str] = set()
    while len(answers) < _PAGES:
        answers.append(client.get("/v2/prices-history", query, accept=_data_shape))
        paging = answers[-1].value.get("pagination") or {}
        cursor = paging.get("next_cursor")
        if not paging.get("has_more") or not isinstance(cursor, str) or cursor in seen:
            break
        seen.add(cursor)
        query = query | {"cursor": cursor}
    return answers


def read(route: Route, body: Any, *, step_s: int) -> list[Point]:
    """Return the points of a stored answer, in its order; impossible points and settlement points are left out."""
    if not isinstance(body, dict):
        return []
    if route == "clob":
        found = [_point(row.get("t"), row.get("p"), step_s) for row in fields.objects(body.get("history"))]
        return [point for point in found if point]
    found = [
        _point(row.get("timestamp"), row.get("price"), int(fields.number(row.get("resolution_seconds")) or 0))
        for row in fields.objects(body.get("data"))
    ]
    return [point for point in found if point and not (point.step_s == 0 and point.price in {0.0, 1.0})]


def _point(at: Any, price: Any, step_s: int) -> Point | None:
    when, value = fields.number(at), fields.number(price)
    if when is None or value is None or not (clock.EARLIEST <= when < clock.LATEST and 0 <= value <= 1):
        return None
    return Point(math.ceil(when), value, step_s)  # up: a point within the second of t0 is later than t0


def _clob_shape(value: Any) -> str | None:
    return None if isinstance(value, dict) and isinstance(value.get("history"), list) else "no price history"


def _data_shape(value: Any) -> str | None:
    return None if isinstance(value, dict) and isinstance(value.get("data"), list) else "no list of prices"
