"""DuckDB's errors in one sentence: what is wrong, at which part of the query, and what was perhaps meant."""

import difflib
import re
from collections.abc import Iterable
from typing import Final

_KIND: Final = re.compile(r"^[A-Z][A-Za-z ]+ Error: ")
_PLACE: Final = re.compile(r"^LINE (\d+): ", re.MULTILINE)
_TABLE: Final = re.compile(r"Table with name (\S+) does not exist")
_HINTS: Final = ("Did you mean", "Candidate")
NEAR: Final = 3
"""Names suggested at most."""


def sentence(message: str, *, views: Iterable[str]) -> str:
    """Return DuckDB's message as one sentence. `views` are the names that a query may use."""
    said, place, rest = _parts(message)
    if table := _TABLE.search(said):
        return _no_table(table[1], sorted(views))
    lines = [line.strip() for line in said.splitlines() if line.strip()]
    first, hints = lines[0].rstrip(".!"), [line.rstrip(".!") for line in lines[1:] if not line.startswith(_HINTS)]
    named = [line for line in lines[1:] if line.startswith("Candidate bindings")]
    text = f"The query failed: {'; '.join(map(_inside, [first, *hints[:1]]))}"
    text += f" (perhaps: {named[0].partition(': ')[2]})" if named else ""
    part = _pointed_at(rest)
    line = f" in line {place}" if place > 1 else ""
    return f"{text}, at `{part}`{line}." if part and (part not in text or line) else f"{text}."


def _inside(text: str) -> str:
    """Return a sentence as it stands inside another: its first letter small, unless the word is all capitals."""
    return text[:1].lower() + text[1:] if text[1:2].islower() else text


def _parts(message: str) -> tuple[str, int, str]:
    """Return what is said, the number of the line of the query, and that line with the marks below it."""
    text = _KIND.sub("", message.strip())
    found = _PLACE.search(text)
    if found is None:
        return text, 0, ""
    said = text[: found.start()].partition("\n\tCandidate")[0]
    return said.strip(), int(found[1]), " " * len(found[0]) + text[found.end() :]


def _pointed_at(rest: str) -> str:
    """Return the part of the query above DuckDB's marks; all that follows when it marks only where a part begins."""
    line, _, marks = rest.partition("\n")
    start, length = marks.find("^"), marks.count("^")
    return "" if start < 0 else (line[start : start + length] if length > 1 else line[start:]).strip()


def _no_table(name: str, views: list[str]) -> str:
    near = difflib.get_close_matches(name, views, n=NEAR)
    meant = f": perhaps {', '.join(near)}" if near else ""
    return f'There is no sealed table {name}{meant}; `hindcast sql "show tables"` lists them.'
