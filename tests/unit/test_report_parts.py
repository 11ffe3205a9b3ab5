"""What the report says in single places: who is best, what is not tested, and what is worth its price."""

import re

import polars as pl
import pytest

from hindcast_dagster.report import page
from hindcast_dagster.report.figures import base, frontier
from hindcast_dagster.report.figures.catalogue import FIGURES
from hindcast_dagster.report.gather import gather
from hindcast_dagster.report.tables import effects, scores
from hindcast_dagster.scoring import build, compare
from tests.score_world import forecast, noisy, question, seal_baselines, seal_forecasts, seal_questions

NAME = "small"


def gathered(store, settings, *, questions=30, lucky=True, cost=0.01):
    rows = [question(n, outcome="Yes" if n % 3 else "No") for n in range(questions)]
    seal_questions(store, rows)
    seal_baselines(store, rows)
    seal_forecasts(store, noisy(rows, arm="zero_shot", lift=0.1, runs=2, cost=cost))
    seal_forecasts(store, noisy(rows, arm="retrieval", lift=0.3, runs=2, tokens_in=9_000, seconds=20.0, cost=20 * cost))
    if lucky:
        for arm in ("zero_shot", "retrieval"):
            seal_forecasts(store, [forecast(n, float(n % 3 > 0), model="lucky", arm=arm, cost=1e-4) for n in range(3)])
    build.build_scored(store, settings, eval_set=NAME)
    build.build_tables(store, settings, eval_set=NAME)
    compare.build(store, settings, eval_set=NAME)
    return gather(store, settings, eval_set=NAME)


def tile(found, label):
    return next(rest for name, *rest in page.tiles(found) if name == label)


def test_the_best_model_is_not_one_that_answered_three_questions(store, settings):
    found = gathered(store, settings)
    value, remark = tile(found, "Best Brier of a model")
    cells = {(row["model"], row["arm"]): row["brier"] for row in found.cells.iter_rows(named=True)}
    assert cells["lucky", "zero_shot"] == 0
    assert value == f"{cells['toy-1b', 'retrieval']:.3f}"
    assert "toy-1b, retrieval" in remark
    assert "30 questions that 2 cells answered" in remark
    assert "market there" in remark


def test_where_nobody_answered_enough_nobody_is_best(store, settings):
    value, remark = tile(gathered(store, settings, questions=6), "Best Brier of a model")
    assert value == "Not ranked"
    assert "fewer than 20 questions" in remark


def test_a_cell_that_is_not_ranked_says_so_and_is_never_bold(store, settings):
    rows = [row for group in scores.headline(gathered(store, settings)).groups for row in group.rows]
    lucky = [row for row in rows if row[0].text == "lucky"]
    others = [row for row in rows if row[0].text == "toy-1b"]
    assert len(lucky) == len(others) == 2
    assert all("not ranked" in " ".join(field.small for field in row) for row in lucky)
    assert all("3 questions" in " ".join(field.small for field in row) for row in lucky)  # instead of a skill
    assert not any(field.best for row in lucky for field in row)
    assert sum(field.best for row in others for field in row) == 2


def test_a_comparison_on_few_questions_stands_last_and_is_not_tested(store, settings):
    table = effects.comparisons(gathered(store, settings), "market", "Cell minus market price")
    rows = [[field.text for field in row] for row in table.groups[0].rows]
    assert [row[0] for row in rows[-2:]] == ["lucky", "lucky"]
    for row in rows[-2:]:
        assert row[5:10] == ["\N{EN DASH}"] * 5
    for row in rows[:-2]:
        assert all("…" in row[k] for k in (5, 6, 9))
        assert re.fullmatch(r"(< )?\.\d{3}|1\.000", row[7])


def test_cells_on_the_frontier_are_those_than_which_none_is_cheaper_and_better():
    cells = pl.DataFrame({"x": [3.0, 1.0, 2.0, 4.0, 1.0], "y": [0.20, 0.25, 0.26, 0.10, 0.30]})
    assert frontier.best_for_price(cells).rows() == [(1.0, 0.25), (3.0, 0.20), (4.0, 0.10)]


@pytest.mark.parametrize("name", ["frontier", "frontier_seconds", "frontier_cost"])
def test_brier_is_drawn_against_tokens_seconds_and_money(store, settings, name):
    found = gathered(store, settings)
    chart = FIGURES[name][0](found, "light").to_dict()
    line = chart["layer"][0]
    assert line["mark"]["interpolate"] == "step-after"
    points = line["data"]["values"]
    assert len(points) == 2  # the lucky one is cheap and perfect, but answered other questions
    assert points[0]["x"] < points[1]["x"]
    assert points[0]["y"] > points[1]["y"]


def test_money_is_not_drawn_where_no_model_has_a_price(store, settings):
    found = gathered(store, settings, lucky=False, cost=0.0)
    assert FIGURES["frontier_cost"][0](found, "light") is None
    assert FIGURES["frontier_seconds"][0](found, "light") is not None


def test_a_scale_of_brier_scores_never_reaches_below_zero():
    assert base.brier_scale([0.001, 0.3]).to_dict()["domain"][0] == 0
    low, high = base.brier_scale([0.2, 0.2]).to_dict()["domain"]
    assert low < 0.2 < high


def test_the_table_of_runs_holds_the_market_and_the_baselines(store, settings):
    rows = [row for group in scores.per_run(gathered(store, settings)).groups for row in group.rows]
    arms = {row[1].text for row in rows}
    assert {"Market price at t0", "Always one half", "Base rate", "Zero-shot", "Retrieval"} <= arms
