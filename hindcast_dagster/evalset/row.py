"""One market to one question of an eval set, or the reason why it is none."""

from typing import Any, Final, NamedTuple

import polars as pl

from hindcast_dagster import clock
from hindcast_dagster.clock import T0
from hindcast_dagster.evalset.config import Config
from hindcast_dagster.evalset.rates import Rates
from hindcast_dagster.markets.read import PriceAt, price_at
from hindcast_dagster.questions.duration import duration
from hindcast_dagster.settings import Settings

SOURCE: Final = "polymarket"
OPTIONS: Final = ("Yes", "No")


class Context(NamedTuple):
    """What every row of one eval set is made with."""

    config: Config
    settings: Settings
    rates: Rates
    archive_until: int
    """First second after the last month that the archive has sealed; 0 without an archive."""


class Made(NamedTuple):
    """A row of the contract EVAL_SET, or the reason why the market is left out."""

    row: dict[str, Any] | None
    excluded: str | None


def make(market: dict[str, Any], series: pl.DataFrame, context: Context) -> Made:
    """Resolve t0 with the policy and put the question together; the same t0 gives price, flags and record."""
    config = context.config
    if market["outcome"] is None:
        return Made(None, market["excluded"])
    t0 = config.policy.resolve(open_at=market["open_at"], close_at=market["close_at"], archive_end=config.archive_end)
    if t0 is None:
        return Made(None, "no_t0_before_close")
    if series.is_empty():
        return Made(None, "no_price_history")
    price = price_at(series, t0.cutoff)
    if price is None:
        return Made(None, "no_price_before_t0")
    if config.max_price_age_h is not None and price.age_s > config.max_price_age_h * clock.HOUR:
        return Made(None, "stale_price")
    return Made(_row(market, series, t0, price, context), None)


def _row(market: dict[str, Any], series: pl.DataFrame, t0: T0, price: PriceAt, context: Context) -> dict[str, Any]:
    base, reference = context.rates.base(t0.cutoff), context.rates.reference(market["series"], t0.cutoff)
    opened = market["open_at"] if market["open_at"] is not None else int(series["at"].min())  # type: ignore[arg-type]
    copied = ("event_id", "series", "topic", "tags", "open_at", "planned_close", "close_at", "outcome")
    return {name: market[name] for name in copied} | {
        "id": market["market_id"],
        "source": SOURCE,
        "text": market["question"],
        "criteria": market["rules"],
        "options": list(OPTIONS),
        "duration": duration(open_at=opened, close_at=market["close_at"], settings=context.settings.questions),
        "t0": t0.cutoff.epoch,
        "price_at_t0": price.price,
        "price_age_s": price.age_s,
        "price_route": price.route,
        "base_rate": base.rate,
        "base_rate_n": base.n,
        "reference_rate": reference.rate,
        "reference_n": reference.n,
        "flags": _flags(market, t0, price, context, base_known=base.enough, reference_known=reference.enough),
    }


def _flags(
    market: dict[str, Any], t0: T0, price: PriceAt, context: Context, *, base_known: bool, reference_known: bool
) -> list[str]:
    stale = price.age_s > context.settings.polymarket.stale_price_hours * clock.HOUR
    found = {
        "capped": t0.capped,
        "at_close": t0.at_close,
        "beyond_archive": t0.cutoff.epoch > context.archive_until,
        "early_resolved": market["early_resolved"],
        "stale_price": stale,
        "few_for_base_rate": not base_known,
        "few_for_reference": not reference_known,
        "no_open_time": market["open_at"] is None,
        "had_addenda": bool(market["addenda"]),
    }
    return [name for name, holds in found.items() if holds]
