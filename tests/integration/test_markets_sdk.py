"""A second opinion: the official SDK (polymarket-client) and our parser read the same raw rows.

The SDK is not in the data path (docs/markets.md says why); here it stands as an independent reading of the API. Its
`outcomes.yes` is the first outcome whatever its label, so sides are matched by label.
"""

import json
from datetime import datetime
from pathlib import Path
from typing import Any

import pytest

from hindcast_dagster.markets import fields
from hindcast_dagster.markets.history import read
from hindcast_dagster.markets.parse import parse
from hindcast_dagster.markets.topics import load_topics
from tests.toy_polymarket import JAN_15, market_row

pytestmark = pytest.mark.slow


def agree(raw: dict[str, Any]) -> None:
    """Fail unless both read the same market out of a row."""
    from polymarket.models.gamma.market import Market

    theirs = Market.parse_response(raw)
    ours = parse(raw, topics=load_topics(), fetched_at=JAN_15, raw_sha256="")
    sides = {side.label.lower(): side for side in (theirs.outcomes.yes, theirs.outcomes.no)}
    assert (ours["market_id"], ours["gamma_id"], ours["slug"]) == (theirs.condition_id, str(theirs.id), theirs.slug)
    assert ours["question"] == (theirs.question or "").strip()
    assert fields.flag(raw.get("closed")) == theirs.state.closed
    if set(sides) != {"yes", "no"}:
        assert (ours["outcome"], ours["yes_token"]) == (None, None)
    else:
        assert (ours["yes_token"], ours["no_token"]) == (sides["yes"].token_id, sides["no"].token_id)
    if ours["outcome"]:
        assert {label: float(side.price or 0) for label, side in sides.items()} == {
            "yes": float(ours["outcome"] == "Yes"),
            "no": float(ours["outcome"] == "No"),
        }
    for mine, their in (
        ("close_at", theirs.state.closed_time),
        ("open_at", theirs.state.start_date),
        ("planned_close", theirs.state.end_date),
    ):
        if isinstance(their, datetime):
            assert ours[mine] == int(their.timestamp()), mine


@pytest.mark.parametrize("outcome", ["Yes", "No"])
@pytest.mark.parametrize("yes_first", [True, False])
def test_both_read_a_resolved_market_alike(outcome: str, yes_first: bool) -> None:
    agree(market_row(1, outcome=outcome, yes_first=yes_first))


def test_the_sdk_loses_a_row_that_we_keep() -> None:
    """One unknown status, or a market without two outcomes: the reason why it is not in the data path."""
    from polymarket.errors import UnexpectedResponseError
    from polymarket.models.gamma.market import Market

    odd = market_row(1, umaResolutionStatus="a status of next year")
    with pytest.raises(UnexpectedResponseError):
        Market.parse_response(odd)
    assert parse(odd, topics=load_topics(), fetched_at=JAN_15, raw_sha256="")["excluded"] == "not_resolved"


def test_both_read_data_prices_alike() -> None:
    from polymarket.models import PriceHistoryPoint

    rows = [{"timestamp": JAN_15 + i * 43_200, "price": 0.1 * i, "resolution_seconds": 43_200} for i in range(9)]
    theirs = [
        (int(p.timestamp.timestamp()), float(p.price), p.resolution_seconds)
        for p in PriceHistoryPoint.parse_response_list(rows)
    ]
    assert [tuple(point) for point in read("data", {"data": rows}, step_s=60)] == theirs


@pytest.mark.shared
def test_both_read_the_raw_samples_alike(shared: Path) -> None:
    seen = 0
    for path in sorted((shared / "data/polymarket/raw").glob("gamma_*.json")):
        loaded = json.loads(path.read_bytes())
        top = loaded if isinstance(loaded, list) else [loaded]
        for raw in [market for each in top for market in each.get("markets", [each])]:
            if "conditionId" in raw:
                agree(raw)
                seen += 1
    assert seen > 15
