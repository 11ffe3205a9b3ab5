"""The outcome rule, the close, the tokens: one raw row at a time (G15-G19, E12)."""

import contextlib
import json
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from hindcast_dagster.contracts.markets import MARKETS
from hindcast_dagster.markets import fields
from hindcast_dagster.markets.outcome import REASONS, judge, tokens
from hindcast_dagster.markets.parse import Malformed, parse
from hindcast_dagster.markets.topics import load_topics
from tests.toy_polymarket import JAN_15, market_row, token

TOPICS = load_topics()


def row_of(raw: Any) -> dict[str, Any]:
    return parse(raw, topics=TOPICS, fetched_at=JAN_15, raw_sha256="0" * 64)


@pytest.mark.parametrize(
    ("changes", "reason"),
    [
        (
            {"closed": False, "acceptingOrders": True, "bestBid": None},
            "not_closed",
        ),  # G19: the game is over, it is open
        ({"closed": None}, "not_closed"),
        ({"outcomes": '["Up", "Down"]'}, "not_binary"),
        ({"outcomes": '["Yes", "No", "Maybe"]'}, "not_binary"),
        ({"outcomes": '["Yes", "Yes"]'}, "not_binary"),
        ({"outcomes": "not json"}, "not_binary"),
        ({"outcomes": None}, "not_binary"),
        ({"acceptingOrders": True}, "provisional"),
        ({"umaResolutionStatus": None}, "provisional"),
        ({"umaResolutionStatus": "disputed"}, "not_resolved"),  # G18: closed and priced 0/1, but disputed
        ({"umaResolutionStatus": "proposed"}, "not_resolved"),
        ({"umaResolutionStatus": "a status of next year"}, "not_resolved"),
        ({"outcomePrices": '["0.5", "0.5"]'}, "void_50_50"),  # G17
        ({"outcomePrices": '["0.5", "0.5"]', "umaResolutionStatus": None}, "void_50_50"),  # never pending for ever
        ({"outcomePrices": '["0.9999", "0.0001"]'}, "unsettled_price"),
        ({"outcomePrices": '["1", "1"]'}, "unsettled_price"),
        ({"outcomePrices": '["NaN", "1"]'}, "unsettled_price"),
        ({"outcomePrices": None}, "unsettled_price"),
        ({"closedTime": None, "umaEndDate": None}, "no_close_time"),
        ({"closedTime": "soon", "umaEndDate": "0001-01-01T00:00:00Z"}, "no_close_time"),
    ],
)
def test_every_exclusion_has_its_reason(changes: dict[str, Any], reason: str) -> None:
    verdict = judge(market_row(1) | changes)
    assert (verdict.outcome, verdict.excluded) == (None, reason)
    assert reason in REASONS


@pytest.mark.parametrize("outcome", ["Yes", "No"])
@pytest.mark.parametrize("yes_first", [True, False])
def test_the_outcome_goes_by_label_and_never_by_position(outcome: str, yes_first: bool) -> None:
    row = row_of(market_row(1, outcome=outcome, yes_first=yes_first))
    assert row["outcome"] == outcome
    assert (row["yes_token"], row["no_token"]) == (token(1, "Yes"), token(1, "No"))


def test_no_yes_with_prices_0_1_is_yes_and_its_token_is_the_second() -> None:
    """G16: outcomes ["No","Yes"], prices ["0","1"]."""
    raw = market_row(1) | {"outcomes": '["No", "Yes"]', "outcomePrices": '["0", "1"]', "clobTokenIds": '["11", "22"]'}
    assert judge(raw).outcome == "Yes"
    assert tokens(raw) == ("22", "11")


@pytest.mark.parametrize("outcomes", [["Yes", "No"], '["YES", " no "]', ["no", "yes"]])
def test_lists_come_as_json_text_or_natively_and_in_any_case(outcomes: Any) -> None:
    raw = market_row(1) | {"outcomes": outcomes, "outcomePrices": [1, 0], "clobTokenIds": ["1", "2"]}
    assert judge(raw).outcome in {"Yes", "No"}


@pytest.mark.parametrize("ids", [None, "[]", '["1"]', '["1", "1"]', '["../x", "2"]', '["1", null]', '["٣", "4"]'])
def test_unusable_tokens_are_none_and_cost_no_market(ids: Any) -> None:
    row = row_of(market_row(1) | {"clobTokenIds": ids})
    assert (row["outcome"], row["yes_token"], row["no_token"]) == ("Yes", None, None)


