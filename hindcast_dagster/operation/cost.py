"""What forecasts cost, from the sealed tables: calls, tokens, money, model time, and how much of a run was re-used."""

from typing import Any, NamedTuple

import polars as pl

from hindcast_dagster.contracts.forecasts import FORECASTS
from hindcast_dagster.forecast.records import SUFFIX
from hindcast_dagster.storage import timings
from hindcast_dagster.storage.manifest import Manifest
from hindcast_dagster.storage.store import Store
from hindcast_dagster.storage.tables import read_table


class Cost(NamedTuple):
    """The economics of one partition of forecasts."""

    forecasts: int
    calls: int
    tokens_in: int
    tokens_out: int
    cost: float | None
    """US dollars; None where the roster has no price."""
    model_seconds: float
    """Summed over calls, which run side by side."""
    reused: float | None = None
    """Share of the forecasts that the last run found finished; None where no run has told."""


def of(store: Store, manifest: Manifest) -> Cost:
    """Return the economics of a sealed partition of forecasts."""
    frame = read_table(store.partition(manifest.table, *manifest.key).look(), FORECASTS)
    sums = frame.select(pl.col("calls", "tokens_in", "tokens_out", "seconds").sum()).row(0, named=True)
    known = frame["cost"].drop_nulls()
    return Cost(
        forecasts=frame.height,
        calls=sums["calls"],
        tokens_in=sums["tokens_in"],
        tokens_out=sums["tokens_out"],
        cost=round(float(known.sum()), 6) if len(known) else None,
        model_seconds=round(sums["seconds"], 2),
        reused=_reused(timings.latest(store).get((manifest.table, manifest.key))),
    )


def _reused(last: timings.Timing | None) -> float | None:
    if last is None or last.reused is None or last.asked is None:
        return None
    every = last.asked + last.reused
    return round(last.reused / every, 4) if every else None


def units(store: Store, table: str, key: tuple[str, ...]) -> int:
    """Return how many finished units a journal holds: before and after a run they tell what was asked."""
    path = store.area("journal", table, *key)
    return sum(1 for _ in path.glob("*.json")) if path.is_dir() else 0


def every(store: Store) -> list[dict[str, Any]]:
    """Return the economics of every sealed partition of a model's forecasts, as JSON values."""
    found = []
    for table in store.tables():
        if not table.endswith(SUFFIX):
            continue
        for key in store.sealed_keys(table):
            manifest = store.partition(table, *key).manifest_or_none()
            if manifest is not None and len(key) == 2:  # noqa: PLR2004 - model and eval set
                arm = table.removesuffix(SUFFIX)
                found.append({"arm": arm, "model": key[0], "eval_set": key[1], **of(store, manifest)._asdict()})
    return found
