"""Invented names: people, countries, clubs, films, coins and authors that exist nowhere: no model remembers them.

What belongs here: how a name is put together from `text/names.toml`, and the rule that no two names of one world share
the word that tells them apart.
"""

import random
import re
from typing import Any, Final, NamedTuple

from hindcast_dagster.errors import UsageError
from hindcast_dagster.sample.stories import load

_WORDS: Final[dict[str, Any]] = load("names.toml")
_PART: Final = re.compile(r"<([a-z]+)>|\{([a-z]+)\}")
_ATTEMPTS: Final = 500


class _Name(NamedTuple):
    text: str
    telling: str
    """What tells it apart: its made-up word where it has one, else the whole of it."""


class Names:
    """A source of names that never repeats one. Deterministic for one `rng`."""

    def __init__(self, rng: random.Random) -> None:
        self._rng = rng
        self._taken: set[str] = set()

    def take(self, kind: str) -> str:
        """Return a new name of a kind (`person`, `team`, `film`, ...); no later call returns it again.

        Raises `UsageError` for an unknown kind, and when a very long world has used a kind up.
        """
        for _ in range(_ATTEMPTS):
            name = self._make(kind)
            if name.telling not in self._taken:
                self._taken.add(name.telling)
                return name.text
        raise UsageError(f"The sample world has run out of names of kind {kind!r}: generate fewer months.")

    def passing(self, kind: str) -> str:
        """Return a name of a kind that was not taken; unlike `take`, it may come again."""
        while (name := self._make(kind)).telling in self._taken:
            pass
        return name.text

    def _make(self, kind: str) -> _Name:
        if kind not in _WORDS["kinds"]:
            raise UsageError(f"The sample world knows no name of kind {kind!r}: one of {', '.join(_WORDS['kinds'])}.")
        made: list[str] = []

        def part(found: re.Match[str]) -> str:
            tail, plain = found.groups()
            if plain:
                return self._pick(plain)
            made.append(self._pick("head") + self._pick(tail))
            return made[-1]

        text = _PART.sub(part, _WORDS["kinds"][kind])
        return _Name(text, (made[0] if made else text.removeprefix("The ")).lower())

    def _pick(self, words: str) -> str:
        return str(self._rng.choice(_WORDS[words]))


def author(rng: random.Random) -> str:
    """Return the pseudonym of a forum user."""
    adjective, noun = rng.choice(_WORDS["adjective"]), rng.choice(_WORDS["noun"])
    return f"{adjective}_{noun}_{rng.randint(2, 99)}".lower()[:20].rstrip("_")
