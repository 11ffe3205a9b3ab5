"""Canaries through the whole pipeline: silent when it is honest, and red with exact names in each way it can break.

Dumps with planted posts -> corpus -> archive -> eval set -> an arm that takes all it can get -> audit. Every sabotage
breaks one thing in the way that a bug would, on a copy of the same world.
"""

import json
import re
import shutil
from collections import defaultdict
from dataclasses import dataclass, replace

import pytest

from hindcast_dagster.archive import layers
from hindcast_dagster.archive.build import build_comments, build_submissions
from hindcast_dagster.archive.layers import ALL, Layers
from hindcast_dagster.archive.open import open_archive
from hindcast_dagster.archive.view import View
from hindcast_dagster.clock import DAY, HOUR, Cutoff
from hindcast_dagster.contracts.questions import EVAL_SET
from hindcast_dagster.contracts.scores import CONTROLS
from hindcast_dagster.corpus.build import build as build_corpus
from hindcast_dagster.coverage import probe
from hindcast_dagster.coverage.llm_judge import LlmJudge
from hindcast_dagster.errors import CutoffViolation, NotReady
from hindcast_dagster.evalset import row as evalset_row
from hindcast_dagster.evalset.build import build as build_set
from hindcast_dagster.forecast import records
from hindcast_dagster.forecast import run as forecasting
from hindcast_dagster.forecast.baselines import build as build_baselines
from hindcast_dagster.forecast.records import BASELINE_ARMS
from hindcast_dagster.leakage import audit, controls, effects
from hindcast_dagster.leakage.canaries import DOC_TYPES, canaries, hidden, plant
from hindcast_dagster.leakage.watch import Watched, left_behind
from hindcast_dagster.markets.read import PriceAt
from hindcast_dagster.questions import load as loading
from hindcast_dagster.settings import load
from hindcast_dagster.storage.journal import Journal
from hindcast_dagster.storage.store import open_store
from hindcast_dagster.storage.tables import read_table
from tests import leak_world as world
from tests.archive_world import ToyEmbedder, use
from tests.forecast_world import Script
from tests.greedy_arm import Greedy

MONTHS = ("2025-03", "2025-04")
PLANTED = canaries(t0=Cutoff(world.T0), question="Will it happen?", outcome="Yes", subreddit="soccer")
HIDDEN = frozenset(canary.token for canary in hidden(PLANTED))  # not the ids: the arm itself asks for them by name
CONTROL = frozenset(canary.token for canary in PLANTED if canary.kind == "control")


def keys_of(*kinds):
    return {canary.key for canary in PLANTED if canary.kind in kinds}


@pytest.fixture(scope="module")
def sealed(tmp_path_factory):
    """The world up to the archive, built once."""
    store = open_store(tmp_path_factory.mktemp("sabotage") / "root")
    settings = load(data_root=str(store.root))
    plant(store, PLANTED)
    with pytest.MonkeyPatch.context() as patch:
        use(patch, ToyEmbedder())
        for month in MONTHS:
            for kind, build in (("submissions", build_submissions), ("comments", build_comments)):
                build_corpus(store, settings, month=month, kind=kind)
                build(store, settings, month=month, accept_hollow=True)
    world.seal_set(store)
    shutil.rmtree(store.root / "tables" / "eval_set")
    return store


@dataclass
class Bench:
    """A copy of the world, and what a run on it left."""

    store: object
    settings: object
    watched: Watched

    def run(self, archive=None):
        build_set(self.store, self.settings, name=world.SET, policy="day_before_close")
        chosen = archive or open_archive(self.store, self.settings)
        forecasting.build(
            self.store, self.settings, arm="tests.greedy_arm:Greedy", model="scripted", eval_set=world.SET, runs=1,
            chat=self.watched, archive=chosen,
        )  # fmt: skip
        return self

    def sabotaged(self, broken: Layers, *, shift=0):
        return self.run(Sabotaged(open_archive(self.store, self.settings), broken, shift))

    def red(self):
        """Kind -> documents of the audit."""
        audit.build(self.store, self.settings, eval_set=world.SET)
        report = audit.report(self.store, world.SET)
        assert report["clean"] == (not report["violations"])
        found = defaultdict(set)
        for row in report["violations"]:
            assert row["question"] == world.QUESTION
            found[row["kind"]].add(row["document"])
        return dict(found)

    @property
    def sang(self):
        """Marks that surfaced anywhere."""
        after = left_behind(self.store, HIDDEN)
        return {one.mark for one in [*self.watched.sightings, *after] if not one.where.startswith("tables/leak_audit")}


