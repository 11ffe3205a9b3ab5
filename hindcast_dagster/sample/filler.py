"""Everything that is about no market: near misses, daily chatter, replies, and rows that the filters are there for."""

import random
from typing import Final

from hindcast_dagster import clock
from hindcast_dagster.sample.discuss import Writer
from hindcast_dagster.sample.model import Post
from hindcast_dagster.sample.names import Names
from hindcast_dagster.sample.people import BOTS
from hindcast_dagster.sample.stories import say, stories, voices

OUTSIDE: Final = (
    "gardening",
    "AskBaking",
    "woodworking",
    "aquariums",
    "trainspotting",
    "mildlyinteresting",
    "teenagers",
)
_NEAR_MISSES: Final = 6  # invented subjects a month that no market asks about
_CHATTER: Final = 64
_LINK_POSTS: Final = 6
_CHATTY: Final = 0.7
_REPLIES: Final = (0, 0, 1, 1, 2, 3, 4, 7)  # replies that pass the filters, under one submission
_QUIET: Final = ("nfl", "baseball", "formula1")  # subreddits of the default list that no story is about
SUBREDDITS: Final = tuple(sorted({*_QUIET, *(name for story in stories() for name in story.subreddits)}))


def month_of_chatter(writer: Writer, names: Names, month: str) -> list[Post]:
    """Return the submissions of a month that pass the filters and are about no market."""
    rng, first, last = writer.rng, clock.month_start(month), clock.month_end(month)

    def when() -> int:
        return rng.randint(first + 600, last - 600)

    posts = []
    for _ in range(_NEAR_MISSES):
        story = rng.choice(stories())
        numbers = {slot: str(rng.randint(low, high)) for slot, (low, high) in story.numbers.items()}
        slots = {slot: names.passing(kind) for slot, kind in story.names.items()} | numbers
        slots["by"] = "the end of the month"
        purposes = rng.choices(("yes", "no", "hype", "talk"), weights=(3, 3, 2, 2), k=rng.randint(3, 7))
        posts += [writer.post(story, slots, purpose, when()) for purpose in purposes]
    for _ in range(_CHATTER):
        posts.append(_chat(writer, _passers_by(names), when()))
    for _ in range(_LINK_POSTS):
        posts.append(_link(writer, _passers_by(names), when()))
    return posts


def _passers_by(names: Names) -> dict[str, str]:
    return {"p": names.passing("person"), "t": names.passing("town")}


def _chat(writer: Writer, slots: dict[str, str], at: int) -> Post:
    rng = writer.rng
    text = " ".join(say(rng, line, slots) for line in rng.sample(voices()["chatter"], k=rng.randint(1, 3)))
    title = say(rng, rng.choice(voices()["chatter_titles"]), slots)
    return writer.dress("submission", title, text, rng.choice(SUBREDDITS), at)


def _link(writer: Writer, slots: dict[str, str], at: int) -> Post:
    """Return a post with nothing but a link: it passes, since its title has twenty words."""
    title = say(writer.rng, writer.rng.choice(voices()["link_titles"]), slots)
    post = writer.dress("submission", title, "", writer.rng.choice(SUBREDDITS), at)
    post.url = f"https://example.org/reading/{at}"
    return post


def replies(writer: Writer, submission: Post, last: int) -> list[Post]:
    """Return comments under a submission that pass the filters; some answer each other, some come days later."""
    rng, found = writer.rng, list[Post]()
    for _ in range(rng.choice(_REPLIES)):
        parent = rng.choice(found) if found and rng.random() < 0.4 else submission  # noqa: PLR2004
        at = parent.created_at + int(rng.expovariate(1 / 20_000)) + 60
        if at >= last:
            break
        text = _remark(rng)
        if rng.random() < 0.1:  # noqa: PLR2004
            text = f"> {submission.text[:60]}\n\n{text}"  # a quotation: written &gt; in a dump
        found.append(writer.reply(parent, text, at))
    return found


def _remark(rng: random.Random) -> str:
    """Return a reply that says nothing about the matter."""
    bank = rng.choices(("reply_agree", "reply_doubt", "reply_talk"), weights=(1, 1, 2))[0]
    said = [rng.choice(voices()[bank])] + ([rng.choice(voices()["reply_more"])] if rng.random() < _CHATTY else [])
    return " ".join(say(rng, sentence, {}) for sentence in said)


def rejected_submissions(writer: Writer, names: Names, month: str, kept: list[Post]) -> list[Post]:
    """Return submissions that fail exactly one filter, by reason; about three for each that passes."""
    rng = writer.rng
    counts = {"other_subreddit": 330, "author_gone": 120, "text_gone": 95, "low_score": 130, "few_comments": 40}
    posts = []
    for fate, count in (counts | {"few_words": 50}).items():
        for _ in range(count):
            at = rng.randint(clock.month_start(month), clock.month_end(month) - 1)
            posts.append(_spoil(_chat(writer, _passers_by(names), at), fate, rng))
    for post in rng.sample(kept, k=min(5, len(kept))):  # a kept post, shared into another subreddit: nests the record
        shared = writer.dress("submission", post.title, "", rng.choice(OUTSIDE), post.created_at + 3_000)
        shared.crosspost_of, shared.fate = post, "other_subreddit"
        posts.append(shared)
    return posts


def rejected_comments(writer: Writer, month: str, threads: list[Post]) -> list[Post]:
    """Return comments that fail exactly one filter, by reason."""
    rng, last = writer.rng, clock.month_end(month)
    counts = {"other_subreddit": 420, "author_gone": 170, "text_gone": 150, "low_score": 420, "too_short": 50}
    posts = []
    for fate, count in (counts | {"mostly_link": 40, "few_words": 300}).items():
        for _ in range(count):
            thread = rng.choice(threads)
            at = min(thread.created_at + 60 + int(rng.expovariate(1 / 20_000)), last - 1)
            posts.append(_spoil(writer.reply(thread, _remark(rng), at), fate, rng))
    return posts


def _spoil(post: Post, fate: str, rng: random.Random) -> Post:
    """Make a post that passes every filter fail one of them."""
    post.fate = fate
    if fate == "other_subreddit":
        post.subreddit = rng.choice(OUTSIDE)
    elif fate == "author_gone":
        post.author, post.text = "[deleted]", rng.choice((post.text, "[deleted]"))
    elif fate == "text_gone":
        post.text = rng.choice(("[removed]", "[removed]", "[ Removed by Reddit ]", "[deleted]"))
    elif fate == "low_score":
        post.score = rng.randint(-8, 4)
        post.author = rng.choice(BOTS) if rng.random() < 0.15 else post.author  # noqa: PLR2004
    elif fate == "few_comments":
        post.num_comments = rng.randint(0, 2)
    elif fate == "too_short":
        post.text = rng.choice(("ok", "lol", "+1", "https://example.org/a/b"))
    elif fate == "mostly_link":
        post.text = f"see here https://example.org/thread/{post.created_at}/with/a/very/long/path"
    elif fate == "few_words":
        post.text = rng.choice(voices()["reply_short"]) + (" indeed" if post.kind == "comment" else "")
    return post
