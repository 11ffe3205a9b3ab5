"""The probe's word on the markets of a pool: what `--size` keeps of (paper, section 4.1).

What belongs here: reading sealed `coverage_probe` months into the columns that a selection asks for.
"""

from collections.abc import Sequence
from typing import Final, Literal, NamedTuple

import polars as pl

from hindcast_dagster.clock import iso, month_end, month_start
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
AsOf = Literal["close", "t0"]
_COLUMNS: Final = ("at", "evidence_quality", "contrast", "resolved_contrast")


class Evidence(NamedTuple):
    """Evidence per market, and where it comes from."""

    frame: pl.DataFrame
    """id, at, evidence_quality, contrast, resolved_contrast."""
    judge: str
    as_of: AsOf
    inputs: list[Input]
    unprobed: tuple[str, ...]
    """Close months that were asked for and of which this judge has said nothing."""


def parse_keep(keep: str) -> tuple[str, ...] | None:
    """Return the evidence qualities that `keep` names; None for auto and any. Raises `UsageError`."""
    if keep in {AUTO, ANY}:
        return None
    found = tuple(sorted({part.strip() for part in keep.split(",")}))
    if not set(found) <= set(QUALITIES):
        raise UsageError(f"--keep {keep!r}: write auto, any, or some of {','.join(QUALITIES)}.")
    return found


def probed(store: Store, months: Sequence[str], *, as_of: AsOf = "close") -> Evidence | None:
    """Return what the probe found at the close (or the t0) of the markets of `months`; None when nobody probed any.

    Where several judges probed, the one that covers most markets speaks (ties by name), so that one set never mixes
    judges. Months without a word of that judge are named in `unprobed`: see `complete`.
    """
    partitions = [store.partition(TABLE, month) for month in months]
    sealed = [each.require() for each in partitions if each.manifest() is not None]
    tables = {each.manifest.key[0]: read_table(each, COVERAGE).filter(pl.col("as_of") == as_of) for each in sealed}
    rows = pl.concat([COVERAGE.empty(), *tables.values()])
    if rows.is_empty():
        return None
    counts = rows.group_by("judge").len().sort(["len", "judge"], descending=[True, False])
    judge = str(counts["judge"][0])
    frame = rows.filter(pl.col("judge") == judge).select(pl.col("market_id").alias("id"), *_COLUMNS)
    told = {month for month, table in tables.items() if judge in table["judge"]}
    silent = tuple(sorted(set(months) - told))
    return Evidence(frame, judge, as_of, [each.as_input for each in sealed], silent)


def complete(
    evidence: Evidence | None, months: Sequence[str], *, as_of: AsOf = "close", pool_of: str | None = None
) -> Evidence:
    """Return evidence that covers every month. Raises `NotReady` naming the others and the command that probes them.

    `pool_of` is the eval set whose pool has to be probed at its own t0s. A set that keeps what is strong in some months
    and everything in the others would be two sets under one name.
    """
    lacking = sorted(months) if evidence is None else list(evidence.unprobed)
    if evidence is not None and not lacking:
        return evidence
    judge = "evidence_count" if evidence is None else evidence.judge
    first, last = iso(month_start(lacking[0]))[:10], iso(month_end(lacking[-1]) - 1)[:10]
    which = f"--eval-set {pool_of} --pool" if pool_of else f"--closed-from {first} --closed-to {last}"
    others = "" if evidence is None else f" by {judge}, although other months of this set are"
    raise NotReady(
        f"coverage_probe {', '.join(lacking)}: not probed as of the {as_of}{others}. Run `hindcast coverage probe "
        f"{which} --model {judge} --as-of {as_of}` first (what is finished is not asked again), or choose without "
        "evidence (--keep any)."
    )
