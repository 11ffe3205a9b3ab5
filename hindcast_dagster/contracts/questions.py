"""Eval sets: the frozen list of (market, t0) that forecasters answer, with the price at t0 and the outcome."""

from typing import Final

import pyarrow as pa

from hindcast_dagster.contracts.markets import OUTCOMES
from hindcast_dagster.contracts.table import INSTANT, TEXT, Contract, column, not_null, one_of, unique, within

DURATIONS: Final = ("short", "medium", "long")
TOPICS: Final = (
    "Sports", "Elections/politics", "Crypto", "Entertainment", "Trading/commodities", "Tech/AI", "Awards",
    "Social/celebrity", "Geopolitics", "Economic", "Health", "Corporate", "Weather", "Other",
)  # fmt: skip

EVAL_SET: Final = Contract(
    name="eval_set",
    version=1,
    schema=pa.schema(
        [
            column("id", TEXT),
            column("source", TEXT),  # polymarket, ...
            column("event_id", TEXT, null=True),
            column("series", TEXT, null=True),
            column("text", TEXT),
            column("criteria", TEXT),
            column("options", pa.list_(TEXT)),
            column("topic", TEXT),
            column("duration", TEXT),
            column("tags", pa.list_(TEXT)),
            column("open_at", INSTANT, null=True),
            column("planned_close", INSTANT, null=True),
            column("close_at", INSTANT),  # never shown to a forecaster
            column("t0", INSTANT),
            column("outcome", TEXT),  # never shown to a forecaster
            column("price_at_t0", pa.float64(), null=True),
            column("price_age_s", pa.int64(), null=True),
            column("price_route", TEXT, null=True),
            column("base_rate", pa.float64()),  # share of Yes among markets closed before t0; 0.5 when too few
            column("base_rate_n", pa.int64()),
            column("reference_rate", pa.float64()),  # the same within the series; the base rate when too few
            column("reference_n", pa.int64()),
            column("flags", pa.list_(TEXT)),  # capped, at_close, beyond_archive, early_resolved, stale_price, ...
        ]
    ),
    primary_key=("id",),
    order=("id",),
    expectations=(
        *not_null("id", "text", "t0", "outcome"),
        unique("id"),
        one_of("outcome", OUTCOMES),
        one_of("duration", DURATIONS),
        one_of("topic", TOPICS),
        within("price_at_t0", 0, 1),
    ),
)
