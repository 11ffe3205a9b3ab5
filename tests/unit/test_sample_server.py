"""The server of the sample world has the habits of the APIs that it plays."""

import json
from collections.abc import Iterator
from typing import Any

import httpx
import pytest

from hindcast_dagster.clock import DAY
from hindcast_dagster.sample.reach import reachable
from hindcast_dagster.sample.server import serve
from hindcast_dagster.sample.world import World, generate
from hindcast_dagster.settings import load


@pytest.fixture(scope="module")
def world() -> World:
    return generate(months=18, first_month="2024-01")


@pytest.fixture(scope="module")
def api(world: World) -> Iterator[httpx.Client]:
    with serve(world) as base_url, httpx.Client(base_url=base_url, trust_env=False) as client:
        yield client


def _get(api: httpx.Client, path: str, **query: Any) -> Any:
    answer = api.get(path, params=query)
    assert answer.status_code == 200, answer.text
    return answer.json()


def _walk(api: httpx.Client, **query: Any) -> list[dict[str, Any]]:
    rows, cursor = [], None
    while True:
        page = _get(api, "/markets/keyset", limit=500, **query, **({"after_cursor": cursor} if cursor else {}))
        assert len(page["markets"]) <= 100
        rows += page["markets"]
        cursor = page.get("next_cursor")
        if cursor is None:
            return rows


def test_the_listing_pages_by_cursor_and_hides_closed_markets(world: World, api: httpx.Client) -> None:
    closed, still_open = _walk(api, closed="true"), _walk(api)
    assert len(closed) == sum(market.status != "open" for market in world.markets) > 100
    assert len(still_open) == sum(market.status == "open" for market in world.markets) == 2
    ids = [int(row["id"]) for row in closed]
    assert ids == sorted(set(ids))
    times = [row.get("closedTime", "") for row in closed]
    assert times != sorted(times)
    first = _get(api, "/markets/keyset", limit=100, closed="true")
    assert _get(api, "/markets/keyset", limit=100, closed="true", cursor=first["next_cursor"]) == first
    assert api.get("/markets/keyset", params={"offset": 0}).status_code == 422
    assert api.get("/markets/keyset", params={"limit": "many"}).status_code == 400


def test_rows_have_the_spellings_of_the_real_listing(world: World, api: httpx.Client) -> None:
    rows = {row["conditionId"]: row for row in _walk(api, closed="true")}
    swapped = addenda = 0
    for market in world.markets:
        if market.status == "open":
            continue
        row = rows[market.market_id]
        labels, prices, tokens = (json.loads(row[name]) for name in ("outcomes", "outcomePrices", "clobTokenIds"))
        assert len(labels) == len(prices) == len(tokens)
        assert isinstance(row["volume"], str)
        if market.status == "resolved":
            swapped += labels == ["No", "Yes"]
            assert prices[labels.index(market.outcome)] == "1"
            assert tokens[labels.index("Yes")] == market.yes_token
            addenda += bool(market.addendum)
            assert row["description"] == market.rules + market.addendum
            assert market.outcome not in market.rules.replace('"Yes"', "").replace('"No"', "").split()
    assert swapped > 5
    assert addenda > 20
    by_status = {market.status: rows[market.market_id] for market in world.markets if market.status != "open"}
    assert by_status["void_50_50"]["outcomePrices"] == '["0.5", "0.5"]'
    assert by_status["disputed"]["umaResolutionStatus"] == "disputed"
    assert by_status["provisional"]["acceptingOrders"] is True
    assert not {"closedTime", "umaEndDate"} & set(by_status["no_close_time"])
    assert any("closedTime" not in row and "umaEndDate" in row for row in rows.values())
    leg = rows[next(market.market_id for market in world.markets if market.leg)]
    assert leg["negRisk"] is True
    assert leg["events"][0]["id"]
    series = rows[next(market.market_id for market in world.markets if market.series)]
    assert series["events"][0]["series"][0]["recurrence"] == "monthly"


def test_the_clob_answers_windows_and_is_silent_about_the_rest(world: World, api: httpx.Client) -> None:
    market = next(found for found in world.markets if found.habit == "normal" and len(found.prices) > 300)
    token, end = market.yes_token, market.close_at
    assert _get(api, "/prices-history", market=token, interval="max", fidelity=60)["history"] == []
    coarse = _get(api, "/prices-history", market=token, interval="max", fidelity=720)["history"]
    assert 0 < len(coarse) < len(market.prices) / 3
    window = _get(api, "/prices-history", market=token, startTs=end - 15 * DAY, endTs=end, fidelity=60)["history"]
    assert [(point["t"], point["p"]) for point in window] == [p for p in market.prices if p[0] >= end - 15 * DAY]
    wide = api.get("/prices-history", params={"market": token, "startTs": end - 16 * DAY, "endTs": end})
    assert wide.status_code == 400
    assert "too long" in wide.json()["error"]
    assert _get(api, "/prices-history", market="1", interval="max", fidelity=720) == {"history": []}
    no_side = _get(api, "/prices-history", market=market.no_token, interval="max", fidelity=720)["history"]
    assert no_side[5]["p"] == pytest.approx(1 - coarse[5]["p"])


def test_the_data_series_ends_with_the_settlement(world: World, api: httpx.Client) -> None:
    for market in world.markets:
        if market.status == "resolved" and market.habit != "none":
            last = _get(api, "/v2/prices-history", token_id=market.yes_token)["data"][-1]
            assert last == {
                "timestamp": market.close_at, "price": float(market.outcome == "Yes"), "resolution_seconds": 0
            }  # fmt: skip
    market = next(found for found in world.markets if found.habit == "clob_empty")
    assert _get(api, "/prices-history", market=market.yes_token, interval="max", fidelity=720) == {"history": []}
    as_of = _get(api, "/v2/prices-history", token_id=market.yes_token, as_of=market.t0)["data"]
    assert [(as_of[0]["timestamp"], as_of[0]["price"])] == [[p for p in market.prices if p[0] <= market.t0][-1]]


def test_some_histories_are_stale_or_missing(world: World, api: httpx.Client) -> None:
    stale = [market for market in world.markets if market.habit == "stale"]
    missing = [market for market in world.markets if market.habit == "none"]
    assert stale
    assert missing
    ages = [market.t0 - max((at for at, _ in market.prices if at < market.t0), default=0) for market in stale]
    assert min(ages) > 8 * DAY
    for market in missing:
        assert _get(api, "/v2/prices-history", token_id=market.yes_token)["data"] == []


def test_settings_that_name_the_sample_reach_its_markets_and_others_stay_as_they_are() -> None:
    plain = load()
    with reachable(plain) as found:
        assert found is plain
    with reachable(load(polymarket={"source": "sample"}, sample={"months": 2, "seed": 4})) as found:
        urls = {found.polymarket.gamma_url, found.polymarket.clob_url, found.polymarket.data_url}
        with httpx.Client(base_url=urls.pop(), trust_env=False) as client:
            listed = {row["conditionId"] for row in _walk(client, closed="true")}
    assert not urls
    assert listed == {key for key, golden in generate(months=2, seed=4).golden.items() if golden.status != "open"}


def test_an_unknown_path_is_404(api: httpx.Client) -> None:
    assert api.get("/nothing").status_code == 404
