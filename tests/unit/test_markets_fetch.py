"""`markets fetch` against a toy Polymarket with the real one's habits: complete, polite, restartable, idempotent."""

import json
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from hindcast_dagster.clock import DAY, HOUR, month_of
from hindcast_dagster.contracts.markets import MARKETS, PRICES, SERIES
from hindcast_dagster.errors import NotReady, Unreachable, UsageError
from hindcast_dagster.markets import http, rows
from hindcast_dagster.markets.build import build as build_month
from hindcast_dagster.markets.collect import Series
from hindcast_dagster.markets.fetch import fetch
from hindcast_dagster.markets.prices import SERIES_FILE
from hindcast_dagster.markets.prices import build as build_prices
from hindcast_dagster.markets.read import all_markets, month_prices
from hindcast_dagster.storage.store import Store
from hindcast_dagster.storage.tables import read_table
from tests.toy_polymarket import JAN_15, ToyPolymarket, condition, daily, market_row, serving, token

FEB_10 = JAN_15 + 26 * DAY


@pytest.fixture
def toy() -> Iterator[ToyPolymarket]:
    with serving(ToyPolymarket()) as served:
        yield served


def add_many(toy: ToyPolymarket, count: int, **options: Any) -> None:
    for number in range(1, count + 1):
        toy.add(number, outcome="Yes" if number % 3 == 0 else "No", yes_first=number % 2 == 0, **options)


def pages_asked(toy: ToyPolymarket) -> int:
    return sum(count for path, count in toy.asked.items() if path.startswith("/markets"))


def series_of(store: Store, month: str = "2026-01") -> dict[str, dict[str, Any]]:
    sealed = store.partition("market_prices", month).require()
    return {row["market_id"]: row for row in read_table(sealed, SERIES, name=SERIES_FILE).iter_rows(named=True)}


@pytest.mark.parametrize("cap", [1, 3, 4, 5, 100])
def test_every_closed_market_is_fetched_whatever_the_page_cap(toy: ToyPolymarket, store: Store, cap: int) -> None:
    add_many(toy, 5)
    toy.page_cap = cap
    report = fetch(store, toy.settings(store.root))
    assert (report.fetched, report.parsed, report.kept, report.excluded) == (5, 5, 5, {})
    assert all_markets(store)["market_id"].to_list() == [condition(n) for n in range(1, 6)]
    assert all_markets(store)["outcome"].to_list() == ["No", "No", "Yes", "No", "No"]
    assert toy.repeated() == {}
    assert len(toy.agents) == 1
    assert "hindcast" in toy.agents.pop()


def test_closed_is_always_sent(toy: ToyPolymarket, store: Store) -> None:
    """G15: without closed=true a look-up of a resolved market is empty."""
    add_many(toy, 2)
    fetch(store, toy.settings(store.root))
    assert all("closed=true" in path for path in toy.asked if path.startswith("/markets"))


def test_raw_bytes_are_kept_and_the_month_is_rebuilt_from_them_without_the_network(
    toy: ToyPolymarket, store: Store
) -> None:
    odd = toy.add(
        1, description="Ein „Zitat“, \u2028 and 1.50 dollars", volume="7.10", an_unknown_field={"a": [1, None]}
    )
    settings = toy.settings(store.root)
    before = fetch(store, settings)
    record = next(iter(rows.log(store, "2026-01").records()))
    assert json.loads(record["raw"]) == odd
    assert record["fetched_at"] > JAN_15
    first = store.partition("markets", "2026-01").require().manifest
    for path in (store.root / "tables" / "markets" / "2026-01").iterdir():
        path.rename(store.root / path.name)
    dead = toy.settings(store.root, gamma_url="http://127.0.0.1:9", clob_url="http://127.0.0.1:9", wait_budget_s=0.5)
    again = build_month(store, dead, month="2026-01")
    assert again.without_time() == first.without_time()
    assert before.kept == 1


def test_a_second_fetch_changes_no_byte(toy: ToyPolymarket, store: Store) -> None:
    add_many(toy, 3)
    settings = toy.settings(store.root)
    fetch(store, settings)
    before = {
        path: path.read_bytes() for path in store.root.rglob("*") if path.is_file() and path.name != "last-walk.json"
    }
    report = fetch(store, settings)
    assert report.new_versions == 0
    after = {
        path: path.read_bytes() for path in store.root.rglob("*") if path.is_file() and path.name != "last-walk.json"
    }
    assert after == before
    assert set(toy.repeated()) == {path for path in toy.asked if path.startswith("/markets")}


