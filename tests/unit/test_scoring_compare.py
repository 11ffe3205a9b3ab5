"""Paired comparisons, effects of an arm, and value beyond the market."""

import numpy as np
import polars as pl
import pytest
from hypothesis import given
from hypothesis import settings as budget
from hypothesis import strategies as st

from hindcast_dagster.contracts import analysis
from hindcast_dagster.contracts.scores import SCORED
from hindcast_dagster.errors import UsageError
from hindcast_dagster.scoring import blend, bootstrap, build, compare, effects, inputs
from hindcast_dagster.scoring.pairs import Cell, paired
from hindcast_dagster.storage.tables import read_table
from tests.score_world import forecast, noisy, question, seal_baselines, seal_forecasts, seal_questions

A, B = Cell("toy-1b", "retrieval"), Cell("toy-1b", "zero_shot")


def loaded(store, settings):
    build.build_scored(store, settings, eval_set="small")
    return inputs.load(store, "small"), read_table(store.partition("scored_forecasts", "small").require(), SCORED)


def seal_world(store, *, questions=40, runs=5, event=None):
    rows = [question(n, outcome="Yes" if n % 5 < 2 else "No") for n in range(questions)]
    seal_questions(store, rows)
    seal_baselines(store, rows)
    seal_forecasts(store, noisy(rows, arm="zero_shot", lift=0.05, runs=runs))
    seal_forecasts(store, noisy(rows, arm="retrieval", lift=0.15, runs=runs, stop_reason="confidence", prior_yes=0.5))
    return rows


def lines(given, scored, *comparisons):
    rows = compare.compare(given, scored, list(comparisons)).iter_rows(named=True)
    return {(row["a"], row["metric"], row["cluster"], row["missing"]): row for row in rows}


@pytest.fixture
def columns():
    rng = np.random.default_rng(1)
    return rng.normal(0.05, 0.3, size=(80, 2)), np.ones((80, 2))


def test_swapping_the_sides_mirrors_the_interval_and_leaves_p_alone(columns):
    sums, counts = columns
    for here, there in zip(bootstrap.intervals(sums, counts), bootstrap.intervals(-sums, counts), strict=True):
        assert there.difference == pytest.approx(-here.difference)
        assert (there.low, there.high) == (pytest.approx(-here.high), pytest.approx(-here.low))
        assert (there.bca_low, there.bca_high) == (pytest.approx(-here.bca_high), pytest.approx(-here.bca_low))
        assert there.p == pytest.approx(here.p)


def test_an_interval_depends_on_the_seed_only(columns):
    assert bootstrap.intervals(*columns) == bootstrap.intervals(*columns)
    assert bootstrap.intervals(*columns) != bootstrap.intervals(*columns, seed=1)


def test_p_is_never_zero_and_at_most_one():
    certain = bootstrap.intervals(np.full((30, 1), -1.0), np.ones((30, 1)))[0]
    assert 0 < certain.p <= 2 / 10_000
    equal = bootstrap.intervals(np.zeros((30, 1)), np.ones((30, 1)))[0]
    assert equal.p == 1


def test_copies_of_a_run_do_not_narrow_the_interval(columns):
    sums, counts = columns
    one = bootstrap.intervals(sums, counts)[0]
    five = bootstrap.intervals(5 * sums, 5 * counts)[0]
    assert (five.low, five.high) == (pytest.approx(one.low), pytest.approx(one.high))


def test_the_bootstrap_agrees_with_scipy_on_single_rows(columns):
    from scipy import stats

    sums, counts = columns
    ours = bootstrap.intervals(sums[:, :1], counts[:, :1])[0]
    theirs = stats.bootstrap((sums[:, 0],), np.mean, n_resamples=10_000, method="percentile", rng=3)
    assert ours.low == pytest.approx(theirs.confidence_interval.low, abs=0.005)
    assert ours.high == pytest.approx(theirs.confidence_interval.high, abs=0.005)
    assert ours.standard_error == pytest.approx(theirs.standard_error, rel=0.05)


def scipy_bca(values, means):
    """SciPy's own BCa over resamples that are already drawn."""
    from types import SimpleNamespace

    from scipy import stats

    drawn = SimpleNamespace(bootstrap_distribution=means)
    found = stats.bootstrap((values,), np.mean, n_resamples=0, method="BCa", bootstrap_result=drawn)
    return found.confidence_interval


