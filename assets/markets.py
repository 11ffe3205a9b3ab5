"""Markets: every closed market of a close month with its outcome and reason, and its price history."""

import time
from typing import Any

import dagster as dg

from assets import shell
from assets.partitions import Partitions
from hindcast_dagster.contracts.markets import MARKETS, PRICES
from resources.polymarket import PolymarketResource
from resources.store import StorageRoot

GROUP = "markets"
LOCK_S = 600.0  # a month waits while another walks the listing


class ListingConfig(dg.Config):
    """Whether the listing is asked again."""

    refresh: bool = True
    """Walk the listing for what is new since the last walk; false derives the month from stored raw bytes only."""
    max_age_s: float = 600.0
    """A walk that ended less than this long ago is not repeated: a backfill of many months walks the listing once."""


def build(partitions: Partitions) -> list[Any]:
    """Return the assets of this stage."""

    @dg.asset(
        partitions_def=partitions.close_months,
        group_name=GROUP,
        kinds={"parquet", "polymarket"},
        owners=shell.OWNERS,
        code_version=str(MARKETS.version),
        check_specs=[shell.contract_spec("markets"), shell.watch_spec("markets")],
        pool="polymarket",
        description="Closed markets of a close month: raw JSON kept, row parsed, outcome with its reason (paper, 4.1).",
    )
    def markets(
        context: dg.AssetExecutionContext, config: ListingConfig, root: StorageRoot, polymarket: PolymarketResource
    ) -> dg.MaterializeResult:
        from hindcast_dagster.markets.build import build as build_month
        from hindcast_dagster.markets.fetch import fetch

        store, began = root.store(), time.monotonic()
        month = context.partition_key
        with polymarket.reachable() as settings:
            report = fetch(  # the walk covers everything; what is built is this month alone
                store,
                settings,
                closed_from=f"{month}-01",
                closed_to=f"{month}-01",
                refresh=config.refresh,
                prices=False,
                max_age_s=config.max_age_s,
                wait_s=LOCK_S,
            )
        manifest = build_month(store, settings, month=month)
        return shell.published(
            store,
            manifest,
            contract=MARKETS,
            settings=settings,
            began=began,
            listed=report.fetched,
        )

    @dg.asset(
        partitions_def=partitions.close_months,
        group_name=GROUP,
        kinds={"parquet", "polymarket"},
        owners=shell.OWNERS,
        code_version=str(PRICES.version),
        deps=["markets"],
        check_specs=[shell.contract_spec("market_prices"), shell.watch_spec("market_prices")],
        pool="polymarket",
        description="Price history of every resolved market of a close month, with route and step (paper, 4.1).",
    )
    def market_prices(
        context: dg.AssetExecutionContext, root: StorageRoot, polymarket: PolymarketResource
    ) -> dg.MaterializeResult:
        from hindcast_dagster.markets import prices

        store, began = root.store(), time.monotonic()
        with polymarket.reachable() as settings:
            manifest = prices.build(store, settings, month=context.partition_key)
        return shell.published(store, manifest, contract=PRICES, settings=settings, began=began)

    return [markets, market_prices]