def test_a_revision_is_a_new_version_of_the_row(toy: ToyPolymarket, store: Store) -> None:
    add_many(toy, 2)
    settings = toy.settings(store.root)
    fetch(store, settings)
    old = store.partition("markets", "2026-01").require()
    toy.rows[0] = market_row(1, outcome="Yes")  # it was No
    assert fetch(store, settings).new_versions == 1
    assert all_markets(store)["outcome"].to_list() == ["Yes", "No"]
    assert read_table(old, MARKETS)["outcome"].to_list() == ["No", "No"]
    assert len(list(rows.log(store, "2026-01").records())) == 3


def test_a_market_whose_close_moves_to_another_month_moves_with_it(toy: ToyPolymarket, store: Store) -> None:
    add_many(toy, 2)
    settings = toy.settings(store.root)
    fetch(store, settings)
    toy.rows[0] = market_row(1, outcome="No", close=FEB_10, opened=JAN_15 - 20 * DAY)
    fetch(store, settings)
    assert {month_of(row["close_at"]) for row in all_markets(store).iter_rows(named=True)} == {"2026-01", "2026-02"}
    assert all_markets(store)["market_id"].to_list() == [condition(1), condition(2)]
    toy.rows[0] = market_row(1, outcome="No")
    fetch(store, settings)
    assert all_markets(store).height == 2
    assert month_of(all_markets(store)["close_at"][0]) == "2026-01"


def test_rows_that_the_next_page_repeats_are_counted_once(toy: ToyPolymarket, store: Store) -> None:
    add_many(toy, 4)
    toy.rows.insert(2, toy.rows[1])
    toy.page_cap = 2
    report = fetch(store, toy.settings(store.root))
    assert (report.fetched, report.parsed, report.duplicates) == (4, 4, 1)


def test_a_malformed_row_is_kept_counted_and_costs_no_other_row(toy: ToyPolymarket, store: Store) -> None:
    add_many(toy, 2)
    toy.rows[1:1] = [
        {"id": "7", "question": "no condition id"},
        5,
        None,
        market_row(9, question=None),
        {"conditionId": "0xzz"},
    ]
    report = fetch(store, toy.settings(store.root))
    assert report.kept == 2
    assert report.excluded == {"malformed": 5}
    kept = [json.loads(record["raw"]) for record in rows.log(store, rows.MALFORMED).records()]
    assert kept == [{"id": "7", "question": "no condition id"}, 5, None, {"conditionId": "0xzz"}]
    assert fetch(store, toy.settings(store.root)).excluded == {"malformed": 5}


def test_exclusions_are_counted_by_reason(toy: ToyPolymarket, store: Store) -> None:
    add_many(toy, 2)
    toy.add(3, outcomePrices='["0.5", "0.5"]')
    toy.add(4, outcomes='["Up", "Down"]')
    toy.add(5, closedTime=None, umaEndDate=None)
    report = fetch(store, toy.settings(store.root))
    assert report.excluded == {"no_close_time": 1, "not_binary": 1, "void_50_50": 1}
    assert (report.fetched, report.parsed, report.kept) == (5, 4, 2)


def test_a_market_that_is_open_after_all_is_not_in_the_pool(toy: ToyPolymarket, store: Store) -> None:
    """G19: the game is over, closed=false, orders accepted, no bid; it belongs to no close month."""
    add_many(toy, 1)
    toy.add(2, closed=False, acceptingOrders=True, closedTime=None, umaEndDate=None, umaResolutionStatus=None)
    report = fetch(store, toy.settings(store.root))
    assert (report.kept, report.excluded) == (1, {"not_closed": 1})
    assert all_markets(store)["market_id"].to_list() == [condition(1)]


def test_the_manual_exclusion_list_is_honoured(toy: ToyPolymarket, store: Store, tmp_path: Path) -> None:
    add_many(toy, 2)
    path = tmp_path / "exclude.csv"
    path.write_text(f"# by hand\n\n{condition(2)}, resolved against its own rules\n")
    report = fetch(store, toy.settings(store.root, exclusions_file=path))
    assert report.excluded == {"manual: resolved against its own rules": 1}
    assert all_markets(store)["outcome"].to_list() == ["No", None]
    path.write_text(f"{condition(2)}\n")
    with pytest.raises(UsageError, match="line 1"):
        fetch(store, toy.settings(store.root, exclusions_file=path))