@pytest.mark.parametrize("power", [1, 3])
def test_bca_bounds_are_those_of_scipy_from_the_same_resamples(power):
    values = np.random.default_rng(3).exponential(size=60) ** power - 0.4
    sums, counts = values[:, None], np.ones((60, 1))
    ours = bootstrap.intervals(sums, counts)[0]
    theirs = scipy_bca(values, bootstrap.resampled_means(sums, counts)[:, 0])
    assert (ours.bca_low, ours.bca_high) == (pytest.approx(theirs.low), pytest.approx(theirs.high))
    assert ours.bca_low > ours.low  # skewed to the right: the whole interval moves up
    assert ours.bca_high > ours.high


def test_bca_covers_a_skewed_mean_better_than_percentiles():
    """The mean of 30 exponential values is 1: of 400 intervals at 95 %, percentile ones miss it more often."""
    rng = np.random.default_rng(2)
    found = bootstrap.intervals(rng.exponential(size=(30, 400)), np.ones((30, 400)), resamples=2_000)
    percentile = sum(each.low <= 1 <= each.high for each in found)
    corrected = sum(each.bca_low <= 1 <= each.bca_high for each in found)
    assert percentile < corrected
    assert corrected >= 0.9 * 400


@pytest.mark.parametrize("sums", [np.zeros((30, 1)), np.full((30, 1), 0.1), np.full((1, 1), 0.3)])
def test_bca_is_the_percentile_interval_where_clusters_do_not_differ(sums):
    found = bootstrap.intervals(sums, np.ones_like(sums))[0]
    assert (found.bca_low, found.bca_high) == (found.low, found.high)


def test_bca_weighs_clusters_of_different_size_and_leaves_out_empty_ones():
    rng = np.random.default_rng(4)
    counts = rng.integers(0, 4, size=(50, 1)).astype(float)
    found = bootstrap.intervals(rng.exponential(size=(50, 1)) * counts, counts)[0]
    assert found.clusters == int((counts > 0).sum())
    assert found.low < found.bca_low < found.difference < found.bca_high


def test_three_equal_horizons_widen_the_question_error_by_the_root_of_three():
    rng = np.random.default_rng(7)
    question_level = rng.normal(size=100)
    rows = np.repeat(question_level, 3)
    by_row = bootstrap.intervals(rows[:, None], np.ones((300, 1)))[0]
    by_question = bootstrap.intervals(3 * question_level[:, None], 3 * np.ones((100, 1)))[0]
    assert by_question.standard_error / by_row.standard_error == pytest.approx(1.74, abs=0.06)


def test_the_detectable_difference_is_what_four_in_five_tries_find():
    rng = np.random.default_rng(11)
    noise = rng.normal(0, 1, size=(200, 120))
    said = bootstrap.intervals(noise[:1].T, np.ones((120, 1)))[0].detectable
    shifted = noise + said
    found = np.abs(shifted.mean(axis=1)) / (shifted.std(axis=1, ddof=1) / 120**0.5) > 1.96
    assert 0.7 < found.mean() < 0.9
    assert bootstrap.intervals(np.ones((1, 1)), np.ones((1, 1)))[0].detectable is None


@budget(deadline=None, max_examples=20)
@given(st.integers(2, 30), st.integers(0, 2**31))
def test_every_resample_draws_as_many_clusters_as_there_are(clusters, seed):
    drawn = bootstrap.weights(clusters, resamples=7, rng=np.random.default_rng(seed))
    assert drawn.shape == (7, clusters)
    assert (drawn.sum(axis=1) == clusters).all()


def test_run_i_is_paired_with_run_i_and_a_single_run_with_all(store, settings):
    seal_world(store, questions=4, runs=3)
    _, scored = loaded(store, settings)
    pairs = paired(scored, A, B)
    assert pairs.height == 12
    assert pairs.select("question_id", "run").is_unique().all()
    market = Cell("none", "market_price")
    assert paired(scored, A, market).height == 12
    assert paired(scored, market, A).height == 12


