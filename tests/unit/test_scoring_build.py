"""Sealed scores: what is scored, what is counted as lost, what is missing, and what is refused."""

import polars as pl
import pytest

from hindcast_dagster.contracts import analysis
from hindcast_dagster.contracts.scores import SCORED
from hindcast_dagster.errors import InputRefused, NotReady
from hindcast_dagster.scoring import build, models
from hindcast_dagster.settings import load
from hindcast_dagster.storage.tables import read_table
from tests.score_world import T0, forecast, noisy, question, seal_baselines, seal_forecasts, seal_questions

THREE = [question(0, outcome="Yes"), question(1, outcome="No"), question(2, outcome="Yes", price_at_t0=None)]


def score(store, settings, name="small"):
    build.build_scored(store, settings, eval_set=name)
    build.build_tables(store, settings, eval_set=name)
    frame, _ = build.read_cells(store, name)
    return {(row["model"], row["arm"]): row for row in frame.iter_rows(named=True)}


def table(store, name):
    sealed = store.partition("score_tables", "small").require()
    return read_table(sealed, getattr(analysis, name.upper()), name=f"{name}.parquet")


def test_a_cell_by_hand(store, settings):
    seal_questions(store, THREE)
    run_1 = [forecast(0, 0.8, run=1), forecast(1, 0.4, run=1), forecast(2, 0.5, run=1)]
    run_2 = [forecast(0, 0.6, run=2), forecast(1, 0.7, run=2), forecast(2, 1.0, run=2)]
    seal_forecasts(store, run_1 + run_2)
    cell = score(store, settings)["toy-1b", "zero_shot"]
    first, second = (0.04 + 0.16 + 0.25) / 3, (0.16 + 0.49 + 0.0) / 3
    assert (cell["runs"], cell["n"], cell["ties"], cell["missing"]) == (2, 6, 1, 0)
    assert cell["accuracy"] == pytest.approx((2 / 3 + 2 / 3) / 2)  # exactly one half on a Yes is wrong
    assert cell["brier"] == pytest.approx((first + second) / 2)
    assert cell["brier_sd"] == pytest.approx(abs(first - second) / 2**0.5)
    assert cell["market_gap"] == pytest.approx((0.2 + 0.1 + 0.0 + 0.4) / 4)  # the question without a price is left out


def test_one_run_has_no_spread(store, settings):
    seal_questions(store, THREE)
    seal_forecasts(store, [forecast(n, 0.5) for n in range(3)])
    cell = score(store, settings)["toy-1b", "zero_shot"]
    assert (cell["accuracy_sd"], cell["brier_sd"]) == (None, None)


def test_a_model_that_always_refuses_has_no_score_and_not_the_score_of_one_half(store, settings):
    seal_questions(store, THREE)
    seal_forecasts(store, [forecast(n, None) for n in range(3)])
    cell = score(store, settings)["toy-1b", "zero_shot"]
    assert (cell["n"], cell["unparsed"], cell["missing"]) == (0, 3, 0)
    assert (cell["accuracy"], cell["brier"], cell["brier_index"]) == (None, None, None)
    run = table(store, "runs").row(0, named=True)
    assert (run["n"], run["accuracy"], run["brier_imputed"]) == (0, None, 0.25)


def test_imputation_is_a_second_number_beside_the_first(store, settings):
    seal_questions(store, THREE)
    seal_forecasts(store, [forecast(0, 1.0), forecast(1, None), forecast(2, None, status="failed")])
    cell = score(store, settings)["toy-1b", "zero_shot"]
    assert (cell["n"], cell["unparsed"], cell["failed"], cell["brier"]) == (1, 1, 1, 0.0)
    assert table(store, "runs")["brier_imputed"][0] == pytest.approx(2 * 0.25 / 3)


def test_missing_forecasts_and_cells_are_named_with_their_command(store, settings):
    seal_questions(store, THREE)
    seal_forecasts(store, [forecast(0, 0.7, run=1), forecast(1, 0.7, run=1), forecast(2, 0.7, run=1)], runs=2)
    found = score(store, settings)
    _, manifest = build.read_cells(store, "small")
    lost = {(each["model"], each["arm"]): each for each in manifest.stats["missing"]}
    assert lost["toy-1b", "zero_shot"]["missing"] == 3  # the second run that its partition was asked for
    assert lost["toy-1b", "retrieval"]["missing"] == 3 * settings.forecast.runs
    assert lost["none", "market_price"]["missing"] == 3
    assert "--arm retrieval --model toy-1b" in lost["toy-1b", "retrieval"]["command"]
    assert found["toy-1b", "retrieval"]["n"] == 0
    assert not manifest.checks[0].passed