def test_a_page_with_a_lone_surrogate_is_read(toy: ToyPolymarket, store: Store) -> None:
    toy.add(1, description="half a pair: \ud83d.")
    assert fetch(store, toy.settings(store.root)).kept == 1
    assert all_markets(store)["rules"].to_list() == ["half a pair: ?."]


# -- windows of months


def test_only_months_of_the_window_are_sealed(toy: ToyPolymarket, store: Store) -> None:
    toy.add(1)
    toy.add(2, close=FEB_10)
    report = fetch(store, toy.settings(store.root), closed_from="2026-02-01", closed_to="2026-02-28")
    assert report.months == ("2026-02",)
    assert (report.fetched, report.parsed) == (2, 1)
    assert store.sealed_keys("markets") == store.sealed_keys("market_prices") == [("2026-02",)]
    assert not [path for path in toy.asked if token(1, "Yes") in path]
    with pytest.raises(UsageError, match="ends"):
        fetch(store, toy.settings(store.root), closed_from="2026-02-01", closed_to="2026-01-01")


def test_without_refresh_nothing_is_listed_again(toy: ToyPolymarket, store: Store) -> None:
    add_many(toy, 2)
    settings = toy.settings(store.root)
    fetch(store, settings, prices=False)
    assert store.sealed_keys("market_prices") == []
    asked = pages_asked(toy)
    report = fetch(store, settings, refresh=False)
    assert pages_asked(toy) == asked
    assert report.kept == 2
    assert fetch(store, settings, max_age_s=3600).kept == 2
    assert pages_asked(toy) == asked


# -- faults


def every(
    spec: dict[int, tuple[int, str, dict[str, str]]],
) -> Callable[[int, str], tuple[int, str, dict[str, str]] | None]:
    return lambda number, path: next((answer for n, answer in spec.items() if number % n == 0), None)


def test_faults_change_nothing_but_the_time(toy: ToyPolymarket, store: Store) -> None:
    add_many(toy, 4)
    toy.page_cap = 2
    toy.fault = every(
        {
            5: (429, "<html>Too Many Requests</html>", {"Retry-After": "0"}),
            7: (500, '{"error": "internal"}', {}),
            11: (200, "<html>maintenance</html>", {}),
            13: (0, "", {}),
            17: (200, '{"error": "try later"}', {}),
        }
    )
    report = fetch(store, toy.settings(store.root))
    assert (report.kept, report.series["points"]) == (4, 4 * 20)


@pytest.mark.parametrize(
    "answer",
    [
        (200, "<html>maintenance</html>", {}),
        (200, '{"error": "x"}', {}),
        (200, "[]", {}),
        (200, '{"markets": [{"a": 1}', {}),
        (503, "", {}),
        (429, "", {"Retry-After": "1"}),
        (0, "", {}),
    ],
)
def test_a_spent_wait_budget_is_a_clear_error_within_its_time(
    toy: ToyPolymarket, store: Store, answer: tuple[int, str, dict[str, str]]
) -> None:
    toy.fault = lambda number, path: answer
    began = time.monotonic()
    with pytest.raises(Unreachable, match=r"markets/keyset gave no usable answer within 1 s .* run the command again"):
        fetch(store, toy.settings(store.root, wait_budget_s=1.0))
    assert time.monotonic() - began < 4


def test_a_retry_after_beyond_the_budget_is_not_slept(toy: ToyPolymarket, store: Store) -> None:
    toy.fault = lambda number, path: (429, "", {"Retry-After": "3600"})
    began = time.monotonic()
    with pytest.raises(Unreachable, match="429"):
        fetch(store, toy.settings(store.root, wait_budget_s=2.0))
    assert time.monotonic() - began < 2
    assert toy.asked.total() == 1


def test_retry_after_is_respected(toy: ToyPolymarket, store: Store) -> None:
    toy.add(1)
    toy.fault = lambda number, path: (429, "", {"Retry-After": "1"}) if number == 1 else None
    began = time.monotonic()
    fetch(store, toy.settings(store.root), prices=False)
    assert time.monotonic() - began >= 1
    assert pages_asked(toy) == 2


def test_an_empty_page_in_the_middle_is_asked_for_again(toy: ToyPolymarket, store: Store) -> None:
    add_many(toy, 4)
    toy.page_cap = 2
    toy.fault = lambda number, path: (200, '{"markets": [], "next_cursor": "2"}', {}) if number == 1 else None
    assert fetch(store, toy.settings(store.root), prices=False).kept == 4


