"""Metrics against hand-computed cases and against scikit-learn."""

import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from hindcast_dagster.scoring import metrics

P, Y = [0.9, 0.2], [1, 1]

forecasts = st.lists(st.tuples(st.floats(0, 1), st.integers(0, 1)), min_size=1, max_size=60)


def test_brier_and_its_index_on_two_forecasts():
    assert metrics.brier(P, Y) == pytest.approx((0.01 + 0.64) / 2)
    assert metrics.brier_index(P, Y) == pytest.approx(42.99, abs=0.005)  # the mean of the roots would give 55


def test_always_one_half_scores_the_neutral_values():
    assert metrics.brier_index([0.5, 0.5], [0, 1]) == 50
    assert metrics.baseline_score([0.5, 0.5], [0, 1]) == pytest.approx(0)
    assert metrics.baseline_score([1.0], [1], clip=0) == pytest.approx(100)


@pytest.mark.parametrize(("y", "right"), [(1, 0.0), (0, 1.0)])
def test_exactly_one_half_counts_as_no(y, right):
    assert metrics.accuracy([0.5], [y]) == right
    assert metrics.ties([0.5, 0.5, 0.4]) == 2


def test_a_certain_wrong_call_has_a_finite_log_score_and_the_full_brier():
    assert metrics.log_score([0.0], [1]) == pytest.approx(math.log(metrics.LOG_CLIP))
    assert metrics.brier([0.0], [1]) == 1
    assert metrics.clipped_count([0.0, 1.0, 0.5]) == 2


def test_nothing_scored_is_no_number():
    for value in (metrics.brier([], []), metrics.accuracy([], []), metrics.ece([], []), metrics.murphy([], [])):
        assert value is None


def test_skill_compares_with_the_reference_on_the_same_questions():
    assert metrics.brier_skill([0.8], [1], [0.6]) == pytest.approx(1 - 0.04 / 0.16)
    assert metrics.brier_skill([0.8], [1], [1.0]) is None


def test_a_probability_on_an_edge_belongs_to_the_upper_bin_and_one_to_the_last():
    bins = metrics.reliability([0.0, 0.1, 0.0999, 1.0], [0, 0, 0, 1])
    assert [(each.low, each.n) for each in bins] == [(0.0, 2), (0.1, 1), (0.9, 1)]


def test_equal_mass_bins_merge_equal_quantiles():
    bins = metrics.reliability([0.5] * 20, [0, 1] * 10, form="equal_mass")
    assert [(each.n, each.mean_p, each.share_yes) for each in bins] == [(20, 0.5, 0.5)]
    spread = metrics.reliability(np.linspace(0.01, 0.99, 100), [0] * 100, form="equal_mass")
    assert [each.n for each in spread] == [10] * 10


def test_calibration_error_of_a_hand_case():
    # bins [0.2,0.3): mean 0.2, half Yes; [0.9,1]: mean 0.9, all Yes
    assert metrics.ece([0.2, 0.2, 0.9, 0.9], [0, 1, 1, 1]) == pytest.approx(0.5 * 0.3 + 0.5 * 0.1)


@settings(deadline=None)  # the first call imports scikit-learn
@given(forecasts)
def test_the_murphy_parts_add_up_to_the_brier_score(pairs):
    p, y = zip(*pairs, strict=True)
    parts = metrics.murphy(p, y)
    assert parts is not None
    total = parts.reliability - parts.resolution + parts.uncertainty + parts.within
    assert total == pytest.approx(metrics.brier(p, y))
    assert parts.reliability >= 0
    assert parts.resolution >= 0


def test_within_bin_term_vanishes_when_a_bin_holds_one_value():
    parts = metrics.murphy([0.25, 0.25, 0.75, 0.75], [0, 1, 1, 1])
    assert parts is not None
    assert parts.within == pytest.approx(0)


@settings(deadline=None)  # the first call imports scikit-learn
@given(forecasts)
def test_agreement_with_scikit_learn(pairs):
    from sklearn.metrics import brier_score_loss, log_loss

    p, y = (np.array(values) for values in zip(*pairs, strict=True))
    assert metrics.brier(p, y) == pytest.approx(brier_score_loss(y, p, pos_label=1))
    clipped = np.clip(p, metrics.LOG_CLIP, 1 - metrics.LOG_CLIP)
    assert metrics.log_score(p, y) == pytest.approx(-log_loss(y, clipped, labels=[0, 1]))


@settings(deadline=None)  # the first call imports scikit-learn
@given(forecasts)
def test_bins_hold_every_forecast_once(pairs):
    p, y = zip(*pairs, strict=True)
    for form in ("equal_width", "equal_mass"):
        assert sum(each.n for each in metrics.reliability(p, y, form=form)) == len(p)
