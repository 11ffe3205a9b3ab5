"""The outcome rule: when a closed market counts as resolved Yes or No, and why the others are excluded.

What belongs here: the rule on one raw row. It goes by label, never by position ("No","Yes" is as usual as "Yes","No"),
and accepts only a settled price of exactly {1, 0}. Void, disputed and provisional markets have no outcome.
"""

from typing import Any, Final, NamedTuple

from hindcast_dagster.markets import fields

REASONS: Final = (
    "not_closed",
    "not_binary",
    "provisional",
    "not_resolved",
    "void_50_50",
    "unsettled_price",
    "no_close_time",
)
_BOTH: Final = {"yes", "no"}
_HALF: Final = 0.5


class Verdict(NamedTuple):
    """The outcome of a market, or the reason why it has none; exactly one of the two is set."""

    outcome: str | None
    excluded: str | None


def judge(raw: dict[str, Any]) -> Verdict:  # noqa: PLR0911 - one line a rule, in order
    """Apply the rule; the first reason that holds is the one that is counted (see docs/markets.md)."""
    if fields.flag(raw.get("closed")) is not True:
        return Verdict(None, "not_closed")
    order = labels(raw)
    if order is None:
        return Verdict(None, "not_binary")
    status = fields.text(raw.get("umaResolutionStatus"))
    prices = _prices(raw)
    void = prices == [_HALF, _HALF]
    if fields.flag(raw.get("acceptingOrders")) is True or (status is None and not void):
        return Verdict(None, "provisional")
    if status is not None and status.lower() != "resolved":
        return Verdict(None, "not_resolved")
    if void:
        return Verdict(None, "void_50_50")
    if sorted(prices) != [0.0, 1.0]:
        return Verdict(None, "unsettled_price")
    if fields.close_at(raw) is None:
        return Verdict(None, "no_close_time")
    return Verdict("Yes" if order[prices.index(1.0)] == "yes" else "No", None)


def labels(raw: dict[str, Any]) -> list[str] | None:
    """Return the outcome labels in their own order, lower case, when they are exactly {yes, no}; else None."""
    given = fields.items(raw.get("outcomes")) or []
    order = [label.strip().lower() for label in given if isinstance(label, str)]
    return order if len(given) == len(_BOTH) and set(order) == _BOTH else None


def tokens(raw: dict[str, Any]) -> tuple[str | None, str | None]:
    """Return the token ids of the (Yes, No) side, by label; None where they are missing."""
    order, given = labels(raw), fields.items(raw.get("clobTokenIds")) or []
    ids = [_token(value) for value in given]
    if order is None or len(ids) != len(order) or None in ids or ids[0] == ids[1]:
        return None, None
    return ids[order.index("yes")], ids[order.index("no")]


def _token(value: Any) -> str | None:
    """Return a decimal number of up to 78 digits (256 bits): it goes into a URL, so nothing else may pass."""
    name = fields.text(value)
    return name if name and name.isascii() and name.isdigit() and len(name) <= 78 else None  # noqa: PLR2004


def _prices(raw: dict[str, Any]) -> list[float]:
    """Return the prices in the order of the labels; none when one is no number, which would shift the rest."""
    found = [fields.number(value) for value in fields.items(raw.get("outcomePrices")) or []]
    return [] if None in found else [price for price in found if price is not None]
