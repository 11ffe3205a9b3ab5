"""The leak audit: green on honest traces, red with the exact kind, question, run, step and document on each sabotage."""

import hashlib
import json
from dataclasses import replace

import polars as pl
import pytest

from hindcast_dagster.cli.main import app
from hindcast_dagster.clock import DAY, HOUR
from hindcast_dagster.contracts.questions import EVAL_SET
from hindcast_dagster.contracts.scores import AUDIT
from hindcast_dagster.errors import InputRefused, NotReady
from hindcast_dagster.forecast.forecaster import Seen, Step, Trace
from hindcast_dagster.forecast.records import journal_of, to_record
from hindcast_dagster.leakage import audit
from hindcast_dagster.scoring.inputs import load as load_inputs
from hindcast_dagster.settings import load
from hindcast_dagster.storage.store import NotSealed
from hindcast_dagster.storage.tables import publish_table
from tests import leak_world as world
from tests.toy_archive import document


@pytest.fixture
def honest(store):
    world.seal_corpus(store)
    world.seal_set(store)
    world.seal_forecasts(store, world.write_trace(store, world.trace_record()))
    return store


def found(store, settings):
    audit.build(store, settings, eval_set=world.SET)
    return [
        (row["kind"], row["run"], row["step"], row["document"]) for row in audit.report(store, world.SET)["violations"]
    ]


def test_honest_traces_are_green(honest, settings):
    manifest = audit.build(honest, settings, eval_set=world.SET)
    assert manifest.rows == 0
    assert manifest.checks[0].passed
    report = audit.report(honest, world.SET)
    assert report["clean"] is True
    assert (report["forecasts"], report["documents"], report["sightings"]) == (1, 3, 3)
    assert report["violations"] == []


@pytest.mark.parametrize(
    ("post", "kinds"),
    [
        (world.AT_T0, ["created_after_t0", "engagement_after_t0", "text_after_t0"]),
        (world.EDITED, ["text_after_t0"]),
        (world.VOTED, ["engagement_after_t0"]),
        (world.UNVOTED, ["engagement_after_t0"]),
        (document("zz", world.T0 - DAY), ["unknown_document"]),
        (replace(world.BEFORE, created_at=world.BEFORE.created_at - 1), ["trace_mismatch"]),
    ],
)
def test_a_document_that_should_not_have_been_seen(honest, settings, post, kinds):
    steps = [*world.honest_steps(), world.search_step(post)]
    world.write_trace(honest, world.trace_record(steps, run=2))
    assert found(honest, settings) == [(kind, 2, "3:search_database", post.key) for kind in kinds]


def test_a_trace_that_lies_about_times_is_held_against_the_corpus(honest, settings):
    lie = replace(world.AT_T0, created_at=world.T0 - DAY, text_as_of=world.T0 - DAY, engagement_as_of=world.T0 - DAY)
    world.write_trace(honest, world.trace_record([world.search_step(lie)], run=2))
    assert [kind for kind, *_ in found(honest, settings)] == [
        "created_after_t0", "engagement_after_t0", "text_after_t0", "trace_mismatch",
    ]  # fmt: skip


def test_a_document_of_a_month_that_it_does_not_claim_is_found(honest, settings):
    """The month selector's promise is checked too: every sealed month is searched, whatever the trace says."""
    late = document("m4", "2025-04-20")
    world.seal_corpus(honest, [late])
    lie = Seen(late.key, world.T0 - 1, world.T0 - 1, None, engagement_shown=False)
    step = world.search_step()
    step.seen.append(lie)
    world.write_trace(honest, world.trace_record([step], run=2))
    assert ("created_after_t0", 2, "0:search_database", "t3_m4") in found(honest, settings)


def test_paper_mode_counts_what_strict_mode_forbids(honest, settings):
    posts = (world.EDITED, world.VOTED, world.UNVOTED)
    steps = [world.search_step(*posts)]
    world.write_trace(honest, world.trace_record(steps, run=2, model="other", mode="paper/withhold"))
    assert found(honest, settings) == []
    report = audit.report(honest, world.SET)
    assert report["mode"] == "paper+strict"
    assert report["late"] == {"engagement_after_t0": 2, "text_after_t0": 1}
    late = [world.search_step(world.AT_T0)]
    world.write_trace(honest, world.trace_record(late, run=3, model="other", mode="paper/withhold"))
    assert [kind for kind, *_ in found(honest, settings)] == ["created_after_t0"]


def test_the_mode_of_the_forecast_counts_and_not_todays_setting(honest):
    world.write_trace(honest, world.trace_record([world.search_step(world.EDITED)], run=2))
    paper = load(data_root=str(honest.root), archive={"mode": "paper"})
    assert [kind for kind, *_ in found(honest, paper)] == ["text_after_t0"]


