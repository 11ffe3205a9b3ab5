"""Seals `comparisons`: paired differences with intervals, by question and by event, corrected within a family."""

from collections.abc import Sequence
from itertools import product
from typing import Any, Final, NamedTuple

import numpy as np
import polars as pl

from hindcast_dagster.contracts.analysis import COMPARISONS
from hindcast_dagster.contracts.scores import SCORED
from hindcast_dagster.errors import UsageError
from hindcast_dagster.scoring import bootstrap, inputs
from hindcast_dagster.scoring.build import CODE, current
from hindcast_dagster.scoring.inputs import BASELINE, MARKET, ZERO_SHOT, Inputs
from hindcast_dagster.scoring.pairs import Cell, paired, rows_of, with_missing_as_half
from hindcast_dagster.settings import Settings
from hindcast_dagster.storage.manifest import Manifest
from hindcast_dagster.storage.store import Store
from hindcast_dagster.storage.tables import publish_table, read_table

METRICS: Final = ("brier", "accuracy")
CLUSTERS: Final = ("question", "event")
TREATMENTS: Final = ("intersection", "half")


class Comparison(NamedTuple):
    """Two cells to compare, and the family within which their p-values are corrected."""

    family: str
    a: Cell
    b: Cell


class Line(NamedTuple):
    """One way to measure a comparison."""

    metric: str
    cluster: str
    missing: str


def build(store: Store, settings: Settings, *, eval_set: str) -> Manifest:
    """Seal every planned comparison of an eval set: each arm against zero-shot, each cell against the market.

    Raises `NotReady` when `scored_forecasts` is missing or stale.
    """
    del settings
    given = inputs.load(store, eval_set)
    source = current(store, given)
    scored = read_table(source, SCORED)
    return publish_table(
        store.partition("comparisons", eval_set),
        compare(given, scored, planned(scored)),
        COMPARISONS,
        code_version=CODE,
        inputs=(*given.sources, source.as_input),
        stats={"resamples": bootstrap.RESAMPLES, "seed": bootstrap.SEED, "level": bootstrap.LEVEL},
    )


def cells_of(scored: pl.DataFrame) -> list[Cell]:
    """Return every cell that has a score, sorted."""
    return sorted(Cell(str(m), str(a)) for m, a in scored.select("model", "arm").unique().iter_rows())


def planned(scored: pl.DataFrame) -> list[Comparison]:
    """Return the comparisons that every eval set gets: family `retrieval` (arm - zero-shot) and `market`."""
    found = cells_of(scored)
    models = [cell for cell in found if cell.model != BASELINE]
    market = Cell(BASELINE, MARKET)
    arms = [Comparison("retrieval", cell, Cell(cell.model, ZERO_SHOT)) for cell in models if cell.arm != ZERO_SHOT]
    against = [Comparison("market", cell, market) for cell in found if cell != market]
    return [each for each in arms + against if each.b in found]


def chosen(scored: pl.DataFrame, a: str, b: str) -> Comparison:
    """Return the comparison that a person named as `model/arm`. Raises `UsageError` for an unknown or the same cell."""
    found = {str(cell): cell for cell in cells_of(scored)}
    for name in (a, b):
        if name not in found:
            raise UsageError(f"{name!r} has no scored forecast; write model/arm, one of: {', '.join(found)}.")
    if a == b:
        raise UsageError(
            f"{a} cannot be compared with itself: name two cells, for example {' '.join(list(found)[:2])}."
        )
    return Comparison("chosen", found[a], found[b])


def compare(given: Inputs, scored: pl.DataFrame, comparisons: Sequence[Comparison]) -> pl.DataFrame:
    """Return one row per comparison, metric, cluster and treatment of missing forecasts (contract COMPARISONS)."""
    rows: list[dict[str, Any]] = []
    for cluster, treatment in product(CLUSTERS, TREATMENTS):
        frames = [(each, _pairs(given, scored, each, treatment)) for each in comparisons]
        rows.extend(_measure([(each, frame) for each, frame in frames if frame.height], cluster, treatment))
    if not rows:
        return COMPARISONS.empty()
    return COMPARISONS.frame(_holm(rows))


