"""The outcome-recall probe: what a model remembers, scored against what happened, and nothing else."""

import json

import pytest
from typer.testing import CliRunner

from hindcast_dagster.cli.main import app
from hindcast_dagster.contracts.questions import EVAL_SET
from hindcast_dagster.contracts.scores import RECALL
from hindcast_dagster.leakage import asking, recall
from hindcast_dagster.llm.roster import Price
from hindcast_dagster.storage.tables import publish_table, read_table
from tests.forecast_world import Script
from tests.leak_world import question_row

OUTCOMES = {1: "Yes", 2: "No", 3: "Yes", 4: "No"}


@pytest.fixture
def asked(store):
    rows = [
        question_row(id=f"0x{number:064x}", text=f"Will number {number} happen?", outcome=outcome)
        for number, outcome in OUTCOMES.items()
    ]
    publish_table(store.partition("eval_set", "small"), EVAL_SET.frame(rows), EVAL_SET, code_version="1")
    return store


def remembers(prompt):
    """Right about 1 and 2, wrong about 3, mumbles about 4."""
    number = next(number for number in OUTCOMES if f"number {number}" in prompt)
    return {
        1: '{"remembered_outcome": "Yes"}',
        2: '{"remembered_outcome": "no"}',
        3: '{"remembered_outcome": "No"}',
    }.get(number, "I think it did happen.")


def test_right_wrong_and_unknown(asked, settings):
    model = Script(slug="llama-3-1-8b", answers={"call": remembers})
    manifest = recall.build(asked, settings, model="llama-3-1-8b", eval_set="small", chat=model)
    assert manifest.stats == {"right": 2, "wrong": 1, "unknown": 1, "score": 0.25, "stopped": False, "missing": 0}
    rows = read_table(asked.partition("outcome_recall", "llama-3-1-8b", "small").require(), RECALL)
    assert rows["right"].to_list() == [True, True, False, None]
    assert set(rows["contamination"]) == {"after_cutoff"}
    again = recall.build(asked, settings, model="llama-3-1-8b", eval_set="small", chat=model)
    assert (len(model.calls), again.without_time()) == (4, manifest.without_time())


def test_the_money_stops_it_and_the_next_call_asks_the_rest(asked, settings, monkeypatch):
    monkeypatch.setattr(asking, "price_of", lambda settings, model: Price(tokens_in=0, tokens_out=1_000_000))
    reply = '{"remembered_outcome": "Yes"}' + " indeed" * 600  # 602 words; 1,024 are counted before the first is there
    model = Script(slug="m", answers={"call": reply})
    first = recall.build(asked, settings, model="m", eval_set="small", chat=model, max_cost=1_300)
    assert (first.rows, first.stats["missing"], first.stats["stopped"]) == (2, 2, True)
    rest = recall.build(asked, settings, model="m", eval_set="small", chat=model, max_cost=100_000)
    assert (rest.rows, rest.stats["missing"], rest.stats["stopped"], len(model.calls)) == (4, 0, False, 4)


def test_a_dry_run_by_command_counts_and_asks_nothing(asked):
    command = ["--data-root", str(asked.root), "--json", "control", "recall", "--eval-set", "small", "--dry-run"]
    shown = CliRunner().invoke(app, [*command, "--model", "qwen3-8b"])
    plan = json.loads(shown.stdout)
    assert (plan["control"], plan["done"], plan["pending"], plan["calls"]) == ("recall", 0, 4, 4)
    assert plan["tokens_out"] == 4 * 1_024
    assert asked.partition("outcome_recall", "qwen3-8b", "small").manifest() is None


def test_the_prompt_tells_no_outcome_and_asks_for_no_forecast(asked, settings):
    model = Script(answers={"call": json.dumps({"remembered_outcome": "unknown"})})
    manifest = recall.build(asked, settings, model="m", eval_set="small", chat=model)
    assert manifest.stats["score"] == 0
    texts = {messages[0].content.replace(f"number {number}", "number N") for number in OUTCOMES for _, messages, _ in model.calls
             if f"number {number} " in messages[0].content}  # fmt: skip
    assert len(texts) == 1, "questions of both outcomes get the same prompt"


@pytest.mark.parametrize("reply", ["", "Yes", '{"remembered_outcome": "maybe"}', '{"remembered_outcome": null}', "{}"])
def test_what_is_not_clear_is_unknown(reply):
    assert recall.recalled(reply) == "unknown"
