"""One market's whole price series.

What belongs here: the life of one series, window by window, and joining them. A series that is empty as a whole is
never trusted for longer than one session.
"""

from typing import Any, Final, NamedTuple

from hindcast_dagster.markets.history import WINDOW_S, Point, Route, windows
from hindcast_dagster.markets.rawlog import RawLog
from hindcast_dagster.markets.stored import Asking, Got, Stored

UNKNOWN_LIFE_S: Final = 6 * WINDOW_S  # asked for when a market does not say when it opened


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
    got: list[Got] = []
    for window in life:
        got.append(stored.window(window, since=0, started=any(each.points for each in got)))
    if life and not any(each.points for each in got) and stored.revived(life[-1], since=asking.since):
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


def opposite_gap(yes: list[Point], no: list[Point]) -> float | None:
    """Return the median of |yes + no - 1| over instants that both sides have within two minutes; None without any."""
    by_minute = {point.at // 120: point.price for point in no}
    gaps = sorted(abs(point.price + by_minute[point.at // 120] - 1) for point in yes if point.at // 120 in by_minute)
    return gaps[len(gaps) // 2] if gaps else None
