"""The lookback sweep on the sample world: two scripted models x 4 fractions x both arms, and an arm without a model.

Every call goes over the wire to a scripted server; the archive holds the sample world's own posts.
"""

import json
from collections import Counter
from pathlib import Path

import dagster as dg
import pytest
from typer.testing import CliRunner

from assets.partitions import EVAL_SETS, MODELS
from hindcast_dagster.cli.main import app
from hindcast_dagster.contracts.forecasts import FORECASTS
from hindcast_dagster.definitions import build_definitions
from hindcast_dagster.errors import NotReady, UsageError
from hindcast_dagster.evalset import lookback
from hindcast_dagster.evalset.build import build
from hindcast_dagster.evalset.sweep import build_sweep
from hindcast_dagster.forecast import run as running
from hindcast_dagster.markets import fetch
from hindcast_dagster.questions.load import load as load_questions
from hindcast_dagster.sample.server import serve
from hindcast_dagster.sample.world import generate
from hindcast_dagster.settings import load
from hindcast_dagster.storage.store import open_store
from hindcast_dagster.storage.tables import read_table
from tests.forecast_world import DEFAULTS, FORECAST
from tests.golden.test_coverage_sample import shown
from tests.scripted_llm import Script, Stage, scripted_server
from tests.toy_archive import ToyArchive

SETS = ["q-l25", "q-l50", "q-l75", "q-l100"]
QUESTIONS, RUNS = 4, 5
ARMS = ("zero_shot", "retrieval")
CELLS = 2 * 4 * QUESTIONS * RUNS  # forecasts of one arm
MODEL = """
[models.{slug}]
name = "{slug}"
family = "test"
hub_id = "test/{slug}"
backend = "server"
base_url = "{url}"
licence = "MIT"
cutoff_source = "test"
context_length = 32768
price = {{ tokens_in = 1.0, tokens_out = 1.0 }}
"""

# 2026-11, raised by Dagster's own code for the tags that it gives to runs of a two-dimensional partition
pytestmark = pytest.mark.filterwarnings("ignore:Non-compliant tag keys like .'dagster/partition:DeprecationWarning")


class Without:
    """An arm without a model."""

    arm, version, uses_archive = "without", "1", True

    def forecast(self, question, archive, *, run):
        from hindcast_dagster.forecast.forecaster import Forecast

        hits = archive.search_database(question.text, k=5).hits
        return Forecast(prob_yes=min(0.9, 0.1 * (len(hits) + run)))


@pytest.fixture(scope="module")
def fetched(tmp_path_factory):
    """The sample world's markets and prices, fetched once, and its posts."""
    world = generate(months=2)
    root = tmp_path_factory.mktemp("sweep")
    with serve(world) as url:
        urls = {"gamma_url": url, "clob_url": url, "data_url": url}
        fetch.fetch(open_store(root), load(data_root=str(root), polymarket=urls))
    kept = {post.key: post for posts in world.posts.values() for post in posts if post.fate == "kept"}
    return root, ToyArchive([shown(post) for post in kept.values() if post.kind == "submission"])


@pytest.fixture
def server():
    reflection = '{"confidence": 0.4, "queries": ["one more", "and one"]}'
    script = Script(
        Stage("seed_queries", "This is round 1.", [str(DEFAULTS["seed_queries"])]),
        Stage("summary", "Write the evidence report anew", [str(DEFAULTS["summary"])]),
        Stage("reflection", "Reflect briefly", [reflection]),
        Stage("tally", "Label each block", [str(DEFAULTS["tally"])]),
        Stage("forecast", "Step 1 - PRIOR", [str(DEFAULTS["forecast"])]),
        Stage("zero_shot", "", [FORECAST]),
    )
    with scripted_server(script) as found:
        yield found


@pytest.fixture
def swept(fetched, server, tmp_path, monkeypatch):
    """A store with the base set `q`, a roster of two priced models on the scripted server, and the toy archive."""
    import shutil

    source, archive = fetched
    root = tmp_path / "root"
    shutil.copytree(source, root)
    roster = root / "roster.toml"
    roster.write_text("".join(MODEL.format(slug=slug, url=server.base_url) for slug in ("one", "two")))
    (root / "hindcast.toml").write_text(f"[llm]\nroster_file = {json.dumps(str(roster))}\n")
    store, settings = open_store(root), load(data_root=str(root))
    monkeypatch.setattr(running, "_archive", lambda *_: archive)
    build(store, settings, name="wide", policy="lookback:0.25")
    chosen = [found.question.id for found in load_questions(store, "wide")][:QUESTIONS]
    build(store, settings, name="q", policy="day_before_close", market_ids=chosen)
    return store, settings


