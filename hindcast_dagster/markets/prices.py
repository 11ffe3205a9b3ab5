"""One close month of the `market_prices` table: the price series of every market with an outcome.

The partition holds two tables: the points (`data.parquet`, contract PRICES) and what was asked for each market
(`series.parquet`, contract SERIES: route, step, fetch time, empty windows).
"""

from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, contextmanager
from typing import Any, Final

import polars as pl

from hindcast_dagster import clock, keys
from hindcast_dagster.contracts.markets import MARKETS, PRICES, SERIES
from hindcast_dagster.markets.build import TABLE as MARKETS_TABLE
from hindcast_dagster.markets.collect import collect, opposite_gap
from hindcast_dagster.markets.history import ROUTES, Route
from hindcast_dagster.markets.http import client
from hindcast_dagster.markets.packed import Packed, pack, points_frame, stats
from hindcast_dagster.markets.rawlog import RawLog
from hindcast_dagster.markets.stored import Asking, Stored
from hindcast_dagster.settings import Polymarket, Settings
from hindcast_dagster.storage.manifest import Check, Input, Manifest
from hindcast_dagster.storage.store import Store
from hindcast_dagster.storage.tables import read_table, write_table

TABLE: Final = "market_prices"
SERIES_FILE: Final = "series.parquet"
CODE_VERSION: Final = "market_prices/2"
NO_SAMPLE: Final = 3  # markets of a month whose No side is asked for too
NO_TOLERANCE: Final = 0.02

Progress = Callable[[float, float | None, str], None]


def build(
    store: Store, settings: Settings, *, month: str, progress: Progress | None = None, since: int | None = None
) -> Manifest:
    """Fetch what is missing of a month's price series and seal it.

    `since` (epoch seconds, default now): a series that was empty before then is asked for again. Its `stats` hold
    series, points, no_price_history, no_token, empty windows and routes. Raises `NotSealed` without the month's
    markets and `Unreachable` when an API gives no answer; every answer until then is kept.
    """
    markets = store.partition(MARKETS_TABLE, keys.month(month)).require(made_by="hindcast markets fetch")
    partition = store.partition(TABLE, month)
    inputs = (markets.as_input, _settings_input(settings.polymarket, month))
    sealed = partition.intact()
    complete = sealed is not None and not sealed.stats.get("no_price_history") and sealed.code_version == CODE_VERSION
    if sealed is not None and complete and set(sealed.inputs) == set(inputs):
        return sealed
    frame = read_table(markets, MARKETS)
    wanted = frame.filter(pl.col("outcome").is_not_null()).select(
        "market_id", "yes_token", "no_token", "open_at", "close_at"
    )
    with _asking(settings.polymarket, since) as asking:
        series = _collect(
            store, month, wanted.to_dicts(), asking, workers=settings.polymarket.workers, progress=progress
        )
        check = _no_side(store, month, wanted.to_dicts(), series, asking)
    with partition.draft() as draft:
        points = points_frame(series)
        write_table(draft, points, PRICES)
        write_table(draft, SERIES.frame([each.row for each in series]), SERIES, name=SERIES_FILE)
        return draft.seal(
            rows=points.height,
            schema_version=PRICES.schema_version,
            code_version=CODE_VERSION,
            inputs=inputs,
            checks=(check,),
            stats=stats(series),
        )


def _settings_input(polymarket: Polymarket, month: str) -> Input:
    return Input(
        table="price-settings", key=(month,), version=f"{polymarket.price_route}-first-{polymarket.price_step_minutes}m"
    )


@contextmanager
def _asking(polymarket: Polymarket, since: int | None) -> Iterator[Asking]:
    urls: dict[Route, str] = {"clob": polymarket.clob_url, "data": polymarket.data_url}
    with ExitStack() as stack:
        clients = {
            route: stack.enter_context(client(route, urls[route], budget_s=polymarket.wait_budget_s))
            for route in ROUTES
        }
        order = ROUTES if polymarket.price_route == "clob" else ROUTES[::-1]
        yield Asking(clients, order, polymarket.price_step_minutes, clock.now() if since is None else since)


def raw_log(store: Store, month: str, market_id: str) -> RawLog:
    """Return the raw log of one market's price answers."""
    return RawLog(store.area("raw", "prices", keys.month(month), f"{keys.condition_id(market_id)}.ndjson.zst"))


def _collect(
    store: Store,
    month: str,
    markets: list[dict[str, Any]],
    asking: Asking,
    *,
    workers: int,
    progress: Progress | None,
) -> list[Packed]:
    done: list[Packed] = []
    with ThreadPoolExecutor(max_workers=workers, thread_name_prefix="prices") as pool:
        waiting = [pool.submit(_one, market, raw_log(store, month, market["market_id"]), asking) for market in markets]
        try:
            for future in waiting:
                done.append(future.result())
                if progress:
                    progress(len(done), len(markets), f"price series of {month}")
        except BaseException:
            pool.shutdown(wait=False, cancel_futures=True)
            for each in asking.clients.values():
                each.stop()
            raise
    return done


def _one(market: dict[str, Any], log: RawLog, asking: Asking) -> Packed:
    return pack(collect(market, log, asking))


def _no_side(store: Store, month: str, markets: list[dict[str, Any]], series: list[Packed], asking: Asking) -> Check:
    """Compare No with 1 - Yes in the last window of the first few series."""
    no_tokens = {market["market_id"]: market["no_token"] for market in markets}
    found = ((each.row["market_id"], each.last) for each in series)
    sample = [(market, last) for market, last in found if last is not None and no_tokens[market]][:NO_SAMPLE]
    gaps = []
    for market, last in sample:
        no = Stored(raw_log(store, month, market), no_tokens[market], asking).window(last.window, since=0)
        gap = opposite_gap(last.points, no.points)
        if gap is not None:
            gaps.append(gap)
    worst = max(gaps, default=0.0)
    said = f"{len(gaps)} of {len(sample)} sampled series compared; median |yes + no - 1| at most {worst:.4f}"
    return Check(name="no_is_one_minus_yes", passed=worst <= NO_TOLERANCE, detail=said)
