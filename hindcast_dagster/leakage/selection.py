"""Selection effects: what of a score comes from which markets were asked, without any document leaking.

Markets that closed early resolve Yes more often; a price near 0 or 1 at t0 says that the market had decided; a probe at
the close knows what was written after t0. For each of these, every cell is scored with the markets that show it and
without them. The outcome-blind twin is an eval set of its own (`evalset.twin`).
"""

from typing import Final

import polars as pl

from hindcast_dagster.clock import month_of
from hindcast_dagster.contracts.scores import SCORED, SELECTION
from hindcast_dagster.evalset.describe import DECIDED
from hindcast_dagster.evalset.evidence import Evidence, probed
from hindcast_dagster.scoring import inputs
from hindcast_dagster.scoring.build import current
from hindcast_dagster.storage.manifest import Manifest
from hindcast_dagster.storage.store import Store
from hindcast_dagster.storage.tables import publish_table, read_table

CODE_VERSION: Final = "1"
STRONG: Final = "strong"


def build(store: Store, *, eval_set: str) -> Manifest:
    """Seal table `selection_effects` of an eval set. Raises `NotReady` when its scores are missing or stale.

    An effect that nothing is known about (no probe) has no rows.
    """
    given = inputs.load(store, eval_set)
    source = current(store, given)
    scored = read_table(source, SCORED)
    shows, probes = _shows(store, given.questions)
    frames = [_effect(scored, shows, effect) for effect in shows.columns if effect != "question_id"]
    table = pl.concat([SELECTION.empty(), *(frame.select(SELECTION.schema.names) for frame in frames)])
    return publish_table(
        store.partition(SELECTION.name, eval_set),
        SELECTION.check(table.sort(SELECTION.order)),
        SELECTION,
        code_version=CODE_VERSION,
        inputs=[source.as_input, *(part for probe in probes for part in probe.inputs)],
        stats={"judges": sorted({str(probe.judge) for probe in probes})},
    )


def _shows(store: Store, questions: pl.DataFrame) -> tuple[pl.DataFrame, list[Evidence]]:
    """Return, per question, whether it shows each effect; null where nobody probed it."""
    low, high = DECIDED
    price = pl.col("price_at_t0")
    shows = questions.select(
        "t0",
        question_id="id",
        early_close=pl.col("flags").list.contains("early_resolved"),
        decided_at_t0=(price <= low) | (price >= high),
    )
    months = sorted({month_of(close) for close in questions["close_at"]})
    at_close, at_t0 = probed(store, months), probed(store, months, as_of="t0")
    strong = pl.col("evidence_quality") == STRONG
    if at_close is not None:
        known = at_close.frame.select(question_id="id", strong_at_close=strong)
        shows = shows.join(known, on="question_id", how="left")
    if at_t0 is not None:  # a probe at another instant says nothing about this t0
        known = at_t0.frame.select(t0="at", question_id="id", strong_at_t0=strong)
        shows = shows.join(known, on=["question_id", "t0"], how="left")
    return shows.drop("t0"), [probe for probe in (at_close, at_t0) if probe is not None]


def _effect(scored: pl.DataFrame, shows: pl.DataFrame, effect: str) -> pl.DataFrame:
    side = pl.when(pl.col(effect)).then(pl.lit("with")).otherwise(pl.lit("without"))
    known = scored.join(shows.select("question_id", effect), on="question_id").filter(pl.col(effect).is_not_null())
    parts = pl.concat([known.with_columns(side=side), known.with_columns(side=pl.lit("all"))])
    return (
        parts.group_by("model", "arm", "side")
        .agg(
            questions=pl.col("question_id").n_unique().cast(pl.Int64),
            n=pl.len().cast(pl.Int64),
            accuracy=pl.col("correct").cast(pl.Float64).mean(),
            brier=pl.col("brier").mean(),
        )
        .with_columns(effect=pl.lit(effect))
    )
