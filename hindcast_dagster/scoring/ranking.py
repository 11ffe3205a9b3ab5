"""Which cells may be ranked against each other: those that answered the same questions, and enough of them.

A model that answered three easy questions of two hundred has a Brier score, but no place in an order.
"""

from typing import Final, NamedTuple

import polars as pl

from hindcast_dagster.scoring.inputs import BASELINE, MARKET
from hindcast_dagster.scoring.pairs import Cell

MIN_QUESTIONS: Final = 20
"""Below this many questions no order and no skill is stated."""
SHARE: Final = 0.95
"""A cell is ranked when it answered this share of what the most complete cell answered."""


class Place(NamedTuple):
    """A ranked cell: its Brier and the market's on the questions that every ranked cell answered."""

    cell: Cell
    brier: float
    market: float | None
    """None unless the market has a price for each of them."""
    questions: int


def answered(scored: pl.DataFrame) -> dict[Cell, frozenset[str]]:
    """Return the questions that each model's cell answered at least once; baselines ask no model and are left out."""
    parts = scored.filter(pl.col("model") != BASELINE).partition_by("model", "arm", as_dict=True)
    return {Cell(str(model), str(arm)): frozenset(part["question_id"]) for (model, arm), part in parts.items()}


def comparable(scored: pl.DataFrame) -> tuple[frozenset[Cell], frozenset[str]]:
    """Return the cells that may be ranked and the questions that all of them answered; both empty when none may."""
    sets = answered(scored)
    widest = max(sets.values(), key=lambda found: (len(found), sorted(found)), default=frozenset())
    kept = {cell for cell, found in sets.items() if len(found & widest) >= SHARE * len(widest)}
    common = widest.intersection(*(sets[cell] for cell in kept)) if kept else frozenset()
    return (frozenset(kept), common) if len(common) >= MIN_QUESTIONS else (frozenset(), frozenset())


def ranking(scored: pl.DataFrame) -> list[Place]:
    """Return the ranked cells, lowest Brier first, all measured on the same questions."""
    cells, common = comparable(scored)
    shared = scored.filter(pl.col("question_id").is_in(list(common)))
    market = shared.filter((pl.col("model") == BASELINE) & (pl.col("arm") == MARKET))
    reference = _brier(market) if market["question_id"].n_unique() == len(common) else None
    means = shared.group_by("model", "arm", "run").agg(pl.col("brier").mean()).group_by("model", "arm")
    rows = means.agg(pl.col("brier").mean()).sort("brier", "model", "arm").iter_rows()
    found = ((Cell(str(model), str(arm)), float(brier)) for model, arm, brier in rows)
    return [Place(cell, brier, reference, len(common)) for cell, brier in found if cell in cells]


def _brier(part: pl.DataFrame) -> float | None:
    return float(part["brier"].mean()) if part.height else None  # type: ignore[arg-type]
