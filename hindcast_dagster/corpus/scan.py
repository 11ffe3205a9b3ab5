"""The byte scan: which lines of a block may belong to a kept subreddit, without parsing any of them.

It finds a superset. The parsed top-level field decides; the scan only rejects a line when it holds a "subreddit" key,
and no such key (a crosspost nests a whole other record) has a kept name or an escape in its value. Key spacing differs
between files, so whitespace around the colon is read as JSON reads it.
"""

import re
from typing import Final, NamedTuple

_KEY: Final = b'"subreddit"'
_COLON: Final = re.compile(rb"[ \t\r]*:[ \t\r]*")


class Scanned(NamedTuple):
    """What a scan found: `lines` in the block, and (line number from 0, start, end) of each that must be parsed."""

    lines: int
    candidates: list[tuple[int, int, int]]


def scan(data: bytes, start: int, end: int, kept: frozenset[bytes]) -> Scanned:
    """Scan the whole lines `data[start:end]`; `kept` holds lower-case names. The newline is not part of a candidate."""
    find = data.find
    number = 0
    candidates: list[tuple[int, int, int]] = []
    hit = find(_KEY, start, end)
    while start < end:
        stop = find(b"\n", start, end)
        if hit < start or hit > stop:  # no key at all
            candidates.append((number, start, stop))
        else:
            wanted = False
            while 0 <= hit < stop:
                wanted = wanted or _wanted(data, hit + len(_KEY), stop, kept)
                hit = find(_KEY, hit + len(_KEY), end)
            if wanted:
                candidates.append((number, start, stop))
        number += 1
        start = stop + 1
    return Scanned(number, candidates)


def _wanted(data: bytes, after: int, stop: int, kept: frozenset[bytes]) -> bool:
    """Return whether the value behind a key at `after` may be a kept name."""
    if data[after : after + 2] == b':"':  # how most files write it
        begin = after + 2
    else:
        colon = _COLON.match(data, after, stop)
        if colon is None:
            return False  # the text "subreddit" as a value, not a key
        begin = colon.end() + 1
        if data[begin - 1 : begin] != b'"':
            return False  # null or another value that is no name
    quote = data.find(b'"', begin, stop)
    value = data[begin:quote] if quote >= 0 else b"\\"
    return value.lower() in kept or b"\\" in value


def each_line(data: bytes, start: int, end: int) -> list[tuple[int, int, int]]:
    """Return (line number from 0, start, end) of every line of `data[start:end]`."""
    found: list[tuple[int, int, int]] = []
    while start < end:
        stop = data.find(b"\n", start, end)
        found.append((len(found), start, stop))
        start = stop + 1
    return found
