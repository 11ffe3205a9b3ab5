"""Sweeps and trajectories: eval sets over the same markets, each at another point of the markets' lives.

Four points are the paper's lookback sweep (table 7, figure 5); many points are a trajectory (figure 1), with the
market's own price beside every forecast.
"""

from collections.abc import Sequence
from typing import Any, Final, NamedTuple

import polars as pl

from hindcast_dagster.clock import T0Policy
from hindcast_dagster.errors import NotReady, UsageError
from hindcast_dagster.evalset.build import Progress, askable, build
from hindcast_dagster.evalset.config import Config
from hindcast_dagster.markets import read
from hindcast_dagster.questions.load import TABLE, load
from hindcast_dagster.settings import Settings
from hindcast_dagster.storage.manifest import Manifest
from hindcast_dagster.storage.store import Store

PAPER: Final = (0.25, 0.5, 0.75, 1.0)
_MOST: Final = 100  # points: names carry whole percents


class Sweep(NamedTuple):
    """The sets of one sweep, by fraction, and how many markets of the first set have no price at some point."""

    sets: dict[float, Manifest]
    left_out: int


def points(count: int) -> tuple[float, ...]:
    """Return `count` evenly spaced fractions that end at the close. Raises `UsageError` outside 1..100."""
    if not 1 <= count <= _MOST:
        raise UsageError(f"A trajectory has 1 to {_MOST} points, found {count}.")
    return tuple((index + 1) / count for index in range(count))


def name_of(eval_set: str, fraction: float) -> str:
    """Return the name of one set of a sweep: the fraction in percent."""
    return f"{eval_set}-l{round(100 * fraction)}"


def build_sweep(
    store: Store, settings: Settings, *, name: str, fractions: Sequence[float] = PAPER, progress: Progress | None = None
) -> Sweep:
    """Build one eval set `<name>-l<percent>` per fraction of the markets' lives, over the markets of the set `name`.

    All hold exactly the same markets: those that have a t0 and a price at every fraction. Raises `NotSealed` without
    the set, `NotReady` when no market has a price at all of them.
    """
    known = [resolved.question.id for resolved in load(store, name)]
    given = store.partition(TABLE, name).require().manifest.stats.get("config") or {}
    shared = _common(store, settings, known, fractions, given)
    if not shared:
        raise NotReady(f"No market of {name} has a price at every one of {len(fractions)} points: choose fewer points.")
    sets = {
        fraction: build(
            store, settings, name=name_of(name, fraction), market_ids=shared, progress=progress,
            **_config(fraction, given),
        )
        for fraction in fractions
    }  # fmt: skip
    return Sweep(sets, len(known) - len(shared))


def _config(fraction: float, given: dict[str, Any]) -> dict[str, Any]:
    kept = {"archive_end": given.get("archive_end"), "max_price_age_h": given.get("max_price_age_h")}
    return {"policy": T0Policy("lookback", fraction), **kept}


def _common(
    store: Store, settings: Settings, known: list[str], fractions: Sequence[float], given: dict[str, Any]
) -> list[str]:
    markets = read.all_markets(store)
    chosen = markets.filter(pl.col("market_id").is_in(known))
    left = set(known)
    for fraction in fractions:
        config = Config.of(market_ids=known, **_config(fraction, given))
        frame, _ = askable(store, settings, config, markets=markets, chosen=chosen)
        left &= set(frame["id"])
    return sorted(left)
