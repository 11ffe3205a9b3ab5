"""Sweeps and trajectories: eval sets over the same markets, each at another point of the markets' lives.

Four points are the paper's lookback sweep (table 7, figure 5); many points are a trajectory (figure 1), with the
market's own price beside every forecast.
"""

from collections.abc import Sequence
from typing import Any, Final, NamedTuple

import polars as pl

from hindcast_dagster import clock
from hindcast_dagster.clock import T0Policy
from hindcast_dagster.errors import NotReady, UsageError
from hindcast_dagster.evalset.build import build
from hindcast_dagster.evalset.config import Asked, Config
from hindcast_dagster.evalset.pool import Progress, askable
from hindcast_dagster.markets import read
from hindcast_dagster.questions.load import TABLE, frozen, load
from hindcast_dagster.settings import Settings
from hindcast_dagster.storage.manifest import Manifest
from hindcast_dagster.storage.store import Store

PAPER: Final = (0.25, 0.5, 0.75, 1.0)
_MOST: Final = 100  # points: names carry whole percents


class Sweep(NamedTuple):
    """The sets of one sweep, by fraction, and how many markets of the first set have no price at some point."""

    sets: dict[float, Manifest]
    left_out: int


def points(count: int | None) -> tuple[float, ...]:
    """Return `count` evenly spaced fractions that end at the close; None: the paper's. Raises `UsageError`."""
    if count is None:
        return PAPER
    if not 1 <= count <= _MOST:
        raise UsageError(f"A trajectory has 1 to {_MOST} points, found {count}.")
    return tuple((index + 1) / count for index in range(count))


def name_of(eval_set: str, fraction: float, fractions: Sequence[float] = PAPER) -> str:
    """Return the name of one set of a sweep: `<name>-l<percent>`, in a trajectory of n points `<name>-t<n>-<percent>`.

    Sweeps with other points hold other markets (those with a price at every point), so they share no set.
    """
    kind = "l" if tuple(fractions) == PAPER else f"t{len(fractions)}-"
    return f"{eval_set}-{kind}{round(100 * fraction)}"


def build_sweep(
    store: Store, settings: Settings, *, name: str, fractions: Sequence[float] = PAPER, progress: Progress | None = None
) -> Sweep:
    """Build one eval set per fraction of the markets' lives (`name_of`), over the markets of the set `name`.

    All hold exactly the same markets: those that have a t0 and a price at every fraction. A sweep that is sealed is
    returned as it is, whatever was fetched since. Raises `NotSealed` without the set, `NotReady` when no market of it
    is sealed here or has a price at all of them.
    """
    known = [resolved.question.id for resolved in load(store, name)]
    shared = _shared(store, settings, name, known, fractions)
    sets = {
        fraction: _build(store, settings, name, name=each, fraction=fraction, shared=shared, progress=progress)
        for fraction, each in names_of(name, fractions).items()
    }
    return Sweep(sets, len(known) - len(shared))


def build_point(
    store: Store, settings: Settings, *, name: str, point: str, fractions: Sequence[float] = PAPER
) -> Manifest:
    """Build the one set `point` of the sweep over `name` (a partition of its own), over the markets of all of them."""
    by_name = {each: fraction for fraction, each in names_of(name, fractions).items()}
    if point not in by_name:
        raise UsageError(f"{point} is no set of the sweep over {name}: its sets are {', '.join(by_name)}.")
    known = [resolved.question.id for resolved in load(store, name)]
    shared = _shared(store, settings, name, known, fractions)
    return _build(store, settings, name, name=point, fraction=by_name[point], shared=shared)


def names_of(name: str, fractions: Sequence[float] = PAPER) -> dict[float, str]:
    """Return the names of a sweep's sets by fraction."""
    return {fraction: name_of(name, fraction, fractions) for fraction in fractions}


def _build(
    store: Store, settings: Settings, base: str, *, name: str, fraction: float, shared: list[str],
    progress: Progress | None = None,
) -> Manifest:  # fmt: skip
    asked = _asked(fraction, frozen(store, base).manifest.stats.get("config") or {})
    asked["market_ids"] = shared
    return build(store, settings, name=name, progress=progress, **asked)


def _asked(fraction: float, given: dict[str, Any]) -> Asked:
    return {
        "policy": T0Policy("lookback", fraction),
        "archive_end": given.get("archive_end"),
        "max_price_age_h": given.get("max_price_age_h"),
    }


def _shared(store: Store, settings: Settings, name: str, known: list[str], fractions: Sequence[float]) -> list[str]:
    """Return the markets of a sweep: those of its sealed sets, else all that have a price at every fraction."""
    for each in names_of(name, fractions).values():
        sealed = store.partition(TABLE, each).manifest()
        markets = sealed.stats["config"].get("market_ids") if sealed else None
        if markets and set(markets) <= set(known):
            return list(markets)
    given = frozen(store, name).manifest.stats.get("config") or {}
    shared = _common(store, settings, known, fractions, given)
    if not shared:
        require_markets(store, name)
        raise NotReady(f"No market of {name} has a price at every one of {len(fractions)} points: choose fewer points.")
    return shared


def require_markets(store: Store, name: str) -> None:
    """Raise `NotReady` when no market of a set is sealed here: an imported set brings questions and no price histories.

    A sweep asks about the same markets at other instants, so it needs their own records.
    """
    asked = load(store, name)
    if not asked or {one.question.id for one in asked} & set(read.all_markets(store)["market_id"]):
        return
    months = sorted(clock.month_of(one.close_at) for one in asked)
    first, last = clock.month_start(months[0]), clock.month_end(months[-1]) - 1
    raise NotReady(
        f"None of the {len(asked)} markets of {name} is sealed in {store.root} (an imported set brings its questions, "
        "not the prices of other instants): fetch them with `hindcast markets fetch "
        f"--closed-from {clock.iso(first)[:10]} --closed-to {clock.iso(last)[:10]}`."
    )


def _common(
    store: Store, settings: Settings, known: list[str], fractions: Sequence[float], given: dict[str, Any]
) -> list[str]:
    markets = read.all_markets(store)
    chosen = markets.filter(pl.col("market_id").is_in(known))
    left = set(known)
    for fraction in fractions:
        frame, _ = askable(store, settings, Config.of(**_asked(fraction, given)), markets=markets, chosen=chosen)
        left &= set(frame["id"])
    return sorted(left)
