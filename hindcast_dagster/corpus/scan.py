"""The byte scan: which lines of a block may belong to a kept subreddit, without parsing any of them.

It finds a superset. The parsed top-level field decides; the scan only rejects a line when it holds a "subreddit" key,
and no such key (a crosspost nests a whole other record) has a kept name or an escape in its value. Key spacing differs
between files, so whitespace around the colon is read as JSON reads it.

Whole blocks are searched in NumPy, which lets go of the interpreter: at the speed of a decoder beside it, a loop over
the lines would starve one of the two. Only what does not look like an ordinary foreign name is looked at one by one.
"""

import re
from typing import Final, Literal, NamedTuple

import numpy as np
from numpy.typing import NDArray

from hindcast_dagster.corpus.record import Span

_KEY: Final = b'"subreddit"'
_BEHIND: Final = len(_KEY)
_SPACED_COLON: Final = re.compile(rb"[ \t\r]*:[ \t\r]*")
_LOWER: Final = 0x20202020  # sets the bit that tells small letters from capitals, in each of four bytes
_LONGEST: Final = 24  # bytes in which a name and its closing quote are looked for; Reddit's names have 21 at most
_PIECE: Final = 1 << 20  # bytes that are searched at a time: what lies in a core's own cache
_WORD: Final = np.dtype("<u4")

_Places = NDArray[np.int64]


def _word(text: bytes) -> np.uint32:
    return np.uint32(int.from_bytes(text, "little"))


# Of any place of the key, one of the four words that begin at its bytes 4 to 7 lies on a multiple of four.
_WITHIN: Final = {at: _word(_KEY[at : at + 4]) for at in (7, 6, 5, 4)}
_PARTS: Final = {at: _word(_KEY[at : at + 4]) for at in (7, 0, 4)}  # together the whole key


class Scanned(NamedTuple):
    """What a scan found: the number of lines, and the spans of those that must be parsed."""

    lines: int
    candidates: list[Span]


