"""Price histories: windows, the two routes, joining, and the price at t0 (A8, G20)."""

import itertools
from typing import Any

import polars as pl
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from hindcast_dagster.clock import DAY, HOUR, Cutoff
from hindcast_dagster.contracts.markets import PRICES
from hindcast_dagster.markets.collect import merge, opposite_gap
from hindcast_dagster.markets.history import MARGIN_S, WINDOW_S, Point, Window, read, windows
from hindcast_dagster.markets.read import PriceAt, price_at
from hindcast_dagster.markets.stored import Got
from tests.toy_polymarket import JAN_15

T0 = Cutoff(JAN_15)


def series(*points: tuple[int, float]) -> pl.DataFrame:
    rows = [{"market_id": "m", "at": at, "price": price, "route": "clob", "step_s": 0} for at, price in points]
    return pl.DataFrame(rows, schema=PRICES.polars, orient="row")


def test_the_price_at_t0_is_the_last_one_at_or_before() -> None:
    """A8: neither interpolated (.94) nor the nearest (.95)."""
    assert price_at(series((JAN_15 - 3600, 0.40), (JAN_15 + 60, 0.95)), T0) == PriceAt(
        0.40, JAN_15 - 3600, 3600, "clob"
    )
    assert price_at(series((JAN_15, 0.7)), T0) == PriceAt(0.7, JAN_15, 0, "clob")


def test_only_later_points_are_no_price() -> None:
    assert price_at(series((JAN_15 + 1, 0.9), (JAN_15 + DAY, 1.0)), T0) is None
    assert price_at(series(), T0) is None


def test_an_old_price_keeps_its_age() -> None:
    found = price_at(series((JAN_15 - 9 * DAY, 0.3)), T0)
    assert found is not None
    assert found.age_s == 9 * DAY


POINTS = st.lists(st.tuples(st.integers(JAN_15 - 40 * DAY, JAN_15 + 40 * DAY), st.floats(0, 1)), max_size=30)


@settings(deadline=None)
@given(points=POINTS, seed=st.randoms(), t0=st.integers(JAN_15 - 50 * DAY, JAN_15 + 50 * DAY))
def test_price_at_equals_a_plain_scan_in_any_order(points: list[tuple[int, float]], seed: Any, t0: int) -> None:
    """Unsorted and duplicate-timestamp histories give the same answer; nothing after t0 is ever chosen."""
    shuffled = [*points, *points[:3]]
    seed.shuffle(shuffled)
    found = price_at(series(*shuffled), Cutoff(t0))
    assert found == price_at(series(*points), Cutoff(t0))
    before = [point for point in points if point[0] <= t0]
    if not before:
        assert found is None
        return
    latest = max(at for at, _ in before)
    assert found is not None
    assert (found.at, found.age_s) == (latest, t0 - latest)
    assert found.price == min(price for at, price in before if at == latest)


@settings(deadline=None)
@given(points=POINTS, later=POINTS)
def test_what_comes_after_t0_changes_nothing(points: list[tuple[int, float]], later: list[tuple[int, float]]) -> None:
    past = [point for point in points if point[0] <= T0.epoch]
    future = [(at, price) for at, price in later if at > T0.epoch]
    assert price_at(series(*past, *future), T0) == price_at(series(*past), T0)


def test_forty_days_are_three_windows_of_at_most_fifteen_days() -> None:
    """G20: a 40-day window in one go is 400 'interval is too long'."""
    found = windows(JAN_15 - 40 * DAY + MARGIN_S, JAN_15)
    assert [window.end - window.start for window in found] == [15 * DAY, 15 * DAY, 10 * DAY]


@given(opened=st.integers(JAN_15 - 800 * DAY, JAN_15 + DAY), life=st.integers(-DAY, 700 * DAY))
def test_windows_cover_a_life_without_gaps(opened: int, life: int) -> None:
    closed = opened + life
    found = windows(opened, closed)
    if closed <= opened - MARGIN_S:
        assert found == []
        return
    assert (found[0].start, found[-1].end) == (opened - MARGIN_S, closed)
    assert all(0 < window.end - window.start <= WINDOW_S for window in found)
    assert all(before.end == after.start for before, after in itertools.pairwise(found))