def test_hide_mode_forbids_a_row_with_late_votes_even_when_they_are_withheld(honest, settings):
    withheld = replace(world.VOTED, score=None, num_comments=None)
    world.write_trace(honest, world.trace_record([world.search_step(withheld)], run=2, mode="strict/hide"))
    assert [kind for kind, *_ in found(honest, settings)] == ["engagement_after_t0"]


def test_a_tool_that_answered_under_a_later_cutoff(honest, settings):
    steps = [world.search_step(world.BEFORE, cutoff=world.T0 + 1), world.search_step(cutoff="2099-01-01")]
    world.write_trace(honest, world.trace_record(steps, run=2))
    assert found(honest, settings) == [
        ("cutoff_after_t0", 2, "0:search_database", None),
        ("cutoff_after_t0", 2, "1:search_database", None),
    ]


def test_a_tool_that_handed_out_documents_under_no_cutoff(honest, settings):
    """A date that is missing is not a date that fits; a call that was refused has none and handed out nothing."""
    bare, refused = (
        world.search_step(world.BEFORE, cutoff=None),
        world.search_step(cutoff=None, refused="UsageError: no"),
    )
    lookup = Step("lookup", "getpostcoreinfo", {"arguments": {}}, [Seen.of(world.BEFORE)])
    world.write_trace(honest, world.trace_record([bare, refused, lookup], run=2))
    assert found(honest, settings) == [
        ("cutoff_after_t0", 2, "0:search_database", None),
        ("cutoff_after_t0", 2, "2:getpostcoreinfo", None),
    ]


def exchange(store, record, **changes):
    """Change the journal file of a forecast and nothing else."""
    home = journal_of(store, arm=record.arm, model=record.model, eval_set=world.SET)
    home.write(record.forecast_id, to_record(replace(record, **changes)))


def test_a_document_that_was_exchanged_for_an_innocent_one_after_sealing_shows(store, settings):
    late = world.trace_record([world.search_step(world.AT_T0)], run=2)
    world.seal_corpus(store)
    world.seal_set(store)
    world.seal_forecasts(store, world.write_trace(store, world.trace_record()), world.write_trace(store, late))
    assert found(store, settings)[0][0] == "created_after_t0"
    innocent = replace(late.forecast, trace=Trace([world.search_step(world.BEFORE)]))
    exchange(store, late, forecast=innocent)
    assert found(store, settings) == [("trace_mismatch", 0, "sealed:sightings", None)]
    exchange(store, late)
    assert found(store, settings)[0][0] == "created_after_t0"


@pytest.mark.parametrize(
    ("name", "value"),
    [("prob_yes", 0.9), ("run", 7), ("model", "better"), ("arm", "zero_shot"), ("choice", "No"), ("arm_version", "v2"),
     ("status", "failed"), ("documents", 9), ("archive_snapshot", "f" * 64), ("t0", world.T0 - 1)],
)  # fmt: skip
def test_a_sealed_row_that_tells_what_its_trace_does_not(store, settings, name, value):
    world.seal_corpus(store)
    world.seal_set(store)
    world.seal_forecasts(store, world.write_trace(store, world.trace_record()), **{name: value})
    assert [step for _, _, step, _ in found(store, settings)] == [f"sealed:{name}"]


@pytest.mark.parametrize("change", [{"outcome": "No"}, {"close_at": world.CLOSE + DAY}])
def test_an_outcome_or_a_close_that_is_not_the_markets(honest, settings, change):
    world.seal_set(honest, question=change)
    assert [kind for kind, *_ in found(honest, settings)] == ["question_mismatch"]


@pytest.mark.parametrize("table", ["eval_set", "retrieval_forecasts"])
def test_data_and_manifest_that_were_changed_together_are_not_what_was_sealed(honest, settings, table):
    (key,) = honest.sealed_keys(table)
    partition = honest.partition(table, *key)
    path = partition.require().file("data.parquet")
    before = hashlib.sha256(path.read_bytes()).hexdigest()
    frame = pl.read_parquet(path)
    frame.with_columns(pl.lit(world.T0 - DAY).alias("t0")).write_parquet(path)
    now = hashlib.sha256(path.read_bytes()).hexdigest()
    for manifest in (partition.path / "manifest.json", path.parent / "manifest.json"):
        manifest.write_text(manifest.read_text().replace(before, now))
    with pytest.raises(InputRefused, match="not what was sealed"):
        audit.build(honest, settings, eval_set=world.SET)
    with pytest.raises(InputRefused, match="not what was sealed"):
        load_inputs(honest, world.SET)


