"""The sample markets as raw JSON of Polymarket's Gamma API (shape: gamma /markets/keyset, 2026-03).

`outcomes`, `outcomePrices` and `clobTokenIds` are JSON inside strings, `volume` is a string, and the four time fields
have three spellings, as on the real API.
"""

import json
import re
from typing import Any
from zlib import crc32

from hindcast_dagster import clock
from hindcast_dagster.clock import DAY, HOUR
from hindcast_dagster.sample.model import SampleMarket, Status

_LABELS: dict[Status, list[str]] = {"up_down": ["Up", "Down"], "three_way": ["Home", "Draw", "Away"]}
_UNRESOLVED: dict[Status, str] = {"disputed": "disputed", "provisional": "proposed"}


def row(market: SampleMarket) -> dict[str, Any]:
    """Return one market as the listing returns it."""
    description = market.rules + market.addendum
    opened, closed = clock.iso(market.open_at), market.status != "open"
    shared = {
        "slug": slug(market.question),
        "description": description,
        "resolutionSource": "",
        "startDate": opened[:-1] + ".482913Z",
        "createdAt": clock.iso(market.open_at - 2 * HOUR)[:-1] + ".104571Z",
        "endDate": clock.iso(market.planned_close),
        "updatedAt": clock.iso(market.close_at + 3 * DAY)[:-1] + ".771206Z",
        "active": True,
        "archived": False,
        "closed": closed,
        "restricted": True,
        "image": "",
        "icon": "",
        "enableOrderBook": True,
        "negRisk": market.leg,
    }
    volume = 2_500.5 + (market.number * 7_919 % 997) * 1_000
    return {
        "id": market.gamma_id,
        "question": market.question,
        "conditionId": market.market_id,
        **shared,
        **_sides(market),
        **_times(market),
        "endDateIso": clock.iso(market.planned_close)[:10],
        "startDateIso": opened[:10],
        "volume": str(volume),
        "volumeNum": volume,
        "volumeClob": volume,
        "liquidity": "0" if closed else "2040.25",
        "lastTradePrice": market.prices[-1][1] if market.prices else 0,
        "bestBid": 0,
        "bestAsk": 1,
        "spread": 0.001,
        "orderPriceMinTickSize": 0.005,
        "orderMinSize": 5,
        "umaBond": "500",
        "umaReward": "5",
        "acceptingOrders": market.status in {"open", "provisional"},
        "new": False,
        "featured": False,
        "ready": False,
        "funded": False,
        "cyom": False,
        "competitive": 0,
        "automaticallyActive": True,
        "hasReviewedDates": True,
        "groupItemTitle": market.slots["s"] if market.leg else "",
        "events": [_event(market, shared)],
        "tags": _tags(market),
    }


def slug(text: str) -> str:
    """Return a text as the last part of a market's address."""
    return re.sub(r"[^a-z0-9]+", "-", text.lower()).strip("-")[:90].rstrip("-")


def _sides(market: SampleMarket) -> dict[str, Any]:
    """Return labels, final prices and tokens. Yes is not always the first label."""
    labels = _LABELS.get(market.status, ["Yes", "No"])
    tokens = [market.yes_token, market.no_token, *[str(int(market.yes_token) + 1)] * (len(labels) - 2)]
    final = _final(market, len(labels))
    if labels == ["Yes", "No"] and not market.yes_first:
        labels, tokens, final = labels[::-1], tokens[::-1], final[::-1]
    return {
        "outcomes": json.dumps(labels),
        "outcomePrices": json.dumps(final),
        "clobTokenIds": json.dumps(tokens),
    }


def _final(market: SampleMarket, sides: int) -> list[str]:
    if market.outcome is not None:
        return ["1", "0"] if market.outcome == "Yes" else ["0", "1"]
    last = market.prices[-1][1] if market.prices else 0.5
    by_status: dict[Status, list[str]] = {
        "void_50_50": ["0.5", "0.5"],
        "up_down": ["1", "0"],
        "three_way": ["0", "1", "0"],
        "no_close_time": ["1", "0"],
        "disputed": ["1", "0"],
        "unsettled_price": ["0.985", "0.015"],
    }
    return by_status.get(market.status, [f"{last:g}", f"{1 - last:.3g}"])[:sides]


def _times(market: SampleMarket) -> dict[str, Any]:
    """Return when it closed and how the oracle's answer stands; some markets only have the oracle's date."""
    if market.status == "open":
        return {"umaResolutionStatuses": "[]"}
    closed = clock.iso(market.close_at)
    status = _UNRESOLVED.get(market.status, "resolved")
    history = {"disputed": ["proposed", "disputed"], "proposed": ["proposed"]}.get(status, ["proposed", "resolved"])
    found: dict[str, Any] = {"umaResolutionStatus": status, "umaResolutionStatuses": json.dumps(history)}
    if market.status == "no_close_time":
        return found
    found["umaEndDate"] = closed
    if market.number % 11 != 7 or market.status != "resolved":  # noqa: PLR2004 - one in eleven lacks closedTime
        found["closedTime"] = closed.replace("T", " ").replace("Z", "+00")
    return found


def _event(market: SampleMarket, shared: dict[str, Any]) -> dict[str, Any]:
    event = shared | {
        "id": market.event_id,
        "ticker": slug(market.event_title),
        "slug": slug(market.event_title),
        "title": market.event_title,
        "description": market.rules,
        "enableNegRisk": market.leg,
        "commentCount": 0,
    }
    if market.series is not None:
        name = slug(market.series)
        event |= {
            "seriesSlug": name,
            "series": [{"id": "41", "ticker": name, "slug": name, "title": market.series, "recurrence": "monthly"}],
        }
    return event


def _tags(market: SampleMarket) -> list[dict[str, Any]]:
    return [
        {"id": str(crc32(label.encode()) % 10_000), "label": label, "slug": slug(label)} for label in market.story.tags
    ]