def test_an_empty_listing_is_believed_when_it_is_given_twice(toy: ToyPolymarket, store: Store) -> None:
    report = fetch(store, toy.settings(store.root))
    assert (report.fetched, report.months) == (0, ())
    assert pages_asked(toy) == 2


def test_a_repeated_cursor_is_an_error_and_not_a_walk_for_ever(toy: ToyPolymarket, store: Store) -> None:
    add_many(toy, 2)
    body = json.dumps({"markets": toy.rows, "next_cursor": "A"})
    toy.fault = lambda number, path: (200, body, {}) if "keyset" in path else None
    with pytest.raises(Unreachable, match="cursor 'A' again"):
        fetch(store, toy.settings(store.root, wait_budget_s=0.5))


# -- interrupted runs


def test_a_walk_that_was_cut_off_goes_on_where_it_stopped(toy: ToyPolymarket, store: Store) -> None:
    add_many(toy, 6)
    toy.page_cap = 2
    toy.fault = lambda number, path: (503, "", {}) if "after_cursor=4" in path else None
    with pytest.raises(Unreachable):
        fetch(store, toy.settings(store.root, wait_budget_s=0.3))
    toy.fault = lambda number, path: None
    toy.asked.clear()
    assert fetch(store, toy.settings(store.root)).kept == 6
    assert [path for path in toy.asked if path.startswith("/markets")] == [
        "/markets/keyset?closed=true&limit=100&include_tag=true&after_cursor=4"
    ]


def test_prices_that_were_cut_off_go_on_where_they_stopped(toy: ToyPolymarket, store: Store) -> None:
    add_many(toy, 6)
    toy.fault = lambda number, path: (503, "", {}) if token(5, "Yes") in path else None
    with pytest.raises(Unreachable, match="prices-history"):
        fetch(store, toy.settings(store.root, wait_budget_s=0.3, workers=1))
    toy.fault = lambda number, path: None
    done = {path for path in toy.asked if token(5, "Yes") not in path}
    assert len(done) > 8
    assert fetch(store, toy.settings(store.root)).kept == 6
    assert [path for path in done if toy.asked[path] > 1] == []


def test_one_lost_series_ends_the_others_at_once(toy: ToyPolymarket, store: Store) -> None:
    """The first token is refused for good by the wait budget; the others must not spend theirs too."""
    add_many(toy, 6)
    slow = {token(number, "Yes") for number in range(2, 7)}
    toy.fault = lambda number, path: (
        (429, "", {"Retry-After": "3"}) if any(name in path for name in slow)
        else (429, "", {"Retry-After": "99"}) if token(1, "Yes") in path else None
    )  # fmt: skip
    began = time.monotonic()
    with pytest.raises(Unreachable):
        fetch(store, toy.settings(store.root, wait_budget_s=60.0))
    assert time.monotonic() - began < 20


def test_a_walk_of_another_server_is_not_continued(toy: ToyPolymarket, store: Store) -> None:
    add_many(toy, 3)
    toy.page_cap = 1
    toy.fault = lambda number, path: (503, "", {}) if "after_cursor=1" in path else None
    with pytest.raises(Unreachable):
        fetch(store, toy.settings(store.root, wait_budget_s=0.3))
    with serving(ToyPolymarket()) as other:
        other.add(40)
        assert fetch(store, other.settings(store.root)).fetched == 1


def test_two_fetches_at_once_are_refused(toy: ToyPolymarket, store: Store) -> None:
    add_many(toy, 1)
    settings = toy.settings(store.root)
    caught: list[Exception] = []

    def fault(number: int, path: str) -> None:
        if number == 1:
            try:
                fetch(store, settings)
            except Exception as error:  # noqa: BLE001 - handed to the test
                caught.append(error)

    toy.fault = fault
    fetch(store, settings)
    assert isinstance(caught[0], NotReady)
    assert "Another" in str(caught[0])


# -- prices


def test_windows_are_joined_and_the_boundary_point_is_there_once(toy: ToyPolymarket, store: Store) -> None:
    """G20: 40 days at hourly steps are three windows, none wider than 15 days."""
    opened = JAN_15 - 40 * DAY
    points = [(at, 0.4) for at in range(opened, JAN_15, HOUR)]
    toy.add(1, points, opened=opened)
    fetch(store, toy.settings(store.root))
    prices = month_prices(store, "2026-01")
    assert prices["at"].to_list() == [at for at, _ in points]
    assert series_of(store)[condition(1)]["windows"] == 3
    asked = [path for path in toy.asked if path.startswith("/prices-history") and token(1, "Yes") in path]
    assert len(asked) == 3