def invoke(store, *arguments):
    command = ["--data-root", str(store.root), "--json", "forecast", "sweep", "q", *arguments]
    return CliRunner().invoke(app, command)


def command(store, *arguments):
    done = invoke(store, "--model", "one", "--model", "two", *arguments)
    assert done.exit_code == 0, done.output
    return json.loads(done.stdout)


def sealed(store):
    """Return (arm, model, set) -> the forecasts of every sealed partition of the two arms."""
    return {
        (arm, *manifest.key): read_table(store.partition(f"{arm}_forecasts", *manifest.key).require(), FORECASTS)
        for arm in ARMS
        for manifest in store.manifests(f"{arm}_forecasts")
    }


def calls(store):
    """Count the calls behind all sealed forecasts: what the server must have answered when nothing was asked twice."""
    return sum(int(frame["calls"].sum()) for frame in sealed(store).values())


def test_the_preset_is_the_papers_table_7():
    order = lookback.Order("q")
    assert order.runs == 5
    assert {(cell.model, cell.fraction, cell.arm) for cell in order.cells()} == {
        (model, fraction, arm)
        for model in ("ministral-8b", "qwen3-8b")
        for fraction in (0.25, 0.5, 0.75, 1.0)
        for arm in ("zero_shot", "retrieval")
    }


@pytest.mark.slow
def test_the_command_asks_every_cell_once_and_scores_the_sweep(swept, server):
    store, _ = swept
    document = command(store)
    assert document["sets"] == SETS
    assert len(document["cells"]) == 16
    assert {cell["forecasts"] for cell in document["cells"]} == {QUESTIONS * RUNS}
    assert (document["stopped"], document["not_asked"], document["left_out"]) == (False, 0, 0)
    every = server.completions
    assert every == calls(store) > 2 * CELLS
    assert set(sealed(store)) == {(arm, model, name) for arm in ARMS for model in ("one", "two") for name in SETS}
    rows = {(row["model"], row["arm"], row["fraction"]): row for row in document["scores"]}
    assert {key for key in rows if key[0] in {"one", "two"}} == {
        (model, arm, fraction) for model in ("one", "two") for arm in ARMS for fraction in (0.25, 0.5, 0.75, 1.0)
    }
    outcomes = [found.outcome for found in load_questions(store, "q-l25")]
    expected = sum((0.7 - (outcome == "Yes")) ** 2 for outcome in outcomes) / len(outcomes)
    assert rows["one", "zero_shot", 0.25]["brier"] == pytest.approx(expected)
    assert rows["one", "zero_shot", 0.25]["brier_sd"] == 0
    again = command(store)
    assert server.completions == every, "nothing is asked twice"
    assert again["scores"] == document["scores"]
    assert again["spent"] == 0


def test_dry_run_counts_and_asks_nothing(swept, server):
    store, settings = swept
    early = invoke(store, "--dry-run", "--model", "one")
    assert isinstance(early.exception, NotReady)
    assert "hindcast evalset sweep q" in str(early.exception)
    build_sweep(store, settings, name="q")
    document = command(store, "--dry-run")
    assert server.completions == 0
    assert sealed(store) == {}
    assert len(document["cells"]) == 16
    assert document["total"]["pending"] == 2 * CELLS
    assert document["total"]["calls"] > 2 * CELLS
    assert document["total"]["cost"] > 0
    asked = ["--data-root", str(store.root), "forecast", "sweep", "q", "--model", "one", "--dry-run"]
    narrow = " ".join(CliRunner().invoke(app, asked, env={"COLUMNS": "80"}).stdout.split())
    for said in ("together, at most", "4 questions x 5 runs", "zero_shot q-l25", "$"):
        assert said in narrow, "readable in 80 columns"


