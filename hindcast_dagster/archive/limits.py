"""Arguments of the tools: limits are clamped with a note, what has no meaning is refused with a sentence."""

import re
from typing import Final, NamedTuple

from hindcast_dagster import keys
from hindcast_dagster.archive.protocol import MAX_K
from hindcast_dagster.errors import UsageError

K: Final = ("k", 1, MAX_K)
DEPTH: Final = ("depth", 1, 50)
LIMIT: Final = ("limit", 1, 500)
POSTS: Final = ("posts", 0, 100)
COMMENTS: Final = ("comments", 0, 100)
QUERY_CHARACTERS: Final = 8_000  # far more than any query model reads
ADDRESS_CHARACTERS: Final = 1_000
_ADDRESS: Final = re.compile(
    r"(?:(?:https?://)?(?:[a-z]+\.)?reddit\.com)?(?:/(?:r|u|user)/[^/?#]+)?/comments/(?P<post>[0-9a-z]{1,13})"
    r"(?:/[^/?#]*(?:/(?P<comment>[0-9a-z]{1,13}))?)?/?(?:[?#].*)?"
    r"|(?:https?://)?redd\.it/(?P<short>[0-9a-z]{1,13})/?(?:[?#].*)?"
    r"|(?:https?://)?(?:[a-z]+\.)?reddit\.com/gallery/(?P<gallery>[0-9a-z]{1,13})/?(?:[?#].*)?"
)
PREFIXES: Final = {"submission": "t3_", "comment": "t1_"}


class Clamped(NamedTuple):
    """A limit that was brought into its range, and what to say about it."""

    value: int
    note: str


def clamp(value: object, bounds: tuple[str, int, int]) -> Clamped:
    """Bring an int into its range. Raises `UsageError` for anything that is not an int."""
    name, low, high = bounds
    if isinstance(value, bool) or not isinstance(value, int):
        raise UsageError(f"{name} must be a whole number from {low} to {high}, found {value!r:.80}.")
    inside = max(low, min(value, high))
    return Clamped(inside, "" if inside == value else f"{name} was set to {inside} (allowed: {low} to {high}).")


def document_id(value: object, *, kind: str) -> str:
    """Return a bare id, also of a pasted address. Raises `UsageError` for an id of the other kind or no id at all."""
    for other, prefix in PREFIXES.items():
        if other != kind and isinstance(value, str) and value.startswith(prefix):
            raise UsageError(f"{value!r:.80} is the id of a {other}; a {kind} id begins with {PREFIXES[kind]}.")
    if isinstance(value, str) and (address := _ADDRESS.fullmatch(value.strip()[:ADDRESS_CHARACTERS])):
        value = (
            (address["post"] or address["short"] or address["gallery"]) if kind == "submission" else address["comment"]
        )
        if value is None:
            raise UsageError(f"{address[0]!r:.80} is the address of a post; that of a comment ends with its id.")
    if not isinstance(value, str) or len(value) > 64:  # noqa: PLR2004 - no id is longer; do not echo a megabyte
        raise UsageError(f"A Reddit {kind} id is text of at most 13 of 0-9 a-z, or an address; found {value!r:.80}.")
    return keys.reddit_id(value, kind=f"{kind} id")


def text(value: object, *, name: str) -> str:
    """Return a text argument. Raises `UsageError` for anything but text that can be written as UTF-8."""
    if not isinstance(value, str):
        raise UsageError(f"{name} must be text, found a {type(value).__name__}.")
    try:
        value.encode()
    except UnicodeEncodeError as error:
        raise UsageError(f"{name} holds half a character (a lone surrogate) at place {error.start}.") from error
    return value
