"""Tolerant readers of Gamma's fields: each returns a typed value or None, and never raises.

Lists arrive as JSON strings or as lists, numbers as strings, times in three spellings, and fields are missing.
"""

import json
import math
import re
import unicodedata
from typing import Any, Final

from hindcast_dagster import clock, keys
from hindcast_dagster.errors import UsageError

_NUMBER: Final = re.compile(r"[+-]?(?:[0-9]+\.?[0-9]*|\.[0-9]+)(?:[eE][+-]?[0-9]{1,3})?")
_LONGEST_NUMBER: Final = 60  # characters; a longer text is no price, and would cost quadratic time to refuse
# Zero-width characters, and control characters but for tab and line ends: they could steer a terminal.
_UNSEEN: Final = dict.fromkeys(
    [ord(ch) for ch in "\u200b\u2060\ufeff"]
    + [c for c in range(0xA0) if unicodedata.category(chr(c)) == "Cc" and chr(c) not in "\t\n\r"]
)


def text(value: Any) -> str | None:
    """Return a non-empty text without outer space, control and zero-width characters; numbers become text."""
    if isinstance(value, bool) or not isinstance(value, str | int):
        return None
    # A lone surrogate (an escape such as \ud83d) cannot be stored as UTF-8.
    clean = str(value).encode("utf-8", "replace").decode().translate(_UNSEEN).strip()
    return clean or None


def items(value: Any) -> list[Any] | None:
    """Return a list that is given natively or as a JSON string."""
    if isinstance(value, str):
        try:
            value = json.loads(value)
        except (ValueError, RecursionError):
            return None
    return value if isinstance(value, list) else None


def number(value: Any) -> float | None:
    """Return a finite number given as a number or as plain ASCII text."""
    if isinstance(value, bool) or not isinstance(value, int | float | str):
        return None
    if isinstance(value, str) and not (len(value) <= _LONGEST_NUMBER and _NUMBER.fullmatch(value.strip())):
        return None
    try:
        found = float(value)
    except OverflowError:
        return None
    return found if math.isfinite(found) else None


def flag(value: Any) -> bool | None:
    """Return a bool given natively or as true/false."""
    if isinstance(value, bool):
        return value
    return {"true": True, "false": False}.get(value.strip().lower()) if isinstance(value, str) else None


def instant(value: Any) -> int | None:
    """Return epoch seconds of a time such as `2024-11-06 15:17:41+00` or `2026-03-21T07:58:17.58Z`."""
    if not isinstance(value, str):
        return None
    try:
        return clock.instant(value)
    except UsageError:
        return None


def market_id(raw: Any) -> str | None:
    """Return the condition id of a market row."""
    try:
        return keys.condition_id(raw.get("conditionId")) if isinstance(raw, dict) else None
    except UsageError:
        return None


def close_at(raw: dict[str, Any]) -> int | None:
    """Return when a market closed: closedTime, else umaEndDate. endDate is only the plan and is edited later."""
    found = instant(raw.get("closedTime"))
    return found if found is not None else instant(raw.get("umaEndDate"))


def objects(value: Any) -> list[dict[str, Any]]:
    """Return the objects of a list; other members are left out."""
    return [item for item in items(value) or [] if isinstance(item, dict)]
