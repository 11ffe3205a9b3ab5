"""What the leakage controls measured stands in the report; what nobody measured is said to be missing, with its command."""

import re

import pytest

from hindcast_dagster.contracts.scores import CONTROLS, DETECTIVE, RECALL, SELECTION
from hindcast_dagster.leakage import detective, recall
from hindcast_dagster.report import leaks, page
from hindcast_dagster.report.gather import gather
from hindcast_dagster.scoring import build
from hindcast_dagster.settings import load
from hindcast_dagster.storage.manifest import Input
from hindcast_dagster.storage.tables import publish_table
from tests.score_world import noisy, question, seal_baselines, seal_forecasts, seal_questions

NAME = "small"


@pytest.fixture
def scored(store):
    rows = [question(number) for number in range(6)]
    seal_questions(store, rows)
    seal_baselines(store, rows)
    seal_forecasts(store, noisy(rows, arm="retrieval", lift=0.1, runs=1, model="smollm2"))
    settings = load(data_root=str(store.root))
    build.build_scored(store, settings, eval_set=NAME)
    build.build_tables(store, settings, eval_set=NAME)
    return store, settings


def effect(kind, topic="", **values):
    base = {"accuracy": 0.5, "accuracy_control": 0.75, "brier": 0.3125, "brier_control": 0.125}
    documents = {"documents": 20.0, "documents_control": 23.0}
    return {"kind": kind, "model": "smollm2", "topic": topic, "n": 6} | base | documents | values


def seal_controls(store, *rows, inputs=()):
    table = CONTROLS.frame([*rows])
    publish_table(store.partition("control_effects", NAME), table, CONTROLS, code_version="1", inputs=inputs)


def section(html):
    found = re.search(r'<section id="leakage">.*?</section>', html, re.DOTALL)
    assert found
    return re.sub(r"\s+", " ", re.sub(r"<[^>]+>", " ", found[0]))


def draw(store, settings):
    return page.render(gather(store, settings, eval_set=NAME), {})


def test_what_nobody_measured_is_named_with_its_command(scored):
    said = section(draw(*scored))
    for command in ("unsealed", "placebo", "paper", "selection", "detective", "recall"):
        assert f"hindcast control {command} " in said
    assert said.count("Not measured.") == 6


def test_leak_inflation_stands_by_model_and_topic(scored):
    store, _ = scored
    seal_controls(store, effect("unsealed"), effect("unsealed", "Sports", accuracy_control=1.0, brier_control=0.0125))
    said = section(draw(*scored))
    assert "Leak inflation" in said
    assert "+25.0" in said, "accuracy that a leaky archive would have bought"
    assert "\N{MINUS SIGN}0.188" in said, "and Brier"
    assert "Sports 6 50.0 100.0 +50.0" in said
    assert "hindcast control unsealed" not in said


def test_paper_against_strict_counts_documents_and_brier(scored):
    store, _ = scored
    seal_controls(store, effect("paper", brier_control=0.3))
    late = {"late": {"texts": 7, "votes": 12}}
    rows = build.inputs.load(store, NAME).forecasts.filter(model="smollm2")
    publish_table(
        store.partition("controls", "paper", "smollm2", NAME),
        rows,
        build.inputs.FORECASTS,
        code_version="1",
        stats=late,
    )
    said = section(draw(*scored))
    assert "Paper mode against strict mode" in said
    assert "7 documents with a text and 12 with votes of after t0" in said
    assert "20.0 23.0" in said
    assert "\N{MINUS SIGN}0.013" in said or "\N{MINUS SIGN}0.012" in said


def test_selection_effects_with_and_without(scored):
    store, _ = scored
    base = {"model": "smollm2", "arm": "retrieval", "effect": "early_close", "n": 2, "accuracy": 0.5}
    rows = [
        base | {"side": "with", "questions": 2, "brier": 0.111},
        base | {"side": "without", "questions": 4, "brier": 0.222},
    ]
    publish_table(store.partition("selection_effects", NAME), SELECTION.frame(rows), SELECTION, code_version="1")
    said = section(draw(*scored))
    assert "Closed early" in said
    assert "2 0.111 50.0 4 0.222 50.0" in said


def test_detective_and_recall_with_intervals(scored):
    store, _ = scored
    kinds = ["document"] * 7 + ["planted_leak"] * 10 + ["planted_clean"] * 10
    told = {"document": "unknown", "planted_leak": "yes", "planted_clean": "no"}
    rows = [
        {"kind": kind, "question_id": "q", "item": str(n), "verdict": "no" if n < 4 else told[kind]}
        for n, kind in enumerate(kinds)
    ]
    table = DETECTIVE.frame(rows)
    stats = detective.summary(rows)
    publish_table(store.partition("leak_detective", "second", NAME), table, DETECTIVE, code_version="1", stats=stats)
    summed = recall.summary([{"right": True}, {"right": False}, {"right": None}, {"right": True}])
    publish_table(
        store.partition(recall.TABLE, "smollm2", NAME), RECALL.empty(), RECALL, code_version="1", stats=summed
    )
    said = section(draw(*scored))
    assert "1.00 0.72 … 1.00 1.00 0.72 … 1.00" in said, "recall and precision, each with its interval"
    assert "second 4 3 0.0" in said, "what it did not answer clearly is counted, and not as clean"
    assert "2 1 1 0.25" in said


def test_effects_of_other_forecasts_are_not_shown(scored):
    store, settings = scored
    given = gather(store, settings, eval_set=NAME).given
    old = Input(table="retrieval_forecasts", key=("smollm2", NAME), version="0" * 64)
    seal_controls(store, effect("unsealed"), inputs=[old])
    found = leaks.read(store, NAME, made_from=given.sources)
    assert found.effects.is_empty()
    assert any("unsealed" in part.command for part in found.not_measured)
    seal_controls(store, effect("unsealed"), inputs=given.sources)
    assert leaks.read(store, NAME, made_from=given.sources).effects.height == 1
