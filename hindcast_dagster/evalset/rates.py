"""Base rates that a forecaster at t0 could have known: the share of Yes among markets that had closed before t0."""

from bisect import bisect_left
from collections.abc import Iterable, Mapping
from itertools import accumulate
from typing import Any, NamedTuple

from hindcast_dagster.clock import Cutoff

UNKNOWN = 0.5


class Rate(NamedTuple):
    """A share of Yes and how many markets it rests on."""

    rate: float
    n: int
    enough: bool
    """At least the smallest number that a rate is trusted with."""


class Rates:
    """Base rates over one snapshot of resolved markets, and the same within each series."""

    def __init__(self, markets: Iterable[Mapping[str, Any]], *, at_least: int) -> None:
        """`markets` have close_at, outcome and series; those without an outcome are left out."""
        resolved = (m for m in markets if m["outcome"] is not None)
        closed = sorted(
            ((m["close_at"], int(m["outcome"] == "Yes"), m["series"]) for m in resolved), key=lambda each: each[:2]
        )
        groups: dict[str, list[tuple[int, int]]] = {}
        for at, yes, series in closed:
            if series is not None:
                groups.setdefault(series, []).append((at, yes))
        self._all = _Cumulative([(at, yes) for at, yes, _ in closed])
        self._series = {series: _Cumulative(members) for series, members in groups.items()}
        self._at_least = at_least

    def base(self, t0: Cutoff) -> Rate:
        """Return the share of Yes among all markets that closed before t0; 0.5 when they are too few."""
        n, yes = self._all.before(t0)
        enough = n >= self._at_least
        return Rate(yes / n if enough else UNKNOWN, n, enough)

    def reference(self, series: str | None, t0: Cutoff) -> Rate:
        """Return the share within a series, and the base rate when there is no series or it is too short by t0."""
        n, yes = self._series[series].before(t0) if series in self._series else (0, 0)
        enough = n >= self._at_least
        return Rate(yes / n if enough else self.base(t0).rate, n, enough)


class _Cumulative:
    def __init__(self, members: list[tuple[int, int]]) -> None:
        self._at = [at for at, _ in members]
        self._yes = [0, *accumulate(yes for _, yes in members)]

    def before(self, t0: Cutoff) -> tuple[int, int]:
        """Return (closed, Yes) strictly before t0."""
        count = bisect_left(self._at, t0.epoch)
        return count, self._yes[count]
