"""Markets, their price series and what was asked for each, derived from stored raw JSON without a network."""

from typing import Final

import pyarrow as pa

from hindcast_dagster.contracts.table import INSTANT, TEXT, Contract, column, not_null, one_of, unique, within

OUTCOMES: Final = ("Yes", "No")

MARKETS: Final = Contract(
    name="markets",
    version=1,
    schema=pa.schema(
        [
            column("market_id", TEXT),  # condition id, 0x and 64 hex digits
            column("gamma_id", TEXT, null=True),
            column("slug", TEXT, null=True),
            column("question", TEXT),
            column("rules", TEXT),  # resolution criteria without addenda: what a forecaster may see
            column("addenda", TEXT),  # notes added after launch; never shown
            column("rules_sha256", TEXT),  # of the description as fetched
            column("event_id", TEXT, null=True),
            column("series", TEXT, null=True),  # recurring events share it
            column("tags", pa.list_(TEXT)),
            column("topic", TEXT),
            column("neg_risk", pa.bool_()),
            column("yes_token", TEXT, null=True),
            column("no_token", TEXT, null=True),
            column("open_at", INSTANT, null=True),  # startDate, else createdAt
            column("planned_close", INSTANT, null=True),  # endDate as fetched
            column("close_at", INSTANT, null=True),  # closedTime, else umaEndDate; null only when excluded
            column("early_resolved", pa.bool_()),
            column("outcome", TEXT, null=True),  # Yes | No; null exactly when excluded
            column("excluded", TEXT, null=True),  # reason
            column("volume", pa.float64(), null=True),
            column("fetched_at", INSTANT),
            column("raw_sha256", TEXT),  # of the market's raw JSON
        ]
    ),
    primary_key=("market_id",),
    order=("market_id",),
    expectations=(*not_null("market_id", "question"), unique("market_id"), one_of("outcome", OUTCOMES)),
)

PRICES: Final = Contract(
    name="market_prices",
    version=1,
    schema=pa.schema(
        [
            column("market_id", TEXT),
            column("at", INSTANT),
            column("price", pa.float64()),  # of the Yes side, 0..1
            column("route", TEXT),  # clob | data
            column("step_s", pa.int64()),  # nominal spacing; 0: unknown
        ]
    ),
    primary_key=("market_id", "at"),
    order=("market_id", "at"),
    expectations=(within("price", 0, 1), unique("market_id", "at"), one_of("route", ("clob", "data"))),
)

SERIES: Final = Contract(
    name="market_series",
    version=1,
    schema=pa.schema(
        [
            column("market_id", TEXT),
            column("token", TEXT, null=True),  # of the Yes side
            column("status", TEXT),  # ok | no_price_history | no_token
            column("route", TEXT, null=True),  # clob | data | mixed; null: no point
            column("step_s", pa.int64()),  # as asked of the CLOB, or as the Data API says; 0: unknown
            column("points", pa.int64()),
            column("first_at", INSTANT, null=True),
            column("last_at", INSTANT, null=True),
            column("windows", pa.int64()),  # asked, at most 15 days each
            column("empty_windows", pa.list_(INSTANT)),  # starts of those that both routes answered empty
            column("fetched_at", INSTANT, null=True),  # of the newest answer
        ]
    ),
    primary_key=("market_id",),
    order=("market_id",),
    expectations=(unique("market_id"), one_of("status", ("ok", "no_price_history", "no_token"))),
)