@dataclass
class Sabotaged:
    """An archive whose views have broken layers, or stand later than they say."""

    archive: object
    layers: Layers
    shift: int = 0

    @property
    def snapshot(self):
        return self.archive.snapshot

    @property
    def months(self):
        return self.archive.months

    def at(self, t0):
        return View(self.archive, Cutoff(Cutoff.of(t0).epoch + self.shift), self.layers)


@pytest.fixture
def bench(sealed, tmp_path, monkeypatch):
    use(monkeypatch, ToyEmbedder())
    root = tmp_path / "copy"
    shutil.copytree(sealed.root, root)
    monkeypatch.setattr(Greedy, "names", sorted(canary.key for canary in PLANTED))
    store = open_store(root)
    return Bench(store, load(data_root=str(root)), Watched(Script(), HIDDEN, also=CONTROL))


def blind(_documents, _scope):
    """A re-check that looks away."""


def every_month(months, _scope):
    return sorted(months)


def later(seconds, *, text=True):
    def predicate(scope):
        honest = layers.row_predicate(scope)
        moved = scope.cutoff.epoch + seconds
        return replace(honest, before=moved, text_before=moved if text else honest.text_before)

    return predicate


def no_predicate(scope):
    return replace(layers.row_predicate(scope), before=None, text_before=None)


def any_text(scope):
    return replace(layers.row_predicate(scope), text_before=None)


CHANGED = ("edited_after", "restored_after", "updated_after")


def test_honest_run_is_green_and_no_canary_sings(bench):
    assert bench.run().red() == {}
    assert bench.sang == set()
    assert bench.watched.heard == CONTROL, "the run is not deaf: the canaries that may be seen were seen"
    report = audit.report(bench.store, world.SET)
    assert report["documents"] >= 2 * len(DOC_TYPES), "controls and late-vote canaries, both kinds"


def test_all_layers_off(bench):
    created = keys_of("after", "next_month", "same_second", "other_zone")
    red = bench.sabotaged(Layers(every_month, no_predicate, blind)).red()
    assert red == {"created_after_t0": created, "text_after_t0": created | keys_of(*CHANGED)}
    assert bench.sang == {canary.token for canary in hidden(PLANTED) if canary.kind != "late_votes"}


def test_predicate_and_recheck_off(bench):
    """The month selector alone keeps the month after t0's out, and nothing else."""
    created = keys_of("after", "same_second", "other_zone")
    red = bench.sabotaged(Layers(predicate=no_predicate, recheck=blind)).red()
    assert red == {"created_after_t0": created, "text_after_t0": created | keys_of(*CHANGED)}


def test_predicate_that_includes_the_second_of_t0(bench):
    red = bench.sabotaged(Layers(predicate=later(1), recheck=blind)).red()
    assert red == {
        "created_after_t0": keys_of("same_second"),
        "text_after_t0": keys_of("same_second", "updated_after"),
    }


def test_predicate_in_another_zone(bench):
    created = keys_of("same_second", "after", "other_zone")
    red = bench.sabotaged(Layers(predicate=later(5 * HOUR), recheck=blind)).red()
    assert red == {
        "created_after_t0": created,
        "text_after_t0": created | keys_of("edited_after", "updated_after"),
    }


def test_text_rule_off(bench):
    red = bench.sabotaged(Layers(predicate=any_text, recheck=blind)).red()
    assert red == {"text_after_t0": keys_of(*CHANGED)}


def test_votes_rule_off(bench, monkeypatch):
    monkeypatch.setattr(layers, "as_seen", lambda found, _scope: found)
    assert bench.run().red() == {"engagement_after_t0": keys_of("late_votes")}
    assert bench.sang == {canary.token for canary in PLANTED if canary.kind == "late_votes"}


def test_view_that_stands_a_day_late(bench):
    created = keys_of("same_second", "after", "other_zone")
    red = bench.sabotaged(ALL, shift=DAY).red()
    assert red.pop("cutoff_after_t0") == {None}
    assert red == {
        "created_after_t0": created,
        "text_after_t0": created | keys_of("edited_after", "updated_after"),
    }


