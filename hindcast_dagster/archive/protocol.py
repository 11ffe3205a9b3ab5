"""What the archive is to everything above it: `archive.at(t0)` and the five tools of its view.

Nothing here knows Reddit's dumps or LanceDB; a toy corpus in the tests answers the same protocol. t0 lives in the
view and nowhere else. A call may narrow, never widen (design, the cutoff contract).
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Annotated, Any, Literal, Protocol, runtime_checkable

from pydantic import AfterValidator, BaseModel, ConfigDict, Field

from hindcast_dagster import keys
from hindcast_dagster.clock import Cutoff

DocType = Literal["submission", "comment"]
Month = Annotated[str, AfterValidator(keys.month)]
Subreddit = Annotated[str, AfterValidator(keys.subreddit)]

DEFAULT_K = 20
MAX_K = 200


class Filters(BaseModel):
    """The filter block that all five tools take (paper, A.1). Every field narrows; unknown fields are refused."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    cutoff: Any = Field(default=None, description="An earlier instant than t0; a later one is clamped to t0.")
    doc_type: DocType | None = Field(default=None, description="submission or comment.")
    subreddits: tuple[Subreddit, ...] | None = Field(default=None, description="Only these; case-insensitive.")
    author: str | None = Field(default=None, max_length=200, description="Only this author; exact.")
    months: tuple[Month, ...] | None = Field(default=None, description="Only these months, YYYY-MM.")
    start: Any = Field(default=None, description="Only rows created at or after this instant.")


NO_FILTERS = Filters()


@dataclass(frozen=True, slots=True)
class Document:
    """A post or comment as it may be seen at t0: withheld values are None, and `withheld` names them."""

    id: str
    doc_type: DocType
    subreddit: str
    author: str
    title: str | None
    text: str
    created_at: int
    text_as_of: int
    engagement_as_of: int | None
    score: int | None
    num_comments: int | None
    link_id: str | None
    parent_id: str | None
    permalink: str | None
    url: str | None
    month: str
    withheld: tuple[str, ...] = ()

    @property
    def key(self) -> str:
        """The prefixed id, unique over both kinds: t3_ for submissions, t1_ for comments."""
        return ("t3_" if self.doc_type == "submission" else "t1_") + self.id


@dataclass(frozen=True, slots=True)
class Hit:
    """A search hit: cosine distance in [0, 2], on one scale over all months."""

    document: Document
    distance: float


@dataclass(frozen=True, slots=True)
class SearchAnswer:
    """At most k hits, nearest first, and a note in words: why there are fewer, what was clamped, where data ends."""

    query: str
    cutoff: Cutoff
    hits: tuple[Hit, ...]
    note: str = ""


@dataclass(frozen=True, slots=True)
class LookupAnswer:
    """Documents of a look-up (none, one, or many in a stated order) and a note that says why some are absent."""

    cutoff: Cutoff
    documents: tuple[Document, ...]
    note: str = ""

    @property
    def document(self) -> Document | None:
        """The only document, or None."""
        return self.documents[0] if self.documents else None


@runtime_checkable
class ArchiveView(Protocol):
    """The archive as it stood at one t0. Immutable; every tool re-checks every row that it returns."""

    @property
    def cutoff(self) -> Cutoff:
        """t0."""
        ...

    @property
    def subreddits(self) -> tuple[str, ...]:
        """The exact list of subreddits that the admitted months hold, for prompts."""
        ...

    def search_database(self, query: str, *, k: int = DEFAULT_K, filters: Filters = NO_FILTERS) -> SearchAnswer:
        """Dense search over submissions: the exact top k by cosine distance among rows with created_at < t0."""
        ...

    def search_many(
        self, queries: Sequence[str], *, k: int = DEFAULT_K, filters: Filters = NO_FILTERS
    ) -> list[SearchAnswer]:
        """`search_database` for a batch of queries in one pass; answers in the order of the queries."""
        ...

    def getpostcoreinfo(self, post_id: str, *, filters: Filters = NO_FILTERS) -> LookupAnswer:
        """Fetch a submission by id."""
        ...

    def getcommentcoreinfo(self, comment_id: str, *, filters: Filters = NO_FILTERS) -> LookupAnswer:
        """Fetch a comment by id."""
        ...

    def getpostcommentslist(
        self,
        post_id: str,
        *,
        comment_id: str | None = None,
        traversal: Literal["all", "ancestors", "descendants"] = "all",
        depth: int = 10,
        limit: int = 100,
        filters: Filters = NO_FILTERS,
    ) -> LookupAnswer:
        """List comments under a post by creation time, or walk from `comment_id` to its ancestors or descendants."""
        ...

    def getauthorhistorylist(
        self, author: str, *, posts: int = 5, comments: int = 5, filters: Filters = NO_FILTERS
    ) -> LookupAnswer:
        """List an author's most recent posts, then comments, newest first in each."""
        ...


@runtime_checkable
class Archive(Protocol):
    """A frozen archive. Holds no t0."""

    @property
    def snapshot(self) -> str:
        """A hash over the pinned version of every month table: part of a forecast's identity."""
        ...

    @property
    def months(self) -> tuple[str, ...]:
        """The months whose submissions can be searched, sorted."""
        ...

    def at(self, t0: object) -> ArchiveView:
        """Return the view at t0. Raises `InvalidInstant` for None, NaN, naive datetimes, milliseconds."""
        ...