def test_only_what_both_answered_is_compared_and_the_imputed_line_holds_all(store, settings):
    rows = [question(n, outcome="Yes") for n in range(4)]
    seal_questions(store, rows)
    seal_forecasts(store, [forecast(0, 0.8), forecast(1, 0.8), forecast(2, None), forecast(3, 0.6)])
    seal_forecasts(store, [forecast(n, p, arm="retrieval") for n, p in ((0, 0.9), (1, 0.9), (2, 0.9), (3, None))])
    found = lines(*loaded(store, settings), compare.Comparison("x", A, B))
    both = found[str(A), "brier", "question", "intersection"]
    assert both["pairs"] == 2
    assert both["difference"] == pytest.approx(0.01 - 0.04)
    half = found[str(A), "brier", "question", "half"]
    assert half["pairs"] == 4
    assert half["value_a"] == pytest.approx((3 * 0.01 + 0.25) / 4)
    assert half["value_b"] == pytest.approx((2 * 0.04 + 0.25 + 0.16) / 4)


def test_a_run_of_which_nothing_could_be_read_is_imputed_and_not_left_out(store, settings):
    """Dead trials count as one half under the stated imputation; dropping them would flatter the model."""
    seal_questions(store, [question(n, outcome="Yes") for n in range(4)])
    seal_forecasts(store, [forecast(n, 0.9, run=run) for run in (1, 2) for n in range(4)])
    dead = [forecast(n, None, run=2, arm="retrieval") for n in range(4)]
    seal_forecasts(store, [forecast(n, 0.9, arm="retrieval") for n in range(4)] + dead)
    found = lines(*loaded(store, settings), compare.Comparison("x", A, B))
    assert found[str(A), "brier", "question", "intersection"]["value_a"] == pytest.approx(0.01)
    half = found[str(A), "brier", "question", "half"]
    assert (half["pairs"], half["clusters"]) == (8, 4)
    assert half["value_a"] == pytest.approx((0.01 + 0.25) / 2)
    assert half["value_b"] == pytest.approx(0.01)
    assert found[str(A), "accuracy", "question", "half"]["value_a"] == 0.5


def test_legs_of_one_event_are_one_cluster(store, settings):
    rows = [question(n, outcome="Yes", event_id="e" if n < 30 else None) for n in range(40)]
    seal_questions(store, rows)
    for arm, lift in (("zero_shot", 0.0), ("retrieval", 0.1)):
        seal_forecasts(store, noisy(rows, arm=arm, lift=lift, runs=1))
    found = lines(*loaded(store, settings), compare.Comparison("x", A, B))
    assert found[str(A), "brier", "question", "intersection"]["clusters"] == 40
    assert found[str(A), "brier", "event", "intersection"]["clusters"] == 11


def test_holm_never_lowers_p_and_one_comparison_keeps_its_own(store, settings):
    seal_world(store)
    given, scored = loaded(store, settings)
    frame = compare.compare(given, scored, compare.planned(scored))
    assert (frame["p_holm"] >= frame["p"]).all()
    alone = frame.filter(pl.col("family") == "retrieval")
    assert alone["p_holm"].to_list() == alone["p"].to_list()
    assert set(frame["family"]) == {"retrieval", "market"}


def test_a_sealed_comparison_is_reproducible(store, settings):
    seal_world(store)
    loaded(store, settings)
    first = compare.build(store, settings, eval_set="small")
    assert compare.build(store, settings, eval_set="small").without_time() == first.without_time()


def test_unknown_and_equal_cells_are_refused_with_the_known_ones(store, settings):
    seal_world(store, questions=4, runs=1)
    _, scored = loaded(store, settings)
    with pytest.raises(UsageError, match="none/market_price"):
        compare.chosen(scored, "toy-1b/nonsense", "toy-1b/zero_shot")
    with pytest.raises(UsageError, match="with itself"):
        compare.chosen(scored, str(A), str(A))


def test_net_is_pairs_times_the_change_of_accuracy(store, settings):
    seal_world(store)
    frame = effects.effects(*loaded(store, settings))
    assert frame.height > 6
    for row in frame.iter_rows(named=True):
        assert row["net"] == pytest.approx(row["pairs"] * row["accuracy_change"])
        assert row["net"] == row["recoveries"] - row["regressions"]
    parts = {by: frame.filter(pl.col("by") == by)["net"].sum() for by in ("all", "model", "topic", "duration")}
    assert len(set(parts.values())) == 1


