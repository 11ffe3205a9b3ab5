"""The lookback sweep (paper, table 7 and figure 5): several eval sets over the same markets, one t0 fraction each."""

from typing import Any, Final

import polars as pl

from hindcast_dagster.contracts.analysis import METRICS
from hindcast_dagster.contracts.questions import EVAL_SET
from hindcast_dagster.contracts.scores import CELLS, SCORED
from hindcast_dagster.storage.manifest import Manifest
from hindcast_dagster.storage.store import Store
from hindcast_dagster.storage.tables import read_table

SCHEMA: Final = {
    "eval_set": pl.String,
    "fraction": pl.Float64,
    "model": pl.String,
    "arm": pl.String,
    "accuracy": pl.Float64,
    "accuracy_sd": pl.Float64,
    "brier": pl.Float64,
    "brier_sd": pl.Float64,
    "ece": pl.Float64,
    "brier_skill": pl.Float64,
}


def fraction_of(manifest: Manifest) -> float | None:
    """Return F of an eval set with the policy `lookback:F`, else None."""
    kind, _, value = str(manifest.stats.get("policy", "")).partition(":")
    return float(value) if kind == "lookback" else None


def sweep(store: Store, eval_set: str) -> pl.DataFrame:
    """Return one row per fraction and cell over every scored lookback set of exactly the same markets, by fraction.

    Empty when `eval_set` is no lookback set or has no scored sibling: one fraction is no sweep.
    """
    sealed = store.partition("eval_set", eval_set).require()
    if fraction_of(sealed.manifest) is None:
        return pl.DataFrame(schema=SCHEMA)
    markets = set(read_table(sealed, EVAL_SET)["id"])
    rows = [
        row
        for (name,) in store.sealed_keys("eval_set")
        if (fraction := _same_markets(store, name, markets)) is not None
        for row in _rows(store, name, fraction)
    ]
    frame = pl.DataFrame(rows, schema=SCHEMA, orient="row").sort("model", "arm", "fraction")
    return frame if frame["fraction"].n_unique() > 1 else frame.clear()


def forecasts(store: Store, frame: pl.DataFrame, *, but: str) -> pl.DataFrame:
    """Return question_id, t0, model, arm and prob_yes of every scored forecast of a sweep's sets, `but` left out."""
    names = [name for name in frame["eval_set"].unique().sort().to_list() if name != but]
    parts = [read_table(store.partition("scored_forecasts", name).require(), SCORED) for name in names]
    return pl.concat([SCORED.empty(), *parts]).select("question_id", "t0", "model", "arm", "prob_yes")


def _same_markets(store: Store, name: str, markets: set[str]) -> float | None:
    sealed = store.partition("eval_set", name).require()
    fraction = fraction_of(sealed.manifest)
    same = fraction is not None and set(read_table(sealed, EVAL_SET)["id"]) == markets
    return fraction if same and store.partition("score_tables", name).manifest() else None


def _rows(store: Store, name: str, fraction: float) -> list[dict[str, Any]]:
    sealed = store.partition("score_tables", name).require()
    cells = read_table(sealed, CELLS).filter(pl.col("n") > 0)
    measured = read_table(sealed, METRICS, name="metrics.parquet")
    wide = measured.filter(pl.col("metric").is_in(["ece_equal_width", "brier_skill"])).pivot(
        on="metric", index=["model", "arm"], values="value"
    )
    joined = cells.join(wide, on=["model", "arm"], how="left")
    return [
        {"eval_set": name, "fraction": fraction, "ece": row.get("ece_equal_width")}
        | {key: row.get(key) for key in SCHEMA if key not in {"eval_set", "fraction", "ece"}}
        for row in joined.iter_rows(named=True)
    ]
