"""Partition keys and slugs: parse, format, refuse.

What belongs here: every rule about which text may become part of a path, a partition key or a predicate. What does not:
date arithmetic (see `clock`).
"""

import re
from typing import Final

from hindcast_dagster.errors import UsageError

# [0-9], not \d: \d also matches Arabic-Indic digits, which would then name another folder.
_MONTH: Final = re.compile(r"[0-9]{4}-(?:0[1-9]|1[0-2])")
_SLUG: Final = re.compile(r"[a-z0-9](?:[a-z0-9_-]{0,94}[a-z0-9])?")
_REDDIT_ID: Final = re.compile(r"[0-9a-z]{1,13}")
_SUBREDDIT: Final = re.compile(r"[A-Za-z0-9_][A-Za-z0-9_:-]{0,49}")
_CONDITION: Final = re.compile(r"0x[0-9a-f]{64}")
_PLAIN: Final = frozenset("abcdefghijklmnopqrstuvwxyz0123456789-")


def month(text: object) -> str:
    """Return `text` if it is a month key `YYYY-MM`, year 1 or later; raise `UsageError` otherwise."""
    if isinstance(text, str) and _MONTH.fullmatch(text) and not text.startswith("0000"):  # no calendar has a year 0
        return text
    raise UsageError(f"{text!r:.80} is not a month: write it as YYYY-MM, for example 2024-01.")


def slug(text: object, *, what: str = "name") -> str:
    """Return `text` if it may be a partition key: 1-96 of a-z 0-9 - _, beginning and ending with a letter or digit."""
    if isinstance(text, str) and _SLUG.fullmatch(text):
        return text
    raise UsageError(f"{text!r} is not a usable {what}: use 1-96 of a-z, 0-9, '-' and '_', no other characters.")


def to_slug(raw: str) -> str:
    """Encode any non-empty text as a slug, injectively: a character outside a-z 0-9 - is `_<hex code point>_`.

    `from_slug(to_slug(x)) == x`, so two names never share a partition ("Llama-3.1-8B" and "Llama-3-1-8B" stay apart).
    The outer letters `x` make the result begin and end with a plain character.
    """
    if not raw:
        raise UsageError("An empty name cannot become a slug.")
    inner = "".join(ch if ch in _PLAIN else f"_{ord(ch):x}_" for ch in raw)
    return slug(f"x{inner}x", what=f"slug of {raw!r}")


def from_slug(text: str) -> str:
    """Decode what `to_slug` made; raise `UsageError` for anything else."""
    slug(text)
    parts = text[1:-1].split("_")
    if text[0] == text[-1] == "x" and len(text) > 2 and len(parts) % 2:  # noqa: PLR2004 - two outer letters
        try:
            raw = "".join(part if i % 2 == 0 else chr(int(part, 16)) for i, part in enumerate(parts))
        except (ValueError, OverflowError):
            raw = ""
        if raw and to_slug(raw) == text:
            return raw
    raise UsageError(f"{text!r} was not made by to_slug.")


def reddit_id(text: object, *, kind: str = "id") -> str:
    """Return a bare base-36 Reddit id; a `t1_`/`t3_` prefix is taken off. Raise `UsageError` for anything else."""
    if isinstance(text, str):
        bare = text.removeprefix("t1_").removeprefix("t3_")
        if _REDDIT_ID.fullmatch(bare):
            return bare
    raise UsageError(f"{text!r} is not a Reddit {kind}: expected 1-13 of 0-9 a-z, with or without t1_ / t3_.")


def subreddit(text: object) -> str:
    """Return a subreddit name without a leading `r/`; raise `UsageError` for anything else."""
    if isinstance(text, str):
        bare = text.removeprefix("r/")
        if _SUBREDDIT.fullmatch(bare):
            return bare
    raise UsageError(f"{text!r} is not a subreddit name: 1-50 letters, digits or underscores.")


def condition_id(text: object) -> str:
    """Return a market's condition id (0x and 64 hex digits, lower case); raise `UsageError` for anything else."""
    if isinstance(text, str) and _CONDITION.fullmatch(text.lower()):
        return text.lower()
    raise UsageError(f"{text!r} is not a market id: expected 0x and 64 hex digits.")
