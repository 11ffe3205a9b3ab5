"""What an eval set says about itself: how far t0 lies from the close, how much was decided, what was left out."""

import collections
from typing import Any, Final

import polars as pl

from hindcast_dagster import clock

DECIDED: Final = (0.02, 0.98)  # a price at t0 this low or high: the market had made up its mind
_QUANTILES: Final = (0.0, 0.05, 0.25, 0.5, 0.75, 0.95, 1.0)


def describe(frame: pl.DataFrame, excluded: collections.Counter[str]) -> dict[str, Any]:
    """Return JSON values for the manifest of an eval set (contract EVAL_SET)."""
    n = frame.height
    flags = collections.Counter(flag for flags in frame["flags"] for flag in flags)
    low, high = DECIDED
    decided = frame.filter((pl.col("price_at_t0") <= low) | (pl.col("price_at_t0") >= high)).height
    return {
        "questions": n,
        "excluded": dict(sorted(excluded.items())),
        "flags": dict(sorted(flags.items())),
        "gap_days": gap_days(frame),
        "capped_share": _share(flags["capped"], n),
        "decided_share": _share(decided, n),
        "yes_share": _share(frame.filter(pl.col("outcome") == "Yes").height, n),
        "stale_share": _share(flags["stale_price"], n),
        **{f"{name}s": _counts(frame, name) for name in ("topic", "duration", "outcome")},
        "without_topic": frame.filter(pl.col("topic") == "Other").height,
    }


def gap_days(frame: pl.DataFrame) -> dict[str, float] | None:
    """Return the distribution of close - t0 in days: quantiles and mean; None for an empty set."""
    if frame.is_empty():
        return None
    gap = frame.select((pl.col("close_at") - pl.col("t0")) / clock.DAY).to_series()
    found = {f"p{int(q * 100)}": gap.quantile(q, interpolation="linear") for q in _QUANTILES} | {"mean": gap.mean()}
    named = {"p0": "min", "p50": "median", "p100": "max"}
    return {named.get(name, name): round(float(value), 4) for name, value in found.items()}  # type: ignore[arg-type]


def _counts(frame: pl.DataFrame, name: str) -> dict[str, int]:
    return dict(sorted(collections.Counter(frame[name]).items()))


def _share(count: int, n: int) -> float | None:
    return round(count / n, 6) if n else None