def test_one_ceiling_holds_for_all_cells_and_the_next_call_goes_on(swept, server):
    store, settings = swept
    build_sweep(store, settings, name="q")
    order = lookback.Order("q", ("one", "two"))
    plans = lookback.plan(store, settings, order)
    ceiling = plans[0].cost * 1.5  # more than the first cell can cost, less than all
    first = list(lookback.ask(store, settings, order, max_cost=ceiling))
    assert len(first) < 16
    assert [each.manifest.stats["stopped"] for each in first] == [False] * (len(first) - 1) + [True]
    spent = sum(each.spent for each in first)
    assert 0 < spent <= ceiling
    assert spent == pytest.approx(sum(frame["cost"].sum() for frame in sealed(store).values()), abs=1e-4)
    assert 0 < server.completions == calls(store)
    rest = list(lookback.ask(store, settings, order))
    assert len(rest) == 16
    assert server.completions == calls(store), "what was paid for is not paid for again"
    assert {frame.height for frame in sealed(store).values()} == {QUESTIONS * RUNS}
    assert spent + sum(each.spent for each in rest) == pytest.approx(
        sum(frame["cost"].sum() for frame in sealed(store).values()), abs=1e-4
    )


def test_a_server_that_dies_loses_only_what_was_in_flight(swept, server):
    store, settings = swept
    build_sweep(store, settings, name="q")
    order = lookback.Order("q", ("one",), ("retrieval",))
    asking = lookback.ask(store, settings, order)
    next(asking)
    asking.close()  # the process ends after the first cell
    done = server.completions
    assert done == calls(store) > 0
    left = lookback.totals(lookback.plan(store, settings, order))
    assert (left["done"], left["pending"]) == (QUESTIONS * RUNS, 3 * QUESTIONS * RUNS)
    assert len(list(lookback.ask(store, settings, order))) == 4
    assert server.completions == calls(store) > done


def test_an_arm_without_a_model(swept, server):
    store, _ = swept
    arm = f"{__name__}:Without" if __name__.startswith("tests") else f"tests.integration.{Path(__file__).stem}:Without"
    done = invoke(store, "--model", "none", "--arm", arm, "--runs", "2")
    assert done.exit_code == 0, done.output
    document = json.loads(done.stdout)
    assert server.completions == 0
    assert [cell["forecasts"] for cell in document["cells"]] == [QUESTIONS * 2] * 4
    assert document["spent"] is None
    rows = [row for row in document["scores"] if row["arm"] == "without"]
    assert [row["fraction"] for row in rows] == [0.25, 0.5, 0.75, 1.0]


@pytest.mark.slow
def test_the_job_does_what_the_command_does(swept, server):
    store, settings = swept
    definitions = build_definitions(settings)
    job = definitions.resolve_job_def("lookback_sweep")
    with dg.DagsterInstance.ephemeral() as instance:
        asked = {"eval_set": "q", "models": ["one", "two"]}
        dry = job.execute_in_process(instance=instance, run_config=asked | {"dry_run": True})
        assert dry.success
        assert server.completions == 0
        result = job.execute_in_process(instance=instance, run_config=asked)
        assert result.success
        every = server.completions
        assert every == calls(store)
        assert set(SETS) <= set(instance.get_dynamic_partitions(EVAL_SETS))
        assert {"one", "two"} <= set(instance.get_dynamic_partitions(MODELS))
        told = Counter(
            event.event_specific_data.materialization.asset_key.to_user_string()
            for event in result.all_events
            if event.event_type_value == "ASSET_MATERIALIZATION"
        )
        assert told["zero_shot_forecasts"] == told["retrieval_forecasts"] == 8
        assert told["eval_set"] == told["score_tables"] == told["leak_audit"] == told["report"] == 4
        state = instance.get_materialized_partitions(dg.AssetKey("retrieval_forecasts"))
        assert len(state) == 8
    page = (store.root / "reports" / "q-l100" / "report.html").read_text()
    assert 'aria-label="Lookback sweep"' in page
    command(store)
    assert server.completions == every, "the command finds what the job made"


def test_a_sweep_of_nothing_is_refused(swept):
    store, settings = swept
    with pytest.raises(UsageError, match="at least one model"):
        list(lookback.ask(store, settings, lookback.Order("q", ())))