def test_forecast_at_another_t0(bench, monkeypatch):
    honest = loading.load

    def late(store, eval_set):
        moved = Cutoff(world.T0 + DAY)
        return [replace(one, question=replace(one.question, t0=moved)) for one in honest(store, eval_set)]

    monkeypatch.setattr(loading, "load", late)
    red = bench.run().red()
    assert red.pop("t0_mismatch") == {None}
    assert red.pop("cutoff_after_t0") == {None}
    assert red["created_after_t0"] == keys_of("same_second", "after", "other_zone")


@pytest.mark.parametrize(
    "broken", [Layers(select=every_month), Layers(recheck=blind)], ids=["selector alone", "re-check alone"]
)
def test_one_layer_off_is_caught_by_the_others(bench, broken):
    assert bench.sabotaged(broken).red() == {}
    assert bench.sang == set()


@pytest.mark.parametrize("predicate", [no_predicate, any_text], ids=["predicate", "text rule"])
def test_predicate_alone_off_stops_the_run(bench, predicate):
    with pytest.raises(CutoffViolation):
        bench.sabotaged(Layers(predicate=predicate))
    with pytest.raises(NotReady, match="nothing to audit"):
        bench.red()
    assert bench.sang == set()


def test_price_rule_nearest_instead_of_before(bench, monkeypatch):
    def nearest(series, t0):
        at, price = min(series.select("at", "price").iter_rows(), key=lambda point: abs(point[0] - t0.epoch))
        return PriceAt(price, at, t0.epoch - at, "clob")

    monkeypatch.setattr(evalset_row, "price_at", nearest)
    assert bench.run().red() == {"price_after_t0": {None}}


def test_price_rule_first_instead_of_last(bench, monkeypatch):
    def first(series, t0):
        at, price = min(series.select("at", "price").iter_rows())
        return PriceAt(price, at, t0.epoch - at, "clob")

    monkeypatch.setattr(evalset_row, "price_at", first)
    assert bench.run().red() == {"price_mismatch": {None}}


def test_rules_with_the_note_that_tells_the_outcome(bench):
    world.seal_set(bench.store, market={"rules": "As reported.\n\nUpdate 2025-03-20: resolved to Yes."})
    shutil.rmtree(bench.store.root / "tables" / "eval_set")
    assert bench.run().red() == {"question_after_t0": {None}}


def journal_file(bench):
    return next(Journal(bench.store, "greedy_forecasts", "scripted", world.SET).path.glob("*.json"))


def bend(bench, change):
    """Rewrite every list of seen documents of the trace."""
    path = journal_file(bench)
    record = records.from_record(path.stem, json.loads(path.read_text()))
    for step in record.steps:
        step.seen = change(step.seen)
    path.write_text(json.dumps(records.to_record(record)))


def test_trace_with_a_document_taken_out(bench):
    bench.run()
    gone = next(canary.key for canary in PLANTED if canary.kind == "control")
    bend(bench, lambda seen: [one for one in seen if one.key != gone])
    assert bench.red() == {"trace_mismatch": {None}}


def test_trace_that_hides_when_a_document_was_created(bench):
    bench.sabotaged(Layers(predicate=no_predicate, recheck=blind))
    early = {"created_at": world.T0 - DAY, "text_as_of": world.T0 - DAY}
    bend(bench, lambda seen: [replace(one, **early) for one in seen])
    red = bench.red()
    assert red["created_after_t0"] == keys_of("after", "same_second", "other_zone")
    assert red["trace_mismatch"] >= red["created_after_t0"]


def test_trace_that_names_a_document_that_nobody_knows(bench):
    bench.run()
    bend(bench, lambda seen: [replace(one, key="t3_zzzzzz") for one in seen])
    red = bench.red()
    assert red["unknown_document"] == {"t3_zzzzzz"}


def test_trace_that_is_gone(bench):
    bench.run()
    forecasting.build(
        bench.store, bench.settings, arm="tests.greedy_arm:Greedy", model="scripted", eval_set=world.SET, runs=2,
        chat=bench.watched, archive=open_archive(bench.store, bench.settings),
    )  # fmt: skip
    journal_file(bench).unlink()
    assert bench.red() == {"missing_trace": {None}}


ARMS = ("zero_shot", "retrieval", "tests.greedy_arm:Greedy")
PROBE_WORD = "zqxprobetold"


class Chatty(Script):
    """A judge model that writes one word into everything that it says."""

    def _answer(self, name, prompt):
        if "queries" in prompt:
            return json.dumps({"yes": [f"{PROBE_WORD} happen"], "no": ["not happen"]})
        numbers = re.findall(r'<block number="(\d+)"', prompt)
        told = {"labels": dict.fromkeys(numbers, "strong"), "note": PROBE_WORD} if numbers else {}
        return json.dumps(told or {"contrast": 0.9, "evidence_quality": "strong", "note": PROBE_WORD})


