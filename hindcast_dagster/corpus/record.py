"""Parsing: one line of a dump to a record that holds only the fields the corpus uses, whatever their types.

msgspec reads such a projection ten times faster than json. What it refuses (lone surrogates, bytes that are not UTF-8,
NaN) is given to json, and what UTF-8 cannot hold is replaced and counted. Unparsable lines give None.
"""

import json
import re
from typing import Any, Final, NamedTuple

import msgspec

_REPLACEMENT: Final = "\ufffd"
_SURROGATE: Final = re.compile("[\ud800-\udfff]")


class Record(msgspec.Struct, gc=False):
    """The raw values of one line. Nothing is promised about their types: dumps of 20 years disagree."""

    id: Any = None
    created_utc: Any = None
    subreddit: Any = None
    author: Any = None
    title: Any = None
    selftext: Any = None
    body: Any = None
    score: Any = None
    num_comments: Any = None
    link_id: Any = None
    parent_id: Any = None
    permalink: Any = None
    url: Any = None
    over_18: Any = None
    edited: Any = None
    retrieved_on: Any = None
    retrieved_utc: Any = None
    updated_on: Any = None
    second: Any = msgspec.field(default=None, name="_meta")

    def meta(self, name: str) -> Any:
        """Return a value of the second retrieval's notes (Arctic Shift's `_meta`), or None."""
        return self.second.get(name) if isinstance(self.second, dict) else None


class Parsed(NamedTuple):
    """The records of some lines, None for each that is no JSON object; and how many had text that UTF-8 cannot hold."""

    records: list[Record | None]
    replaced: int


_FIELDS: Final = dict(zip(Record.__struct_encode_fields__, Record.__struct_fields__, strict=True))
_DECODER: Final = msgspec.json.Decoder(Record)


def parse(data: bytes, spans: list[tuple[int, int, int]]) -> Parsed:
    """Parse the lines of `data` at `spans` (number, start, end)."""
    view = memoryview(data)
    replaced = 0
    records: list[Record | None] = []
    for _, start, end in spans:
        try:
            records.append(_DECODER.decode(view[start:end]))
        except (msgspec.MsgspecError, RecursionError):
            record, changed = _slowly(data[start:end])
            records.append(record)
            replaced += changed
    return Parsed(records, replaced)


def parse_all(data: bytes, start: int, end: int, spans: list[tuple[int, int, int]]) -> Parsed:
    """Parse every line of `data[start:end]`, whose spans are `spans`, in one call where all of them are well formed."""
    try:
        records: list[Record | None] = list(_DECODER.decode_lines(memoryview(data)[start:end]))
    except (msgspec.MsgspecError, RecursionError):
        return parse(data, spans)
    return Parsed(records, 0) if len(records) == len(spans) else parse(data, spans)  # blank lines are skipped there


def _slowly(line: bytes) -> tuple[Record | None, bool]:
    text = line.decode("utf-8-sig", "replace")
    changed = _REPLACEMENT in text and _REPLACEMENT.encode() not in line
    try:
        values = json.loads(text)
    except (ValueError, RecursionError):
        return None, False
    if not isinstance(values, dict):
        return None, False
    fields = {attribute: values[name] for name, attribute in _FIELDS.items() if name in values}
    for name, value in fields.items():
        if isinstance(value, str) and _SURROGATE.search(value):
            fields[name] = _SURROGATE.sub(_REPLACEMENT, value)
            changed = True
    return Record(**fields), changed
