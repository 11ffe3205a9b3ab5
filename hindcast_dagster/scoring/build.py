"""Seals `scored_forecasts` and `score_tables` of an eval set."""

from typing import Any, Final

import polars as pl

from hindcast_dagster.contracts.analysis import BLEND, CALIBRATION, EFFECTS, EVENT_SUMS, METRICS, RUNS, STRATA
from hindcast_dagster.contracts.scores import CELLS, SCORED
from hindcast_dagster.contracts.table import Contract
from hindcast_dagster.errors import NotReady
from hindcast_dagster.scoring import blend, cells, effects, inputs, measures, models, scored, strata
from hindcast_dagster.scoring.inputs import BASELINE, MARKET, Inputs
from hindcast_dagster.settings import Checks, Settings
from hindcast_dagster.storage.manifest import Check, Manifest
from hindcast_dagster.storage.store import Sealed, Store
from hindcast_dagster.storage.tables import publish_table, read_table, write_table

CODE: Final = "scoring/2"
"""Rises when the meaning of a score changes."""
SANE: Final = "market_beats_a_coin"
BASELINE_ARMS: Final = (MARKET, "constant_half", "base_rate")
"""Baselines that every eval set can have; others appear when they are there."""


def build_scored(store: Store, settings: Settings, *, eval_set: str) -> Manifest:
    """Score every sealed forecast of an eval set against outcome and price. Raises `NotReady` without forecasts."""
    given = inputs.load(store, eval_set)
    if not given.forecasts.height:
        raise NotReady(
            f"No forecast of eval set {eval_set} is sealed in {store.root}: make some with "
            f"`hindcast forecast run --arm zero_shot --model M --eval-set {eval_set}`."
        )
    known = models.facts(settings, given.forecasts["model"].unique().sort().to_list())
    frame = scored.score(given, cutoffs={slug: each.cutoff for slug, each in known.items()})
    return publish_table(
        store.partition("scored_forecasts", eval_set),
        frame,
        SCORED,
        code_version=CODE,
        inputs=given.sources,
        checks=[sane(frame, settings.checks)],
    )


def sane(frame: pl.DataFrame, limits: Checks) -> Check:
    """Return the check that the market's own price beats a coin: else outcomes or prices are crossed, and all stops.

    A few questions prove nothing either way, so below `market_min` questions it does not block.
    """
    market = frame.filter((pl.col("model") == BASELINE) & (pl.col("arm") == MARKET))
    if not market.height:
        return Check(name=SANE, passed=True, detail="no market price to look at")
    brier = float(market["brier"].mean())  # type: ignore[arg-type]
    said = f"market price: Brier {brier:.4f} over {market.height} questions; it must be below {limits.market_brier}"
    enough = market.height >= limits.market_min
    if not enough:
        said += f", which is asked from {limits.market_min} questions on"
    return Check(name=SANE, passed=brier < limits.market_brier or not enough, detail=said, blocking=True)


def build_tables(store: Store, settings: Settings, *, eval_set: str) -> Manifest:
    """Seal the score tables of an eval set: the cells, and beside them one file per table of the papers.

    Raises `NotReady` when `scored_forecasts` is not sealed or was made from other forecasts than those there now.
    """
    given = inputs.load(store, eval_set)
    source = current(store, given)
    frame = read_table(source, SCORED)
    per_run = cells.runs(given, frame)
    table = cells.cells(given, frame, per_run, wanted=wanted(given, settings))
    lacking = cells.missing(table, eval_set, settings.forecast, questions=given.questions.height)
    with store.partition("score_tables", eval_set).draft() as draft:
        write_table(draft, table, CELLS)
        for name, (contract, rows) in further(given, frame, per_run).items():
            write_table(draft, rows, contract, name=f"{name}.parquet")
        return draft.seal(
            rows=table.height,
            schema_version=CELLS.schema_version,
            code_version=CODE,
            inputs=(*given.sources, source.as_input),
            checks=[Check(name="complete", passed=not lacking, detail=f"{len(lacking)} cells are not complete")],
            stats={"missing": lacking, "questions": given.questions.height},
        )


def further(given: Inputs, frame: pl.DataFrame, per_run: pl.DataFrame) -> dict[str, tuple[Contract, pl.DataFrame]]:
    """Return what lies beside the cells, by file name without ending (views `score_tables_<name>` in SQL)."""
    return {
        "runs": (RUNS, per_run),
        "strata": (STRATA, strata.strata(frame)),
        "metrics": (METRICS, measures.measures(given, frame)),
        "calibration": (CALIBRATION, measures.calibration(frame)),
        "event_sums": (EVENT_SUMS, measures.event_sums(frame)),
        "effects": (EFFECTS, effects.effects(given, frame)),
        "blend": (BLEND, blend.blends(frame)),
    }


def current(store: Store, given: Inputs) -> Sealed:
    """Return the scored forecasts, if they were made from exactly these forecasts. Raises `NotReady`."""
    remedy = f"hindcast score --eval-set {given.eval_set}"
    source = store.partition("scored_forecasts", given.eval_set).require(made_by=remedy)
    then, now = set(source.manifest.inputs), set(given.sources)
    if then != now:
        changed = min((each.table, *each.key) for each in then ^ now)
        raise NotReady(
            f"scored_forecasts {given.eval_set} is older than {' / '.join(changed)}: make it again with `{remedy}`."
        )
    return source


def wanted(given: Inputs, settings: Settings) -> dict[tuple[str, str], int]:
    """Return the runs that each cell should have: every model of a model arm under each of them, and the baselines.

    A cell that was never asked wants the setting's runs; one that was asked, what its partition says it was asked for.
    """
    asked = {(str(m), str(a)) for m, a in given.forecasts.select("model", "arm").unique().iter_rows()}
    names = {model for model, arm in asked if arm in settings.forecast.model_arms}
    grid = {(name, arm): settings.forecast.runs for name in names for arm in settings.forecast.model_arms}
    grid |= {(BASELINE, arm): 1 for arm in BASELINE_ARMS}
    return {cell: runs for cell, runs in grid.items() if cell not in asked} | given.planned


def read_cells(store: Store, eval_set: str) -> tuple[pl.DataFrame, Manifest]:
    """Return the sealed score table and its manifest. Raises `NotSealed`."""
    sealed = store.partition("score_tables", eval_set).require(made_by=f"hindcast score --eval-set {eval_set}")
    return read_table(sealed, CELLS), sealed.manifest


def score_document(store: Store, settings: Settings, *, eval_set: str) -> dict[str, Any]:
    """Return the sealed score table as `hindcast score --json` prints it: eval_set, cells, missing."""
    del settings
    table, manifest = read_cells(store, eval_set)
    return {"eval_set": eval_set, "cells": table.to_dicts(), "missing": manifest.stats["missing"]}