def test_a_recovery_and_a_regression_by_hand(store, settings):
    seal_questions(store, [question(n, outcome="Yes") for n in range(4)])
    before, after = (0.4, 0.6, 0.9, 0.1), (0.6, 0.45, 0.9, 0.2)
    seal_forecasts(store, [forecast(n, p) for n, p in enumerate(before)])
    seal_forecasts(
        store,
        [
            forecast(n, p, arm="retrieval", prior_yes=0.5, tokens_in=1100, tokens_trimmed=n % 2)
            for n, p in enumerate(after)
        ],
    )
    row = effects.effects(*loaded(store, settings)).filter(pl.col("by") == "all").row(0, named=True)
    assert (row["recoveries"], row["regressions"], row["net"], row["pairs"]) == (1, 1, 0, 4)
    assert row["wrong_margin"] == pytest.approx((0.05 + 0.3) / 2)
    assert row["wrong_margin_zero_shot"] == pytest.approx((0.1 + 0.4) / 2)
    assert row["prior_brier"] == pytest.approx(0.25)
    assert row["adjustment"] == pytest.approx(sum((1 - p) ** 2 for p in after) / 4 - 0.25)
    assert (row["evidence_tokens"], row["trimmed_share"]) == (1000, 0.5)


def test_accuracy_and_brier_that_disagree_are_flagged(store, settings):
    seal_questions(store, [question(n, outcome="Yes") for n in range(4)])
    seal_forecasts(store, [forecast(n, p) for n, p in enumerate((0.51, 0.51, 0.0, 0.0))])
    seal_forecasts(store, [forecast(n, p, arm="retrieval") for n, p in enumerate((0.49, 0.51, 0.45, 0.45))])
    row = effects.effects(*loaded(store, settings)).filter(pl.col("by") == "all").row(0, named=True)
    assert row["net"] < 0
    assert row["brier_change"] < 0  # fewer right calls, better probabilities: llama-3.1-8b in the paper
    assert row["disagree"]


def test_topics_with_fewer_than_four_markets_stand_in_no_row_of_their_own(store, settings):
    rows = [question(n, outcome="Yes", topic="Sports" if n < 4 else "Crypto") for n in range(7)]
    seal_questions(store, rows)
    for arm in ("zero_shot", "retrieval"):
        seal_forecasts(store, noisy(rows, arm=arm, lift=0.1, runs=2))
    frame = effects.effects(*loaded(store, settings))
    assert frame.filter(pl.col("by") == "topic")["group"].to_list() == ["Sports"]
    assert frame.filter(pl.col("by") == "all")["markets"].to_list() == [7]


def synthetic(store, *, informed: bool):
    """Questions whose outcome follows p beyond q, or q alone."""
    rng = np.random.default_rng(5)
    rows, answers = [], []
    for n in range(200):
        p, q = rng.uniform(0.1, 0.9, size=2)
        logit = np.log(p / (1 - p)) + np.log(q / (1 - q)) if informed else 1.5 * np.log(q / (1 - q))
        y = rng.uniform() < 1 / (1 + np.exp(-logit))
        rows.append(question(n, outcome="Yes" if y else "No", price_at_t0=round(float(q), 3)))
        answers.append(forecast(n, round(float(p), 3)))
    seal_questions(store, rows)
    seal_forecasts(store, answers)


@pytest.mark.parametrize("informed", [True, False])
def test_the_blend_tells_a_forecast_that_knows_more_from_one_that_does_not(store, settings, informed):
    synthetic(store, informed=informed)
    row = blend.blends(loaded(store, settings)[1]).row(0, named=True)
    assert row["questions"] == 200
    assert (row["weight_low"] > 0) == informed
    assert row["weight_low"] < row["weight"] < row["weight_high"]
    assert (row["brier_blend"] < row["brier_market"] - 0.005) == informed


def test_no_blend_is_printed_for_a_constant_or_for_few_events(store, settings):
    rows = [question(n, outcome="Yes" if n % 2 else "No") for n in range(30)]
    seal_questions(store, rows)
    seal_baselines(store, rows)
    seal_forecasts(store, noisy(rows, arm="zero_shot", lift=0.1))
    assert blend.blends(loaded(store, settings)[1]).is_empty()


def test_the_contract_of_comparisons_is_kept_when_there_is_nothing_to_compare(store, settings):
    seal_questions(store, [question(0)])
    seal_forecasts(store, [forecast(0, 0.5)])
    given, scored = loaded(store, settings)
    assert compare.compare(given, scored, compare.planned(scored)).schema == analysis.COMPARISONS.polars
