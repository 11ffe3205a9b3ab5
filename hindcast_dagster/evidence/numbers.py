"""Thresholds of a question ("above $100,000", "at least 3%") and the numbers that a text sets against them.

What belongs here: reading numbers of ordinary prose, without a model. A number says something only when it has the
unit of the threshold and its order of magnitude; years, dates and scores of games are left alone.
"""

import re
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Final, Literal

Unit = Literal["money", "percent", "plain"]
Bound = Literal["least", "most"]

_SCALE: Final = {"k": 1e3, "thousand": 1e3, "m": 1e6, "million": 1e6, "mn": 1e6, "b": 1e9, "billion": 1e9, "bn": 1e9,
                 "t": 1e12, "trillion": 1e12}  # fmt: skip
_NUMBER: Final = re.compile(
    r"(?<![\w.,/:-])(?P<money>[$€£]\s?)?(?P<digits>[0-9]{1,3}(?:,[0-9]{3})+(?:\.[0-9]+)?|[0-9]{1,12}(?:\.[0-9]+)?)"
    r"\s?(?P<scale>thousand|million|billion|trillion|mn|bn|[kmbt])?(?P<percent>\s?%|\s?per ?cent)?(?![\w/:]|-[0-9])",
    re.IGNORECASE,
)
_UP: Final = re.compile(
    r"\b(?:above|over|exceeds?|reach(?:es)?|hits?|at least|more than|greater than|higher than|surpass(?:es)?|or more|"
    r"or higher|tops?|crosse?s?)\b|[>≥↑+]",
    re.IGNORECASE,
)
_DOWN: Final = re.compile(
    r"\b(?:below|under|less than|fewer than|lower than|at most|dips?|drops? to|falls? to|or less|or lower|"
    r"or fewer)\b|[<≤↓]",
    re.IGNORECASE,
)
_ABOUT: Final = r"(?:(?:about|around|roughly|nearly|just|only|even) )?"
_BOUND: Final = re.compile(
    r"(?P<denied>\b(?:not|no|never|cannot)\s|n['\u2019]t\s)?(?:\b(?:(?P<least>above|over|exceed(?:s|ed)?|at least|"
    r"(?:more|greater|higher) than|surpass(?:es|ed)?)|(?P<most>below|under|at most|up to|(?:less|fewer|lower) than))"
    rf"\s{_ABOUT}|(?P<signs>[<>\u2264\u2265])\s?)$",
    re.IGNORECASE,
)
"""A comparison that stands directly before a number."""
_TAIL: Final = re.compile(
    r"\s?(?:(?P<least>\+|or (?:more|higher|above))|(?P<most>or (?:less|lower|fewer|below)))(?!\w)", re.IGNORECASE
)
"""One that stands directly behind it."""
_NEAR: Final = 3.0  # a number within this factor of the threshold speaks about the same quantity
_REACH: Final = 28  # characters before a number in which its comparison stands
_YEARS: Final = range(1900, 2101)


@dataclass(frozen=True, slots=True)
class Amount:
    """A number with its unit; `value` is scaled (100k is 100000)."""

    value: float
    unit: Unit
    at: int
    bound: Bound | None = None
    """The text says only that the quantity is at least, or at most, the value; None: that it is the value."""


@dataclass(frozen=True, slots=True)
class Threshold:
    """What a question compares with: Yes needs a number above `low` and below `high` (None: no such bound)."""

    low: float | None
    high: float | None
    unit: Unit

    def says(self, amount: Amount) -> bool | None:
        """Return whether the amount lies on the Yes side; None when it is about something else, or leaves it open."""
        bounds = [bound for bound in (self.low, self.high) if bound]
        if amount.unit != self.unit or not bounds or not amount.value:
            return None
        if not any(1 / _NEAR <= amount.value / bound <= _NEAR for bound in bounds):
            return None
        low, high, value = self.low, self.high, amount.value
        if amount.bound == "least":  # the value or more: settles one threshold, leaves a range open
            return False if high is not None and value >= high else (high is None and value >= (low or 0)) or None
        if amount.bound == "most":
            return False if low is not None and value <= low else (low is None and value <= (high or 0)) or None
        return (low is None or value >= low) and (high is None or value <= high)


def amounts(text: str) -> Iterator[Amount]:
    """Yield the numbers of a text that carry a unit or are at least two digits long and no year."""
    for found in _NUMBER.finditer(text):
        digits, scale = found["digits"].replace(",", ""), (found["scale"] or "").lower()
        value = float(digits) * _SCALE.get(scale, 1.0)
        unit: Unit = "money" if found["money"] else "percent" if found["percent"] else "plain"
        bare = unit == "plain" and not scale and "," not in found["digits"]
        if bare and (len(digits) < 2 or ("." not in digits and int(digits) in _YEARS)):  # noqa: PLR2004
            continue
        yield Amount(value, unit, found.start(), _bound(text, found))


def _bound(text: str, found: re.Match[str]) -> Bound | None:
    """Return the comparison beside a number: "less than 50k", "no more than 5%", "$100k+"."""
    before = _BOUND.search(text[max(0, found.start() - _REACH) : found.start()])
    if before is None:
        behind = _TAIL.match(text, found.end())
        return None if behind is None else "least" if behind["least"] else "most"
    least = bool(before["least"]) or (before["signs"] or "") in {">", "\u2265"}
    return "least" if least != bool(before["denied"]) else "most"


def threshold(question: str) -> Threshold | None:
    """Return the threshold of a question text, or None when it compares with no number."""
    found = list(amounts(question))
    if re.search(r"\bbetween\b", question, re.IGNORECASE) and len(found) >= 2:  # noqa: PLR2004 - both ends
        low, high = sorted((found[0].value, found[1].value))
        return Threshold(low, high, found[1].unit)
    for amount in found:
        around = question[max(0, amount.at - _REACH) : amount.at] + " " + question[amount.at : amount.at + _REACH]
        if _DOWN.search(around):
            return Threshold(None, amount.value, amount.unit)
        if _UP.search(around):
            return Threshold(amount.value, None, amount.unit)
    return None
