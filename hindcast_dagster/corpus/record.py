"""Parsing: one line of a dump to a record that holds only the fields the corpus uses, whatever their types.

msgspec reads such a projection ten times faster than json; it holds every key against every field, so that each kind of
dump has a projection of its own. What it refuses (lone surrogates, bytes that are not UTF-8,
NaN) is given to json, and what UTF-8 cannot hold is replaced and counted. Unparsable lines give None.
"""

import json
import re
from typing import Any, Final, NamedTuple, cast

import msgspec

from hindcast_dagster.corpus.dumps import Kind

_REPLACEMENT: Final = "\ufffd"
_SURROGATE: Final = re.compile("[\ud800-\udfff]")


class Meta(msgspec.Struct, frozen=True, gc=False):
    """Arctic Shift's notes on the second fetch (`_meta`)."""

    retrieved_2nd_on: Any = None
    was_deleted_later: Any = None
    was_initially_deleted: Any = None


NO_META: Final = Meta()


class Record(msgspec.Struct, gc=False):
    """The raw values of one line. Nothing is promised about their types: dumps of 20 years disagree.

    The fields stand in the order of the dumps' keys (sorted), which msgspec finds faster.
    """

    meta: Meta = msgspec.field(default=NO_META, name="_meta")
    author: Any = None
    body: Any = None
    created_utc: Any = None
    edited: Any = None
    id: Any = None
    link_id: Any = None
    num_comments: Any = None
    over_18: Any = None
    parent_id: Any = None
    permalink: Any = None
    retrieved_on: Any = None
    retrieved_utc: Any = None
    score: Any = None
    selftext: Any = None
    subreddit: Any = None
    title: Any = None
    updated_on: Any = None
    url: Any = None


class Parsed(NamedTuple):
    """The records of some lines, None for each that is no JSON object; and how many had text that UTF-8 cannot hold."""

    records: list[Record | None]
    replaced: int


Span = tuple[int, int, int]
"""Number of a line in its block, from 0, and where it begins and ends (without its newline) in the block's data."""

_TEXTS: Final = tuple(name for name in Record.__struct_fields__ if name != "meta")
_UNUSED: Final[dict[Kind, frozenset[str]]] = {
    "comments": frozenset({"num_comments", "selftext", "url"}),
    "submissions": frozenset({"link_id", "parent_id"}),
}


def _projection(kind: Kind) -> type[Record]:
    """Return a `Record` without the fields that a kind has no use for: they read as None."""
    unused = _UNUSED[kind]
    meta = ("meta", Meta, msgspec.field(default=NO_META, name="_meta"))
    fields = [meta, *((name, Any, None) for name in _TEXTS if name not in unused)]
    made = msgspec.defstruct(f"Record_{kind}", fields, namespace=dict.fromkeys(unused), gc=False)
    return cast("type[Record]", made)


class Parser:
    """Parses the lines of one kind of dump."""

    def __init__(self, kind: Kind) -> None:
        self._decoder = msgspec.json.Decoder(_projection(kind))

    def some(self, data: bytes, lines: list[Span]) -> Parsed:
        """Parse some lines of `data`."""
        view, decode = memoryview(data), self._decoder.decode
        replaced = 0
        records: list[Record | None] = []
        for _, start, end in lines:
            try:
                records.append(decode(view[start:end]))
            except (msgspec.MsgspecError, RecursionError):
                record, changed = _slowly(data[start:end])
                records.append(record)
                replaced += changed
        return Parsed(records, replaced)

    def every(self, data: bytes, start: int, end: int, *, count: int) -> Parsed | None:
        """Parse all `count` lines of `data[start:end]` in one call; None where that cannot be done."""
        try:
            records: list[Any] = self._decoder.decode_lines(memoryview(data)[start:end])
        except (msgspec.MsgspecError, RecursionError):
            return None
        return Parsed(records, 0) if len(records) == count else None  # blank lines are skipped there, and are lines


def _slowly(line: bytes) -> tuple[Record | None, bool]:
    """Parse what msgspec refused, as json does. Returns the record and whether a text was changed."""
    text = line.decode("utf-8-sig", "replace")
    try:
        values = json.loads(text)
    except (ValueError, RecursionError):
        return None, False
    if not isinstance(values, dict):
        return None, False
    record = Record(**{name: _clean(values[name]) for name in _TEXTS if name in values})
    meta = values.get("_meta")
    if isinstance(meta, dict):
        record.meta = Meta(**{name: meta.get(name) for name in Meta.__struct_fields__})
    return record, any(_damaged(values.get(name), line) for name in _TEXTS)


def _clean(value: Any) -> Any:
    return _SURROGATE.sub(_REPLACEMENT, value) if isinstance(value, str) else value


def _damaged(value: Any, line: bytes) -> bool:
    """Return whether a text holds a lone surrogate, or a replacement for bytes that were not UTF-8."""
    if not isinstance(value, str):
        return False
    return bool(_SURROGATE.search(value)) or (_REPLACEMENT in value and _REPLACEMENT.encode() not in line)
