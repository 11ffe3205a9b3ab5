"""Scores: per-forecast scores, the tables of the paper, paired comparisons, the leak audit, the report."""

import time
from collections.abc import Callable
from typing import Any

import dagster as dg

from assets import shell
from assets.partitions import Partitions
from hindcast_dagster.contracts.analysis import COMPARISONS
from hindcast_dagster.contracts.scores import AUDIT, CELLS, SCORED
from hindcast_dagster.contracts.table import Contract
from hindcast_dagster.storage.manifest import Manifest
from hindcast_dagster.storage.store import Store
from hindcast_dagster.storage.tables import read_table
from resources.store import StorageRoot

GROUP = "scores"
SANE = "market_beats_a_coin"
LEAKED = "nothing_leaked"
_CELL = ("model", "arm", "runs", "n", "unparsed", "failed", "missing", "retried", "ranked", "accuracy", "brier")
_FORECASTS = ("market_baseline", "zero_shot_forecasts", "retrieval_forecasts")


def build(partitions: Partitions) -> list[Any]:
    """Return the assets of this stage."""

    def scored(
        name: str, deps: list[str], description: str, contract: Contract | None = None, *more: dg.AssetCheckSpec
    ) -> Callable[[Any], Any]:
        return dg.asset(
            name=name,
            partitions_def=partitions.eval_sets,
            group_name=GROUP,
            kinds={"parquet"} if name != "report" else {"html"},
            owners=shell.OWNERS,
            code_version=str(contract.version) if contract else "1",
            deps=deps,
            check_specs=[*([shell.contract_spec(name)] if contract else []), *more],
            description=description,
        )

    @scored(
        "scored_forecasts",
        [*_FORECASTS],
        "Each forecast against the outcome and the market's price at t0 (paper, 4.2).",
        SCORED,
        shell.sealed_spec(
            "scored_forecasts", SANE, "The market's own price beats a coin; else nothing is made from it."
        ),
    )
    def scored_forecasts(context: dg.AssetExecutionContext, root: StorageRoot) -> dg.MaterializeResult:
        from hindcast_dagster.scoring import build as scoring

        store, began = root.store(), time.monotonic()
        manifest = scoring.build_scored(store, root.settings(), eval_set=context.partition_key)
        checks = [shell.sealed_result(manifest, SANE, _surest_misses(store, manifest))]
        return shell.published(store, manifest, contract=SCORED, checks=checks, began=began)

    @scored(
        "score_tables",
        ["scored_forecasts"],
        "Accuracy and Brier per model and arm, mean and SD over runs (paper, 6).",
        CELLS,
    )
    def score_tables(context: dg.AssetExecutionContext, root: StorageRoot) -> dg.MaterializeResult:
        from hindcast_dagster.scoring import build as scoring

        store, began = root.store(), time.monotonic()
        manifest = scoring.build_tables(store, root.settings(), eval_set=context.partition_key)
        return shell.published(store, manifest, contract=CELLS, began=began, scores=_small(store, manifest, CELLS))

    @scored(
        "comparisons",
        ["scored_forecasts"],
        "Paired comparisons, clustered by question and by event (paper, 7).",
        COMPARISONS,
    )
    def comparisons(context: dg.AssetExecutionContext, root: StorageRoot) -> dg.MaterializeResult:
        from hindcast_dagster.scoring import compare

        store, began = root.store(), time.monotonic()
        manifest = compare.build(store, root.settings(), eval_set=context.partition_key)
        shown = _differences(store, manifest)
        return shell.published(store, manifest, contract=COMPARISONS, began=began, differences=shown)

    @scored(
        "leak_audit",
        [*_FORECASTS],
        "Every document of every trace looked up again and held against its t0 (paper, 3.3).",
        AUDIT,
        shell.sealed_spec("leak_audit", LEAKED, "No forecast saw anything of t0 or later.", blocking=False),
    )
    def leak_audit(context: dg.AssetExecutionContext, root: StorageRoot) -> dg.MaterializeResult:
        from hindcast_dagster.leakage import audit

        store, began = root.store(), time.monotonic()
        manifest = audit.build(store, root.settings(), eval_set=context.partition_key)
        return shell.published(
            store,
            manifest,
            contract=AUDIT,
            checks=[shell.sealed_result(manifest, LEAKED, _violations(store, manifest))],
            began=began,
            violations=manifest.rows,
        )

    @scored(
        "report",
        ["score_tables", "comparisons", "leak_audit"],
        "A self-contained HTML report, and the release bundle of identifiers (paper, 6 and 7).",
    )
    def report(context: dg.AssetExecutionContext, root: StorageRoot) -> dg.MaterializeResult:
        from hindcast_dagster.report.build import build as build_report
        from hindcast_dagster.report.build import path_of, pictures

        store, began = root.store(), time.monotonic()
        manifest = build_report(store, root.settings(), eval_set=context.partition_key)
        page = path_of(store, context.partition_key)
        return shell.published(
            store,
            manifest,
            began=began,
            page=dg.MetadataValue.path(str(page)),
            figures=shell.pictures(pictures(store, context.partition_key)),
        )

    return [scored_forecasts, score_tables, comparisons, leak_audit, report]


def _surest_misses(store: Store, manifest: Manifest) -> list[dict[str, Any]]:
    """Return the questions that the market missed by most: where crossed outcomes or prices show first."""
    frame = read_table(store.partition(manifest.table, *manifest.key).look(), SCORED)
    market = frame.filter(arm="market_price").sort("brier", descending=True).head(10)
    rows = market.select("question_id", "outcome", "prob_yes", "brier", "t0").to_dicts()
    return [{**row, "do": f"hindcast markets show {row['question_id']}"} for row in rows]


def _violations(store: Store, manifest: Manifest) -> list[dict[str, Any]]:
    frame = read_table(store.partition(manifest.table, *manifest.key).look(), AUDIT)
    do = f"hindcast audit --eval-set {manifest.key[0]}"
    return [{**row, "do": do} for row in frame.head(20).to_dicts()]


def _small(store: Store, manifest: Manifest, contract: Contract) -> dg.TableMetadataValue:
    frame = read_table(store.partition(manifest.table, *manifest.key).require(), contract)
    return shell.rows_table(frame.select(_CELL).to_dicts())


def _differences(store: Store, manifest: Manifest) -> dg.TableMetadataValue:
    """Return the differences of Brier by question, on what both sides answered: the lines that people read first."""
    frame = read_table(store.partition(manifest.table, *manifest.key).require(), COMPARISONS)
    rows = frame.filter(metric="brier", cluster="question", missing="intersection").select(
        "family", "a", "b", "pairs", "difference", "low", "high", "p_holm"
    )
    return shell.rows_table(rows.to_dicts())
