"""Defects that real dumps have, planted into every month: each has broken some reader before."""

import random
from dataclasses import replace

from hindcast_dagster import clock
from hindcast_dagster.clock import DAY
from hindcast_dagster.sample.discuss import Writer
from hindcast_dagster.sample.filler import OUTSIDE
from hindcast_dagster.sample.model import KEPT, NESTED, Post
from hindcast_dagster.sample.people import BOTS

_SHARED = "found this elsewhere and thought that people here would like to read the whole thing, so I am sharing it too"
_SURROGATE = "\ud83d"  # half an emoji, as Reddit's own cut-off texts have it


def plant(writer: Writer, month: str, kept: list[Post]) -> list[Post]:
    """Return the extra rows of one month and kind. `kept` are rows that pass and tell nothing about a market.

    A few of them are changed in place.
    Every extra row has a fate other than kept, save the crosspost.
    """
    rng = writer.rng
    chosen = rng.sample(kept, k=min(40, len(kept)))
    if len(chosen) < 40:  # noqa: PLR2004 - a month this thin cannot carry every defect
        return []
    _retouch(rng, chosen[:12])
    extra = _records(chosen[12:], month, rng)
    extra += [_garbage(post, line) for post, line in zip(chosen[30:32], _LINES, strict=True)]
    if chosen[0].kind == "submission":
        extra.append(_crosspost(writer, chosen[33]))
    return extra


def _retouch(rng: random.Random, posts: list[Post]) -> None:
    """Change kept rows in ways that no filter minds: half an emoji, flags of edits, bots, restored texts."""
    for post in posts[:3]:
        post.text += f" {_SURROGATE}"
    for post in posts[3:7]:
        post.flagged_edited = True
    for post in posts[7:9]:
        post.author = rng.choice(BOTS[1:])
    for post in posts[9:11]:
        post.restored = True
    posts[11].edited_at = posts[11].created_at + 240


def _records(posts: list[Post], month: str, rng: random.Random) -> list[Post]:
    """Rows that are records, but that no reader may take at face value."""
    first, after = clock.month_start(month), clock.month_end(month)
    return [
        _again(posts[0]),
        _again(posts[1]),
        _again(posts[2], text="[removed]"),  # the same id again, after a moderator took it down
        replace(posts[3], fate="outside_month", created_at=first - 1 - rng.randint(0, DAY)),
        replace(posts[4], fate="outside_month", created_at=after + rng.randint(0, DAY)),
        replace(posts[5], fate="no_id", overrides={"id": None, "name": None}),
        replace(posts[6], fate="score_unknown", score=None),
        replace(posts[7], fate="bad_record", overrides={"created_utc": None, "created": None}),
        replace(posts[8], fate="author_gone", author="[deleted]", overrides={"url": None, "domain": None}),
    ]


def _again(post: Post, *, text: str | None = None) -> Post:
    return replace(post, fate="duplicate", text=post.text if text is None else text, original=post)


_LINES = (b'{"author":"cut_off_line","body":"the writer of this line was stop', b"\x00\x00\x00\x00 not json at all")


def _garbage(post: Post, line: bytes) -> Post:
    return replace(post, fate="bad_record", raw=line)


def _crosspost(writer: Writer, source: Post) -> Post:
    """Return a kept post that nests a whole record of another subreddit."""
    at = min(source.created_at + 4_000, clock.month_end(clock.month_of(source.created_at)) - 1)
    nested = replace(source, subreddit=writer.rng.choice(OUTSIDE), id="", fate=NESTED)
    title = f"{source.title} ({_SHARED})"
    post = writer.dress("submission", title, "", source.subreddit, at)
    post.crosspost_of, post.fate = nested, KEPT
    return post