def test_a_boundary_point_is_joined_once() -> None:
    edge = Point(JAN_15, 0.4, HOUR)
    first = Got(Window(JAN_15 - DAY, JAN_15), "clob", [Point(JAN_15 - 5, 0.3, HOUR), edge])
    second = Got(Window(JAN_15, JAN_15 + DAY), "data", [edge._replace(price=0.41), Point(JAN_15 + 9, 0.5, HOUR)])
    joined = merge([first, second], before=JAN_15 + DAY)
    assert [(point.at, point.price, route) for point, route in joined] == [
        (JAN_15 - 5, 0.3, "clob"), (JAN_15, 0.4, "clob"), (JAN_15 + 9, 0.5, "data"),
    ]  # fmt: skip


def test_nothing_at_or_after_the_close_is_kept() -> None:
    got = Got(
        Window(0, JAN_15), "data", [Point(JAN_15 - 1, 0.5, 0), Point(JAN_15, 1.0, 60), Point(JAN_15 + 1, 1.0, 60)]
    )
    assert [point.at for point, _ in merge([got], before=JAN_15)] == [JAN_15 - 1]


def test_the_settlement_point_is_no_price_and_a_live_last_point_is_one() -> None:
    """The Data API ends with (price 0 or 1, resolution 0); a live series ends with (.515, resolution 0)."""
    body = {
        "data": [
            {"timestamp": JAN_15, "price": 0.51, "resolution_seconds": 43200},
            {"timestamp": JAN_15 + 50, "price": 0.515, "resolution_seconds": 0},
            {"timestamp": JAN_15 + 99, "price": 1, "resolution_seconds": 0},
        ]
    }
    assert read("data", body, step_s=60) == [Point(JAN_15, 0.51, 43200), Point(JAN_15 + 50, 0.515, 0)]


@pytest.mark.parametrize(
    "row",
    [{}, {"t": None, "p": 0.5}, {"t": JAN_15, "p": "x"}, {"t": JAN_15, "p": 1.2}, {"t": JAN_15 * 1000, "p": 0.5}, 5],
)
def test_an_impossible_point_is_left_out(row: Any) -> None:
    assert read("clob", {"history": [row, {"t": JAN_15, "p": 0.5}]}, step_s=60) == [Point(JAN_15, 0.5, 60)]


@pytest.mark.parametrize("route", ["clob", "data"])
def test_a_fraction_of_a_second_after_t0_is_after_t0(route: Any) -> None:
    """A5: flooring the instant of a point would let the second of t0 in."""
    rows = [
        {"t": at, "p": price} | {"timestamp": at, "price": price}
        for at, price in ((JAN_15 - 0.5, 0.4), (JAN_15 + 0.5, 0.9))
    ]
    points = read(route, {"history": rows, "data": rows}, step_s=60)
    found = price_at(series(*((point.at, point.price) for point in points)), T0)
    assert found is not None
    assert found.price == 0.4


@pytest.mark.parametrize("body", [None, [], {}, {"history": None}, {"history": "x"}, {"history": {}}])
def test_a_body_of_another_shape_has_no_points(body: Any) -> None:
    assert read("clob", body, step_s=60) == []
    assert read("data", body, step_s=60) == []


def test_no_is_one_minus_yes() -> None:
    yes = [Point(JAN_15 + i * HOUR, 0.3, HOUR) for i in range(5)]
    assert opposite_gap(yes, [Point(point.at + 8, 0.7, HOUR) for point in yes]) == pytest.approx(0)
    assert opposite_gap(yes, [Point(point.at, 0.9, HOUR) for point in yes]) == pytest.approx(0.2)
    assert opposite_gap(yes, []) is None
