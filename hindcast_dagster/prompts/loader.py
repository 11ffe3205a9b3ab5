"""Prompt templates: package data, each with a version, filled by name.

What belongs here: reading a template and filling it. A template is `<name>.md` or `<name>.txt` beside this module. Its
first line is `version: N`; a blank line and the text follow. A place is `{{name}}`; single braces are plain text, so
JSON needs no escapes. Values are never scanned for places, so no content can reach another value or a format rule.
"""

import hashlib
import re
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache, cached_property
from importlib.resources import files
from typing import Final

from hindcast_dagster import keys
from hindcast_dagster.errors import UsageError
from hindcast_dagster.prompts.neutral import neutralise, reserved

_PLACE: Final = re.compile(r"\{\{([a-z][a-z0-9_]*)\}\}")
_TAG: Final = re.compile(r"</?([A-Za-z][A-Za-z0-9_-]*)")
_SUFFIXES: Final = (".md", ".txt")


@dataclass(frozen=True)
class Prompt:
    """One template."""

    name: str
    number: int
    """The version that its author gave; raised with every change of meaning."""
    text: str

    @cached_property
    def version(self) -> str:
        """Name, number and hash of the text: part of a forecast's identity, changed by any edit of the file."""
        return f"{self.name}@{self.number}-{hashlib.sha256(self.text.encode()).hexdigest()[:8]}"

    @cached_property
    def places(self) -> frozenset[str]:
        """The names that `fill` needs, exactly."""
        return frozenset(_PLACE.findall(self.text))

    def fill(self, *, trusted: Mapping[str, str] | None = None, **values: str) -> str:
        """Return the text with every place filled.

        `values` are untrusted and neutralised. `trusted` are ours and go in as they are: a schema, or evidence whose
        parts were neutralised when it was rendered. Raises `UsageError` when a place has no value or a value no place.
        """
        ours = dict(trusted or {})
        twice = sorted(ours.keys() & values.keys())
        wrong = twice or sorted(self.places ^ (ours.keys() | values.keys()))
        if wrong:
            raise UsageError(f"Prompt {self.name} needs exactly {sorted(self.places)}; {wrong[0]!r} does not match.")
        filled = ours | {name: content(value) for name, value in values.items()}
        return _PLACE.sub(lambda place: filled[place.group(1)], self.text)


@cache
def load(name: str) -> Prompt:
    """Return the template of this name. Raises `UsageError` for an unknown name or a file without a version."""
    keys.slug(name, what="prompt name")
    for suffix in _SUFFIXES:
        path = files(__package__).joinpath(name + suffix)
        if path.is_file():
            return _prompt(name, path.read_text(encoding="utf-8"))
    raise UsageError(f"There is no prompt {name!r}; known: {', '.join(names()) or 'none'}.")


def _prompt(name: str, raw: str) -> Prompt:
    head, _, text = raw.partition("\n")
    number = re.fullmatch(r"version: ([0-9]{1,6})", head.strip())
    if not number or not text.strip():
        raise UsageError(f"Prompt {name} must begin with a line 'version: N' and then its text; found {head[:40]!r}.")
    return Prompt(name=name, number=int(number.group(1)), text=text.strip("\n"))


@cache
def names() -> tuple[str, ...]:
    """Return the names of all templates of the package, sorted."""
    found = (entry.name.rpartition(".") for entry in files(__package__).iterdir())
    return tuple(sorted(stem for stem, dot, suffix in found if dot + suffix in _SUFFIXES))


@cache
def _tags() -> re.Pattern[str]:
    """Return the reserved tags: one that any template uses is one that content may not forge."""
    return reserved(frozenset(tag.lower() for name in names() for tag in _TAG.findall(load(name).text)))


def content(text: str) -> str:
    """Return untrusted text as it may stand in a prompt: for evidence that is rendered before it fills a place."""
    return neutralise(text, tags=_tags())
