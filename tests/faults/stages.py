"""The stages of the pipeline on a toy world, each as a call that a fault can hit.

One month of the sample world, an embedder without a model, a model that answers by a script, and a clock that stands
still: what is left is the program itself, so two runs of a stage must give the same bytes.
"""

from collections.abc import Callable
from pathlib import Path
from typing import Any, Final, NamedTuple

from hindcast_dagster import clock
from hindcast_dagster.archive import build as archive_build
from hindcast_dagster.archive import open as archive_open
from hindcast_dagster.corpus import build as corpus
from hindcast_dagster.coverage import probe
from hindcast_dagster.evalset import build as evalset
from hindcast_dagster.forecast import baselines
from hindcast_dagster.forecast import run as forecasting
from hindcast_dagster.leakage import audit
from hindcast_dagster.markets import fetch
from hindcast_dagster.report import build as report
from hindcast_dagster.sample.world import World, generate
from hindcast_dagster.sample.write import write
from hindcast_dagster.scoring import build as scoring
from hindcast_dagster.settings import Settings, load
from hindcast_dagster.storage.store import Store, open_store
from tests.archive_world import ToyEmbedder
from tests.forecast_world import Script

MONTH: Final = "2025-08"
SET: Final = "small"
NOW: Final = clock.instant("2026-06-01")
MODEL: Final = "scripted"
QUESTIONS: Final = 4


class Stage(NamedTuple):
    """One stage: how to run it, the tables that it seals, and the tables that it reads."""

    name: str
    run: Callable[[Store, Settings], Any]
    seals: tuple[str, ...]
    reads: tuple[str, ...] = ()
    optional: tuple[str, ...] = ()
    """Of what it reads: without these it does what it does on a data root where they were never made, and says so."""


def _corpus(store: Store, settings: Settings) -> None:
    for kind in ("submissions", "comments"):
        corpus.build(store, settings, month=MONTH, kind=kind)


def _archive(store: Store, settings: Settings) -> None:
    archive_build.build_submissions(store, settings, month=MONTH, accept_hollow=True)
    archive_build.build_comments(store, settings, month=MONTH, accept_hollow=True)


def _markets(store: Store, settings: Settings) -> None:
    fetch.fetch(store, settings)


def _coverage(store: Store, settings: Settings) -> None:
    probe.build(store, settings, month=MONTH, judge="evidence_count")


def _eval_set(store: Store, settings: Settings) -> None:
    evalset.build(
        store, settings, name=SET, policy="day_before_close", closed_from="2025-08-01", closed_to="2025-08-31"
    )


def _forecasts(store: Store, settings: Settings) -> None:
    baselines.build(store, settings, eval_set=SET)
    for arm in ("zero_shot", "retrieval"):
        forecasting.build(store, settings, arm=arm, model=MODEL, eval_set=SET, runs=1, limit=QUESTIONS, chat=Script())


def _scores(store: Store, settings: Settings) -> None:
    scoring.build_scored(store, settings, eval_set=SET)
    scoring.build_tables(store, settings, eval_set=SET)


def _audit(store: Store, settings: Settings) -> None:
    audit.build(store, settings, eval_set=SET)


def _report(store: Store, settings: Settings) -> None:
    report.build(store, settings, eval_set=SET)


_CORPUS = ("submissions", "comments")
_MARKETS = ("markets", "market_prices")
_SCORES = ("scored_forecasts", "score_tables")
_INDEX = ("submission_index", "comment_index")
_FORECASTS = ("market_baseline", "zero_shot_forecasts", "retrieval_forecasts")
STAGES: Final = (
    Stage("corpus", _corpus, _CORPUS),
    Stage("archive", _archive, _INDEX, _CORPUS),
    Stage("markets", _markets, _MARKETS),
    Stage("coverage", _coverage, ("coverage_probe",), ("submission_index", "markets")),
    Stage("eval set", _eval_set, ("eval_set",), _MARKETS),
    Stage("forecasts", _forecasts, _FORECASTS, ("eval_set", *_INDEX)),
    Stage("scores", _scores, _SCORES, ("eval_set", *_FORECASTS), _FORECASTS),
    Stage("audit", _audit, ("leak_audit",), ("eval_set", *_FORECASTS, *_CORPUS, *_MARKETS), (*_FORECASTS, *_MARKETS)),
    Stage("report", _report, ("report",), ("eval_set", *_FORECASTS, *_SCORES, "leak_audit"), ("leak_audit",)),
)  # fmt: skip


def world() -> World:
    """Return the toy world."""
    return generate(months=1, seed=0, first_month=MONTH)


def write_dumps(root: Path) -> None:
    """Write the dumps of the toy world, the only input that does not come from a server."""
    write(open_store(root), world())


def settings(root: Path, url: str) -> Settings:
    """Return the settings of the toy world, whose markets are served at `url`."""
    urls = {"gamma_url": url, "clob_url": url, "data_url": url, "wait_budget_s": 5.0}
    return load(data_root=str(root), polymarket=urls)


def stand_still(now: Callable[[], int] = lambda: NOW) -> None:
    """Give this process the toy embedder and a clock of its own. For children only: nothing is put back."""
    embedder = ToyEmbedder()
    archive_build.open_embedder = archive_open.open_embedder = lambda _settings: embedder  # type: ignore[assignment, return-value]
    clock.now = now
