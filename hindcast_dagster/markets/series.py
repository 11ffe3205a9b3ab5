"""Series: what recurring events share, so that a reference class can be drawn (past markets of the same kind)."""

import re
from typing import Any, Final

from hindcast_dagster.markets import fields

_TIME: Final = re.compile(
    r"(?:jan|feb|mar|apr|jun|jul|aug|sept?|oct|nov|dec|january|february|march|april|may|june|july|august|september"
    r"|october|november|december)|[0-9]{1,2}(?:am|pm)|[0-9]{1,2}(?:st|nd|rd|th)|20[0-9]{2}|[0-9]{10}|q[1-4]|et|utc"
)


def series_of(raw: dict[str, Any]) -> str | None:
    """Return the series of a market's event, or None when the event does not recur.

    The event's own series slug where there is one, else the event's slug without its date parts when it has any
    ("btc-updown-5m-1773307200" and "...-1773307500" both give "btc-updown-5m").
    """
    for event in fields.objects(raw.get("events")):
        inner = fields.objects(event.get("series"))
        named = fields.text(event.get("seriesSlug")) or next(
            (s for i in inner if (s := fields.text(i.get("slug")))), None
        )
        if named:
            return named
        if stripped := _undated(fields.text(event.get("slug")) or ""):
            return stripped
    return None


def _undated(slug: str) -> str | None:
    words = slug.lower().split("-")
    dated = [bool(_TIME.fullmatch(word)) for word in words]
    if not any(dated):
        return None
    # A bare number is a date part only next to one ("march-11"), else it is part of the question ("above-100").
    kept = [
        word
        for i, word in enumerate(words)
        if not dated[i] and not (word.isdigit() and any(dated[max(i - 1, 0) : i + 2]))
    ]
    return "-".join(kept) or None
