"""What people write about one market: before t0 according to what is planted, then until the close, then afterwards.

Every post about a market names its subject. Posts that state the outcome are written after the close; where one from
before t0 carries it, its text was edited or restored after the close, and its `text_as_of` says so.
"""

import random
from dataclasses import dataclass, field
from typing import Final

from hindcast_dagster.clock import DAY, HOUR
from hindcast_dagster.questions.question import Outcome
from hindcast_dagster.sample.model import DocKind, Kind, Post, SampleMarket
from hindcast_dagster.sample.people import Crowd
from hindcast_dagster.sample.stories import Story, say, voices

_TALK_S: Final = 24 * DAY  # how long before t0 a discussion starts, at least
_MIN_WORDS: Final = 26
_ECHOED: Final = 0.5  # share of the posts to which somebody adds one more sentence of the kind
_TITLES: Final = {"hype": "hype_titles", "talk": "titles", "fact": "titles"}
_BEFORE: Final[dict[Kind, dict[str, tuple[int, int]]]] = {
    "fact": {"towards": (7, 10), "against": (0, 1), "hype": (1, 2), "talk": (2, 3)},
    "hype": {"hype": (9, 13), "talk": (2, 3)},
    "silence": {},
    "contradiction": {"towards": (4, 5), "against": (4, 5), "talk": (2, 3)},
}


@dataclass(slots=True)
class Discussion:
    """The posts about one market, by what they are to a forecaster at t0."""

    before: list[Post] = field(default_factory=list)
    between: list[Post] = field(default_factory=list)
    after: list[Post] = field(default_factory=list)
    late_text: list[Post] = field(default_factory=list)

    def posts(self) -> list[Post]:
        """Return all of them."""
        return [*self.before, *self.between, *self.after, *self.late_text]


class Writer:
    """Writes posts about stories. One writer, one stream of random numbers."""

    def __init__(self, rng: random.Random, crowd: Crowd) -> None:
        self.rng, self.crowd = rng, crowd

    def post(self, story: Story, slots: dict[str, str], purpose: str, at: int) -> Post:
        """Return a submission that says one or two sentences of a purpose (yes, no, hype, talk, won, lost)."""
        rng = self.rng
        fresh = slots | {"m": str(rng.randint(*story.numbers["m"]))}
        voice = {"hype": "hype", "talk": "talk", "won": "after", "lost": "after"}.get(purpose, "fact")
        said = rng.sample(story.lines[purpose], k=2)
        title = say(rng, said.pop() if voice == "after" else rng.choice(story.lines[_TITLES[voice]]), fresh)
        opened = [] if voice == "after" else [rng.choice(voices()[f"{voice}_open"])]
        closers = list(voices()[f"{voice}_close"])
        rng.shuffle(closers)
        parts = [say(rng, sentence, fresh) for sentence in [*opened, *said, closers[0]]]
        for closer in closers[1:]:
            if len(" ".join(parts).split()) >= _MIN_WORDS:
                break
            parts.append(say(rng, closer, fresh))
        return self.dress("submission", title, " ".join(parts), rng.choice(story.subreddits), at)

    def echo(self, story: Story, slots: dict[str, str], purpose: str, to: Post, *, before: int) -> Post:
        """Return a comment that adds one more sentence of the same purpose to a post, written before an instant."""
        fresh = slots | {"m": str(self.rng.randint(*story.numbers["m"]))}
        said = [self.rng.choice(voices()["echo_open"]), self.rng.choice(story.lines[purpose])]
        closer = self.rng.choice(voices()["hype_close" if purpose == "hype" else "echo_close"])
        text = " ".join(say(self.rng, sentence, fresh) for sentence in [*said, closer])
        return self.reply(to, text, self.rng.randint(to.created_at + 60, before - 1))

    def dress(self, kind: DocKind, title: str, text: str, subreddit: str, at: int) -> Post:
        """Return a post that passes every filter, with an author and votes."""
        rng = self.rng
        return Post(
            kind=kind,
            subreddit=subreddit,
            author=self.crowd.author(rng),
            created_at=at,
            title=title,
            text=text,
            score=self.crowd.score(rng),
            num_comments=3 + int(rng.lognormvariate(2.5, 1.1)) if kind == "submission" else 0,
            fetched_at=self.crowd.second_fetch(rng, at),
            deleted_later=rng.random() < (0.18 if kind == "submission" else 0.034),
        )

    def reply(self, to: Post, text: str, at: int) -> Post:
        """Return a comment on a submission, or on another comment of its thread."""
        post = self.dress("comment", "", text, to.subreddit, at)
        post.link = to if to.kind == "submission" else to.link
        post.parent = to
        return post


