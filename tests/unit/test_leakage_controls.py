"""The placebo: whose evidence it is, that it leaks nothing, and that it never passes for a forecast."""

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st
from typer.testing import CliRunner

from hindcast_dagster.archive.protocol import ArchiveView
from hindcast_dagster.cli.main import app
from hindcast_dagster.clock import Cutoff
from hindcast_dagster.contracts.scores import CONTROLS
from hindcast_dagster.errors import NotReady, UsageError
from hindcast_dagster.forecast import money
from hindcast_dagster.forecast import run as forecasting
from hindcast_dagster.forecast.records import traces
from hindcast_dagster.leakage import controls, effects
from hindcast_dagster.leakage.placebo import Placebo, partners
from hindcast_dagster.llm.roster import Price
from hindcast_dagster.settings import load
from hindcast_dagster.storage.tables import read_table
from tests.forecast_world import DAY, T0, Script, question, seal_eval_set
from tests.toy_archive import ToyArchive, document


@given(
    st.lists(
        st.tuples(st.sampled_from(["Sports", "Health"]), st.integers(0, 5), st.sampled_from([None, "e", "f"])),
        max_size=6,
    )
)
def test_a_partner_is_of_another_event_and_of_the_topic_where_there_is_one(drawn):
    asked = [
        question(number, topic=topic, t0=Cutoff(T0 + day * DAY), event_id=event)
        for number, (topic, day, event) in enumerate(drawn, start=1)
    ]
    found = partners(asked)
    for one in asked:
        others = [
            other for other in asked if other.id != one.id and (one.event_id is None or other.event_id != one.event_id)
        ]
        assert (one.id in found) == bool(others)
        if others:
            same = [other for other in others if other.topic == one.topic]
            nearest = min(abs(other.t0.epoch - one.t0.epoch) for other in same or others)
            assert found[one.id] in (same or others)
            assert abs(found[one.id].t0.epoch - one.t0.epoch) == nearest
    assert partners(list(reversed(asked))) == found


def world():
    """Two questions with posts of their own, one of each after t0."""
    rows = [
        document(
            f"{name.lower()}{number}",
            T0 + (number - 3) * DAY,
            f"Everybody in {name} speaks of {name}.",
            title=f"{name} news",
            author=f"{name}fan",
        )
        for name in ("Zorba", "Quill")
        for number in range(5)
    ]
    asked = [
        question(1, text="Will Zorba win?", event_id="z", t0=Cutoff(T0)),
        question(2, text="Will Quill win?", event_id="q", t0=Cutoff(T0)),
    ]
    return ToyArchive(rows), asked


def test_the_placebo_answers_about_the_other_question_at_ones_own_t0():
    archive, (zorba, quill) = world()
    view = Placebo(archive.at(zorba.t0), quill)
    assert isinstance(view, ArchiveView)
    hits = [hit.document for answer in view.search_many(["Zorba", "Zorba win"], k=2) for hit in answer.hits]
    assert {post.id[:5] for post in hits} == {"quill"}
    assert all(post.created_at < zorba.t0.epoch for post in hits)
    assert view.search_database("Zorba", k=2).hits == view.search_many(["x", "Zorba"], k=2)[1].hits
    assert view.getpostcoreinfo("zorba0").document is not None, "a look-up passes through"
    assert view.getpostcoreinfo("zorba4").document is None


def own(prompt):
    return "Zorba" if "Will Zorba" in prompt else "Quill"


def reader(prompt):
    """Sure when the posts speak of the question's own subject."""
    return json.dumps({"choice": "Yes", "prob_yes": 0.9 if f"speaks of {own(prompt)}" in prompt else 0.5})


def script():
    return Script(
        answers={
            "seed_queries": lambda prompt: json.dumps({"queries": [f"{own(prompt)} news"]}),
            "reflection": json.dumps({"confidence": 0.9, "queries": []}),
            "summary": lambda prompt: prompt[-3_000:],
            "forecast": reader,
        }
    )


@pytest.fixture
def ran(store):
    archive, asked = world()
    seal_eval_set(store, asked)
    settings = load(data_root=str(store.root), agent={"hits_per_query": 2})
    given = {"model": "scripted", "eval_set": "small", "runs": 1, "chat": script(), "archive": archive}
    forecasting.build(store, settings, arm="retrieval", **given)
    for kind in ("unsealed", "placebo"):
        controls.build(store, settings, kind=kind, **given)
    return store, settings, given


