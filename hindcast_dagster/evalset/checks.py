"""What is said aloud about an eval set although it is sealed: verdicts that stand in its manifest.

What belongs here: findings that do not make a set wrong but that nobody must overlook. What makes it wrong is refused.
"""

from collections.abc import Sequence

import polars as pl

from hindcast_dagster import clock
from hindcast_dagster.evalset.evidence import Evidence
from hindcast_dagster.storage.manifest import Check, Input


def verdicts(frame: pl.DataFrame, pins: Sequence[Input], evidence: Evidence | None, pool: pl.DataFrame) -> list[Check]:
    """Return the checks of a set (contract EVAL_SET) that pins archive months and was chosen from `pool`."""
    found = [within_archive(frame, pins)]
    return found if evidence is None else [*found, probe_complete(pool, evidence)]


def within_archive(frame: pl.DataFrame, pins: Sequence[Input]) -> Check:
    """Fail when no question stands where the archive has something to say: a score would then measure its absence."""
    months = sorted({pin.key[0] for pin in pins})
    name, n = "within_archive", frame.height
    if not months:
        return Check(name=name, passed=False, detail="no archive month is sealed: nothing can be searched")
    first, until = clock.month_start(months[0]), clock.month_end(months[-1])
    beyond = frame.filter(pl.col("t0") > until).height
    before = frame.filter(pl.col("t0") <= first).height
    span = f"the archive holds {months[0]} to {months[-1]}"
    if before == n:
        return Check(name=name, passed=False, detail=f"all {n} questions stand before its first post: {span}")
    said = f"{beyond} of {n} questions stand after the archive's end and {before} before its begin: {span}"
    return Check(name=name, passed=beyond + before < n, detail=said)


def probe_complete(pool: pl.DataFrame, evidence: Evidence) -> Check:
    """Fail when markets of probed months were never probed: they count as `evidence_unknown` or `no_contrast`."""
    known = evidence.frame.rename({"at": "t0"}) if evidence.as_of == "t0" else evidence.frame
    keys = ["id", "t0"] if evidence.as_of == "t0" else ["id"]
    lacking = pool.join(known.select(keys), on=keys, how="anti").height
    said = f"{lacking} of {pool.height} markets of the pool were not probed by {evidence.judge} as of {evidence.as_of}"
    return Check(name="probe_complete", passed=lacking == 0, detail=said)


def warnings(checks: Sequence[Check]) -> list[str]:
    """Return what failed, as sentences."""
    return [f"{check.name}: {check.detail}." for check in checks if not check.passed]
