"""Probing a close window or an eval set, as the command line does it."""

import json

import pytest
from typer.testing import CliRunner

from hindcast_dagster.archive import open as opening
from hindcast_dagster.cli.main import app
from hindcast_dagster.clock import DAY, instant
from hindcast_dagster.contracts.coverage import COVERAGE
from hindcast_dagster.contracts.markets import MARKETS, PRICES
from hindcast_dagster.contracts.questions import EVAL_SET
from hindcast_dagster.coverage import span
from hindcast_dagster.errors import NotReady, UsageError
from hindcast_dagster.evalset.build import build
from hindcast_dagster.settings import load
from hindcast_dagster.storage.tables import publish_table, read_table
from tests.leak_world import market_row, question_row
from tests.toy_archive import ToyArchive, document

FIRST, SECOND = instant("2025-03-20T15:00:00Z"), instant("2025-04-02T00:00:00Z")


@pytest.fixture
def world(store, monkeypatch):
    for month, rows in {
        "2025-03": [market_row(market_id="0x" + "a" * 64, close_at=FIRST, question="Will Ferrowen win the Cup?")],
        "2025-04": [
            market_row(market_id="0x" + "b" * 64, close_at=SECOND, question="Will Vantor resign?", outcome="No"),
            market_row(market_id="0x" + "c" * 64, close_at=SECOND + DAY, outcome=None, excluded="void_50_50"),
        ],
    }.items():
        publish_table(store.partition("markets", month), MARKETS.frame(rows), MARKETS, code_version="1")
    archive = ToyArchive([document("a", "2025-03-02", "Ferrowen confirmed: won the Cup.", title="Ferrowen Cup")])
    monkeypatch.setattr(opening, "open_archive", lambda *_args, **_named: archive)
    return store


def run(store, *arguments):
    return CliRunner().invoke(app, ["--data-root", str(store.root), "--json", "coverage", "probe", *arguments])


def test_window_by_command(world):
    done = run(world, "--closed-from", "2025-03-20", "--closed-to", "2025-04-02", "--model", "evidence_count")
    assert done.exit_code == 0, done.output
    document = json.loads(done.stdout)
    assert document["months"] == ["2025-03", "2025-04"]
    assert (document["markets"], document["judge"], document["as_of"]) == (2, "evidence_count", "close")
    assert document["quality"] == {"none": 1, "weak": 1}
    assert document["excluded"] == {}


def test_markets_without_an_outcome_are_counted(world):
    document = json.loads(run(world, "--closed-from", "2025-04-01").stdout)
    assert document["excluded"] == {"void_50_50": 1}


def test_eval_set_by_command_stands_at_its_own_t0(world):
    t0 = instant("2025-03-03")
    rows = [question_row(id="0x" + "a" * 64, close_at=FIRST, t0=t0)]
    publish_table(world.partition("eval_set", "q"), EVAL_SET.frame(rows), EVAL_SET, code_version="1")
    document = json.loads(run(world, "--eval-set", "q", "--as-of", "t0").stdout)
    assert (document["months"], document["markets"]) == (["2025-03"], 1)
    found = read_table(world.partition("coverage_probe", "2025-03").require(), COVERAGE)
    assert found["at"].to_list() == [t0]


def test_the_pool_of_a_set_is_probed_at_the_sets_own_t0(world):
    """What a twin needs: also the markets that were not selected, and no other instant than theirs."""
    for month, market in (("2025-03", "0x" + "a" * 64), ("2025-04", "0x" + "b" * 64)):
        price = {"market_id": market, "at": instant("2025-03-01"), "price": 0.4, "route": "clob", "step_s": 60}
        publish_table(world.partition("market_prices", month), PRICES.frame([price]), PRICES, code_version="1")
    settings = load(data_root=str(world.root))
    build(world, settings, name="q", policy="days_before:3", archive_end="2025-03-18", size=2)
    document = json.loads(run(world, "--eval-set", "q", "--pool", "--as-of", "t0").stdout)
    assert (document["months"], document["markets"]) == (["2025-03", "2025-04"], 2)
    found = [
        read_table(world.partition("coverage_probe", month).require(), COVERAGE)["at"].to_list()
        for month in ("2025-03", "2025-04")
    ]
    assert found == [[FIRST - 3 * DAY], [instant("2025-03-18")]]
    assert isinstance(run(world, "--closed-from", "2025-01-01", "--pool").exception, UsageError)


def test_progress_counts_over_months(world, settings):
    said = []
    found = span.of_window(world)
    manifests = span.build(
        world, settings, found, judge="evidence_count", progress=lambda done, total, _word: said.append((done, total))
    )
    assert len(list(manifests)) == 2
    assert said == [(1, 3), (2, 3)]


def test_what_is_refused(world):
    with pytest.raises(NotReady, match="No sealed market"):
        span.of_window(world, closed_from="2026-01-01")
    with pytest.raises(UsageError, match="before it begins"):
        span.of_window(world, closed_from="2026-01-01", closed_to="2025-01-01")
    for arguments in ([], ["--closed-from", "2025-01-01", "--eval-set", "q"]):
        failed = run(world, *arguments)
        assert isinstance(failed.exception, UsageError)


def test_a_dry_run_asks_nothing_and_counts_what_a_probe_would(world):
    window = ("--closed-from", "2025-01-01")
    free = json.loads(run(world, *window, "--dry-run").stdout)
    assert (free["markets"], free["done"], free["pending"], free["calls"], free["cost"]) == (2, 0, 2, 0, 0.0)
    run(world, *window)
    assert json.loads(run(world, *window, "--dry-run").stdout)["pending"] == 0
    paid = json.loads(run(world, *window, "--model", "qwen3-8b", "--dry-run").stdout)  # no engine is there
    assert (paid["pending"], paid["calls"], paid["cost"]) == (2, 2 * 8, None)
    assert paid["tokens_out"] == 16 * 1024
    refused = run(world, *window, "--model", "qwen3-8b", "--max-cost", "1")
    assert isinstance(refused.exception, UsageError)
    assert "needs a price" in str(refused.exception)
