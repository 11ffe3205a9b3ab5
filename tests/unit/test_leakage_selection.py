"""Selection effects: every cell with and without the markets that show an effect, on hand-computed numbers."""

import json

import pytest
from typer.testing import CliRunner

from hindcast_dagster.cli.main import app
from hindcast_dagster.contracts.coverage import COVERAGE
from hindcast_dagster.contracts.forecasts import FORECASTS
from hindcast_dagster.contracts.questions import EVAL_SET
from hindcast_dagster.errors import NotReady
from hindcast_dagster.leakage import selection
from hindcast_dagster.scoring.build import build_scored
from hindcast_dagster.storage.tables import publish_table
from tests.leak_world import CLOSE, T0, forecast_row, question_row, trace_record

# number -> outcome, probability, price at t0, closed early
ASKED = {
    1: ("Yes", 0.9, 0.99, True),
    2: ("No", 0.9, 0.5, False),
    3: ("No", 0.3, 0.01, False),
    4: ("Yes", 0.4, None, False),
}


def name(number):
    return f"0x{number:064x}"


@pytest.fixture
def scored(store, settings):
    rows = [
        question_row(
            id=name(number), outcome=outcome, price_at_t0=price, price_age_s=None if price is None else 60,
            flags=["early_resolved"] if early else [],
        )
        for number, (outcome, _, price, early) in ASKED.items()
    ]  # fmt: skip
    publish_table(store.partition("eval_set", "small"), EVAL_SET.frame(rows), EVAL_SET, code_version="1")
    made = [
        forecast_row(trace_record([], question_id=name(number), prob_yes=p, arm="zero_shot", model="m"))
        for number, (_, p, _, _) in ASKED.items()
    ]
    publish_table(
        store.partition("zero_shot_forecasts", "m", "small"), FORECASTS.frame(made), FORECASTS, code_version="1"
    )
    build_scored(store, settings, eval_set="small")
    return store


def seal_probe(store, strong, *, as_of, at):
    counts = {
        f"{side}_{label}": 0 for side in ("yes", "no") for label in ("strong", "weak", "irrel", "contra", "unlabelled")
    }
    rows = [
        {
            "market_id": name(number), "as_of": as_of, "at": at, "judge": "evidence_count", "judge_version": "1", **counts,
            "yes_score": 0.0, "no_score": 0.0, "contrast": 0.5, "resolved_contrast": 0.5,
            "evidence_quality": "strong" if number in strong else "none", "documents": 1,
        }
        for number in ASKED
    ]  # fmt: skip
    publish_table(store.partition("coverage_probe", "2025-03"), COVERAGE.frame(rows), COVERAGE, code_version="1")


def shown(store):
    command = ["--data-root", str(store.root), "--json", "control", "selection", "--eval-set", "small"]
    done = CliRunner().invoke(app, command)
    assert done.exit_code == 0, done.output
    return {
        (row["effect"], row["side"]): (row["questions"], row["accuracy"], round(row["brier"], 6))
        for row in json.loads(done.stdout)["effects"]
    }


def test_early_closers_and_decided_markets(scored):
    everything = (4, 0.5, 0.3175)  # Brier .01, .81, .09, .36
    assert shown(scored) == {
        ("early_close", "all"): everything,
        ("early_close", "with"): (1, 1.0, 0.01),
        ("early_close", "without"): (3, pytest.approx(1 / 3), 0.42),
        ("decided_at_t0", "all"): (3, pytest.approx(2 / 3), 0.303333),  # one has no price: nobody knows
        ("decided_at_t0", "with"): (2, 1.0, 0.05),
        ("decided_at_t0", "without"): (1, 0.0, 0.81),
    }


@pytest.mark.parametrize(("as_of", "at"), [("close", CLOSE), ("t0", T0)])
def test_what_the_probe_calls_strong(scored, as_of, at):
    seal_probe(scored, {1, 3}, as_of=as_of, at=at)
    found = shown(scored)
    effect = f"strong_at_{as_of}"
    assert found[effect, "with"] == (2, 1.0, 0.05)
    assert found[effect, "without"] == (2, 0.0, 0.585)
    assert found[effect, "all"] == found["early_close", "all"]


def test_a_probe_at_another_instant_says_nothing(scored):
    seal_probe(scored, {1}, as_of="t0", at=T0 - 1)
    assert "strong_at_t0" not in {effect for effect, _ in shown(scored)}


def test_without_scores_it_says_what_to_do(store):
    publish_table(store.partition("eval_set", "small"), EVAL_SET.frame([question_row()]), EVAL_SET, code_version="1")
    with pytest.raises(NotReady, match="hindcast score --eval-set small"):
        selection.build(store, eval_set="small")
