"""Scores within strata: coverage bins (S/W/N), topics, durations, and the subset after a model's knowledge cutoff."""

from typing import Final

import polars as pl

from hindcast_dagster.contracts.analysis import STRATA
from hindcast_dagster.scoring.cells import CELL, spread
from hindcast_dagster.scoring.inputs import BASELINE, RETRIEVAL, ZERO_SHOT

UNBINNED: Final = "unbinned"
BY: Final = ("evidence", "topic", "duration", "beyond_cutoff")


def binned(scored: pl.DataFrame, *, arm: str = RETRIEVAL) -> pl.DataFrame:
    """Return `scored` with the column `evidence`: the label of the same run's own tally, or "unbinned".

    A zero-shot forecast has no tally; it is binned by the `arm` forecast of the same model, question and run, so that
    both sides of a bin are the same questions (paper, table 1). Baselines belong to no bin (null).
    """
    labels = scored.filter((pl.col("arm") == arm) & (pl.col("model") != BASELINE)).select(
        "question_id", "model", "run", pl.col("evidence_quality").alias("_paired")
    )
    own = pl.when(pl.col("arm") == ZERO_SHOT).then(pl.col("_paired")).otherwise(pl.col("evidence_quality"))
    return (
        scored.join(labels, on=["question_id", "model", "run"], how="left", maintain_order="left")
        .with_columns(
            pl.when(pl.col("model") == BASELINE).then(None).otherwise(own.fill_null(UNBINNED)).alias("evidence")
        )
        .drop("_paired")
    )


def strata(scored: pl.DataFrame) -> pl.DataFrame:
    """Return accuracy and Brier per cell and stratum, mean and sample SD over runs (contract STRATA).

    A run in which a stratum is empty takes no part in its mean: an empty bin is missing, not zero. `size` averages
    over all runs of the cell, empty ones as zero, as the bin sizes of the paper's table 6 do.
    """
    labelled = binned(scored)
    parts = [_by(labelled, name) for name in BY]
    return pl.concat([STRATA.empty(), *parts]).sort(STRATA.order)


def _by(labelled: pl.DataFrame, name: str) -> pl.DataFrame:
    kept = labelled.filter(pl.col(name).is_not_null())
    per_run = kept.group_by(*CELL, "run", name, maintain_order=True).agg(
        pl.len().cast(pl.Int64).alias("n"), pl.col("correct").mean().alias("accuracy"), pl.col("brier").mean()
    )
    all_runs = labelled.group_by(CELL, maintain_order=True).agg(pl.col("run").n_unique().alias("all_runs"))
    counts = per_run.group_by(*CELL, name, maintain_order=True).agg(pl.col("n").sum())
    return (
        spread(per_run, (*CELL, name), "accuracy", "brier")
        .join(counts, on=[*CELL, name], how="inner")
        .join(all_runs, on=list(CELL), how="inner")
        .with_columns(
            pl.lit(name).alias("by"),
            pl.col(name).alias("stratum"),
            (pl.col("n") / pl.col("all_runs")).alias("size"),
        )
        .select(STRATA.schema.names)
    )
