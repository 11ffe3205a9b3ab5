"""Serve the markets of a sample world on loopback, with the real APIs' routes and habits.

One server plays Gamma (`/markets/keyset`), the CLOB (`/prices-history`) and the Data API (`/v2/prices-history`), with
their habits: pages of at most 100, `after_cursor`, `closed` false unless asked, JSON in strings, rows in the order of
ids, price windows of 15 days, empty answers with status 200, a settlement point at the end of the Data series.
"""

import json
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any, Final, NamedTuple
from urllib.parse import parse_qs, urlsplit

from hindcast_dagster.clock import DAY
from hindcast_dagster.sample.model import SampleMarket
from hindcast_dagster.sample.world import World

PAGE_CAP: Final = 100
_PAGE_DEFAULT: Final = 20
_WINDOW_S: Final = 15 * DAY
_COARSE_MINUTES: Final = 720  # what interval=max needs for a resolved market
_STEP_S: Final = 10_800

Point = tuple[int, float]
Query = dict[str, str]


class Answer(NamedTuple):
    """A status and a JSON body."""

    status: int
    body: Any


class _Side(NamedTuple):
    """One token: its prices, and when and at what it settled (None while the market is open or void of a winner)."""

    market: SampleMarket
    points: list[Point]
    settled: Point | None


@contextmanager
def serve(world: World) -> Iterator[str]:
    """Serve the world on a free port of 127.0.0.1 while the body runs; yields the base URL of all three APIs."""
    routes = _Routes(world)
    server = ThreadingHTTPServer(("127.0.0.1", 0), _handler(routes.answer))
    server.daemon_threads = True
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.05}, daemon=True)
    thread.start()
    try:
        yield f"http://127.0.0.1:{server.server_port}"
    finally:
        server.shutdown()
        server.server_close()
        thread.join()


def _handler(answer: Callable[[str, Query], Answer]) -> type[BaseHTTPRequestHandler]:
    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"
        timeout = 30

        def log_message(self, *_: Any) -> None:
            """Keep stderr for the person who runs the pipeline."""

        def do_GET(self) -> None:
            parts = urlsplit(self.path)
            query = {name: values[-1] for name, values in parse_qs(parts.query).items()}
            status, body = answer(parts.path, query)
            data = json.dumps(body).encode()
            self.send_response(status)
            self.send_header("Content-Type", "application/json")
            self.send_header("Content-Length", str(len(data)))
            self.end_headers()
            self.wfile.write(data)

    return Handler


class _Routes:
    """What the three APIs answer, as functions of path and query."""

    def __init__(self, world: World) -> None:
        self._rows = world.gamma_rows
        self._sides: dict[str, _Side] = {}
        for market in world.markets:
            won = market.outcome == "Yes"
            yes, settles = list(market.prices), market.outcome is not None
            no = [(at, round(1 - price, 6)) for at, price in yes]
            self._sides[market.yes_token] = _Side(market, yes, (market.close_at, float(won)) if settles else None)
            self._sides[market.no_token] = _Side(market, no, (market.close_at, float(not won)) if settles else None)

    def answer(self, path: str, query: Query) -> Answer:
        """Return the answer to one request; a number that is none is 400, an unknown path 404."""
        route = {
            "/markets/keyset": self._keyset,
            "/prices-history": self._clob,
            "/v2/prices-history": self._data,
        }.get(path)
        if route is None:
            return Answer(404, {"error": "not found"})
        try:
            return route(query)
        except ValueError:
            return Answer(400, {"error": "invalid query parameter"})

    def _keyset(self, query: Query) -> Answer:
        if "offset" in query:
            return Answer(422, {"type": "validation error", "error": "offset is not allowed"})
        closed = query.get("closed", "false") == "true"
        after = int(query["after_cursor"]) if query.get("after_cursor") else 0
        size = min(int(query.get("limit", _PAGE_DEFAULT)), PAGE_CAP)
        rows = [row for row in self._rows if row["closed"] is closed and int(row["id"]) > after]
        page: dict[str, Any] = {"markets": rows[:size]}
        if len(rows) > size:
            page["next_cursor"] = page["markets"][-1]["id"]
        return Answer(200, page)

    def _clob(self, query: Query) -> Answer:
        side = self._sides.get(query.get("market", ""))
        if side is None or side.market.habit in {"clob_empty", "none"}:
            return Answer(200, {"history": []})
        fidelity = int(query.get("fidelity", 1))
        if "startTs" in query and "endTs" in query:
            start, end = int(query["startTs"]), int(query["endTs"])
            if end - start > _WINDOW_S:
                return Answer(400, {"error": "invalid filters: 'startTs' and 'endTs' interval is too long"})
            points = [point for point in side.points if start <= point[0] <= end]
        elif query.get("interval") == "max" and (side.market.status == "open" or fidelity >= _COARSE_MINUTES):
            points = side.points
        else:
            points = []
        return Answer(200, {"history": [{"t": at, "p": price} for at, price in thin(points, fidelity * 60)]})

    def _data(self, query: Query) -> Answer:
        side = self._sides.get(query.get("token_id", ""))
        points: list[tuple[int, float, int]] = []
        if side is not None and side.market.habit != "none":
            points = [(at, price, _STEP_S) for at, price in side.points]
            points += [(*side.settled, 0)] if side.settled else []
        if "as_of" in query:
            points = [point for point in points if point[0] <= int(query["as_of"])][-1:]
        elif "start" in query and "end" in query:
            start, end = int(query["start"]), int(query["end"])
            if end - start > _WINDOW_S:
                return Answer(400, {"error": "start and end span more than 15 days", "code": "invalid_request"})
            points = [point for point in points if start <= point[0] < end]
        data = [{"timestamp": at, "price": price, "resolution_seconds": step} for at, price, step in points]
        paging = {"limit": len(data), "offset": 0, "has_more": False, "next_cursor": None}
        return Answer(200, {"data": data, "pagination": paging})


def thin(points: list[Point], step_s: int) -> list[Point]:
    """Return the last point of every step of `step_s` seconds: what the CLOB does for a fidelity."""
    last = {at // max(step_s, 1): (at, price) for at, price in points}
    return list(last.values())