def test_the_command_of_a_missing_cell_asks_for_all_of_it(store, settings):
    seal_questions(store, THREE)
    seal_forecasts(store, [forecast(0, 0.7, run=1)], runs=2)
    few = settings.model_copy(update={"forecast": load(forecast={"question_limit": 1, "runs": 1}).forecast})
    score(store, few)
    lost = {
        (each["model"], each["arm"]): each["command"] for each in build.read_cells(store, "small")[1].stats["missing"]
    }
    assert lost["toy-1b", "zero_shot"].endswith("--arm zero_shot --model toy-1b --eval-set small --runs 2 --limit 3")
    assert lost["toy-1b", "retrieval"].endswith("--arm retrieval --model toy-1b --eval-set small --limit 3")
    assert lost["none", "market_price"] == "hindcast forecast baselines --eval-set small"


def test_a_complete_set_says_so(store, settings):
    seal_questions(store, THREE[:2])
    seal_baselines(store, THREE[:2])
    for arm in ("zero_shot", "retrieval"):
        seal_forecasts(store, noisy(THREE[:2], arm=arm, lift=0.1))
    score(store, settings)
    _, manifest = build.read_cells(store, "small")
    assert manifest.stats["missing"] == []
    assert manifest.checks[0].passed


def test_rebuilding_from_the_same_input_gives_the_same_bytes(store, settings):
    seal_questions(store, THREE)
    seal_forecasts(store, noisy(THREE, arm="zero_shot", lift=0.1))
    build.build_scored(store, settings, eval_set="small")
    first = build.build_tables(store, settings, eval_set="small")
    assert build.build_tables(store, settings, eval_set="small").without_time() == first.without_time()


def test_tables_refuse_scores_that_are_older_than_the_forecasts(store, settings):
    seal_questions(store, THREE)
    seal_forecasts(store, noisy(THREE, arm="zero_shot", lift=0.1))
    build.build_scored(store, settings, eval_set="small")
    seal_forecasts(store, noisy(THREE, arm="zero_shot", lift=0.2))
    with pytest.raises(NotReady, match=r"older than zero_shot_forecasts / toy-1b / small: .*hindcast score"):
        build.build_tables(store, settings, eval_set="small")


def test_a_forecast_of_another_question_or_t0_is_refused(store, settings):
    seal_questions(store, THREE)
    seal_forecasts(store, [forecast(0, 0.5), forecast(1, 0.5, t0=T0 + 1)])
    with pytest.raises(InputRefused, match="does not ask"):
        build.build_scored(store, settings, eval_set="small")


def test_nothing_forecast_is_not_ready(store, settings):
    with pytest.raises(NotReady, match="evalset build small"):
        build.build_scored(store, settings, eval_set="small")
    seal_questions(store, THREE)
    with pytest.raises(NotReady, match="forecast run"):
        build.build_scored(store, settings, eval_set="small")


def test_an_empty_eval_set_is_refused_by_name_and_does_not_divide_by_zero(store, settings):
    seal_questions(store, [])
    with pytest.raises(NotReady):
        build.build_scored(store, settings, eval_set="small")


def test_contamination_is_judged_by_the_roster(store, settings):
    seal_questions(store, THREE)
    for model in ("llama-3-1-8b", "qwen3-8b"):
        seal_forecasts(store, [forecast(n, 0.5, model=model) for n in range(3)])
    seal_baselines(store, THREE)
    build.build_scored(store, settings, eval_set="small")
    scored = read_table(store.partition("scored_forecasts", "small").require(), SCORED)
    words = dict(scored.select("model", "beyond_cutoff").unique().iter_rows())
    assert words == {"llama-3-1-8b": "after", "qwen3-8b": "unknown", "none": "after"}


