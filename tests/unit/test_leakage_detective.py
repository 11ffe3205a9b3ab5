"""The leak detective: it reads evidence and rationales, counts what is unclear as unknown, and sits its own exam."""

import json
from dataclasses import replace

import pytest

from hindcast_dagster.contracts.scores import DETECTIVE
from hindcast_dagster.errors import NotReady, UsageError
from hindcast_dagster.leakage import detective
from hindcast_dagster.storage.tables import read_table
from tests import leak_world as world
from tests.forecast_world import Script
from tests.toy_archive import document

TELLING = document("b1", world.T0 - 5, "Today it happened, the vote is over.", title="Done")


def reads(prompt):
    """Flags whatever says that it happened or resolved; says something else about one passage."""
    passage = prompt.partition("<passage>")[2].partition("</passage>")[0]
    if "mumble" in passage:
        return "well, who knows"
    return json.dumps({"later_knowledge": "yes" if "happened" in passage or "resolved" in passage else "no"})


@pytest.fixture
def forecast(store):
    world.seal_corpus(store, [*world.POSTS, TELLING])
    world.seal_set(store)
    steps = [*world.honest_steps(), world.search_step(TELLING)]
    for run, rationale in ((1, "The posts expect it."), (2, "I recall that it happened."), (3, "mumble")):
        record = world.trace_record(steps, run=run)
        record = replace(record, forecast=replace(record.forecast, rationale=rationale, trace=record.forecast.trace))
        world.write_trace(store, record)
    return store


def test_what_it_reads_and_what_it_says(forecast, settings):
    model = Script(slug="second", answers={"call": reads})
    manifest = detective.build(forecast, settings, model="second", eval_set=world.SET, chat=model)
    rows = read_table(forecast.partition("leak_detective", "second", world.SET).require(), DETECTIVE)
    told = {(row["kind"], row["item"]): row["verdict"] for row in rows.iter_rows(named=True)}
    assert {item: verdict for (kind, item), verdict in told.items() if kind == "document"} == {
        "t3_a1": "no", "t1_c1": "no", "t3_v1": "no", "t3_b1": "yes",
    }  # fmt: skip
    documents, rationales = manifest.stats["documents"], manifest.stats["rationales"]
    assert (documents["yes"], documents["no"], documents["unknown"], documents["share"]) == (1, 3, 0, 0.25)
    assert 0 < documents["low"] < 0.25 < documents["high"] < 1
    assert (rationales["yes"], rationales["no"], rationales["unknown"]) == (1, 1, 1)
    assert rationales["share"] == 0.5, "unknown is neither leaked nor clean"
    exam = manifest.stats["planted"]
    assert (exam["n"], exam["recall"], exam["precision"]) == (2, 1.0, 1.0)
    assert 0 < exam["recall_low"] < exam["recall_high"] == 1, "one planted leak proves little, and the interval says so"
    assert 0 < exam["precision_low"] < exam["precision_high"] == 1
    calls = len(model.calls)
    again = detective.build(forecast, settings, model="second", eval_set=world.SET, chat=model)
    assert (len(model.calls), again.without_time()) == (calls, manifest.without_time())


def test_the_exam_tells_a_blind_and_a_nervous_detective_apart(forecast, settings):
    for name, word, recall, precision in (("blind", "no", 0.0, None), ("nervous", "yes", 1.0, 0.5)):
        model = Script(slug=name, answers={"call": json.dumps({"later_knowledge": word})})
        stats = detective.build(forecast, settings, model=name, eval_set=world.SET, chat=model).stats
        assert (stats["planted"]["recall"], stats["planted"]["precision"]) == (recall, precision)
        assert (stats["planted"]["precision_low"] is None) == (precision is None)


@pytest.mark.parametrize(
    "reply",
    [
        "",
        "maybe",
        "I cannot answer that.",
        '{"later_knowledge": "perhaps"}',
        '{"later_knowledge": true}',
        '{"x": "no"}',
    ],
)
def test_what_is_not_clear_is_unknown(reply):
    assert detective.verdict(reply) == "unknown"
    assert detective.verdict('```json\n{"later_knowledge": "No"}\n```') == "no"


def test_a_limit_takes_the_same_sample_whatever_the_order(forecast, settings):
    model = Script(slug="second", answers={"call": reads})
    manifest = detective.build(forecast, settings, model="second", eval_set=world.SET, limit=2, chat=model)
    assert sum(manifest.stats["documents"][word] for word in detective.VERDICTS) == 2
    pairs = [("q", f"t3_{number}") for number in range(9)]
    assert detective._sample(pairs, 4) == detective._sample(reversed(pairs), 4)


def test_no_passage_speaks_for_itself(forecast, settings):
    model = Script(slug="second", answers={"call": reads})
    detective.build(forecast, settings, model="second", eval_set=world.SET, chat=model)
    for _, messages, _ in model.calls:
        assert messages[0].content.count("</passage>") == 1


def test_what_is_refused(store, settings, forecast):
    with pytest.raises(UsageError, match="has forecast small itself"):
        detective.build(forecast, settings, model="toy", eval_set=world.SET, chat=Script(slug="toy"))
    with pytest.raises(NotReady):
        detective.build(forecast, settings, model="second", eval_set="other", chat=Script())
