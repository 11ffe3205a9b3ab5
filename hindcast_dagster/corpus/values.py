"""Values: what the fields of a record mean, whatever type the dump gave them.

Every function takes an untrusted value and returns a clean one or None; none raises. Times follow the field's history:
see docs/corpus.md, "When was it true?".
"""

import html
import math
import re
from typing import Any, Final

from hindcast_dagster.clock import EARLIEST, LATEST
from hindcast_dagster.corpus.record import Record

_ID: Final = re.compile(r"(?:t[13]_)?([0-9a-z]{1,13})")
_FULL_NAME: Final = re.compile(r"t[13]_[0-9a-z]{1,13}")
_SECONDS: Final = re.compile(r"([0-9]{1,12})(?:\.[0-9]+)?")
_INTEGER: Final = re.compile(r"-?[0-9]{1,18}")
LONGEST_ID: Final = 13
_DIGITS: Final = "0123456789abcdefghijklmnopqrstuvwxyz"
_INT64: Final = 1 << 63
NEVER: Final = LATEST - 1
"""For a text whose time is unknown: no cutoff admits it in strict mode."""


def epoch(value: object) -> int | None:
    """Return epoch seconds from an int, a digit string or a float; None outside 2005..2100 (milliseconds!)."""
    if type(value) is int:
        return value if EARLIEST <= value < LATEST else None
    if isinstance(value, float) and math.isfinite(value):
        seconds = math.floor(value)
    elif isinstance(value, str) and (match := _SECONDS.fullmatch(value)):
        seconds = int(match[1])
    else:
        return None
    return seconds if EARLIEST <= seconds < LATEST else None


def whole(value: object) -> int | None:
    """Return a whole number that fits 64 bits, from an int, a whole float or digits as text; else None."""
    if type(value) is int:
        return value if -_INT64 <= value < _INT64 else None
    if (isinstance(value, float) and value.is_integer()) or (isinstance(value, str) and _INTEGER.fullmatch(value)):
        return whole(int(value))
    return None


def bare_id(value: object) -> str | None:
    """Return a bare base-36 id; `t1_` / `t3_` is taken off, an integer (mod-era exports) is written in base 36."""
    if type(value) is str:
        if len(value) <= LONGEST_ID and value.isalnum() and value.isascii() and value == value.lower():
            return value  # nearly all: the pattern says the same, at three times the price
        match = _ID.fullmatch(value)
        return match[1] if match else None
    return base36(value) if type(value) is int and 0 <= value < _INT64 else None


def are_bare(ids: list[Any]) -> bool:
    """Return whether each value is a bare id as it stands, told of all at once; False may mean unsure."""
    try:
        joined = "".join(ids)
    except TypeError:
        return False
    lengths = set(map(len, ids))
    bare = joined.isascii() and joined.isalnum() and joined == joined.lower()
    return bare and min(lengths) > 0 and max(lengths) <= LONGEST_ID


def base36(number: int) -> str:
    """Return a non-negative integer in base 36, as Reddit writes ids."""
    digits = ""
    while number:
        number, rest = divmod(number, 36)
        digits = _DIGITS[rest] + digits
    return digits or "0"


def parent_of(value: object, link: str | None) -> str | None:
    """Return a comment's parent as `t1_...` or `t3_...`.

    null means top level, so the parent is the submission; an integer is a comment's id; a bare id is the submission's
    if it equals it, else a comment's. None: there is nothing usable.
    """
    if isinstance(value, str) and _FULL_NAME.fullmatch(value):
        return value
    bare = bare_id(value)
    if bare is None or bare == link:
        return f"t3_{link}" if link and (value is None or bare) else None
    return f"t1_{bare}"


def text(value: object) -> str | None:
    """Return a text as stored, or None."""
    return value if isinstance(value, str) else None


def unescaped(value: object) -> str:
    """Return a text with its HTML entities resolved, once (`&amp;gt;` becomes `&gt;`); "" for what is no text."""
    if not isinstance(value, str):
        return ""
    return html.unescape(value) if "&" in value else value


def truth(value: object) -> bool | None:
    """Return a boolean as stored, or None."""
    return value if isinstance(value, bool) else None


def retrieved(record: Record) -> int | None:
    """Return when the record was first fetched, or None."""
    return epoch(record.retrieved_on) or epoch(record.retrieved_utc)


def engagement_as_of(record: Record, created: int) -> int | None:
    """Return when score and comment count were read: at the second fetch, else the first; None when unknown.

    A fetch before the record existed is no fetch, and a second fetch whose time cannot be read (milliseconds, text) is
    not the first one: the time is unknown, and unknown counts as later.
    """
    second = record.meta.retrieved_2nd_on
    fetched = retrieved(record) if second is None else epoch(second)
    return None if fetched is None or fetched < created else fetched


def text_as_of(record: Record, created: int) -> int:
    """Return since when the stored text is what it is: max(created, edited, restoring fetch, updated_on).

    A text that was deleted at first came with the second fetch. An edit whose time is not a usable instant after the
    creation (`true`, milliseconds, text) is bounded by the fetch. Where such a time cannot be read, nor the fetch that
    bounds it, the text is `NEVER` old enough.
    """
    times = [created]
    if was_changed(record.updated_on):  # a merge is later than every fetch: none of them bounds it
        updated = epoch(record.updated_on)
        times.append(NEVER if updated is None or updated < created else updated)
    if was_changed(record.edited):
        edited = None if record.edited is True else epoch(record.edited)
        times.append(edited if edited is not None and edited >= created else _fetched(record, created))
    if record.meta.was_initially_deleted is True:
        restored = epoch(record.meta.retrieved_2nd_on)
        times.append(NEVER if restored is None or restored < created else restored)
    return max(times)


def was_changed(value: object) -> bool:
    """Return whether a field says that its text was changed: all but false, 0, null and an empty or "false" text do."""
    return value not in (None, False) if not isinstance(value, str) else value.strip().lower() not in {"", "false"}


def _fetched(record: Record, created: int) -> int:
    fetched = retrieved(record)
    return NEVER if fetched is None or fetched < created else fetched
