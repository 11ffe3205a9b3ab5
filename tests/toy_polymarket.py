"""A toy Polymarket: Gamma, the CLOB and the Data API of a handful of markets on one loopback port.

It has the habits that the real APIs are known for (docs/markets.md) and faults that a test switches on, and it counts
what it is asked. `market_row` makes a row in Gamma's shape.
"""

import json
import threading
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any
from urllib.parse import parse_qs, urlparse

from hindcast_dagster.clock import DAY, HOUR, iso
from hindcast_dagster.settings import Settings, load

JAN_15 = 1_768_435_200  # 2026-01-15T00:00:00Z
Point = tuple[int, float]


def condition(number: int) -> str:
    return f"0x{number:064x}"


def token(number: int, side: str) -> str:
    return str(10**20 + number * 10 + (side == "No"))


def market_row(
    number: int,
    *,
    outcome: str = "Yes",
    close: int = JAN_15,
    opened: int | None = None,
    yes_first: bool = True,
    **changes: Any,
) -> dict[str, Any]:
    """A resolved market in Gamma's shape; `changes` replace fields, and None removes one."""
    labels = ["Yes", "No"] if yes_first else ["No", "Yes"]
    row = {
        "id": str(1000 + number),
        "conditionId": condition(number),
        "question": f"Will event {number} happen?",
        "slug": f"will-event-{number}-happen",
        "description": f'This market will resolve to "Yes" if event {number} happens. Otherwise, "No".',
        "outcomes": json.dumps(labels),
        "outcomePrices": json.dumps(["1" if label == outcome else "0" for label in labels]),
        "clobTokenIds": json.dumps([token(number, label) for label in labels]),
        "startDate": iso(opened if opened is not None else close - 20 * DAY),
        "createdAt": iso((opened if opened is not None else close - 20 * DAY) - HOUR),
        "endDate": iso(close),
        "closedTime": iso(close).replace("T", " ").replace("Z", "+00"),
        "umaEndDate": iso(close),
        "umaResolutionStatus": "resolved",
        "closed": True,
        "acceptingOrders": False,
        "negRisk": False,
        "volume": "1234.5",
        "events": [{"id": str(9000 + number), "slug": f"event-{number}"}],
        "tags": [],
    }
    return {name: value for name, value in (row | changes).items() if value is not None}


def daily(close: int, *, days: int = 20, price: float = 0.6, step: int = DAY) -> list[Point]:
    """A point every step, a few seconds off the grid, the last one before the close."""
    first = close - days * DAY
    return [(at + 7, price) for at in range(first, close - 7, step)]


