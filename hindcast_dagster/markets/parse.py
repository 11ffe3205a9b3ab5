"""One raw market row to one row of the `markets` table.

What belongs here: putting the tolerant readers together. A row that cannot be used at all is `Malformed`; it is kept
raw and counted, and costs no other row. Unknown fields and unknown statuses are not errors.
"""

from typing import Any

from hindcast_dagster.errors import InputRefused
from hindcast_dagster.markets import fields
from hindcast_dagster.markets.addenda import split_rules, split_title
from hindcast_dagster.markets.outcome import judge, tokens
from hindcast_dagster.markets.rawlog import digest
from hindcast_dagster.markets.series import series_of
from hindcast_dagster.markets.topics import TopicMap, tags_of


class Malformed(InputRefused):
    """A market row without a usable id or question."""


def parse(raw: Any, *, topics: TopicMap, fetched_at: int, raw_sha256: str) -> dict[str, Any]:
    """Return the row of the contract MARKETS for one raw market. Raises `Malformed`."""
    market = fields.market_id(raw)
    title = fields.text(raw.get("question")) if isinstance(raw, dict) else None
    if market is None or title is None:
        raise Malformed("A market row has no conditionId of 0x and 64 hex digits, or no question.")
    question = split_title(title)
    if not question.kept:
        raise Malformed(f"Market {market}: its question is only a remark ({title[:80]!r}).")
    row = _identity(raw, market) | _texts(raw, question.kept, question.addenda) | _sides(raw, topics) | _life(raw)
    if row["outcome"] and row["addenda"] and not row["rules"]:
        row |= {"outcome": None, "excluded": "rules_amended"}  # no launch text is left that could be shown
    return row | {"fetched_at": fetched_at, "raw_sha256": raw_sha256}


def _identity(raw: dict[str, Any], market: str) -> dict[str, Any]:
    events = fields.objects(raw.get("events"))
    return {
        "market_id": market,
        "gamma_id": fields.text(raw.get("id")),
        "slug": fields.text(raw.get("slug")),
        "event_id": fields.text(events[0].get("id")) if events else None,
        "series": series_of(raw),
        "neg_risk": fields.flag(raw.get("negRisk")) is True,
    }


def _texts(raw: dict[str, Any], question: str, remarks: str) -> dict[str, Any]:
    description = raw.get("description")
    description = description if isinstance(description, str) else ""
    rules = split_rules(fields.text(description) or "")
    return {
        "question": question,
        "rules": rules.kept,
        "addenda": "\n".join(part for part in (remarks, rules.addenda) if part),
        "rules_sha256": digest(description),
    }


def _sides(raw: dict[str, Any], topics: TopicMap) -> dict[str, Any]:
    verdict, (yes, no), tags = judge(raw), tokens(raw), tags_of(raw)
    return {
        "outcome": verdict.outcome,
        "excluded": verdict.excluded,
        "yes_token": yes,
        "no_token": no,
        "tags": tags,
        "topic": topics.topic(tags),
        "volume": fields.number(raw.get("volume")),
    }


def _life(raw: dict[str, Any]) -> dict[str, Any]:
    opened, created = fields.instant(raw.get("startDate")), fields.instant(raw.get("createdAt"))
    planned, closed = fields.instant(raw.get("endDate")), fields.close_at(raw)
    return {
        "open_at": created if opened is None else opened,
        "planned_close": planned,
        "close_at": closed,
        "early_resolved": planned is not None and closed is not None and closed < planned,
    }
