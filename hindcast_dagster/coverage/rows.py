"""Findings into rows of the `coverage_probe` table. The only place where a finding meets the outcome.

What belongs here: turning the contrast towards the resolved side, and merging what is probed now with what the
partition already holds of other judges and cutoffs.
"""

from typing import Any, Final

import polars as pl

from hindcast_dagster.contracts.coverage import COVERAGE
from hindcast_dagster.coverage.judge import Finding
from hindcast_dagster.coverage.subjects import AsOf, Subject
from hindcast_dagster.evidence.labels import LABELS

NAMES: Final = (*LABELS, "unlabelled")


def row(subject: Subject, finding: Finding, *, as_of: AsOf, judge: str, version: str) -> dict[str, Any]:
    """Return one row of the contract."""
    sides = {"yes": finding.tallies.yes, "no": finding.tallies.no}
    counts = {f"{side}_{name}": count for side, tally in sides.items() for name, count in tally.as_dict().items()}
    return {
        "market_id": subject.question.id,
        "as_of": as_of,
        "at": subject.question.t0.epoch,
        "judge": judge,
        "judge_version": version,
        **counts,
        "yes_score": float(sides["yes"].score),
        "no_score": float(sides["no"].score),
        "contrast": finding.contrast,
        "resolved_contrast": resolved_contrast(finding.contrast, subject.outcome),
        "evidence_quality": finding.quality,
        "documents": len(finding.blocks),
    }


def resolved_contrast(contrast: float | None, outcome: str) -> float | None:
    """Return the contrast as seen from the side that came true: positive when the corpus supported it."""
    return None if contrast is None else contrast if outcome == "Yes" else -contrast


def merge(new: pl.DataFrame, old: pl.DataFrame | None, *, markets: set[str]) -> pl.DataFrame:
    """Return `new` and what stays of `old`: rows of markets that are still there and were not probed again now.

    Rows of the same judge and cutoff stay only under the same judge version: one column never mixes two prompts.
    """
    if old is None:
        return COVERAGE.check(new.sort(COVERAGE.order))
    versions = new.select("judge", "as_of", version="judge_version").unique(["judge", "as_of"])
    current = pl.col("version").is_null() | (pl.col("version") == pl.col("judge_version"))
    kept = (
        old.join(new, on=["market_id", "as_of", "judge"], how="anti")
        .join(versions, on=["judge", "as_of"], how="left")
        .filter(current & pl.col("market_id").is_in(sorted(markets)))
        .select(new.columns)
    )
    return COVERAGE.check(pl.concat([new, kept]).sort(COVERAGE.order))


def counts(table: pl.DataFrame, probe: str) -> dict[str, Any]:
    """Return what the rows of one probe (`judge/as_of`) amount to: markets, qualities, blocks without a label."""
    judge, _, as_of = probe.rpartition("/")
    found = table.filter((pl.col("judge") == judge) & (pl.col("as_of") == as_of))
    quality = found["evidence_quality"].fill_null("unreadable").value_counts(sort=False).sort("evidence_quality")
    return {
        "markets": found.height,
        "quality": dict(quality.iter_rows()),
        "no_contrast": found["contrast"].null_count(),
        "blocks": int(sum(found[f"{side}_{name}"].sum() for side in ("yes", "no") for name in NAMES)),
        "unlabelled": sum(int(found[name].sum()) for name in ("yes_unlabelled", "no_unlabelled")),
    }