def test_effects_stand_beside_the_arm_on_the_same_pairs(ran):
    store, _, _ = ran
    shown = CliRunner().invoke(
        app, ["--data-root", str(store.root), "--json", "control", "effects", "--eval-set", "small"]
    )
    assert shown.exit_code == 0, shown.output
    rows = {(row["kind"], row["topic"]): row for row in json.loads(shown.stdout)["effects"]}
    assert set(rows) == {(kind, topic) for kind in ("unsealed", "placebo") for topic in ("", "Other")}
    placebo = rows["placebo", ""]
    assert placebo["n"] == 2
    assert (placebo["brier"], placebo["brier_control"]) == (pytest.approx(0.01), pytest.approx(0.25))


def test_a_control_is_in_no_trace_and_no_forecast_table(ran):
    store, _, _ = ran
    assert {record.arm for record in traces(store, "small")} == {"retrieval"}
    assert not [table for table in store.tables() if table.endswith("_forecasts") and "retrieval_f" not in table]
    assert store.sealed_keys("controls") == [("placebo", "scripted", "small"), ("unsealed", "scripted", "small")]


def test_paper_mode_is_worth_what_late_texts_told(store):
    """One of two posts was edited after t0 and tells the outcome: paper mode shows it, and that is the difference."""
    rows = [
        document("z1", T0 - DAY, "Everybody in Zorba waits.", title="Zorba news"),
        document("z2", T0 - DAY, "EDIT: it speaks of Zorba.", title="Zorba news", text_as_of=T0 + DAY),
        document("z3", T0 - DAY, "Votes came late.", title="Zorba news", engagement_as_of=T0 + DAY),
    ]
    seal_eval_set(store, [question(1, text="Will Zorba win?", t0=Cutoff(T0))])
    settings = load(data_root=str(store.root), agent={"hits_per_query": 3})
    given = {"model": "scripted", "eval_set": "small", "runs": 1, "chat": script()}
    forecasting.build(store, settings, arm="retrieval", archive=ToyArchive(rows), **given)
    manifest = controls.build(store, settings, kind="paper", archive=ToyArchive(rows, mode="paper"), **given)
    assert manifest.stats["late"] == {"texts": 1, "votes": 1}
    assert manifest.stats["archive_mode"] == "paper/withhold"
    effects.build(store, eval_set="small")
    row = read_table(store.partition("control_effects", "small").require(), CONTROLS).row(0, named=True)
    assert (row["kind"], row["n"], row["documents"], row["documents_control"]) == ("paper", 1, 2.0, 3.0)
    assert (row["brier"], row["brier_control"]) == (pytest.approx(0.25), pytest.approx(0.01))
    paper = load(data_root=str(store.root), archive={"mode": "paper"})
    with pytest.raises(UsageError, match="is paper already"):
        controls.build(store, paper, kind="paper", **given)


def test_another_reach_under_the_same_name_is_refused(ran):
    store, settings, given = ran
    with pytest.raises(UsageError, match="made otherwise"):
        controls.build(store, settings, kind="unsealed", days=30, **given)


def test_a_dry_run_counts_what_a_control_would_ask(ran):
    store, settings, given = ran
    archive, asked = given["archive"], len(given["chat"].calls)
    found = controls.plan(store, settings, kind="placebo", model="qwen3-8b", eval_set="small", runs=3, archive=archive)
    assert (found.arm, found.questions, found.pending) == ("retrieval_placebo", 2, 6)
    honest = forecasting.plan(
        store, settings, arm="retrieval", model="qwen3-8b", eval_set="small", runs=3, archive=archive
    )
    assert (found.calls, found.tokens_in, found.tokens_out) == (honest.calls, honest.tokens_in, honest.tokens_out)
    assert len(given["chat"].calls) == asked


def test_the_money_stops_a_control_and_the_next_call_goes_on(ran, monkeypatch):
    store, settings, given = ran
    monkeypatch.setattr(money, "price_of", lambda settings, model: Price(tokens_in=0, tokens_out=1_000_000))
    cheap = controls.build(store, settings, kind="unsealed", **given | {"runs": 3}, max_cost=0.5)
    assert (cheap.rows, cheap.stats["missing"], cheap.stats["stopped"]) == (2, 4, True)
    rest = controls.build(store, settings, kind="unsealed", **given | {"runs": 3}, max_cost=10_000_000)
    assert (rest.rows, rest.stats["missing"], rest.stats["stopped"]) == (6, 0, False)


def test_what_is_refused(store, settings):
    _, asked = world()
    seal_eval_set(store, asked)
    with pytest.raises(NotReady, match="hindcast control unsealed"):
        effects.build(store, eval_set="small")
    for bad in ({"kind": "honest"}, {"kind": "unsealed", "days": -1}):
        with pytest.raises(UsageError, match="A control is"):
            controls.build(store, settings, model="m", eval_set="small", chat=Script(), **bad)
