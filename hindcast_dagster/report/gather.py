"""Reads everything that a report shows. A part whose input is not there is a `NotMeasured`, never an empty result."""

from dataclasses import dataclass
from typing import Any, NamedTuple

import polars as pl

from hindcast_dagster.clock import month_of
from hindcast_dagster.contracts import analysis
from hindcast_dagster.contracts.coverage import COVERAGE
from hindcast_dagster.contracts.markets import PRICES
from hindcast_dagster.contracts.scores import AUDIT, CELLS, SCORED
from hindcast_dagster.contracts.table import Contract
from hindcast_dagster.errors import NotReady
from hindcast_dagster.evalset import twin as twins
from hindcast_dagster.evalset.contamination import Exposure, view
from hindcast_dagster.forecast import records
from hindcast_dagster.leakage.audit import JOURNAL, TABLE
from hindcast_dagster.report import latency, leaks, origin, traces
from hindcast_dagster.report.absent import NotMeasured
from hindcast_dagster.report.latency import Measured
from hindcast_dagster.report.leaks import Leaks
from hindcast_dagster.report.origin import Origin
from hindcast_dagster.report.traces import Seen
from hindcast_dagster.scoring import inputs, models, sweep
from hindcast_dagster.scoring.build import current
from hindcast_dagster.scoring.inputs import Inputs
from hindcast_dagster.scoring.models import ModelFacts
from hindcast_dagster.settings import Settings
from hindcast_dagster.storage.manifest import Input, Manifest
from hindcast_dagster.storage.store import Sealed, Store
from hindcast_dagster.storage.tables import read_table

FURTHER: dict[str, Contract] = {
    "runs": analysis.RUNS,
    "strata": analysis.STRATA,
    "metrics": analysis.METRICS,
    "calibration": analysis.CALIBRATION,
    "event_sums": analysis.EVENT_SUMS,
    "effects": analysis.EFFECTS,
    "blend": analysis.BLEND,
}


class Audit(NamedTuple):
    """The leak audit: its findings and its counts."""

    rows: pl.DataFrame
    stats: dict[str, Any]


@dataclass(frozen=True)
class Gathered:
    """Everything that a report shows, as it was read."""

    eval_set: str
    given: Inputs
    manifest: Manifest
    """Of the eval set."""
    scored: pl.DataFrame
    cells: pl.DataFrame
    missing: list[dict[str, Any]]
    tables: dict[str, pl.DataFrame]
    """The further files of the score tables, by name."""
    comparisons: pl.DataFrame | NotMeasured
    audit: Audit | NotMeasured
    prices: pl.DataFrame | NotMeasured
    seen: Seen | NotMeasured
    latency: Measured | NotMeasured
    leaks: Leaks
    """What the leakage controls measured."""
    health: dict[str, dict[str, Any]]
    """`<table> <month>` -> health of the month, for the months that the eval set pins."""
    sweep: pl.DataFrame
    swept: pl.DataFrame
    """question_id, t0, model, arm, prob_yes of every forecast of the other sets of the sweep."""
    twin: pl.DataFrame | None
    """model, arm, brier, twin: Brier here and in the outcome-blind twin; None when that is not scored."""
    probes: pl.DataFrame
    """judge, as_of and a count per evidence quality: what the probe said of these questions at the close and at t0."""
    exposure: list[Exposure]
    """Of every model of the roster."""
    facts: dict[str, ModelFacts]
    sample: bool
    """The world is invented."""
    origin: Origin
    sources: tuple[Input, ...]

    @property
    def not_measured(self) -> list[NotMeasured]:
        """Every part without input."""
        parts = (self.comparisons, self.audit, self.prices, self.seen, self.latency)
        return [part for part in parts if isinstance(part, NotMeasured)]


def gather(store: Store, settings: Settings, *, eval_set: str) -> Gathered:
    """Read the parts of a report. Raises `NotReady` when the scores themselves are missing or stale."""
    given = inputs.load(store, eval_set)
    questions = store.partition("eval_set", eval_set).require()
    source = current(store, given)
    tables = store.partition("score_tables", eval_set).require(made_by=f"hindcast score --eval-set {eval_set}")
    if source.as_input not in tables.manifest.inputs:
        raise NotReady(f"score_tables {eval_set} is older than its scores: run `hindcast score --eval-set {eval_set}`.")
    comparisons = _optional(store, "comparisons", eval_set, made_from=(source.as_input,))
    audit = _audit(store, given)
    measured = latency.read(store)
    leaked = leaks.read(store, eval_set, made_from=(source.as_input, *given.sources))
    cells = read_table(tables, CELLS)
    return Gathered(
        eval_set=eval_set,
        given=given,
        manifest=questions.manifest,
        scored=read_table(source, SCORED),
        cells=cells,
        missing=tables.manifest.stats["missing"],
        tables={name: read_table(tables, contract, name=f"{name}.parquet") for name, contract in FURTHER.items()},
        comparisons=read_table(comparisons, analysis.COMPARISONS)
        if comparisons
        else NotMeasured("Paired comparisons", f"hindcast score --eval-set {eval_set}"),
        audit=Audit(read_table(audit, AUDIT), audit.manifest.stats)
        if audit
        else NotMeasured("Leak audit", f"hindcast audit --eval-set {eval_set}"),
        prices=_prices(store, given.questions, questions.manifest),
        seen=traces.read(store, eval_set, given.forecasts)
        or NotMeasured(
            "Rationales and documents", f"hindcast forecast run --arm retrieval --model M --eval-set {eval_set}"
        ),
        latency=measured,
        leaks=leaked,
        health=_health(store, questions.manifest),
        sweep=(fractions := sweep.sweep(store, eval_set)),
        swept=sweep.forecasts(store, fractions, but=eval_set),
        twin=_twin(store, given, cells),
        probes=_probes(store, given.questions),
        exposure=view(store, settings, eval_set),
        facts=models.facts(settings, cells["model"].unique().sort().to_list()),
        sample=(sample := _is_sample(settings, given)),
        origin=origin.read(store, questions.manifest, questions=given.questions.height, sample=sample),
        sources=(
            *(each.as_input for each in (questions, source, tables, comparisons, audit) if each is not None),
            *([measured.source] if isinstance(measured, Measured) else []),
            *leaked.sources,
        ),
    )