def _pairs(given: Inputs, scored: pl.DataFrame, each: Comparison, treatment: str) -> pl.DataFrame:
    if treatment == "intersection":
        return paired(scored, each.a, each.b)
    if not (rows_of(scored, each.a).height and rows_of(scored, each.b).height):
        return scored.clear()
    filled = pl.concat(
        [with_missing_as_half(scored, given.questions, given.forecasts, cell) for cell in (each.a, each.b)]
    )
    return paired(filled, each.a, each.b)


def _measure(frames: list[tuple[Comparison, pl.DataFrame]], cluster: str, treatment: str) -> list[dict[str, Any]]:
    """Measure all pairs under one clustering with one shared set of resamples."""
    if not frames:
        return []
    columns = [(each, frame, metric) for each, frame in frames for metric in METRICS]
    sums, counts = _cluster_matrix([(frame, metric) for _, frame, metric in columns], cluster)
    found = bootstrap.intervals(sums, counts)
    return [
        _row(each, frame, Line(metric, cluster, treatment), interval)
        for (each, frame, metric), interval in zip(columns, found, strict=True)
    ]


def _value(metric: str, suffix: str = "") -> pl.Expr:
    return pl.col(f"{'brier' if metric == 'brier' else 'correct'}{suffix}").cast(pl.Float64)


def _cluster_matrix(columns: list[tuple[pl.DataFrame, str]], cluster: str) -> tuple[bootstrap.Floats, bootstrap.Floats]:
    """Return sums and counts of differences, shape (clusters, columns). A question without an event is its own."""
    name = pl.col("question_id") if cluster == "question" else pl.coalesce("event_id", "question_id")
    parts = [
        frame.select(name.alias("cluster"), (_value(metric) - _value(metric, "_b")).alias("d"))
        .group_by("cluster", maintain_order=True)
        .agg(pl.col("d").sum(), pl.len().alias("n"))
        .with_columns(pl.lit(k).alias("column"))
        for k, (frame, metric) in enumerate(columns)
    ]
    long = pl.concat(parts)
    places = {each: row for row, each in enumerate(long["cluster"].unique().sort().to_list())}
    rows = [places[each] for each in long["cluster"].to_list()]
    sums, counts = np.zeros((len(places), len(columns))), np.zeros((len(places), len(columns)))
    sums[rows, long["column"].to_list()] = long["d"].to_numpy()
    counts[rows, long["column"].to_list()] = long["n"].to_numpy()
    return sums, counts


def _row(each: Comparison, frame: pl.DataFrame, line: Line, interval: bootstrap.Interval) -> dict[str, Any]:
    means = frame.select(_value(line.metric).mean().alias("a"), _value(line.metric, "_b").mean().alias("b")).row(0)
    return {
        "family": each.family,
        "a": str(each.a),
        "b": str(each.b),
        **line._asdict(),
        "pairs": frame.height,
        "clusters": interval.clusters,
        "value_a": means[0],
        "value_b": means[1],
        "difference": interval.difference,
        "low": interval.low,
        "high": interval.high,
        "bca_low": interval.bca_low,
        "bca_high": interval.bca_high,
        "p": interval.p,
        "detectable": interval.detectable,
        "resamples": bootstrap.RESAMPLES,
        "seed": bootstrap.SEED,
    }


def _holm(rows: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """Add Holm's adjusted p-values: one family is all comparisons of a name under one metric, cluster and treatment."""
    from statsmodels.stats.multitest import multipletests

    families: dict[tuple[str, ...], list[dict[str, Any]]] = {}
    for row in rows:
        families.setdefault((row["family"], row["metric"], row["cluster"], row["missing"]), []).append(row)
    for family in families.values():
        adjusted = multipletests([row["p"] for row in family], method="holm")[1]
        for row, value in zip(family, adjusted, strict=True):
            row["p_holm"] = float(value)
    return rows