class Scanner:
    """Scans the blocks of one dump. `kept` holds lower-case names."""

    def __init__(self, kept: frozenset[bytes]) -> None:
        self._kept = kept
        width = min([4, *(len(name) + 1 for name in kept)])
        self._mask = np.uint32((1 << 8 * width) - 1)
        heads = {int.from_bytes((name + b'"')[:width], "little") for name in kept}
        self._heads = np.array(sorted(head | _LOWER & int(self._mask) for head in heads), _WORD)
        self._hits, self._more = np.empty((2, _PIECE // 4), np.bool_)

    def scan(self, data: bytes, start: int, end: int) -> Scanned:
        """Scan the whole lines `data[start:end]`. The newline is not part of a candidate."""
        stops = newlines(data, start, end)
        keys = self._keys(data, start, end)
        lines = np.searchsorted(stops, keys)
        foreign = self._surely_foreign(data, keys)
        keyed, wanted = np.zeros((2, len(stops)), np.bool_)
        keyed[lines[foreign]] = True
        for key, line in zip(keys[~foreign].tolist(), lines[~foreign].tolist(), strict=True):
            verdict = self._verdict(data, key + _BEHIND, int(stops[line]))
            keyed[line] |= verdict == "foreign"
            wanted[line] |= verdict == "wanted"
        numbers = np.flatnonzero(wanted | ~keyed)
        starts = np.where(numbers > 0, stops[numbers - 1] + 1, start)
        return Scanned(len(stops), list(zip(numbers.tolist(), starts.tolist(), stops[numbers].tolist(), strict=True)))

    def _keys(self, data: bytes, start: int, end: int) -> _Places:
        """Return where the text `"subreddit"` begins, in order."""
        words = np.frombuffer(data, _WORD, end // 4)
        step = len(self._hits)
        found = [self._aligned(words[at : at + step]) + at for at in range(start // 4 // step * step, len(words), step)]
        places = np.concatenate(found) if found else np.empty(0, np.int64)
        values = words[places]
        keys = places * 4 - 4
        for at in (5, 6, 7):
            keys -= (at - 4) * (values == _WITHIN[at])
        keys = keys[(keys >= start) & (keys + _BEHIND <= end)]
        for at, part in _PARTS.items():
            keys = keys[_words_at(data, keys + at) == part]
        return keys

    def _aligned(self, words: NDArray[np.uint32]) -> _Places:
        """Return which of these words may lie within a key."""
        hits, more = self._hits[: len(words)], self._more[: len(words)]
        first, *others = _WITHIN.values()
        np.equal(words, first, out=hits)
        for other in others:
            np.equal(words, other, out=more)
            np.logical_or(hits, more, out=hits)
        return np.flatnonzero(hits)

    def _surely_foreign(self, data: bytes, keys: _Places) -> NDArray[np.bool_]:
        """Return for each key whether its value is plainly a name that is not kept; the others need a closer look."""
        if len(data) < 2 * _LONGEST:
            return np.zeros(len(keys), np.bool_)
        everything = np.frombuffer(data, np.uint8)
        near = keys + (_BEHIND + 2 + _LONGEST) < len(data)
        begins = np.where(near, keys, 0) + _BEHIND
        spaced = everything[begins + 1] == ord(" ")
        quotes = begins + 1 + spaced
        values = quotes + 1
        plain: NDArray[np.bool_] = near & (everything[begins] == ord(":")) & (everything[quotes] == ord('"'))
        heads = (_words_at(data, values) | np.uint32(_LOWER)) & self._mask
        for head in self._heads:
            plain &= heads != head
        windows = np.lib.stride_tricks.sliding_window_view(everything, _LONGEST)[values]
        ends = ((windows == ord('"')) | (windows == ord("\\")) | (windows == ord("\n"))).argmax(axis=1)
        closed: NDArray[np.bool_] = windows[np.arange(len(ends)), ends] == ord('"')
        plain &= closed
        return plain

    def _verdict(self, data: bytes, after: int, stop: int) -> Literal["wanted", "foreign", "no key"]:
        """Judge one occurrence of the text "subreddit": its value, or that it is no key at all."""
        colon = _SPACED_COLON.match(data, after, stop)
        if colon is None:
            return "no key"
        if data[colon.end() : colon.end() + 1] != b'"':
            return "foreign"  # null, a number, an object: no kept name
        quote = data.find(b'"', colon.end() + 1, stop)
        value = data[colon.end() + 1 : quote]
        if quote < 0 or b"\\" in value or value.lower() in self._kept:
            return "wanted"
        return "foreign"


def _words_at(data: bytes, places: _Places) -> NDArray[np.uint32]:
    """Return the four bytes at each place as a number; each place must have four."""
    if len(data) < _WORD.itemsize:
        return np.empty(0, _WORD)
    at_any_byte = np.ndarray((len(data) - 3,), _WORD, data, strides=(1,))
    return at_any_byte[places]


def newlines(data: bytes, start: int, end: int) -> _Places:
    """Return the places of all newlines in `data[start:end]`."""
    part = np.frombuffer(data, np.uint8)[start:end]
    mask = np.zeros(min(len(part) + 8, _PIECE) // 8 * 8, np.bool_)
    found = []
    for at in range(0, len(part), len(mask)):
        piece = part[at : at + len(mask)]
        np.equal(piece, ord("\n"), out=mask[: len(piece)])
        found.append(_true_places(mask, len(piece)) + (start + at))
    return np.concatenate(found) if found else np.empty(0, np.int64)


def _true_places(mask: NDArray[np.bool_], length: int) -> _Places:
    """Return where the first `length` values are true, when few are: eight at a time, which is twice as fast.

    The mask's own length is a multiple of eight; what lies behind `length` is overwritten.
    """
    used = -(-length // 8) * 8
    mask[length:used] = False
    rows = np.flatnonzero(mask[:used].view(np.uint64) != 0)
    row, column = np.nonzero(mask[:used].reshape(-1, 8)[rows])
    places: _Places = rows[row] * 8 + column
    return places


def spans(data: bytes, start: int, end: int) -> list[Span]:
    """Return the span of every line of `data[start:end]`."""
    found: list[Span] = []
    while start < end:
        stop = data.find(b"\n", start, end)
        found.append((len(found), start, stop))
        start = stop + 1
    return found


def count(data: bytes, start: int, end: int) -> int:
    """Return the number of lines of `data[start:end]`, three times as fast as `bytes.count`."""
    part = np.frombuffer(data, np.uint8)[start:end]
    return sum(int(np.count_nonzero(part[at : at + _PIECE] == ord("\n"))) for at in range(0, len(part), _PIECE))
