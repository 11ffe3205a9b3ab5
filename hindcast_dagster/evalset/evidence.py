"""The probe's word on the markets of a pool: what `--size` keeps of (paper, section 4.1).

What belongs here: reading sealed `coverage_probe` months into the columns that a selection asks for.
"""

from collections.abc import Sequence
from typing import Final, Literal, NamedTuple

import polars as pl

from hindcast_dagster.contracts.coverage import COVERAGE
from hindcast_dagster.contracts.forecasts import QUALITIES
from hindcast_dagster.errors import NotReady, UsageError
from hindcast_dagster.storage.manifest import Input
from hindcast_dagster.storage.store import Store
from hindcast_dagster.storage.tables import read_table

TABLE: Final = "coverage_probe"
AUTO: Final = "auto"
ANY: Final = "any"
STRONG: Final = ("strong",)
_COLUMNS: Final = ("at", "evidence_quality", "contrast", "resolved_contrast")


class Evidence(NamedTuple):
    """Evidence per market, and where it comes from."""

    frame: pl.DataFrame
    """id, at, evidence_quality, contrast, resolved_contrast."""
    judge: str | None
    inputs: list[Input]


def parse_keep(keep: str) -> tuple[str, ...] | None:
    """Return the evidence qualities that `keep` names; None for auto and any. Raises `UsageError`."""
    if keep in {AUTO, ANY}:
        return None
    found = tuple(sorted({part.strip() for part in keep.split(",")}))
    if not set(found) <= set(QUALITIES):
        raise UsageError(f"--keep {keep!r}: write auto, any, or some of {','.join(QUALITIES)}.")
    return found


def probed(
    store: Store, months: Sequence[str], *, required: bool, as_of: Literal["close", "t0"] = "close"
) -> Evidence | None:
    """Return what the probe found at the close (or the t0) of every market of `months`.

    None when a month is not probed; with `required` that is `NotReady`. Where several judges probed, the one that
    covers most markets speaks (ties by name), so that one set never mixes judges.
    """
    partitions = [store.partition(TABLE, month) for month in months]
    if missing := [each.name for each in partitions if each.manifest() is None]:
        if required:
            raise NotReady(f"{missing[0]} is not sealed: run `hindcast coverage probe` over the close window first.")
        return None
    sealed = [each.require() for each in partitions]
    rows = pl.concat([COVERAGE.empty(), *(read_table(each, COVERAGE) for each in sealed)]).filter(
        pl.col("as_of") == as_of
    )
    if rows.is_empty():
        if required:
            raise NotReady(f"No market was probed as of its {as_of}: run `hindcast coverage probe --as-of {as_of}`.")
        return None
    counts = rows.group_by("judge").len().sort(["len", "judge"], descending=[True, False])
    judge = str(counts["judge"][0])
    frame = rows.filter(pl.col("judge") == judge).select(pl.col("market_id").alias("id"), *_COLUMNS)
    return Evidence(frame, judge, [each.as_input for each in sealed])