def test_a_forecast_that_stood_at_another_instant(honest, settings):
    world.write_trace(honest, world.trace_record([], run=2, t0=world.T0 + DAY))
    world.write_trace(honest, world.trace_record([], run=3, question_id="0x" + "2" * 64))
    assert found(honest, settings) == [("t0_mismatch", 2, "identity", None), ("unknown_question", 3, "identity", None)]


def test_a_forecast_of_another_text(honest, settings):
    world.seal_set(honest, question={"options": ["No", "Yes"]})
    assert found(honest, settings) == [("question_mismatch", 1, "identity", None)]


def test_a_document_taken_out_of_a_trace(honest, settings):
    record = world.trace_record(run=2)
    world.seal_forecasts(honest, world.trace_record(), record)
    world.write_trace(honest, world.trace_record(world.honest_steps()[1:], run=2))
    assert found(honest, settings) == [("trace_mismatch", 2, "sealed:documents", None)]


def test_a_probability_changed_after_the_forecast(honest, settings):
    world.seal_forecasts(honest, world.trace_record(), prob_yes=0.9)
    assert found(honest, settings) == [("trace_mismatch", 1, "sealed:prob_yes", None)]


def test_a_sealed_forecast_without_a_trace(honest, settings):
    world.seal_forecasts(honest, world.trace_record(), world.trace_record(run=2))
    assert found(honest, settings) == [("missing_trace", 2, "sealed", None)]


def test_a_trace_that_nobody_sealed_is_audited_too(honest, settings):
    world.write_trace(honest, world.trace_record([world.search_step(world.AT_T0)], model="other"))
    assert {kind for kind, *_ in found(honest, settings)} >= {"created_after_t0"}


@pytest.mark.parametrize(
    ("question", "kind"),
    [
        ({"price_at_t0": 0.95, "price_age_s": -60}, "price_after_t0"),
        ({"price_at_t0": 0.95, "price_age_s": 0}, "price_after_t0"),
        ({"price_at_t0": 0.95, "price_age_s": None}, "price_after_t0"),
        ({"price_at_t0": 0.5, "price_age_s": HOUR}, "price_mismatch"),
        ({"price_at_t0": 0.3, "price_age_s": DAY}, "price_mismatch"),
    ],
)
def test_price_rule(honest, settings, question, kind):
    world.seal_set(honest, question=question)
    assert found(honest, settings) == [(kind, 0, "eval_set", None)]


def test_an_imported_set_is_held_against_itself_and_says_so(honest, settings):
    """It pins no market: text and price cannot be held against one, which is counted and never called clean in silence."""
    rows = EVAL_SET.frame([world.question_row()])
    publish_table(honest.partition("eval_set", world.SET), rows, EVAL_SET, code_version="1")
    assert found(honest, settings) == []
    assert audit.report(honest, world.SET)["unverified"] == 1
    rows = EVAL_SET.frame([world.question_row(price_age_s=-1)])
    publish_table(honest.partition("eval_set", world.SET), rows, EVAL_SET, code_version="1")
    assert found(honest, settings) == [("price_after_t0", 0, "eval_set", None)]


def test_a_missing_price_is_no_violation(honest, settings):
    world.seal_set(honest, question={"price_at_t0": None, "price_age_s": None})
    assert found(honest, settings) == []


def test_the_market_baseline_must_be_the_price(honest, settings):
    record = world.trace_record([], arm="market_price", model="none", prob_yes=0.95)
    world.seal_forecasts(honest, world.write_trace(honest, record))
    assert found(honest, settings) == [("price_mismatch", 1, "forecast", None)]


@pytest.mark.parametrize(
    ("question", "market", "kind"),
    [
        ({"criteria": "As reported.\n\nUpdate 2025-03-21: resolved to Yes."}, {}, "question_after_t0"),
        ({"criteria": "As reported. It happened."}, {"addenda": "It happened."}, "question_after_t0"),
        ({"criteria": "As reported by others."}, {}, "question_mismatch"),
        ({"text": "Will it happen (twice)?"}, {}, "question_mismatch"),
        (
            {"criteria": "As reported.\nAdditional context: it did"},
            {"rules": "As reported.\nAdditional context: it did"},
            "question_after_t0",
        ),
        ({"t0": world.CLOSE, "price_at_t0": None}, {}, "t0_after_close"),
    ],
)
def test_text_rule(honest, settings, question, market, kind):
    world.seal_set(honest, question=question, market=market)
    kinds = {row[0] for row in found(honest, settings) if row[2] == "eval_set"}
    assert kind in kinds
    assert kinds <= {kind, "question_mismatch"}