def test_an_empty_history_is_counted_and_the_run_goes_on(toy: ToyPolymarket, store: Store) -> None:
    """G14: always-empty price history."""
    toy.add(1, [])
    toy.add(2)
    report = fetch(store, toy.settings(store.root))
    assert report.series["no_price_history"] == 1
    row = series_of(store)[condition(1)]
    assert (row["status"], row["points"], row["route"]) == ("no_price_history", 0, None)
    assert len(row["empty_windows"]) == row["windows"] == 2


def test_an_empty_cached_history_is_fetched_again_and_never_trusted(toy: ToyPolymarket, store: Store) -> None:
    """G21: the next fetch asks again, and finds what is there by then."""
    toy.add(1, [])
    settings = toy.settings(store.root)
    fetch(store, settings)
    toy.series[token(1, "Yes")] = daily(JAN_15)
    time.sleep(1.1)  # the sessions must not begin in the same second
    assert fetch(store, settings).series["points"] == 20
    asked = toy.asked.total()
    fetch(store, settings)
    assert toy.asked.total() == asked + pages_asked(toy) // 3


def test_a_dead_series_costs_few_requests_a_session(toy: ToyPolymarket, store: Store) -> None:
    toy.add(1, [], opened=JAN_15 - 300 * DAY)
    settings = toy.settings(store.root)
    fetch(store, settings)
    first = toy.asked.total()
    time.sleep(1.1)
    assert fetch(store, settings).series["no_price_history"] == 1
    assert toy.asked.total() - first <= 1 + 3
    assert first > 40


def test_an_empty_answer_is_asked_once_more_on_the_other_route(toy: ToyPolymarket, store: Store) -> None:
    toy.add(1)
    toy.data_series = dict(toy.series)
    toy.series = {}
    fetch(store, toy.settings(store.root))
    row = series_of(store)[condition(1)]
    assert (row["status"], row["route"], row["step_s"], row["points"]) == ("ok", "data", DAY, 20)
    assert all(price == 0.6 for price in month_prices(store, "2026-01")["price"])


def test_a_window_that_both_routes_answer_empty_is_held_against_the_last_point(
    toy: ToyPolymarket, store: Store
) -> None:
    """Every first answer of a window is empty; the point inside it contradicts that, and it is asked again."""
    toy.add(1)
    seen: set[str] = set()

    def fault(number: int, path: str) -> tuple[int, str, dict[str, str]] | None:
        if "prices-history" in path and "as_of" not in path and path not in seen:
            seen.add(path)
            return 200, '{"history": [], "data": []}', {}
        return None

    toy.fault = fault
    assert fetch(store, toy.settings(store.root)).series["points"] == 20
    assert series_of(store)[condition(1)]["empty_windows"] == []


def test_a_gap_in_a_series_is_told_and_asked_for_once(toy: ToyPolymarket, store: Store) -> None:
    """Thirty days without a trade: the windows inside are empty on both routes, and the point before them proves it."""
    opened = JAN_15 - 60 * DAY
    toy.add(1, [(opened, 0.2), (JAN_15 - DAY, 0.9)], opened=opened)
    settings = toy.settings(store.root)
    fetch(store, settings)
    row = series_of(store)[condition(1)]
    assert (row["status"], row["points"], row["windows"], len(row["empty_windows"])) == ("ok", 2, 5, 3)
    fetch(store, settings)
    assert all(path.startswith("/markets") for path in toy.repeated())


def test_the_settlement_point_never_becomes_a_price(toy: ToyPolymarket, store: Store) -> None:
    """It lies at the resolution; a close that was recorded later must not let it in."""
    toy.add(1, outcome="Yes")
    toy.settled[token(1, "Yes")] = (JAN_15 - HOUR, 1.0)
    fetch(store, toy.settings(store.root, price_route="data"))
    assert month_prices(store, "2026-01")["price"].max() == 0.6
    assert series_of(store)[condition(1)]["route"] == "data"


def test_the_route_that_is_asked_first_is_a_setting(toy: ToyPolymarket, store: Store) -> None:
    toy.add(1)
    fetch(store, toy.settings(store.root, price_route="data"))
    assert not [path for path in toy.asked if path.startswith("/prices-history")]


