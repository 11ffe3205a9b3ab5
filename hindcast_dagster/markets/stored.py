"""The price answers for one token: those in its raw log, and those that are asked for now.

What belongs here: asking for one window until it is known. Every answer is stored before it is read, so a killed run
asks for nothing twice. A window that both routes answer empty is held against a third word, the last point before its
end: a point inside the window contradicts the empty answers, and both are asked again.
"""

import json
from collections.abc import Mapping
from typing import Any, Final, NamedTuple

from hindcast_dagster import clock
from hindcast_dagster.markets.history import Point, Route, Window, ask, read
from hindcast_dagster.markets.http import Client, Rejected
from hindcast_dagster.markets.rawlog import RawLog, digest

_ROUNDS: Final = 4  # times that a contradicted window is asked on both routes before it is left empty


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


class Stored:
    """The answers for one token."""

    def __init__(self, log: RawLog, token: str, asking: Asking) -> None:
        self._log, self._token, self._asking = log, token, asking
        self._found = {_key(record): record for record in log.records() if record["token"] == token}
        self.newest: int | None = max((record["fetched_at"] for record in self._found.values()), default=None)
        self.rejected = 0

    def window(self, window: Window, *, since: int, started: bool = False) -> Got:
        """Return one window from the first route that has points; answers older than `since` are asked again.

        `started`: the series has points before this window, so an empty "last point before" is no answer either.
        """
        got = self._first(window, since)
        for _ in range(_ROUNDS):
            if got.points or not self._contradicted(window, since, started=started):
                break
            got = self._first(window, since, again=True)
        return got

    def revived(self, last: Window, *, since: int) -> bool:
        """Return whether a series that was empty before `since` has points by now.

        The last window and the last point are asked for, not every window: dead markets are many, and each session
        comes back to them.
        """
        instant = Window(last.end - 1, last.end - 1)
        return bool(self._first(last, since).points or self._points("data", instant, since))

    def _first(self, window: Window, since: int, *, again: bool = False) -> Got:
        for route in self._asking.order:
            if points := self._points(route, window, since, again=again):
                return Got(window, route, points)
        return Got(window, None, [])

    def _contradicted(self, window: Window, since: int, *, started: bool) -> bool:
        """Return whether the last point before the window's end lies inside the window."""
        instant = Window(window.end - 1, window.end - 1)
        last = self._points("data", instant, since)
        if not last and started:
            last = self._points("data", instant, since, again=True)
        return any(window.start <= point.at < window.end for point in last)

    def _points(self, route: Route, window: Window, since: int, *, again: bool = False) -> list[Point]:
        step = self._asking.step_minutes
        record = self._found.get((route, window.start, window.end, step))
        if record is None or again or record["fetched_at"] < since:
            record = self._ask(route, window)
        self.rejected += "rejected" in record
        bodies = [json.loads(text) for text in record["bodies"]]
        return [point for body in bodies for point in read(route, body, step_s=step * 60)]

    def _ask(self, route: Route, window: Window) -> dict[str, Any]:
        step = self._asking.step_minutes
        asked = {"route": route, "token": self._token, "start": window.start, "end": window.end, "step_minutes": step}
        record: dict[str, Any] = {**asked, **self._answer(route, window)}
        self._log.append([record])
        self._found[_key(record)] = record
        self.newest = max(self.newest or 0, int(record["fetched_at"]))
        return record

    def _answer(self, route: Route, window: Window) -> dict[str, Any]:
        client, step = self._asking.clients[route], self._asking.step_minutes
        try:
            answers = ask(client, route, self._token, window, step_minutes=step)
        except Rejected as error:
            # One odd token must not cost the month: the refusal is kept, and the other route is asked.
            return {"fetched_at": clock.now(), "sha256": [], "bodies": [], "rejected": str(error)}
        bodies = [answer.text for answer in answers]
        return {"fetched_at": answers[-1].fetched_at, "sha256": [digest(body) for body in bodies], "bodies": bodies}


def _key(record: dict[str, Any]) -> tuple[str, int, int, int]:
    return record["route"], record["start"], record["end"], record["step_minutes"]
