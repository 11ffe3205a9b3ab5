"""A small invented eval set with forecasts, sealed as the forecast stage seals them."""

import hashlib
from collections.abc import Callable
from typing import Any

import polars as pl

from hindcast_dagster.contracts.forecasts import FORECASTS
from hindcast_dagster.contracts.markets import PRICES
from hindcast_dagster.contracts.questions import EVAL_SET
from hindcast_dagster.contracts.scores import AUDIT
from hindcast_dagster.forecast.forecaster import Forecast, Seen, Step, Trace
from hindcast_dagster.forecast.records import Identity, TraceRecord, digest, journal_of, to_record
from hindcast_dagster.leakage.audit import JOURNAL
from hindcast_dagster.scoring.inputs import load as load_inputs
from hindcast_dagster.storage.store import Store
from hindcast_dagster.storage.tables import publish_table

T0 = 1_769_817_600  # 2026-01-31
RATIONALE = "The archive speaks for it."


def question(number: int, *, outcome: str = "Yes", **values: Any) -> dict[str, Any]:
    row = {
        "id": f"0x{number:064x}",
        "source": "polymarket",
        "event_id": f"event-{number // 2}",
        "series": None,
        "text": f"Will thing {number} happen?",
        "criteria": "Resolves Yes if it happens.",
        "options": ["Yes", "No"],
        "topic": ("Sports", "Crypto", "Awards")[number % 3],
        "duration": ("short", "medium", "long")[number % 3],
        "tags": [],
        "open_at": T0 - 40 * 86_400,
        "planned_close": T0 + 86_400,
        "close_at": T0 + 86_400,
        "t0": T0,
        "outcome": outcome,
        "price_at_t0": 0.6 if outcome == "Yes" else 0.3,
        "price_age_s": 3600,
        "price_route": "clob",
        "base_rate": 0.4,
        "base_rate_n": 10,
        "reference_rate": 0.4,
        "reference_n": 3,
        "flags": [],
    }
    return row | values


def forecast(number: int, prob: float | None, **values: Any) -> dict[str, Any]:
    row: dict[str, Any] = {
        "eval_set": "small",
        "question_id": f"0x{number:064x}",
        "t0": T0,
        "model": "toy-1b",
        "model_revision": None,
        "arm": "zero_shot",
        "arm_version": "v1",
        "archive_snapshot": None,
        "run": 1,
        "status": "unparsed" if prob is None else "ok",
        "prob_yes": prob,
        "choice": None if prob is None else ("Yes" if prob > 0.5 else "No"),
        "confidence": None,
        "conflict": None,
        "parse_step": None if prob is None else "first",
        "stop_reason": None,
        "rounds": None,
        "prior_category": None,
        "prior_yes": None,
        "evidence_quality": None,
        "yes_score": None,
        "no_score": None,
        "documents": 0,
        "calls": 1,
        "tokens_in": 100,
        "tokens_out": 20,
        "tokens_trimmed": 0,
        "seconds": 1.0,
        "cost": None,
    } | values
    return {"forecast_id": identity_of(row).forecast_id} | row


def identity_of(row: dict[str, Any]) -> Identity:
    named = ("question_id", "t0", "model", "model_revision", "arm", "arm_version", "archive_snapshot", "run")
    return Identity(question_sha256="0" * 64, **{name: row[name] for name in named})


def seal_questions(store: Store, rows: list[dict[str, Any]], *, name: str = "small", **stats: Any) -> None:
    publish_table(store.partition("eval_set", name), EVAL_SET.frame(rows), EVAL_SET, code_version="test", stats=stats)


def seal_forecasts(store: Store, rows: list[dict[str, Any]], *, name: str = "small", **stats: Any) -> None:
    """Seal rows of one (model, arm); those of model "none" go to `market_baseline`."""
    frame = FORECASTS.frame(rows)
    model, arm = frame["model"][0], frame["arm"][0]
    table, key = ("market_baseline", (name,)) if model == "none" else (f"{arm}_forecasts", (model, name))
    publish_table(store.partition(table, *key), frame, FORECASTS, code_version="test", stats=stats)


def journal(
    store: Store, rows: list[dict[str, Any]], *, seen: Callable[[dict[str, Any]], list[Seen]], query: str = "q"
) -> None:
    """Write the traces behind sealed rows: one search for `query` with the documents that `seen` names."""
    for row in rows:
        values = {name: row[name] for name in ("prob_yes", "status", "stop_reason", "evidence_quality", "prior_yes")}
        step = Step("search", "search_database", {"query": query, "cutoff": row["t0"]}, seen(row))
        given = Forecast(**values, rationale=row.get("rationale", RATIONALE), trace=Trace([step]))
        record = TraceRecord(row["forecast_id"], row["eval_set"], identity_of(row), given, None, T0)
        home = journal_of(store, arm=row["arm"], model=row["model"], eval_set=row["eval_set"])
        home.write(record.forecast_id, to_record(record))


def seal_prices(store: Store, questions: list[dict[str, Any]], *, months: tuple[str, ...] = ("2026-02",)) -> None:
    """Seal a price history for every question, drifting towards its price at t0 and then to its outcome."""
    rows = []
    for row in questions:
        last = 1.0 if row["outcome"] == "Yes" else 0.0
        wave = int(row["id"], 16) % 7 / 20
        for day in range(30):
            at = row["open_at"] + day * 86_400 + 7
            price = 0.5 + wave * (1 if day % 9 < 4 else -1) if at < row["t0"] else last
            rows.append({"market_id": row["id"], "at": at, "price": price, "route": "clob", "step_s": 86_400})
    frame = PRICES.frame(rows)
    for month in months:
        publish_table(store.partition("market_prices", month), frame, PRICES, code_version="test")


def seal_audit(store: Store, *, name: str = "small", rows: list[dict[str, Any]] | None = None, **stats: Any) -> None:
    found = rows or []
    publish_table(
        store.partition("leak_audit", name),
        AUDIT.frame(found),
        AUDIT,
        code_version="test",
        inputs=load_inputs(store, name).sources,
        stats={"forecasts": 400, "documents": 1234, "sightings": 5678, "clean": not found}
        | {JOURNAL: digest(store, name)}
        | stats,
    )


def seal_baselines(store: Store, questions: list[dict[str, Any]], *, name: str = "small") -> None:
    numbers = [(int(row["id"], 16), row) for row in questions]
    rows = [
        forecast(n, value, model="none", arm=arm, calls=0, tokens_in=0, tokens_out=0, eval_set=name, t0=row["t0"])
        for n, row in numbers
        for arm, value in (("market_price", row["price_at_t0"]), ("constant_half", 0.5), ("base_rate", 0.4))
        if value is not None
    ]
    seal_forecasts(store, rows, name=name)


def noisy(
    questions: list[dict[str, Any]], *, arm: str, lift: float, runs: int = 5, **values: Any
) -> list[dict[str, Any]]:
    """Forecasts that lean towards the outcome by `lift`, with a fixed pseudo-random part per question and run."""
    rows = []
    for row in questions:
        number, y = int(row["id"], 16), row["outcome"] == "Yes"
        for run in range(1, runs + 1):
            seed = int(hashlib.sha256(f"{number}/{run}/{arm}".encode()).hexdigest()[:8], 16) / 0xFFFFFFFF
            p = min(max(0.5 + (lift if y else -lift) + (seed - 0.5) * 0.8, 0.01), 0.99)
            rows.append(forecast(number, round(p, 3), arm=arm, run=run, t0=row["t0"], **values))
    return rows


def frame_of(rows: list[dict[str, Any]]) -> pl.DataFrame:
    return FORECASTS.frame(rows)
