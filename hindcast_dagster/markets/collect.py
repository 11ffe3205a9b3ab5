"""One market's whole price series: which windows are asked, on which route, and what is already stored.

What belongs here: the life of one series. Every answer is stored before it is read, one raw log per market, so a killed
run asks for nothing twice. An empty answer is asked once more on the other route before the window counts as empty; a
series that is empty as a whole is never trusted for longer than one session.
"""

import json
from collections.abc import Mapping
from typing import Any, Final, NamedTuple

from hindcast_dagster import clock
from hindcast_dagster.markets.history import WINDOW_S, Point, Route, Window, ask, read, windows
from hindcast_dagster.markets.http import Client, Rejected
from hindcast_dagster.markets.rawlog import RawLog, digest

UNKNOWN_LIFE_S: Final = 6 * WINDOW_S  # asked for when a market does not say when it opened


class Asking(NamedTuple):
    """How series are asked for; the same for all markets of a run."""

    clients: Mapping[Route, Client]
    order: tuple[Route, ...]
    """The route that is asked first, then the fallback."""
    step_minutes: int
    since: int
    """An empty series that was fetched before this instant is asked again."""


class Got(NamedTuple):
    """One window's points and the route that gave them; None when every route was empty."""

    window: Window
    route: Route | None
    points: list[Point]


class Series(NamedTuple):
    """One market's series: points ascending, each instant once, all before the close."""

    market_id: str
    token: str | None
    points: list[tuple[Point, Route]]
    got: list[Got]
    fetched_at: int | None
    rejected: int


def collect(market: dict[str, Any], log: RawLog, asking: Asking) -> Series:
    """Return the series of a market row, asking for what is not stored. Raises `Unreachable`."""
    token = market["yes_token"]
    if token is None:
        return Series(market["market_id"], None, [], [], None, 0)
    stored = Stored(log, token, asking)
    life = windows(
        market["open_at"] if market["open_at"] is not None else market["close_at"] - UNKNOWN_LIFE_S, market["close_at"]
    )
    got = [stored.window(window, since=0) for window in life]
    if not any(each.points for each in got):
        got = [stored.window(window, since=asking.since) for window in life]
    points = merge(got, before=market["close_at"])
    return Series(market["market_id"], token, points, got, stored.newest, stored.rejected)


def merge(got: list[Got], *, before: int) -> list[tuple[Point, Route]]:
    """Join windows: ascending, each instant once, nothing at or after the close.

    Of several prices at one instant the one of the earlier window wins, then the lowest, so that the order of an answer
    does not matter.
    """
    found: dict[int, tuple[Point, Route]] = {}
    for window in got:
        for point in sorted(window.points):
            if window.route is not None and point.at < before:
                found.setdefault(point.at, (point, window.route))
    return [found[at] for at in sorted(found)]


class Stored:
    """The answers for one token: those in the log, and those that are asked for now."""

    def __init__(self, log: RawLog, token: str, asking: Asking) -> None:
        self._log, self._token, self._asking = log, token, asking
        self._found = {_key(record): record for record in log.records() if record["token"] == token}
        self.newest: int | None = max((record["fetched_at"] for record in self._found.values()), default=None)
        self.rejected = 0

    def window(self, window: Window, *, since: int) -> Got:
        """Return one window from the first route that has points; answers older than `since` are asked again."""
        for route in self._asking.order:
            points = self._points(route, window, since)
            if points:
                return Got(window, route, points)
        return Got(window, None, [])

    def _points(self, route: Route, window: Window, since: int) -> list[Point]:
        step = self._asking.step_minutes
        record = self._found.get((route, window.start, window.end, step))
        if record is None or record["fetched_at"] < since:
            record = self._ask(route, window)
        self.rejected += "rejected" in record
        bodies = [json.loads(text) for text in record["bodies"]]
        return [point for body in bodies for point in read(route, body, step_s=step * 60)]

    def _ask(self, route: Route, window: Window) -> dict[str, Any]:
        asked: dict[str, Any] = {
            "route": route,
            "token": self._token,
            "start": window.start,
            "end": window.end,
            "step_minutes": self._asking.step_minutes,
        }
        try:
            answers = ask(
                self._asking.clients[route], route, self._token, window, step_minutes=self._asking.step_minutes
            )
            texts = [answer.text for answer in answers]
            record = asked | {
                "fetched_at": max(a.fetched_at for a in answers),
                "sha256": [digest(t) for t in texts],
                "bodies": texts,
            }
        except Rejected as error:
            # One odd token must not cost the month: the refusal is kept, and the other route is asked.
            record = asked | {"fetched_at": clock.now(), "sha256": [], "bodies": [], "rejected": str(error)}
        self._log.append([record])
        self._found[_key(record)] = record
        self.newest = max(self.newest or 0, record["fetched_at"])
        return record


def opposite_gap(yes: list[Point], no: list[Point]) -> float | None:
    """Return the median of |yes + no - 1| over instants that both sides have within two minutes; None without any."""
    by_minute = {point.at // 120: point.price for point in no}
    gaps = sorted(abs(point.price + by_minute[point.at // 120] - 1) for point in yes if point.at // 120 in by_minute)
    return gaps[len(gaps) // 2] if gaps else None


def _key(record: dict[str, Any]) -> tuple[str, int, int, int]:
    return record["route"], record["start"], record["end"], record["step_minutes"]