def test_a_question_on_the_day_of_the_cutoff_lies_before_it(settings):
    cutoff = models.facts(settings, ["llama-3-1-8b"])["llama-3-1-8b"].cutoff
    assert cutoff == 1_704_067_200  # 2024-01-01: December 2023 may be known to its last second


def test_the_clean_subset_holds_only_questions_after_the_model_s_cutoff(store, settings):
    """llama-3-1-8b may know all of 2023: two of four questions lie before 2024."""
    early = 1_704_067_200 - 86_400
    rows = [question(n, outcome="Yes", t0=early if n < 2 else T0) for n in range(4)]
    seal_questions(store, rows)
    values = (1.0, 1.0, 0.4, 0.8)
    answers = [forecast(n, p, model="llama-3-1-8b", t0=rows[n]["t0"]) for n, p in enumerate(values)]
    seal_forecasts(store, answers)
    score(store, settings)
    found = dict(table(store, "metrics").select("metric", "value").iter_rows())
    assert found["clean_n"] == 2
    assert found["clean_brier"] == pytest.approx((0.36 + 0.04) / 2)
    assert found["clean_accuracy"] == 0.5
    strata = table(store, "strata").filter(pl.col("by") == "beyond_cutoff")
    briers = dict(strata.select("stratum", "brier").iter_rows())
    assert briers == {"before": 0.0, "after": pytest.approx(found["clean_brier"])}


def test_bins_come_from_the_run_s_own_tally_and_zero_shot_stands_in_the_paired_one(store, settings):
    seal_questions(store, THREE)
    agent = [
        forecast(n, 0.9, arm="retrieval", run=run, evidence_quality=label)
        for run, labels in ((1, ("strong", "weak", None)), (2, ("strong", "strong", None)))
        for n, label in enumerate(labels)
    ]
    seal_forecasts(store, agent)
    seal_forecasts(store, [forecast(n, 0.2, run=run) for run in (1, 2) for n in range(3)])
    score(store, settings)
    rows = table(store, "strata").filter(pl.col("by") == "evidence")
    found = {(row["arm"], row["stratum"]): row for row in rows.iter_rows(named=True)}
    assert found["retrieval", "strong"]["size"] == 1.5
    assert found["retrieval", "weak"]["size"] == 0.5
    assert found["retrieval", "weak"]["runs"] == 1  # empty in run 2: missing there, not zero
    assert found["retrieval", "weak"]["accuracy"] == 0.0
    assert ("retrieval", "none") not in found
    assert found["retrieval", "unbinned"]["size"] == 1
    assert found["zero_shot", "strong"]["size"] == 1.5
    assert found["zero_shot", "strong"]["accuracy"] == pytest.approx((0 + 0.5) / 2)


def test_measures_hold_cost_skill_and_calibration(store, settings):
    questions = [question(n, outcome="Yes" if n % 2 else "No") for n in range(20)]
    seal_questions(store, questions)
    seal_baselines(store, questions)
    seal_forecasts(store, noisy(questions, arm="zero_shot", lift=0.2))
    score(store, settings)
    rows = table(store, "metrics").iter_rows(named=True)
    found = {(row["arm"], row["metric"]): row["value"] for row in rows}
    assert found["zero_shot", "tokens"] == 120
    assert ("market_price", "tokens") not in found
    assert found["market_price", "brier_skill"] == pytest.approx(0)
    assert found["constant_half", "ece_equal_width"] == pytest.approx(0)
    parts = [found["zero_shot", f"murphy_{name}"] for name in ("reliability", "resolution", "uncertainty", "within")]
    runs = table(store, "runs").filter(pl.col("arm") == "zero_shot")
    assert parts[0] - parts[1] + parts[2] + parts[3] == pytest.approx(runs["brier"].mean())


def test_legs_of_an_event_are_added_up_only_when_all_are_there(store, settings):
    seal_questions(store, [question(n, outcome="No", event_id="e") for n in range(3)])
    seal_forecasts(store, [forecast(n, 0.4, run=1) for n in range(3)] + [forecast(0, 0.9, run=2)])
    score(store, settings)
    row = table(store, "event_sums").row(0, named=True)
    assert (row["legs"], row["resolved_yes"]) == (3, 0)
    assert row["sum_p"] == pytest.approx(1.2)
