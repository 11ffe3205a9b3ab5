"""The generated sample world: one seed, one world, down to the last byte.

`generate` puts the parts together: markets (`plan`), what people write about them (`discuss`), everything else that is
in a forum (`filler`), and the defects of real dumps (`defects`). `write` and `server` hand the world to the pipeline.
"""

import random
from collections import Counter, defaultdict
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property
from typing import Any, Literal

from hindcast_dagster import clock, keys
from hindcast_dagster.errors import UsageError
from hindcast_dagster.sample import defects, filler, gamma, plan
from hindcast_dagster.sample.discuss import Discussion, Writer, discuss
from hindcast_dagster.sample.model import KEPT, NESTED, NOTICE, Golden, Planted, Post, SampleMarket
from hindcast_dagster.sample.names import Names
from hindcast_dagster.sample.people import Crowd
from hindcast_dagster.sample.prices import price_before
from hindcast_dagster.sample.records import base36, line
from hindcast_dagster.sample.stories import stream

DumpKind = Literal["submissions", "comments"]

_FIRST_ID = {"submission": int("1mqa000", 36), "comment": int("n8qa000", 36)}


@dataclass(frozen=True)
class World:
    """A sample world: dumps, markets and the truth that was planted. Build with `generate`."""

    seed: int
    months: tuple[str, ...]
    markets: tuple[SampleMarket, ...]
    planted: tuple[Planted, ...]
    posts: dict[tuple[DumpKind, str], tuple[Post, ...]]
    """The rows of every dump, in file order."""
    notice: str = NOTICE

    def lines(self, kind: DumpKind, month: str) -> Iterator[bytes]:
        """Yield the lines of one dump, without newlines. Raises `UsageError` for a month outside this world."""
        if (kind, month) not in self.posts:
            raise UsageError(
                f"The sample world has no {kind} of {month}: it spans {self.months[0]}..{self.months[-1]}."
            )
        return map(line, self.posts[kind, month])

    def ledger(self, kind: DumpKind, month: str) -> dict[str, int]:
        """Return how many rows of one dump the default filters keep (`kept`) and drop, by reason."""
        return dict(Counter(post.fate for post in self.posts[kind, month]))

    @cached_property
    def gamma_rows(self) -> list[dict[str, Any]]:
        """Every market as Gamma lists it, in the order of ids."""
        return sorted((gamma.row(market) for market in self.markets), key=lambda found: int(found["id"]))

    @cached_property
    def golden(self) -> dict[str, Golden]:
        """What tests may pin about every market, by market id."""
        return {
            market.market_id: Golden(
                kind=market.kind,
                outcome=market.outcome,
                status=market.status,
                close_at=market.close_at,
                t0=market.t0,
                price_at_t0=price_before(market.prices, market.t0),
            )
            for market in self.markets
        }


def generate(months: int = 6, seed: int = 0, first_month: str = "2025-08") -> World:
    """Return the world of a seed: `months` months from `first_month` on, with about seven markets a month.

    The same arguments give the same world. Raises `UsageError` for a month that is none, or for fewer than one month or
    more than `plan.MAX_MONTHS`.
    """
    keys.month(first_month)
    span = clock.months(first_month, clock.shift_month(first_month, months - 1)) if months > 0 else []
    names, crowd = Names(stream(seed, "names")), Crowd(seed)
    markets = plan.markets(seed=seed, months=span, names=names)
    first, last = clock.month_start(span[0]), clock.month_end(span[-1])
    talks = [
        discuss(Writer(stream(seed, "market", market.number), crowd), market, first=first, last=last)
        for market in markets
    ]
    posts = _dumps(seed, span, crowd, names, [post for talk in talks for post in talk.posts()])
    planted = tuple(_planted(market, talk) for market, talk in zip(markets, talks, strict=True))
    return World(seed=seed, months=tuple(span), markets=markets, planted=planted, posts=posts)


def _dumps(
    seed: int, months: list[str], crowd: Crowd, names: Names, discussed: list[Post]
) -> dict[tuple[DumpKind, str], tuple[Post, ...]]:
    """Return the rows of every dump in file order, with ids assigned."""
    by_month, told = _forum(seed, months, crowd, names, discussed), set(map(id, discussed))
    for (kind, month), rows in by_month.items():
        writer = Writer(stream(seed, "defects", kind, month), crowd)
        rows.extend(defects.plant(writer, month, [post for post in rows if post.fate == KEPT and id(post) not in told]))
        _order(writer.rng, rows)
    _number([post for rows in by_month.values() for post in rows], stream(seed, "ids"))
    return {key: tuple(rows) for key, rows in by_month.items()}


def _forum(
    seed: int, months: list[str], crowd: Crowd, names: Names, discussed: list[Post]
) -> dict[tuple[DumpKind, str], list[Post]]:
    """Return what is written in every month, about markets and about anything else, without defects."""
    by_month: dict[tuple[DumpKind, str], list[Post]] = defaultdict(list)
    for post in discussed:
        by_month[f"{post.kind}s", clock.month_of(post.created_at)].append(post)  # type: ignore[index]
    for month in months:
        writer = Writer(stream(seed, "month", month), crowd)
        kept = [*by_month["submissions", month], *filler.month_of_chatter(writer, names, month)]
        replies = [reply for post in kept for reply in filler.replies(writer, post, clock.month_end(months[-1]))]
        for post in [*replies, *filler.rejected_comments(writer, month, kept)]:
            by_month["comments", clock.month_of(post.created_at)].append(post)
        by_month["submissions", month] = [*kept, *filler.rejected_submissions(writer, names, month, kept)]
    return by_month


def _order(rng: random.Random, rows: list[Post]) -> None:
    """Sort rows roughly by time, as dumps are; a repeated row comes after its original."""
    again = [post for post in rows if post.original is not None]
    rows[:] = sorted(
        (post for post in rows if post.original is None), key=lambda post: post.created_at + rng.uniform(-90, 90)
    )
    for post in again:
        assert post.original is not None
        rows.insert(rng.randint(rows.index(post.original) + 1, len(rows)), post)


def _number(posts: list[Post], rng: random.Random) -> None:
    """Give every row its id, rising with time save for small swaps; a duplicate takes the id of its original."""
    nested = [found for post in posts if (found := post.crosspost_of) is not None and found.fate == NESTED]
    for kind, start in _FIRST_ID.items():
        number = start
        rows = [post for post in (*posts, *nested) if post.kind == kind]
        rows.sort(key=lambda post: post.created_at + rng.uniform(-30, 30))
        for post in rows:
            number += rng.randint(1, 40)
            post.id = base36(number)
    for post in posts:
        if post.original is not None:
            post.id = post.original.id


def _planted(market: SampleMarket, talk: Discussion) -> Planted:
    pointing = {"silence": None, "contradiction": None, "hype": "Yes", "fact": market.outcome or "Yes"}
    return Planted(
        market_id=market.market_id,
        question=market.question,
        topic=market.story.topic,
        kind=market.kind,
        direction=pointing[market.kind],
        outcome=market.outcome,
        status=market.status,
        close_at=market.close_at,
        t0=market.t0,
        before=tuple(post.key for post in talk.before),
        between=tuple(post.key for post in talk.between),
        after=tuple(post.key for post in talk.after),
        late_text=tuple(post.key for post in talk.late_text),
    )