@pytest.mark.parametrize("rules", ["It resolves to Yes if it happens.", "Edits of 2025 count.", "Updates may follow."])
def test_ordinary_rules_are_no_added_note(honest, settings, rules):
    world.seal_set(honest, question={"criteria": rules}, market={"rules": rules})
    assert [row for row in found(honest, settings) if row[2] == "eval_set"] == []


def test_what_was_not_audited_is_not_clean(store, settings):
    with pytest.raises(NotSealed, match="hindcast evalset build small"):
        audit.build(store, settings, eval_set=world.SET)
    world.seal_set(store)
    with pytest.raises(NotReady, match="nothing to audit"):
        audit.build(store, settings, eval_set=world.SET)
    with pytest.raises(NotSealed, match="hindcast audit"):
        audit.report(store, world.SET)


def test_the_pinned_corpus_decides_while_it_is_on_disk(honest, settings):
    """A rebuilt corpus with other times does not turn an old audit red as long as the pinned version is there."""
    old = honest.partition("submissions", "2025-03").require()
    with honest.partition("submission_index", "2025-03").draft() as draft:
        index = draft.seal(rows=0, schema_version="i/1", code_version="1", identity={"a": "b"}, inputs=[old.as_input])
    world.seal_corpus(honest, [replace(post, text="new", text_as_of=world.T0 + 1) for post in world.POSTS[:1]])
    kinds = {kind for kind, *_ in found(honest, settings)}
    assert {"text_after_t0", "trace_mismatch", "unknown_document"} <= kinds
    frozen = honest.partition("eval_set", world.SET).require()
    with honest.partition("eval_set", world.SET).draft() as draft:
        (draft.path / "data.parquet").write_bytes(frozen.file("data.parquet").read_bytes())
        draft.seal(
            rows=1, schema_version=frozen.manifest.schema_version, code_version="1",
            pins=[*frozen.manifest.pins, index.as_input],
        )  # fmt: skip
    assert found(honest, settings) == []


def test_two_audits_are_the_same(honest, settings):
    first = audit.build(honest, settings, eval_set=world.SET)
    assert audit.build(honest, settings, eval_set=world.SET).without_time() == first.without_time()
    assert {part.table for part in first.inputs} == {"eval_set", "submissions", "comments", "retrieval_forecasts"}


def test_the_sealed_table_keeps_its_contract(honest, settings):
    posts = (world.AT_T0, world.EDITED, world.AT_T0)
    world.write_trace(honest, world.trace_record([world.search_step(*posts)], run=2))
    audit.build(honest, settings, eval_set=world.SET)
    data = pl.read_parquet(honest.partition("leak_audit", world.SET).require().file("data.parquet"))
    AUDIT.check(data)


def run_cli(store, *arguments):
    from typer.testing import CliRunner

    return CliRunner().invoke(app, ["--data-root", str(store.root), "--json", "audit", *arguments])


def test_a_violation_that_quotes_brackets_is_told_and_is_no_bug(honest):
    from typer.testing import CliRunner

    world.seal_set(honest, question={"criteria": "Update [/b] of 2026-02-03: it has happened"})
    asked = ["--data-root", str(honest.root), "audit", "--eval-set", world.SET]
    told = CliRunner().invoke(app, asked, env={"COLUMNS": "80"})
    assert told.exit_code == 3
    for said in ("question_after_t0", "Update [/b] of 2026-02-03"):
        assert said in told.stdout


def test_command_line(honest, settings):
    green = run_cli(honest, "--eval-set", world.SET)
    assert green.exit_code == 0
    assert json.loads(green.stdout)["clean"] is True
    world.write_trace(honest, world.trace_record([world.search_step(world.EDITED)], run=2))
    red = run_cli(honest, "--eval-set", world.SET)
    assert red.exit_code == 3
    document = json.loads(red.stdout)
    assert document["clean"] is False
    assert document["forecasts"] == 2
    assert {"kind", "question", "run", "step", "document"} <= document["violations"][0].keys()
    assert document["violations"][0]["document"] == world.EDITED.key


def test_the_word_is_green_only_where_everything_was_looked_up(honest):
    from typer.testing import CliRunner

    asked = ["--data-root", str(honest.root), "audit", "--eval-set", world.SET]
    assert CliRunner().invoke(app, asked).stdout.startswith("GREEN")
    world.write_trace(honest, world.trace_record([Step(kind="note", name="import")], run=2))
    amber = CliRunner().invoke(app, asked)
    assert amber.exit_code == 0
    assert amber.stdout.startswith("AMBER")
    assert "1 forecasts were imported" in " ".join(amber.stdout.split())
