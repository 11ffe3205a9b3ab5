"""A forgiving reader for one JSON object inside a reply.

What belongs here: the syntax slips of language models (single or curly quotes, bare keys and values, comments, trailing
commas, raw newlines in strings). What does not: meaning. A bare value that is not JSON becomes the string that it is
(`65%`, `0.6-0.7`), and the rules in `parse` decide what it is worth. An object that the text does not finish is
`Truncated`: half an object is never completed by guessing.
"""

import json
import re
from typing import Any, Final, NamedTuple

MAX_DEPTH: Final = 32
"""Nested deeper than any schema of ours; bounds the recursion on hostile replies."""

_QUOTES: Final = {'"': '"', "'": "'", "\u201c": "\u201d", "\u2018": "\u2019"}
_ESCAPES: Final = {"n": "\n", "t": "\t", "r": "\r", "b": "\b", "f": "\f"}
_BARE_KEY: Final = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")
_BARE_VALUE: Final = re.compile(r"[^,{}\[\]\"\n]+")
_SKIPPED: Final = re.compile(r"(?:\s+|//[^\n]*|/\*.*?\*/)*", re.DOTALL)
_HEX4: Final = re.compile(r"[0-9A-Fa-f]{4}")
_LITERALS: Final[dict[str, Any]] = {
    "true": True,
    "false": False,
    "null": None,
    "None": None,
    "True": True,
    "False": False,
}
_HALVES: Final = re.compile("[\ud800-\udfff]")
_NUMBER: Final = re.compile(r"-?(?:0|[1-9][0-9]{0,17})(?:\.[0-9]{1,40})?(?:[eE][+-]?[0-9]{1,3})?")


class Malformed(ValueError):
    """The text at this place is not an object, however forgiving one reads it."""


class Truncated(Malformed):
    """The text ends inside the object."""


class Read(NamedTuple):
    """An object, and where the text goes on after it."""

    value: dict[str, Any]
    end: int
    repaired: bool
    """It was not valid JSON as it stood."""


def merged(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    """Return the pairs as a dict; a key that is given twice with different values gets a text that no rule accepts."""
    found: dict[str, Any] = {}
    for key, value in pairs:
        found[key] = value if key not in found or found[key] == value else f"given twice: {found[key]}, {value}"
    return found


_STRICT: Final = json.JSONDecoder(object_pairs_hook=merged, strict=False)


def read_object(text: str, start: int) -> Read:
    """Return the object that begins at `text[start]`, which is `{`. Raises `Malformed` or `Truncated`."""
    try:
        value, end = _STRICT.raw_decode(text, start)
        return Read(_whole(value, escaped="\\u" in text), end, repaired=False)
    except (ValueError, RecursionError):
        reader = _Reader(text, start)
        value = reader.object(0)
        return Read(_whole(value, escaped="\\u" in text), reader.at, repaired=True)


def whole(text: str) -> str:
    """Return a text with characters only: halves of one that JSON can escape are joined, or replaced when alone.

    Half a character can be neither stored nor printed nor sent, so it goes where a reply is read.
    """
    if _HALVES.search(text) is None:
        return text
    return text.encode("utf-16", "surrogatepass").decode("utf-16", "replace")


def _whole(value: Any, *, escaped: bool) -> Any:
    """Return a JSON value with whole texts; without an escape in the reply it is returned as it is."""
    if not escaped:
        return value
    if isinstance(value, dict):
        return merged([(whole(key), _whole(each, escaped=True)) for key, each in value.items()])
    if isinstance(value, list):
        return [_whole(each, escaped=True) for each in value]
    return whole(value) if isinstance(value, str) else value


class _Reader:
    def __init__(self, text: str, at: int) -> None:
        self.text, self.at = text, at

    def object(self, depth: int) -> dict[str, Any]:
        if depth > MAX_DEPTH:
            raise Malformed("nested too deeply")
        self.at += 1  # {
        pairs: list[tuple[str, Any]] = []
        while self._peek() != "}":
            key = self._key()
            if self._peek() != ":":
                raise Malformed("a key without a value")
            self.at += 1
            pairs.append((key, self._value(depth)))
            self._separator("}")
        self.at += 1
        return merged(pairs)

    def _array(self, depth: int) -> list[Any]:
        if depth > MAX_DEPTH:
            raise Malformed("nested too deeply")
        self.at += 1  # [
        items: list[Any] = []
        while self._peek() != "]":
            items.append(self._value(depth))
            self._separator("]")
        self.at += 1
        return items

    def _peek(self) -> str:
        """Return the next character that is not space or comment."""
        found = _SKIPPED.match(self.text, self.at)
        self.at = found.end() if found else self.at
        if self.at >= len(self.text):
            raise Truncated("the text ends inside an object")
        return self.text[self.at]

    def _separator(self, closing: str) -> None:
        nxt = self._peek()
        if nxt == ",":
            self.at += 1
        elif nxt != closing:
            raise Malformed("two values without a comma")

    def _key(self) -> str:
        if self._peek() in _QUOTES:
            return self._string()
        found = _BARE_KEY.match(self.text, self.at)
        if not found:
            raise Malformed("not a key")
        self.at = found.end()
        return found.group()

    def _value(self, depth: int) -> Any:
        nxt = self._peek()
        if nxt == "{":
            return self.object(depth + 1)
        if nxt == "[":
            return self._array(depth + 1)
        return self._string() if nxt in _QUOTES else self._bare()

    def _string(self) -> str:
        closing = _QUOTES[self.text[self.at]]
        parts: list[str] = []
        self.at += 1
        while self.at < len(self.text):
            ch = self.text[self.at]
            self.at += 1
            if ch == closing:
                return "".join(parts)
            parts.append(self._escaped() if ch == "\\" else ch)
        raise Truncated("the text ends inside a string")

    def _escaped(self) -> str:
        ch = self.text[self.at : self.at + 1]
        self.at += 1
        code = _HEX4.match(self.text, self.at) if ch == "u" else None
        if code:
            self.at = code.end()
            return chr(int(code.group(), 16))
        return _ESCAPES.get(ch, ch)

    def _bare(self) -> Any:
        found = _BARE_VALUE.match(self.text, self.at)
        if not found:
            raise Malformed("not a value")
        self.at = found.end()
        if self.at >= len(self.text):
            raise Truncated("the text ends inside a value")
        word = found.group().partition("//")[0].strip()
        return _LITERALS[word] if word in _LITERALS else float(word) if _NUMBER.fullmatch(word) else word
