"""Pairs of forecasts of the same question: run i of one cell with run i of another.

A cell with a single run (a baseline, an imported forecast) is paired with every run of the other.
"""

from typing import NamedTuple

import polars as pl

from hindcast_dagster.contracts.scores import SCORED

KEPT = ("prob_yes", "brier", "correct", "evidence_quality")


class Cell(NamedTuple):
    """One model under one arm."""

    model: str
    arm: str

    def __str__(self) -> str:
        """Return `model/arm`, as tables and the command line write it."""
        return f"{self.model}/{self.arm}"


def rows_of(frame: pl.DataFrame, cell: Cell) -> pl.DataFrame:
    """Return the rows of a cell: of scored forecasts, or of any frame with the columns model and arm."""
    return frame.filter((pl.col("model") == cell.model) & (pl.col("arm") == cell.arm))


def paired(scored: pl.DataFrame, a: Cell, b: Cell) -> pl.DataFrame:
    """Return the intersection of two cells: columns of `a` as they are, of `b` with the suffix `_b`."""
    left, right = rows_of(scored, a), rows_of(scored, b)
    keys = ["question_id", "run"]
    if right["run"].n_unique() == 1:
        keys, right = ["question_id"], right.drop("run")
    elif left["run"].n_unique() == 1:
        keys, left = ["question_id"], left.drop("run")
    kept = right.select(*keys, *(["run"] if "run" in right.columns and "run" not in keys else []), *KEPT)
    return left.join(kept, on=keys, how="inner", suffix="_b").sort("question_id", "run")


def with_missing_as_half(
    scored: pl.DataFrame, questions: pl.DataFrame, forecasts: pl.DataFrame, cell: Cell
) -> pl.DataFrame:
    """Return a cell with one row per question and run: a forecast that is not there counts as one half (No).

    The runs are those that were asked (`forecasts`, contract FORECASTS), also one of which no reply could be read.
    """
    mine = rows_of(scored, cell)
    facts = questions.select(
        pl.col("id").alias("question_id"), "event_id", (pl.col("outcome") == "Yes").cast(pl.Int64).alias("outcome")
    )
    grid = facts.join(rows_of(forecasts, cell).select("run").unique(), how="cross")
    probability = pl.col("prob_yes").fill_null(0.5)
    return (
        grid.join(mine.drop("event_id", "outcome"), on=["question_id", "run"], how="left")
        .with_columns(pl.lit(cell.model).alias("model"), pl.lit(cell.arm).alias("arm"), probability.alias("prob_yes"))
        .with_columns(
            ((pl.col("prob_yes") - pl.col("outcome")) ** 2).alias("brier"),
            ((pl.col("prob_yes") > 0.5) == (pl.col("outcome") == 1)).alias("correct"),  # noqa: PLR2004 - one half
        )
        .select(SCORED.schema.names)
    )
