"""Runs faults and words their table."""

import warnings
from collections.abc import Iterator
from datetime import UTC, datetime
from pathlib import Path
from typing import Final

from tests.faults import catalogue
from tests.faults.bench import bench
from tests.faults.catalogue import Row

SHARE: Final = {"killed": 1.0, "full_disk": 0.25, "two_at_once": 0.25, "clock_jumps": 0.25, "damaged": 0.2}
"""Seeds of a fault as a share of those of kill -9: its runs differ in less."""

NOT_RUN: Final = (
    Row("power cut", "all", not_run="needs a disk that forgets what was not flushed (device mapper, a virtual machine); "
        "every file is flushed before its rename, which no test here proves"),
    Row("read or write error of the disk (EIO)", "all", not_run="needs a failing block device (device mapper)"),
    Row("network file system", "all", not_run="no server of one here; locks are the operating system's"),
)  # fmt: skip


def rows(scratch: Path, *, seeds: int, only: tuple[str, ...] = (), stages: tuple[str, ...] = ()) -> Iterator[Row]:
    """Yield a row for every fault and stage, the moment it is known."""
    _import_everything()
    many = {fault.__name__: max(1, round(seeds * SHARE.get(fault.__name__, 1))) for fault in catalogue.FAULTS}
    with bench(scratch) as made:
        yield from catalogue.every(made, many, only=only, stages=stages)
    if not only:
        yield from NOT_RUN


def _import_everything() -> None:
    """Import what a child would spend seconds on. LanceDB remakes its threads in a child and warns that it does."""
    warnings.filterwarnings("ignore", message="lancedb fork support", category=RuntimeWarning)
    import altair as alt
    import duckdb
    import lancedb
    import scipy.stats
    import sklearn
    import statsmodels.api
    import torch
    import vl_convert

    del alt, duckdb, lancedb, scipy, sklearn, statsmodels, torch, vl_convert


def line(row: Row) -> str:
    """Return a row as one line for a terminal."""
    ends = row.not_run or ", ".join(f"{count} {end}" for end, count in sorted(row.ends.items()))
    wrong = "".join(f"\n    WRONG {each}" for each in row.wrong)
    return f"{row.fault:<46} {row.stage:<10} {row.runs:>4} runs: {ends}{wrong}"


def table(found: list[Row], *, seconds: float, machine: str) -> str:
    """Return the Markdown of all rows."""
    day = datetime.now(tz=UTC).date().isoformat()
    runs, wrong = sum(row.runs for row in found), sum(len(row.wrong) for row in found)
    said = f"`make faults`, {day}, {machine}: {runs:,} disturbed runs in {seconds / 60:.0f} minutes, {wrong} wrong."
    head = "| fault | stage | runs | how they ended | lost or wrong |\n|---|---|---|---|---|\n"
    return f"{said}\n\n{head}" + "\n".join(map(_markdown, found)) + "\n"


def _markdown(row: Row) -> str:
    if row.not_run:
        return f"| {row.fault} | {row.stage} | not run | {row.not_run} | |"
    ends = ", ".join(f"{count} \N{MULTIPLICATION SIGN} {end}" for end, count in sorted(row.ends.items()))
    return f"| {row.fault} | {row.stage} | {row.runs} | {ends} | {len(row.wrong) or 'nothing'} |"