def test_a_refused_token_costs_only_its_own_series(toy: ToyPolymarket, store: Store) -> None:
    toy.add(1)
    toy.add(2)
    toy.fault = lambda number, path: (404, "{}", {}) if token(1, "Yes") in path else None
    report = fetch(store, toy.settings(store.root))
    assert (report.series["series"], report.series["no_price_history"]) == (2, 1)
    assert store.partition("market_prices", "2026-01").require().manifest.stats["rejected"] > 0


def test_a_market_without_tokens_has_no_series(toy: ToyPolymarket, store: Store) -> None:
    toy.add(1, clobTokenIds="[]")
    assert fetch(store, toy.settings(store.root)).series == {
        "series": 1,
        "points": 0,
        "no_price_history": 0,
        "no_token": 1,
    }


def test_no_is_compared_with_one_minus_yes(toy: ToyPolymarket, store: Store) -> None:
    toy.add(1)
    fetch(store, toy.settings(store.root))
    check = store.partition("market_prices", "2026-01").require().manifest.checks[0]
    assert (check.name, check.passed) == ("no_is_one_minus_yes", True)
    assert "1 of 1 sampled series compared" in check.detail


def test_a_no_side_that_does_not_fit_is_told(toy: ToyPolymarket, store: Store) -> None:
    toy.add(1)
    toy.series[token(1, "No")] = [(at, 0.9) for at, _ in toy.series[token(1, "No")]]
    fetch(store, toy.settings(store.root))
    assert store.partition("market_prices", "2026-01").require().manifest.checks[0].passed is False


def test_prices_keep_their_contract_and_their_order(toy: ToyPolymarket, store: Store) -> None:
    add_many(toy, 3)
    toy.series = {name: list(reversed(points)) for name, points in toy.series.items()}
    fetch(store, toy.settings(store.root))
    prices = month_prices(store, "2026-01")
    PRICES.check(prices)
    assert prices.height == 60
    assert set(prices["route"]) == {"clob"}
    assert set(prices["step_s"]) == {3600}


def test_prices_need_the_month_of_markets(store: Store, toy: ToyPolymarket) -> None:
    with pytest.raises(NotReady, match="markets 2026-01 is not sealed"):
        build_prices(store, toy.settings(store.root), month="2026-01")
    with pytest.raises(NotReady, match="No raw markets of 2026-01"):
        build_month(store, toy.settings(store.root), month="2026-01")


def test_a_month_without_markets_is_empty_once_the_listing_was_walked(toy: ToyPolymarket, store: Store) -> None:
    toy.add(1)
    settings = toy.settings(store.root)
    fetch(store, settings)
    assert build_month(store, settings, month="2025-06").rows == 0
    assert build_prices(store, settings, month="2025-06").rows == 0
    assert all_markets(store).height == 1
    toy.add(2, close=JAN_15 - 220 * DAY)
    fetch(store, settings)
    assert build_month(store, settings, month="2025-06").rows == 1


def test_a_base_url_that_is_none_is_refused_at_once(store: Store, toy: ToyPolymarket) -> None:
    with pytest.raises(UsageError, match="gamma API"):
        fetch(store, toy.settings(store.root, gamma_url="ftp://x"))


def test_series_are_plain_tuples() -> None:
    """They cross threads: nothing in them can be changed."""
    assert issubclass(Series, tuple)


def test_requests_keep_to_their_pace(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(http, "RATE_WINDOW_S", 0.3)
    pace = http._Pace(3)
    began = time.monotonic()
    for _ in range(7):
        pace.wait()
    assert time.monotonic() - began >= 0.6


def test_a_data_answer_in_pages_is_read_to_its_end(toy: ToyPolymarket, store: Store) -> None:
    toy.add(1)
    at = JAN_15 - 3 * DAY

    def fault(number: int, path: str) -> tuple[int, str, dict[str, str]] | None:
        if not path.startswith("/v2") or f"end={JAN_15}" not in path:
            return None
        second = "cursor=next" in path
        data = [{"timestamp": at + second * DAY, "price": 0.25, "resolution_seconds": 60}]
        paging = {"has_more": not second, "next_cursor": None if second else "next"}
        return 200, json.dumps({"data": data, "pagination": paging}), {}

    toy.fault = fault
    fetch(store, toy.settings(store.root, price_route="data"))
    assert month_prices(store, "2026-01").filter(price=0.25)["at"].to_list() == [at, at + DAY]
