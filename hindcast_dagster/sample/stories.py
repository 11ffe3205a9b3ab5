"""The stories that people talk about, read from the files in `text/`, and how a wording is picked."""

import random
import re
import tomllib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from importlib.resources import files
from typing import Any, Final, Literal

Shape = Literal["event", "series", "single"]

_CHOICE: Final = re.compile(r"\[([^\[\]]+)\]")
_SLOT: Final = re.compile(r"\{([a-z]+)\}")


@dataclass(frozen=True, slots=True)
class Story:
    """One kind of market and the sentences about it. `{slot}` and `[a|b]` are still unfilled."""

    key: str
    topic: str
    shape: Shape
    tags: tuple[str, ...]
    subreddits: tuple[str, ...]
    names: dict[str, str]
    """Slot to kind of name."""
    numbers: dict[str, tuple[int, int]]
    """Slot to range: `n` is drawn once a market, `m` anew for every post."""
    question: str
    rules: str
    group: str
    """Title of the event or the series; empty for a single market."""
    lines: dict[str, tuple[str, ...]]
    """Sentences by purpose: titles, yes, no, talk, hype, hype_titles, won, lost."""


_PURPOSES: Final = ("titles", "yes", "no", "talk", "hype", "hype_titles", "won", "lost")


def load(name: str) -> dict[str, Any]:
    """Return one of the TOML files in `text/`."""
    text = files("hindcast_dagster.sample").joinpath("text", name).read_text(encoding="utf-8")
    return tomllib.loads(text)


@cache
def stories() -> tuple[Story, ...]:
    """Return every story, in the order of the file."""
    return tuple(_story(raw) for raw in load("stories.toml")["story"])


def _story(raw: dict[str, Any]) -> Story:
    return Story(
        key=raw["key"],
        topic=raw["topic"],
        shape=raw["shape"],
        tags=tuple(raw["tags"]),
        subreddits=tuple(raw["subreddits"]),
        names=dict(raw["names"]),
        numbers={slot: (low, high) for slot, (low, high) in raw["numbers"].items()},
        question=raw["question"],
        rules=raw["rules"],
        group=raw.get("event") or raw.get("series") or "",
        lines={purpose: tuple(raw[purpose]) for purpose in _PURPOSES},
    )


@cache
def voices() -> Mapping[str, Sequence[str]]:
    """Return the sentences that belong to no story: openings, closings, replies, daily chatter."""
    return load("voices.toml")


def stream(seed: int, *purpose: object) -> random.Random:
    """Return the stream of random numbers of one purpose: what one part draws never shifts another."""
    return random.Random("/".join(map(str, (seed, *purpose))))  # noqa: S311 - nothing secret: the point is repetition


def say(rng: random.Random, sentence: str, slots: Mapping[str, str]) -> str:
    """Return a sentence with one wording of each `[a|b]` picked and every `{slot}` filled."""
    worded = _CHOICE.sub(lambda found: rng.choice(found.group(1).split("|")), sentence)
    return _SLOT.sub(lambda found: slots[found.group(1)], worded)