def test_every_arm_is_silent_and_green(bench):
    bench.run()
    for arm in ARMS:
        forecasting.build(
            bench.store, bench.settings, arm=arm, model="scripted", eval_set=world.SET, runs=2, chat=bench.watched,
            archive=open_archive(bench.store, bench.settings),
        )  # fmt: skip
    build_baselines(bench.store, bench.settings, eval_set=world.SET)
    assert bench.red() == {}
    assert bench.sang == set()
    assert bench.watched.heard == CONTROL
    report = audit.report(bench.store, world.SET)
    assert report["forecasts"] == 2 * len(ARMS) + len(BASELINE_ARMS)


def test_nothing_that_the_probe_said_reaches_a_forecaster(bench):
    """The probe may know the market at its close; its words, labels and verdict stay out of every prompt."""
    judge = LlmJudge(Chatty(slug="judge"), bench.settings.coverage)
    archive = open_archive(bench.store, bench.settings)
    manifest = probe.build(bench.store, bench.settings, month="2025-03", judge=judge, archive=archive)
    assert manifest.stats["probes"]["judge/close"]["quality"] == {"strong": 1}
    told = Journal(bench.store, "coverage_probe", "2025-03").path
    assert any(PROBE_WORD in path.read_text() for path in told.glob("*.json"))
    bench.watched.marks = frozenset({PROBE_WORD})
    bench.run()
    for arm in ARMS:
        forecasting.build(
            bench.store, bench.settings, arm=arm, model="scripted", eval_set=world.SET, runs=1, chat=bench.watched,
            archive=archive,
        )  # fmt: skip
    build_baselines(bench.store, bench.settings, eval_set=world.SET)
    assert bench.watched.calls > len(ARMS)
    assert bench.watched.sightings == []
    left = {one.where.split("/")[1] for one in left_behind(bench.store, {PROBE_WORD})}
    assert left == {"coverage_probe"}
    seen = {name.lower() for name in EVAL_SET.schema.names}
    assert not seen & {"contrast", "resolved_contrast", "evidence_quality", "yes_score", "no_score", "judge"}


def believer(prompt):
    """A model that believes whatever states the outcome, and is wrong without."""
    sure = "it resolved Yes" in prompt
    return json.dumps({"choice": "Yes" if sure else "No", "prob_yes": 0.95 if sure else 0.4, "confidence": 0.5})


def test_leak_inflation_is_what_was_planted(bench):
    """A leaky archive would have bought the believer the outcome; the control shows it and stays out of every table."""
    believing = Script(answers={"forecast": believer, "summary": lambda prompt: prompt[-4_000:]})
    archive = open_archive(bench.store, bench.settings)
    build_set(bench.store, bench.settings, name=world.SET, policy="day_before_close")
    asked = {"model": "scripted", "eval_set": world.SET, "runs": 2, "chat": believing, "archive": archive}
    forecasting.build(bench.store, bench.settings, arm="retrieval", **asked)
    manifest = controls.build(bench.store, bench.settings, kind="unsealed", days=40, **asked)
    assert manifest.stats["never_ranked"] is True
    calls = len(believing.calls)
    again = controls.build(bench.store, bench.settings, kind="unsealed", days=40, **asked)
    assert (len(believing.calls), again.without_time()) == (calls, manifest.without_time())
    effects.build(bench.store, eval_set=world.SET)
    table = read_table(bench.store.partition("control_effects", world.SET).require(), CONTROLS)
    rows = {row["topic"]: row for row in table.iter_rows(named=True)}
    assert set(rows) == {"", "Sports"}
    for row in rows.values():
        assert (row["kind"], row["n"]) == ("unsealed", 2)
        assert (row["accuracy"], row["accuracy_control"]) == (0.0, 1.0)
        assert (row["brier"], row["brier_control"]) == (pytest.approx(0.36), pytest.approx(0.0025))
    assert bench.red() == {}, "the control is no forecast: the audit of the real ones stays green"
    assert set(records.all_forecasts(bench.store, world.SET)["arm"]) == {"retrieval"}
    with pytest.raises(NotReady, match="no other event"):
        controls.build(bench.store, bench.settings, kind="placebo", **asked)
