"""Who may be ranked: cells that answered the same questions, and enough of them; and when a skill is stated."""

import pytest

from hindcast_dagster.contracts import analysis
from hindcast_dagster.contracts.scores import SCORED
from hindcast_dagster.scoring import build, ranking
from hindcast_dagster.scoring.pairs import Cell
from hindcast_dagster.storage.tables import read_table
from tests.score_world import forecast, noisy, question, seal_baselines, seal_forecasts, seal_questions

ZERO = Cell("toy-1b", "zero_shot")


def scored(store, settings):
    build.build_scored(store, settings, eval_set="small")
    build.build_tables(store, settings, eval_set="small")
    return read_table(store.partition("scored_forecasts", "small").require(), SCORED)


def seal(store, *, questions=40, **values):
    rows = [question(n, outcome="Yes" if n % 2 else "No", **values) for n in range(questions)]
    seal_questions(store, rows)
    seal_baselines(store, rows)
    return rows


def test_a_model_that_answered_three_questions_has_no_place_before_one_that_answered_all(store, settings):
    rows = seal(store)
    seal_forecasts(store, noisy(rows, arm="zero_shot", lift=0.1, runs=2))
    seal_forecasts(store, [forecast(n, float(n % 2), model="lucky") for n in range(3)])
    places = ranking.ranking(scored(store, settings))
    assert [place.cell for place in places] == [ZERO]
    cells, _ = build.read_cells(store, "small")
    told = {(row["model"], row["arm"]): (row["questions"], row["ranked"]) for row in cells.iter_rows(named=True)}
    assert told["lucky", "zero_shot"] == (3, False)
    assert told["toy-1b", "zero_shot"] == (40, True)
    assert told["none", "market_price"] == (40, False)


def test_ranked_cells_and_the_market_are_measured_on_what_all_of_them_answered(store, settings):
    rows = seal(store)
    seal_forecasts(store, [forecast(n, 0.5) for n in range(40)])
    seal_forecasts(store, [forecast(n, None if n < 2 else 0.6, arm="retrieval") for n in range(40)])
    first, second = ranking.ranking(scored(store, settings))
    assert (first.questions, second.questions) == (38, 38)
    assert (first.cell.arm, first.brier) == ("zero_shot", pytest.approx(0.25))
    assert second.brier == pytest.approx((0.16 + 0.36) / 2)
    assert first.market == pytest.approx((19 * 0.16 + 19 * 0.09) / 38)
    assert rows[0]["price_at_t0"] == 0.3


def test_a_limit_that_all_cells_share_does_not_keep_them_from_being_ranked(store, settings):
    seal(store, questions=60)
    for model in ("toy-1b", "toy-2b"):
        seal_forecasts(store, [forecast(n, 0.4, model=model) for n in range(25)])
    assert len(ranking.ranking(scored(store, settings))) == 2


def test_below_the_least_number_of_questions_nobody_is_ranked(store, settings):
    rows = seal(store, questions=ranking.MIN_QUESTIONS - 1)
    seal_forecasts(store, noisy(rows, arm="zero_shot", lift=0.1, runs=1))
    assert ranking.ranking(scored(store, settings)) == []


def test_without_a_price_for_each_question_the_market_has_no_number_beside_the_first(store, settings):
    rows = [question(n, price_at_t0=None if n == 0 else 0.6) for n in range(30)]
    seal_questions(store, rows)
    seal_baselines(store, rows)
    seal_forecasts(store, noisy(rows, arm="zero_shot", lift=0.1, runs=1))
    assert [place.market for place in ranking.ranking(scored(store, settings))] == [None]


@pytest.mark.parametrize(
    ("questions", "price", "stated"),
    [
        (40, {"Yes": 0.6, "No": 0.3}, True),
        (19, {"Yes": 0.6, "No": 0.3}, False),
        (40, {"Yes": 0.999, "No": 0.001}, False),
    ],
)
def test_skill_is_stated_on_enough_questions_and_against_a_market_that_can_be_beaten(
    store, settings, questions, price, stated
):
    rows = [question(n, outcome=y, price_at_t0=price[y]) for n in range(questions) for y in [("Yes", "No")[n % 2]]]
    seal_questions(store, rows)
    seal_forecasts(store, [forecast(n, 0.5) for n in range(questions)])
    scored(store, settings)
    metrics = read_table(store.partition("score_tables", "small").require(), analysis.METRICS, name="metrics.parquet")
    found = dict(metrics.select("metric", "value").iter_rows())
    market = sum((price[y] - (y == "Yes")) ** 2 for y in (row["outcome"] for row in rows)) / questions
    assert found["market_brier"] == pytest.approx(market)
    assert found["skill_questions"] == questions
    assert ("brier_skill" in found) == stated
    if stated:
        assert found["brier_skill"] == pytest.approx(1 - 0.25 / market)


def test_what_was_retried_and_what_is_imputed_stand_in_the_cell(store, settings):
    seal(store, questions=4)
    seal_forecasts(store, [forecast(0, 1.0, parse_step="compact"), forecast(1, None), forecast(2, 0.5)], runs=2)
    scored(store, settings)
    cells, _ = build.read_cells(store, "small")
    row = next(row for row in cells.iter_rows(named=True) if (row["model"], row["arm"]) == ZERO)
    assert (row["retried"], row["imputed"], row["n"], row["unparsed"]) == (1, 2, 2, 1)
    assert row["brier"] == pytest.approx((1.0 + 0.25) / 2)
    assert row["brier_imputed"] == pytest.approx((1.0 + 3 * 0.25) / 4)