def test_close_is_closed_time_then_uma_end_date_and_never_end_date() -> None:
    raw = market_row(1) | {
        "closedTime": "2024-11-06 15:17:41+00",
        "umaEndDate": "2024-11-07T00:00:00Z",
        "endDate": "2024-11-04T12:00:00Z",
    }
    assert row_of(raw)["close_at"] == 1_730_906_261
    assert row_of(raw)["early_resolved"] is False
    assert row_of(raw | {"closedTime": None})["close_at"] == 1_730_937_600
    assert row_of(raw | {"endDate": "2024-12-31T00:00:00Z"})["early_resolved"] is True


def test_the_last_trade_price_and_the_end_date_decide_nothing() -> None:
    """The Harris leg of 2024: endDate a day before the vote, lastTradePrice 1 although Yes lost."""
    raw = market_row(1, outcome="No") | {"lastTradePrice": 1, "endDate": "2024-11-04T12:00:00Z"}
    assert row_of(raw)["outcome"] == "No"


def test_open_is_start_date_else_created_at() -> None:
    raw = market_row(1)
    assert row_of(raw)["open_at"] == fields.instant(raw["startDate"])
    assert row_of(raw | {"startDate": None})["open_at"] == fields.instant(raw["createdAt"])
    assert row_of(raw | {"startDate": "", "createdAt": 5})["open_at"] is None


JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(st.characters(exclude_categories=())),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=5), inner, max_size=3),
    max_leaves=8,
)
FIELDS = [*sorted(market_row(1)), "category", "umaResolutionStatuses"]


@settings(deadline=None)
@given(raw=JSON)
def test_any_json_is_a_row_or_malformed(raw: Any) -> None:
    """A malformed row costs nothing but itself: no other exception can leave the parser."""
    with contextlib.suppress(Malformed):
        MARKETS.frame([row_of(raw)])


@settings(deadline=None)
@given(changes=st.dictionaries(st.sampled_from(FIELDS), JSON, max_size=6))
def test_any_value_in_any_field_gives_a_row_that_keeps_the_contract(changes: dict[str, Any]) -> None:
    try:
        row = row_of(market_row(1) | changes)
    except Malformed:
        return
    MARKETS.frame([row])
    assert (row["outcome"] is None) == (row["excluded"] is not None)
    assert row["close_at"] is not None or row["excluded"] is not None


@settings(deadline=None)
@given(prices=st.lists(st.sampled_from(["0", "1", "0.5", "0.999", "", "nan", 0, 1, None]), max_size=3))
def test_only_settled_prices_give_an_outcome(prices: list[Any]) -> None:
    verdict = judge(market_row(1) | {"outcomePrices": json.dumps(prices)})
    assert (verdict.outcome is not None) == (sorted(map(str, prices)) == ["0", "1"])


def test_the_raw_samples_parse_to_what_their_own_fields_justify(shared: Path) -> None:
    found = {}
    for path in sorted((shared / "data/polymarket/raw").glob("*.json")):
        loaded = json.loads(path.read_bytes())
        top = loaded if isinstance(loaded, list) else [loaded]
        rows = [
            market
            for each in top
            for market in (each.get("markets") if isinstance(each.get("markets"), list) else [each])
        ]
        for raw in rows:
            if "conditionId" in raw:
                row = row_of(raw)
                found[row["gamma_id"]] = (row["outcome"], row["excluded"])
    assert found["1460332"] == ("No", None)  # Katana FDV above $1B: closed, resolved, 0/1
    assert found["768239"] == ("Yes", None)  # Chelsea against Everton, an EPL leg of a negRisk event
    assert found["1878156"] == found["1878152"] == (None, "not_binary")  # FaZe / illwill
    assert found["3047949"] == (None, "not_binary")  # Up / Down
    assert found["1669969"] == found["1557558"] == (None, "not_closed")
    assert found["559657"] == (None, "not_closed")
    assert len(found) > 20
    assert {outcome for outcome, _ in found.values()} == {None, "Yes", "No"}


def test_the_transcribed_samples_parse_to_their_outcomes(shared: Path) -> None:
    samples = json.loads((shared / "data/polymarket/transcribed_samples.json").read_bytes())
    rows = {raw["id"]: row_of(raw) for raw in samples["gamma_2024_election"]["markets"]}
    assert (rows["253591"]["outcome"], rows["253597"]["outcome"]) == ("Yes", "No")
    assert rows["253591"]["close_at"] == 1_730_906_261
    assert rows["253591"]["neg_risk"] is True
    assert rows["253591"]["event_id"] == "903193"