@dataclass
class ToyPolymarket:
    """The state of the server; change it between requests."""

    rows: list[Any] = field(default_factory=list)
    series: dict[str, list[Point]] = field(default_factory=dict)
    data_series: dict[str, list[Point]] | None = None
    """What the Data API has; None: the same as the CLOB."""
    settled: dict[str, Point] = field(default_factory=dict)
    page_cap: int = 100
    fault: Callable[[int, str], tuple[int, str, dict[str, str]] | None] = lambda number, path: None
    """Called with the number of the request and its path; a (status, body, headers) replaces the answer."""
    asked: Counter[str] = field(default_factory=Counter)
    agents: set[str] = field(default_factory=set)
    url: str = ""

    def add(self, number: int, points: list[Point] | None = None, **options: Any) -> dict[str, Any]:
        """Add a market with its series on both sides."""
        row = market_row(number, **options)
        close = options.get("close", JAN_15)
        self.rows.append(row)
        points = daily(close) if points is None else points
        self.series[token(number, "Yes")] = points
        self.series[token(number, "No")] = [(at, round(1 - price, 6)) for at, price in points]
        won = options.get("outcome", "Yes") == "Yes"
        self.settled[token(number, "Yes")] = (close, float(won))
        self.settled[token(number, "No")] = (close, float(not won))
        return row

    def repeated(self) -> dict[str, int]:
        return {path: count for path, count in self.asked.items() if count > 1}

    def settings(self, root: object, **polymarket: Any) -> Settings:
        urls = {"gamma_url": self.url, "clob_url": self.url, "data_url": self.url, "wait_budget_s": 5.0}
        return load(data_root=str(root), polymarket=urls | polymarket)

    def answer(self, path: str, query: dict[str, str]) -> tuple[int, Any]:
        if path == "/markets/keyset":
            return self._listing(query)
        if path == "/prices-history":
            return self._clob(query)
        return self._data(query) if path == "/v2/prices-history" else (404, {"error": "not found"})

    def _listing(self, query: dict[str, str]) -> tuple[int, Any]:
        rows = self.rows if query.get("closed") == "true" else []
        start = int(query.get("after_cursor", "0"))
        size = min(int(query.get("limit", "20")), self.page_cap)
        page: dict[str, Any] = {"markets": rows[start : start + size]}
        return 200, page | ({"next_cursor": str(start + size)} if start + size < len(rows) else {})

    def _clob(self, query: dict[str, str]) -> tuple[int, Any]:
        start, end = int(query["startTs"]), int(query["endTs"])
        if end - start > 15 * DAY:
            return 400, {"error": "invalid filters: 'startTs' and 'endTs' interval is too long"}
        points = self.series.get(query["market"], [])
        return 200, {"history": [{"t": at, "p": price} for at, price in points if start <= at <= end]}

    def _data(self, query: dict[str, str]) -> tuple[int, Any]:
        if "as_of" in query:
            source = self.series if self.data_series is None else self.data_series
            before = [point for point in source.get(query["token_id"], []) if point[0] <= int(query["as_of"])]
            found = [{"timestamp": at, "price": price, "resolution_seconds": DAY} for at, price in sorted(before)[-1:]]
            return 200, {"data": found, "pagination": {"has_more": False, "next_cursor": None}}
        start, end = int(query["start"]), int(query["end"])
        if end - start > 15 * DAY:
            return 400, {"error": "start and end span more than 15 days", "code": "invalid_request"}
        source = self.series if self.data_series is None else self.data_series
        points = [(at, price, DAY) for at, price in source.get(query["token_id"], [])]
        if query["token_id"] in self.settled and points:
            points.append((*self.settled[query["token_id"]], 0))
        found = [
            {"timestamp": at, "price": price, "resolution_seconds": step}
            for at, price, step in points
            if start <= at < end
        ]
        return 200, {"data": found, "pagination": {"has_more": False, "next_cursor": None}}


@contextmanager
def serving(toy: ToyPolymarket) -> Iterator[ToyPolymarket]:
    """Serve `toy` on a free loopback port."""
    lock = threading.Lock()

    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def log_message(self, *_: Any) -> None:
            pass

        def do_GET(self) -> None:
            with lock:
                toy.asked[self.path] += 1
                toy.agents.add(self.headers.get("User-Agent", ""))
                number = toy.asked.total()
                fault = toy.fault(number, self.path)
            if fault is not None:
                self._send(*fault)
                return
            url = urlparse(self.path)
            status, body = toy.answer(url.path, {key: values[-1] for key, values in parse_qs(url.query).items()})
            self._send(status, json.dumps(body), {})

        def _send(self, status: int, body: str, headers: dict[str, str]) -> None:
            if status == 0:  # the connection is closed without an answer
                self.close_connection = True
                return
            data = body.encode("utf-8", "surrogatepass")
            self.send_response(status)
            self.send_header("Content-Length", str(len(data)))
            for name, value in headers.items():
                self.send_header(name, value)
            self.end_headers()
            self.wfile.write(data)

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    server.daemon_threads = True
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.02}, daemon=True)
    thread.start()
    toy.url = f"http://127.0.0.1:{server.server_port}"
    try:
        yield toy
    finally:
        server.shutdown()
        server.server_close()
        thread.join()
