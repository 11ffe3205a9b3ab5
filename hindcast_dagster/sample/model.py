"""What a sample world consists of: posts as the dumps will hold them, markets, and the truth that was planted."""

from dataclasses import dataclass, field
from typing import Any, Final, Literal

from hindcast_dagster.questions.question import Outcome
from hindcast_dagster.sample.stories import Story

DocKind = Literal["submission", "comment"]
Kind = Literal["fact", "hype", "silence", "contradiction"]
Status = Literal[
    "resolved", "void_50_50", "disputed", "provisional", "open", "up_down", "three_way", "no_close_time",
    "unsettled_price",
]  # fmt: skip
PriceHabit = Literal["normal", "stale", "clob_empty", "none"]

KEPT: Final = "kept"
NESTED: Final = "nested"  # a record that exists only inside another one
NOTICE: Final = (
    "This world is invented: every person, country, club, company, post, market, price and outcome in it was generated "
    "by hindcast_dagster.sample. It proves that the pipeline runs; it says nothing about the real world or any model."
)


@dataclass(slots=True, eq=False)
class Post:
    """One line of a dump to be. `fate` is what the corpus filters will say: kept, or the first failing reason."""

    kind: DocKind
    subreddit: str
    author: str
    created_at: int
    text: str
    title: str = ""
    score: int | None = 1
    num_comments: int = 0
    fetched_at: int = 0
    """Second retrieval: when score, comment count and a restored text were read."""
    edited_at: int | None = None
    flagged_edited: bool = False
    """Edited after the first retrieval: the stored text is the first one."""
    restored: bool = False
    deleted_later: bool = False
    url: str | None = None
    link: "Post | None" = None
    parent: "Post | None" = None
    crosspost_of: "Post | None" = None
    original: "Post | None" = None
    """The row that this one repeats: it gets the same id, and a later place in the file."""
    fate: str = KEPT
    id: str = ""
    overrides: dict[str, Any] = field(default_factory=dict)
    """Raw fields that replace what would be written."""
    raw: bytes | None = None
    """The whole line, for lines that are no record."""

    @property
    def key(self) -> str:
        """Prefixed id: t3_ or t1_."""
        return ("t3_" if self.kind == "submission" else "t1_") + self.id

    @property
    def text_as_of(self) -> int:
        """When the stored text was true (epoch seconds)."""
        return max(self.created_at, self.edited_at or 0, self.fetched_at if self.restored else 0)


@dataclass(frozen=True, slots=True)
class SampleMarket:
    """One market of the sample world, with everything that its raw JSON and its price history are made of."""

    number: int
    market_id: str
    gamma_id: str
    story: Story
    slots: dict[str, str]
    question: str
    rules: str
    addendum: str
    """A note added after launch that states the outcome; part of the description, never to be shown."""
    event_id: str
    event_title: str
    series: str | None
    leg: bool
    open_at: int
    planned_close: int
    close_at: int
    t0: int
    """The t0 of `day_before_close`."""
    outcome: Outcome | None
    status: Status
    kind: Kind
    yes_first: bool
    yes_token: str
    no_token: str
    habit: PriceHabit
    prices: tuple[tuple[int, float], ...]
    """Price of the Yes side: (epoch seconds, 0..1), in time order, the last one before the close."""


@dataclass(frozen=True, slots=True)
class Planted:
    """The truth about one market: what its discussion is like before t0, and which posts give its outcome away."""

    market_id: str
    question: str
    topic: str
    kind: Kind
    direction: Outcome | None
    """Where the discussion before t0 points; None for silence, and for contradiction, which points both ways."""
    outcome: Outcome | None
    status: Status
    close_at: int
    t0: int
    before: tuple[str, ...]
    """Keys (t3_, t1_) of posts about it from before t0 that pass the filters, without those in `late_text`."""
    between: tuple[str, ...]
    """Keys of posts from t0 to the close: evidence that a forecaster at t0 must not see."""
    after: tuple[str, ...]
    """Keys of posts that state the outcome; all of them were created after the close."""
    late_text: tuple[str, ...]
    """Keys of posts created before t0 whose stored text states the outcome: edited or restored after the close."""


@dataclass(frozen=True, slots=True)
class Golden:
    """What tests may pin about one market."""

    kind: Kind
    outcome: Outcome | None
    status: Status
    close_at: int
    t0: int
    price_at_t0: float | None
