"""Reading sealed markets and prices: the whole table, one month, and the price at an instant."""

from collections.abc import Iterable
from typing import NamedTuple

import polars as pl

from hindcast_dagster.clock import Cutoff
from hindcast_dagster.contracts.markets import MARKETS, PRICES
from hindcast_dagster.markets.build import TABLE as MARKETS_TABLE
from hindcast_dagster.markets.prices import TABLE as PRICES_TABLE
from hindcast_dagster.storage.manifest import Input
from hindcast_dagster.storage.store import Store
from hindcast_dagster.storage.tables import read_table


class PriceAt(NamedTuple):
    """The market's price as it stood at an instant."""

    price: float
    at: int
    """When that price was read, epoch seconds; at or before the instant."""
    age_s: int
    route: str


def months(store: Store) -> list[str]:
    """Return the close months whose markets are sealed."""
    return [key[0] for key in store.sealed_keys(MARKETS_TABLE)]


def all_markets(store: Store, *, pins: Iterable[Input] | None = None) -> pl.DataFrame:
    """Return the markets of every sealed month (contract MARKETS), sorted by id; of the pinned versions with `pins`."""
    if pins is None:
        sealed = [store.partition(MARKETS_TABLE, month).require() for month in months(store)]
    else:
        mine = [pin for pin in pins if pin.table == MARKETS_TABLE]
        sealed = [store.partition(pin.table, *pin.key).at_version(pin.version) for pin in mine]
    frames = [read_table(each, MARKETS) for each in sealed]
    return pl.concat([MARKETS.empty(), *frames]).sort(MARKETS.order)


def month_prices(store: Store, month: str) -> pl.DataFrame:
    """Return the prices of a month (contract PRICES). Raises `NotSealed` naming the command that makes them."""
    return read_table(store.partition(PRICES_TABLE, month).require(made_by="hindcast markets fetch"), PRICES)


def price_at(series: pl.DataFrame, t0: Cutoff) -> PriceAt | None:
    """Return the last price at or before t0, or None when there is none.

    `series` has the columns of PRICES for one market, in any order. Nothing is interpolated, no later point and no
    nearest point is taken: those would carry the future (a forecaster at t0 could not have seen them).
    """
    before = series.filter(pl.col("at") <= t0.epoch)
    if before.is_empty():
        return None
    row = before.sort("at", "price").group_by("at", maintain_order=True).first().row(-1, named=True)
    return PriceAt(price=row["price"], at=row["at"], age_s=t0.epoch - row["at"], route=row["route"])