def discuss(writer: Writer, market: SampleMarket, *, first: int, last: int) -> Discussion:
    """Return what is written about a market inside [first, last), epoch seconds."""
    found = Discussion()
    stop = min(market.t0, last)
    start = max(first + 2 * HOUR, min(market.open_at, stop - _TALK_S))
    direction: Outcome = market.outcome or "Yes"
    for what, (low, high) in _BEFORE[market.kind].items():
        purpose = _purpose(what, direction)
        for _ in range(writer.rng.randint(low, high)):
            # Denser towards t0: people talk about what is near.
            at = start + int((stop - start - 1) * writer.rng.random() ** 0.6)
            post = writer.post(market.story, market.slots, purpose, at)
            found.before.append(post)
            if what in {"towards", "hype"} and stop - at > HOUR and writer.rng.random() < _ECHOED:
                found.before.append(writer.echo(market.story, market.slots, purpose, post, before=stop))
    found.before.sort(key=lambda post: post.created_at)
    if market.status != "open" and market.kind != "silence":
        for _ in range(2):
            at = writer.rng.randint(market.t0, market.close_at - 1)
            found.between.append(writer.post(market.story, market.slots, _purpose("towards", direction), at))
    if market.outcome is not None:
        _afterwards(writer, market, found, last=last)
    return found


def _purpose(what: str, direction: Outcome) -> str:
    if what in {"towards", "against"}:
        return "yes" if (direction == "Yes") == (what == "towards") else "no"
    return what


def _afterwards(writer: Writer, market: SampleMarket, found: Discussion, *, last: int) -> None:
    """Add what states the outcome: new posts, late comments under old posts, and old posts whose text came later."""
    rng, story = writer.rng, market.story
    purpose = "won" if market.outcome == "Yes" else "lost"
    ends = min(market.close_at + 3 * DAY, last)
    for _ in range(rng.randint(2, 4)):
        found.after.append(writer.post(story, market.slots, purpose, rng.randint(market.close_at + 600, ends - 1)))
    for old in rng.sample(found.before, k=min(2, len(found.before))):
        said = say(rng, rng.choice(story.lines[purpose]), market.slots)
        text = f"Coming back to this thread because it is settled now. {said} {rng.choice(voices()['after_close'])}"
        found.after.append(writer.reply(old, text, rng.randint(market.close_at + 600, ends - 1)))
    if market.number % 4 == 1:
        _late_text(writer, market, found, purpose, restored=market.number % 8 == 5, last=last)  # noqa: PLR2004


def _late_text(
    writer: Writer, market: SampleMarket, found: Discussion, purpose: str, *, restored: bool, last: int
) -> None:
    """Add a post from before t0 whose stored text was edited, or restored, after the close and states the outcome."""
    at = market.t0 - writer.rng.randint(4, 60) * HOUR
    post = writer.post(market.story, market.slots, "talk", at)
    said = say(writer.rng, writer.rng.choice(market.story.lines[purpose]), market.slots)
    post.text = f"{post.text}\n\nEDIT: {said}"
    if restored:
        post.restored, post.fetched_at = True, max(post.fetched_at, market.close_at + 9 * HOUR)
    else:
        post.edited_at = min(market.close_at + 5 * HOUR, last - 1)
    found.late_text.append(post)