def _optional(store: Store, table: str, eval_set: str, *, made_from: tuple[Input, ...]) -> Sealed | None:
    """Return a partition if it is sealed and was made from these inputs; one that is older says nothing about them."""
    partition = store.partition(table, eval_set)
    manifest = partition.manifest()
    return partition.require() if manifest and set(made_from) <= set(manifest.inputs) else None


def _audit(store: Store, given: Inputs) -> Sealed | None:
    """Return the audit of exactly what is there: these forecasts, and every trace as it is now, sealed or not."""
    found = _optional(store, TABLE, given.eval_set, made_from=given.sources)
    same = found is not None and found.manifest.stats.get(JOURNAL) == records.digest(store, given.eval_set)
    return found if same else None


def _twin(store: Store, given: Inputs, cells: pl.DataFrame) -> pl.DataFrame | None:
    """Return this set's Brier beside that of its outcome-blind twin (`<name>-blind`), or of that whose twin it is."""
    other = twins.other_of(store, given.eval_set)
    if other is None or (twin := store.partition("score_tables", other)).manifest() is None:
        return None
    theirs = read_table(twin.require(), CELLS).select("model", "arm", pl.col("brier").alias("twin"))
    return cells.select("model", "arm", "brier").join(theirs, on=["model", "arm"], how="left").sort("model", "arm")


def _probes(store: Store, questions: pl.DataFrame) -> pl.DataFrame:
    """Count the probe's words on these questions; at t0 only a probe that stood at the question's own t0 counts."""
    months = sorted({month_of(close) for close in questions["close_at"]})
    sealed = [store.partition(COVERAGE.name, month) for month in months]
    known = [read_table(each.require(), COVERAGE) for each in sealed if each.manifest() is not None]
    rows = pl.concat([COVERAGE.empty(), *known]).join(questions.select("t0", market_id="id"), on="market_id")
    rows = rows.filter((pl.col("as_of") == "close") | (pl.col("at") == pl.col("t0")))
    quality = pl.col("evidence_quality").fill_null("unreadable")
    return (
        rows.group_by("judge", "as_of")
        .agg(**{name: (quality == name).sum() for name in ("strong", "weak", "none", "unreadable")})
        .sort("judge", "as_of")
    )


def _is_sample(settings: Settings, given: Inputs) -> bool:
    return (
        settings.polymarket.source == "sample"
        or given.eval_set_stats.get("source") == "sample"
        or given.questions.filter(pl.col("source") == "sample").height > 0
    )


def _prices(store: Store, questions: pl.DataFrame, manifest: Manifest) -> pl.DataFrame | NotMeasured:
    """Return the price series of the questions, at the versions that the eval set pins."""
    pinned = {pin.key: pin.version for pin in manifest.pins if pin.table == "market_prices"}
    months = sorted({month_of(close) for close in questions["close_at"]})
    frames = []
    for month in months:
        partition = store.partition("market_prices", month)
        if (month,) in pinned:
            frames.append(read_table(partition.at_version(pinned[(month,)]), PRICES))
        elif partition.manifest():
            frames.append(read_table(partition.require(), PRICES))
    wanted = questions.select(pl.col("id").alias("market_id"))
    found = pl.concat([PRICES.empty(), *frames]).join(wanted, on="market_id", how="semi").sort("market_id", "at")
    return found if found.height else NotMeasured("Price histories", "hindcast markets fetch")


def _health(store: Store, manifest: Manifest) -> dict[str, dict[str, Any]]:
    """Return the health of every corpus month behind the pinned index months."""
    corpus = {"submission_index": "submissions", "comment_index": "comments"}
    found = {}
    for pin in manifest.pins:
        if pin.table in corpus:
            sealed = store.partition(corpus[pin.table], *pin.key).manifest()
            health = sealed.stats.get("health") if sealed else None
            found[f"{corpus[pin.table]} {pin.key[0]}"] = health if isinstance(health, dict) else {"verdict": "unknown"}
    return dict(sorted(found.items()))
