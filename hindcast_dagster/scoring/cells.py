"""Cells: one model under one arm. Runs first, then mean and sample SD over runs, as the paper's tables 1 and 5.

The SD is the sample SD (n - 1): it reproduces 18 of 18 cells of table 1, the population SD only 3.
"""

from collections.abc import Mapping
from typing import Any, Final

import polars as pl

from hindcast_dagster.contracts.analysis import RUNS
from hindcast_dagster.contracts.scores import CELLS
from hindcast_dagster.forecast.arms import BUILT_IN
from hindcast_dagster.forecast.records import BASELINE_ARMS
from hindcast_dagster.scoring import metrics, ranking
from hindcast_dagster.scoring.inputs import Inputs
from hindcast_dagster.scoring.pairs import Cell
from hindcast_dagster.settings import Forecast

CELL: Final = ("model", "arm")
NEUTRAL_BRIER: Final = 0.25
"""Brier of one half, whatever happened: the stated imputation of a forecast that is not there (ForecastBench)."""


def spread(frame: pl.DataFrame, by: tuple[str, ...], *values: str) -> pl.DataFrame:
    """Return mean and sample SD over rows (runs) of each value per group: `v` and `v_sd` (null with one run)."""
    return frame.group_by(by, maintain_order=True).agg(
        pl.len().cast(pl.Int64).alias("runs"),
        *(pl.col(name).mean() for name in values),
        *(pl.col(name).std(ddof=1).alias(f"{name}_sd") for name in values),
    )


def runs(inputs: Inputs, scored: pl.DataFrame) -> pl.DataFrame:
    """Return one row per (model, arm, run) that was asked anything (contract RUNS)."""
    status = pl.col("status")
    asked = inputs.forecasts.group_by("model", "arm", "run", maintain_order=True).agg(
        *((status == word).sum().cast(pl.Int64).alias(word) for word in ("unparsed", "failed")),
        ((status == "ok") & (pl.col("parse_step").fill_null("first") != "first"))
        .sum()
        .cast(pl.Int64)
        .alias("repaired"),
    )
    means = scored.group_by("model", "arm", "run", maintain_order=True).agg(
        pl.len().cast(pl.Int64).alias("n"),
        pl.col("correct").mean().alias("accuracy"),
        pl.col("brier").mean(),
        pl.col("brier").sum().alias("_total"),
    )
    questions = inputs.questions.height
    imputed = (pl.col("_total").fill_null(0) + NEUTRAL_BRIER * (questions - pl.col("n"))) / questions
    return (
        asked.join(means, on=["model", "arm", "run"], how="left")
        .with_columns(pl.col("n").fill_null(0))
        .with_columns((imputed if questions else pl.lit(None, dtype=pl.Float64)).alias("brier_imputed"))
        .select(RUNS.schema.names)
        .sort(RUNS.order)
    )


def cells(
    inputs: Inputs, scored: pl.DataFrame, per_run: pl.DataFrame, *, wanted: Mapping[tuple[str, str], int]
) -> pl.DataFrame:
    """Return the score table (contract CELLS): every cell that was asked, and every wanted cell that was not.

    `wanted` gives the runs that a complete cell has. A cell with more runs than wanted is as large as it is.
    """
    asked = {(row["model"], row["arm"]): row for row in _asked(inputs, per_run).iter_rows(named=True)}
    means = {
        (row["model"], row["arm"]): row for row in spread(per_run, CELL, "accuracy", "brier").iter_rows(named=True)
    }
    parts = {(str(m), str(a)): part for (m, a), part in scored.partition_by(CELL, as_dict=True).items()}
    ranked, _ = ranking.comparable(scored)
    rows = []
    for cell in sorted({*asked, *wanted}):
        found = asked.get(cell, dict.fromkeys(("runs", "present", "unparsed", "failed", "retried"), 0))
        part = parts.get(cell, scored.clear())
        expected = inputs.questions.height * max(wanted.get(cell, 0), found["runs"])
        rows.append(
            {"model": cell[0], "arm": cell[1], "runs": found["runs"], "expected": expected}
            | {"unparsed": found["unparsed"], "failed": found["failed"], "missing": expected - found["present"]}
            | {"retried": found["retried"], "imputed": inputs.questions.height * found["runs"] - part.height}
            | {"ranked": Cell(*cell) in ranked, "brier_imputed": found.get("brier_imputed")}
            | _means(means.get(cell, {}))
            | _pooled(part)
        )
    return CELLS.frame(rows)


def _asked(inputs: Inputs, per_run: pl.DataFrame) -> pl.DataFrame:
    present = inputs.forecasts.group_by(CELL, maintain_order=True).agg(pl.len().cast(pl.Int64).alias("present"))
    counts = per_run.group_by(CELL, maintain_order=True).agg(
        pl.len().cast(pl.Int64).alias("runs"),
        pl.col("unparsed").sum(),
        pl.col("failed").sum(),
        pl.col("repaired").sum().alias("retried"),
        pl.col("brier_imputed").mean(),
    )
    return counts.join(present, on=CELL, how="inner")


def _means(row: Mapping[str, Any]) -> dict[str, Any]:
    return {name: row.get(name) for name in ("accuracy", "accuracy_sd", "brier", "brier_sd")}


def _pooled(part: pl.DataFrame) -> dict[str, Any]:
    p, y = part["prob_yes"], part["outcome"]
    priced = part["market_gap"].drop_nulls()
    return {
        "n": part.height,
        "questions": part["question_id"].n_unique(),
        "brier_index": metrics.brier_index(p, y),
        "log_score": metrics.log_score(p, y),
        "market_gap": priced.mean() if priced.len() else None,
        "ties": metrics.ties(p),
    }


def missing(table: pl.DataFrame, eval_set: str, asking: Forecast, *, questions: int) -> list[dict[str, Any]]:
    """Return the cells that are not complete, each with the command that completes it under these settings."""
    rows = table.filter(pl.col("missing") > 0).select("model", "arm", "missing", "expected", "runs").to_dicts()
    limit = questions if (asking.question_limit or questions) < questions else None
    return [row | {"command": _completing(row, eval_set, asking.runs, limit, questions)} for row in rows]


def _completing(row: Mapping[str, Any], eval_set: str, usual: int, limit: int | None, questions: int) -> str:
    runs = row["expected"] // questions
    return remedy(row["model"], row["arm"], eval_set, runs=None if runs == usual else runs, limit=limit)


def remedy(model: str, arm: str, eval_set: str, *, runs: int | None = None, limit: int | None = None) -> str:
    """Return the command that makes a cell; for an arm that is not ours, the two ways in which it may have come in.

    `runs` and `limit` are named where the settings would ask for less, or for more.
    """
    if arm in BASELINE_ARMS:
        return f"hindcast forecast baselines --eval-set {eval_set}"
    options = f" --runs {runs}" if runs else ""
    options += f" --limit {limit}" if limit else ""
    if arm in BUILT_IN:
        return f"hindcast forecast run --arm {arm} --model {model} --eval-set {eval_set}{options}"
    run = f"hindcast forecast run --arm MODULE:CLASS --model {model} --eval-set {eval_set}{options}"
    return f"{run}  # the class of {arm}; if it was imported: hindcast forecast import FILE.csv"
