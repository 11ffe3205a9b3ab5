"""The pool of an eval set: which markets were looked at, and which of them can be asked, each at its t0.

What belongs here: reading sealed markets and prices into candidate rows. Choosing among them is `select`'s, sealing
`build`'s.
"""

import collections
from collections.abc import Callable
from typing import Any, Final

import polars as pl

from hindcast_dagster import clock
from hindcast_dagster.clock import Cutoff
from hindcast_dagster.contracts.markets import PRICES
from hindcast_dagster.contracts.questions import EVAL_SET
from hindcast_dagster.coverage.span import Span
from hindcast_dagster.errors import InputRefused
from hindcast_dagster.evalset.config import Config
from hindcast_dagster.evalset.rates import Rates
from hindcast_dagster.evalset.row import Context, make
from hindcast_dagster.markets import read
from hindcast_dagster.markets.build import TABLE as MARKETS_TABLE
from hindcast_dagster.questions.load import frozen
from hindcast_dagster.settings import Settings
from hindcast_dagster.storage.manifest import Input
from hindcast_dagster.storage.store import Store
from hindcast_dagster.storage.tables import read_table

ARCHIVE_TABLES: Final = ("submission_index", "comment_index")

Progress = Callable[[float, float | None, str], None]


def candidates(store: Store, markets: pl.DataFrame, config: Config) -> pl.DataFrame:
    """Return the markets that the configuration asks for, excluded ones included (they are counted)."""
    if config.market_ids is not None:
        known = set(markets["market_id"])
        if missing := [market for market in config.market_ids if market not in known]:
            raise InputRefused(f"{len(missing)} markets of the list are not sealed here, for example {missing[0]}.")
        return markets.filter(pl.col("market_id").is_in(list(config.market_ids)))
    if config.vintage is not None:
        return markets.filter(~pl.col("market_id").is_in(resolved_by(store, config.vintage)))
    found = markets
    if config.closed_from is not None:
        found = found.filter(pl.col("close_at") >= config.closed_from)
    if config.closed_to is not None:
        found = found.filter(pl.col("close_at") < config.closed_to)
    return found


def resolved_by(store: Store, eval_set: str) -> list[str]:
    """Return the markets with an outcome in the snapshot that an eval set pins: its next vintage leaves them out.

    An imported set pins no markets; of it only its questions are known, so all that closed by their last close count.
    """
    sealed = frozen(store, eval_set)
    pins = [pin for pin in sealed.manifest.pins if pin.table == MARKETS_TABLE]
    if pins:
        known = read.all_markets(store, pins=pins)
    else:
        last = read_table(sealed, EVAL_SET)["close_at"].max()
        known = read.all_markets(store).filter(pl.col("close_at") <= last)
    return known.filter(pl.col("outcome").is_not_null())["market_id"].to_list()


def askable(
    store: Store,
    settings: Settings,
    config: Config,
    *,
    markets: pl.DataFrame,
    chosen: pl.DataFrame,
    progress: Progress | None = None,
) -> tuple[pl.DataFrame, collections.Counter[str]]:
    """Return `chosen` of all `markets` as questions (contract EVAL_SET), and those that cannot be asked by reason."""
    context = Context(
        config=config,
        settings=settings,
        rates=Rates(
            markets.select("close_at", "outcome", "series").iter_rows(named=True),
            at_least=settings.questions.base_rate_min,
        ),
        archive_until=max((clock.month_end(pin.key[0]) for pin in archive_pins(store)), default=0),
    )
    return _questions(store, chosen, context, progress)


def span_of(store: Store, settings: Settings, eval_set: str) -> Span:
    """Return every market that an eval set was chosen from, each with the t0 that the set gives it: what to probe."""
    config = Config.of_stats(frozen(store, eval_set).manifest.stats["config"])
    markets = read.all_markets(store)
    frame, _ = askable(store, settings, config, markets=markets, chosen=candidates(store, markets, config))
    months: dict[str, list[str]] = {}
    for market, close in frame.select("id", "close_at").iter_rows():
        months.setdefault(clock.month_of(close), []).append(market)
    at = {market: Cutoff(t0) for market, t0 in frame.select("id", "t0").iter_rows()}
    return Span(dict(sorted(months.items())), at)


def months_of(chosen: pl.DataFrame) -> list[str]:
    """Return the close months of a frame with the column close_at."""
    return sorted({clock.month_of(close) for close in chosen["close_at"] if close is not None})


def archive_pins(store: Store) -> list[Input]:
    """Return every sealed archive month at its present version."""
    return [manifest.as_input for table in ARCHIVE_TABLES for manifest in store.manifests(table)]


def _questions(
    store: Store, chosen: pl.DataFrame, context: Context, progress: Progress | None
) -> tuple[pl.DataFrame, collections.Counter[str]]:
    rows: list[dict[str, Any]] = []
    excluded: collections.Counter[str] = collections.Counter()
    done = 0
    for month in months_of(chosen):
        inside = chosen.filter(
            (pl.col("close_at") >= clock.month_start(month)) & (pl.col("close_at") < clock.month_end(month))
        )
        series = {
            key[0]: one for key, one in read.month_prices(store, month).partition_by("market_id", as_dict=True).items()
        }
        for market in inside.iter_rows(named=True):
            made = make(market, series.get(market["market_id"], PRICES.empty()), context)
            if made.row is None:
                excluded[str(made.excluded)] += 1
            else:
                rows.append(made.row)
        done += inside.height
        if progress:
            progress(done, chosen.height, "markets")
    return EVAL_SET.frame(rows), excluded
