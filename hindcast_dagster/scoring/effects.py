"""What an arm changes against zero-shot (paper, section 7): recoveries, regressions, and what each did to the scores.

Run i is paired with run i of the same model and question. A recovery is a pair where the arm is right and zero-shot
wrong, a regression the reverse; net = recoveries - regressions = pairs x change of accuracy, by construction.
"""

from collections.abc import Iterator
from typing import Any, Final

import polars as pl

from hindcast_dagster.contracts.analysis import EFFECTS
from hindcast_dagster.scoring.inputs import BASELINE, ZERO_SHOT, Inputs
from hindcast_dagster.scoring.metrics import HALF
from hindcast_dagster.scoring.pairs import Cell, paired

MIN_MARKETS: Final = 4
"""A topic with fewer markets is not shown by itself (paper, figure 6)."""
ECONOMY: Final = ("tokens_in", "tokens_trimmed", "prior_yes", "stop_reason")


def effects(given: Inputs, scored: pl.DataFrame) -> pl.DataFrame:
    """Return the effect of every arm that has pairs with zero-shot (contract EFFECTS)."""
    together = pairs_with_zero_shot(given, scored)
    rows = [
        _row(str(arm), by, group, part)
        for (arm,), frame in together.partition_by("arm", as_dict=True).items()
        for by, group, part in _groups(frame)
    ]
    return EFFECTS.frame(rows)


def pairs_with_zero_shot(given: Inputs, scored: pl.DataFrame) -> pl.DataFrame:
    """Return every pair (arm, zero-shot) of the same model, question and run, with what each forecast spent."""
    cells = scored.filter(pl.col("model") != BASELINE).select("model", "arm").unique().sort("model", "arm").iter_rows()
    frames = [paired(scored, Cell(model, arm), Cell(model, ZERO_SHOT)) for model, arm in cells if arm != ZERO_SHOT]
    spent = given.forecasts.select("question_id", "model", "arm", "run", *ECONOMY)
    base = spent.filter(pl.col("arm") == ZERO_SHOT).select(
        "question_id", "model", "run", pl.col("tokens_in").alias("tokens_in_b")
    )
    return (
        pl.concat(frames or [paired(scored.clear(), Cell("", ""), Cell("", ""))], how="diagonal")
        .join(spent, on=["question_id", "model", "arm", "run"], how="left", maintain_order="left")
        .join(base, on=["question_id", "model", "run"], how="left", maintain_order="left")
    )


def _groups(frame: pl.DataFrame) -> Iterator[tuple[str, str, pl.DataFrame]]:
    yield "all", "all", frame
    for by in ("model", "topic", "duration", "stop_reason"):
        for (group,), part in frame.partition_by(by, as_dict=True).items():
            few = by == "topic" and part["question_id"].n_unique() < MIN_MARKETS
            if group is not None and not few:
                yield by, str(group), part


def _row(arm: str, by: str, group: str, part: pl.DataFrame) -> dict[str, Any]:
    mine, theirs = pl.col("correct"), pl.col("correct_b")
    counts = part.select(
        (mine & ~theirs).sum().cast(pl.Int64).alias("recoveries"),
        (~mine & theirs).sum().cast(pl.Int64).alias("regressions"),
        (mine.cast(pl.Float64) - theirs.cast(pl.Float64)).mean().alias("accuracy_change"),
        (pl.col("brier") - pl.col("brier_b")).mean().alias("brier_change"),
        (pl.col("prob_yes") - HALF).abs().filter(~mine).mean().alias("wrong_margin"),
        (pl.col("prob_yes_b") - HALF).abs().filter(~theirs).mean().alias("wrong_margin_zero_shot"),
        (pl.col("tokens_in") - pl.col("tokens_in_b")).mean().alias("evidence_tokens"),
        (pl.col("tokens_trimmed") > 0).mean().alias("trimmed_share"),
    ).row(0, named=True)
    net = counts["recoveries"] - counts["regressions"]
    return {
        "arm": arm,
        "by": by,
        "group": group,
        "markets": part["question_id"].n_unique(),
        "pairs": part.height,
        "net": net,
        # a fall of Brier is a gain: both signs equal means that accuracy and Brier tell different stories
        "disagree": counts["brier_change"] * net > 0,
        **_prior(part),
        **counts,
    }


def _prior(part: pl.DataFrame) -> dict[str, float | None]:
    """Return the Brier of the stated prior and what the adjustment added, on forecasts that state one."""
    return (
        part.filter(pl.col("prior_yes").is_not_null())
        .select(
            ((pl.col("prior_yes") - pl.col("outcome")) ** 2).mean().alias("prior_brier"),
            (pl.col("brier") - (pl.col("prior_yes") - pl.col("outcome")) ** 2).mean().alias("adjustment"),
        )
        .row(0, named=True)
    )
