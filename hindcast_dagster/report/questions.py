"""The part per question: what the page's own script shows when a question is opened, as JSON values."""

from collections import defaultdict
from typing import Any, Final

import polars as pl

from hindcast_dagster.clock import iso
from hindcast_dagster.report.absent import NotMeasured
from hindcast_dagster.report.gather import Gathered
from hindcast_dagster.report.tables.fields import name_of
from hindcast_dagster.report.theme import arm_name
from hindcast_dagster.scoring.inputs import BASELINE

PRICE_POINTS: Final = 120
"""Points of a price line; a longer series is thinned evenly, its ends kept."""

DOCUMENTS: Final = 40
"""Documents listed per question; the rest is counted."""


def document(gathered: Gathered) -> dict[str, Any]:
    """Return everything that the question browser needs: models, arms and one object per question."""
    asked = gathered.given.forecasts.filter(pl.col("model") != BASELINE)
    prices = _prices(gathered)
    forecasts = _forecasts(gathered)
    models = asked["model"].unique().sort().to_list()
    return {
        "models": [{"id": model, "name": name_of(gathered, model)} for model in models],
        "arms": {arm: arm_name(arm) for arm in gathered.given.forecasts["arm"].unique().sort().to_list()},
        "questions": [
            _question(gathered, row, prices.get(row["id"], []), forecasts.get(row["id"], []))
            for row in gathered.given.questions.sort("t0", "id").iter_rows(named=True)
        ],
    }


def _question(
    gathered: Gathered, row: dict[str, Any], prices: list[list[float]], forecasts: list[dict[str, Any]]
) -> dict[str, Any]:
    seen = None if isinstance(gathered.seen, NotMeasured) else gathered.seen
    documents = seen.documents.get(row["id"], []) if seen else []
    return {
        "id": row["id"],
        "text": row["text"],
        "criteria": row["criteria"],
        "topic": row["topic"],
        "duration": row["duration"],
        "event": row["event_id"],
        "t0": iso(row["t0"]),
        "t0_s": row["t0"],
        "close": iso(row["close_at"]),
        "outcome": row["outcome"],
        "price": row["price_at_t0"],
        "age_h": None if row["price_age_s"] is None else round(row["price_age_s"] / 3600, 1),
        "flags": row["flags"],
        "prices": prices,
        "forecasts": forecasts,
        "documents": [[each.key, iso(each.created_at), each.forecasts] for each in documents[:DOCUMENTS]],
        "documents_total": len(documents) if seen else None,
    }


def _prices(gathered: Gathered) -> dict[str, list[list[float]]]:
    if isinstance(gathered.prices, NotMeasured):
        return {}
    found: dict[str, list[list[float]]] = defaultdict(list)
    for market, at, price in gathered.prices.select("market_id", "at", "price").iter_rows():
        found[market].append([at, round(price, 4)])
    return {market: _thin(series) for market, series in found.items()}


def _thin(series: list[list[float]]) -> list[list[float]]:
    if len(series) <= PRICE_POINTS:
        return series
    step = (len(series) - 1) / (PRICE_POINTS - 1)
    return [series[round(k * step)] for k in range(PRICE_POINTS)]


def _forecasts(gathered: Gathered) -> dict[str, list[dict[str, Any]]]:
    """Return the forecasts of each question; baselines too, the market's own left out (its price is shown anyway)."""
    rationales = {} if isinstance(gathered.seen, NotMeasured) else gathered.seen.rationales
    found: dict[str, list[dict[str, Any]]] = defaultdict(list)
    for row in gathered.given.forecasts.sort("model", "arm", "run").iter_rows(named=True):
        values = {
            "model": row["model"],
            "arm": row["arm"],
            "run": row["run"],
            "status": row["status"],
            "p": row["prob_yes"],
            "confidence": row["confidence"],
            "evidence": row["evidence_quality"],
            "prior": row["prior_yes"],
            "stop": row["stop_reason"],
            "documents": row["documents"],
            "why": rationales.get((row["question_id"], row["model"], row["arm"], row["run"]), ""),
        }
        found[row["question_id"]].append({name: value for name, value in values.items() if value not in {None, ""}})
    return found
