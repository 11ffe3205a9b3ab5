"""What a probe would ask for, before it asks, and the purse that it pays from."""

from collections.abc import Iterator
from dataclasses import asdict, dataclass
from math import ceil
from typing import Any, Final

from hindcast_dagster.coverage import cue_judge
from hindcast_dagster.coverage.subjects import Subject
from hindcast_dagster.llm.purse import Purse, limit_of, price_of
from hindcast_dagster.llm.tokens import CHARACTERS_PER_TOKEN
from hindcast_dagster.settings import Settings

_FIXED: Final = 700
"""Tokens of the probe's prompts without question and posts, system text included."""
_SIDES: Final = 2


@dataclass(frozen=True, slots=True)
class Plan:
    """An estimate from above: every query returns all its posts. Second calls, for unreadable replies, do not count."""

    judge: str
    as_of: str
    markets: int
    done: int
    pending: int
    calls: int
    tokens_in: int
    tokens_out: int
    cost: float | None
    """US dollars; None without a price in the roster. 0 for the judge that is no model."""

    def as_dict(self) -> dict[str, Any]:
        """Return JSON values."""
        return asdict(self)


def plan(settings: Settings, pending: list[Subject], *, judge: str, as_of: str, done: int) -> Plan:
    """Return the estimate for the markets that nobody has probed."""
    calls = tokens_in = tokens_out = 0
    cost: float | None = 0.0
    if judge != cue_judge.NAME:
        each = [list(_calls(settings, subject)) for subject in pending]
        calls = sum(map(len, each))
        tokens_in, tokens_out = (sum(call[part] for made in each for call in made) for part in (0, 1))
        price = price_of(settings, judge)
        cost = price.of(tokens_in=tokens_in, tokens_out=tokens_out) if price else None
    return Plan(judge, as_of, len(pending) + done, done, len(pending), calls, tokens_in, tokens_out, cost)


def purse(settings: Settings, judge: str, *, limit: float | None = None) -> Purse:
    """Return the purse of a probe; `limit` defaults to `llm.max_cost`. Raises `UsageError` for a limit without a price.

    The judge that is no model costs nothing and needs no limit.
    """
    return Purse(
        price_of(settings, judge), None if judge == cue_judge.NAME else limit_of(settings, limit), estimate=None
    )


def _calls(settings: Settings, subject: Subject) -> Iterator[tuple[int, int]]:
    """Yield (tokens in, tokens out) of every call for one market."""
    probe = settings.coverage
    question = _FIXED + round((len(subject.question.text) + len(subject.question.criteria)) / CHARACTERS_PER_TOKEN)
    yield question, probe.queries.max_tokens
    posts = probe.queries_per_side * probe.hits_per_query
    for _ in range(_SIDES * ceil(posts / probe.blocks_per_call)):
        blocks = min(posts, probe.blocks_per_call) * (probe.block_chars / CHARACTERS_PER_TOKEN)
        yield question + round(blocks), probe.label.max_tokens
    yield question, probe.contrast.max_tokens
