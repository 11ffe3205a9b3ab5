"""A toy archive: a list of documents in memory that answers the archive's protocol in plain Python.

It proves that nothing above the archive knows Reddit's dumps or LanceDB, and it is the oracle that the real archive is
compared with. It is written for reading, not for speed, and shares no code with `hindcast_dagster/archive` beyond the
protocol.
"""

import hashlib
import math
import re
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Literal

from hindcast_dagster import keys
from hindcast_dagster.archive.protocol import (
    DEFAULT_K,
    MAX_K,
    NO_FILTERS,
    Document,
    Filters,
    Hit,
    LookupAnswer,
    SearchAnswer,
)
from hindcast_dagster.clock import Cutoff, instant, iso, month_of
from hindcast_dagster.errors import UsageError

Distance = Callable[[str, Document], float]
Tree = tuple[dict[str, Document], dict[str | None, list[Document]]]


def document(name: str, created_at: object, text: str = "", **values: object) -> Document:
    """Make a document in a test: `document("p1", "2025-03-01", title="...")` is a post, one with `link_id` a comment.

    `text_as_of` and `engagement_as_of` default to the creation, so that strict mode shows all of it a second later.
    """
    created = instant(created_at)
    comment = "link_id" in values
    base: dict[str, object] = {
        "doc_type": "comment" if comment else "submission",
        "subreddit": "toys",
        "author": "anon",
        "title": None if comment else f"Title of {name}",
        "text_as_of": created,
        "engagement_as_of": created,
        "score": 10,
        "num_comments": None if comment else 5,
        "link_id": None,
        "parent_id": f"t3_{values['link_id']}" if comment else None,
        "permalink": None,
        "url": None,
        "month": month_of(created),
    }
    return Document(id=name, created_at=created, text=text, **(base | values))  # type: ignore[arg-type]


def words(text: str) -> Counter[str]:
    return Counter(re.findall(r"[^\W_]+", text.lower()))


def bag_of_words(query: str, found: Document) -> float:
    """Cosine distance between the word counts of a query and of a post's title and text, in [0, 1]."""
    left, right = words(query), words(f"{found.title or ''} {found.text}")
    dot = sum(count * right[word] for word, count in left.items())
    norm = math.sqrt(sum(n * n for n in left.values()) * sum(n * n for n in right.values()))
    return 1.0 - dot / norm if norm else 1.0


class ToyArchive:
    """An archive of the given documents. `distance` replaces the bag of words."""

    def __init__(
        self,
        documents: Iterable[Document],
        *,
        mode: Literal["strict", "paper"] = "strict",
        late_votes: Literal["withhold", "hide"] = "withhold",
        distance: Distance = bag_of_words,
    ) -> None:
        self.documents = tuple(sorted(documents, key=lambda found: (found.created_at, found.key)))
        self.mode, self.late_votes, self.distance = mode, late_votes, distance

    @property
    def snapshot(self) -> str:
        return hashlib.sha256(repr(self.documents).encode()).hexdigest()

    @property
    def months(self) -> tuple[str, ...]:
        return tuple(sorted({found.month for found in self.documents if found.doc_type == "submission"}))

    def at(self, t0: object) -> "ToyView":
        return ToyView(self, Cutoff.of(t0))


@dataclass(frozen=True)
class ToyView:
    """The toy archive at one t0: every tool starts from the rows that existed then."""

    archive: ToyArchive
    cutoff: Cutoff

    @property
    def subreddits(self) -> tuple[str, ...]:
        seen = {found.subreddit for found in self.archive.documents if found.created_at < self.cutoff.epoch}
        return tuple(sorted(seen, key=lambda name: (name.lower(), name)))

    def search_database(self, query: str, *, k: int = DEFAULT_K, filters: Filters = NO_FILTERS) -> SearchAnswer:
        return self.search_many([query], k=k, filters=filters)[0]

    def search_many(
        self, queries: Sequence[str], *, k: int = DEFAULT_K, filters: Filters = NO_FILTERS
    ) -> list[SearchAnswer]:
        cutoff = self.cutoff.clamp(filters.cutoff)
        rows = [found for found in self._visible(cutoff, filters) if found.doc_type == "submission"]
        return [self._nearest(query, rows, clamped(k, 1, MAX_K), cutoff) for query in queries]

    def _nearest(self, query: str, rows: Sequence[Document], k: int, cutoff: Cutoff) -> SearchAnswer:
        if not query.strip():
            return SearchAnswer(query, cutoff, (), "The query is empty: nothing was searched.")
        hits = sorted(
            (Hit(found, self.archive.distance(query, found)) for found in rows),
            key=lambda hit: (hit.distance, hit.document.id),
        )[:k]
        return SearchAnswer(query, cutoff, tuple(hits), said(len(hits), cutoff))

    def getpostcoreinfo(self, post_id: str, *, filters: Filters = NO_FILTERS) -> LookupAnswer:
        return self._by_id("t3_", post_id, filters)

    def getcommentcoreinfo(self, comment_id: str, *, filters: Filters = NO_FILTERS) -> LookupAnswer:
        return self._by_id("t1_", comment_id, filters)

    def _by_id(self, prefix: str, given: str, filters: Filters) -> LookupAnswer:
        cutoff, key = self.cutoff.clamp(filters.cutoff), prefix + bare(given, prefix)
        found = tuple(row for row in self._visible(cutoff, filters) if row.key == key)
        return LookupAnswer(cutoff, found, said(len(found), cutoff))

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
        post = bare(post_id, "t3_")
        focus = None if comment_id is None else bare(comment_id, "t1_")
        if focus is None and traversal == "ancestors":
            raise UsageError("traversal 'ancestors' needs comment_id.")
        cutoff, depth, limit = self.cutoff.clamp(filters.cutoff), clamped(depth, 1, 50), clamped(limit, 1, 500)
        # The thread is built from every row that existed at the cutoff; the filters then narrow what is returned.
        tree = family([row for row in self._visible(cutoff, NO_FILTERS) if row.link_id == post])
        chosen = walk(tree, focus=focus, traversal=traversal, depth=depth)
        narrowed = [row for row in self._visible(cutoff, filters) if row.id in chosen and row.link_id == post]
        kept = narrowed[-limit:] if traversal == "ancestors" else narrowed[:limit]
        return LookupAnswer(cutoff, tuple(kept), said(len(kept), cutoff))

    def getauthorhistorylist(
        self, author: str, *, posts: int = 5, comments: int = 5, filters: Filters = NO_FILTERS
    ) -> LookupAnswer:
        cutoff = self.cutoff.clamp(filters.cutoff)
        newest = [row for row in reversed(self._visible(cutoff, filters)) if row.author == author]
        chosen: list[Document] = []
        for kind, count in (("submission", posts), ("comment", comments)):
            chosen += [row for row in newest if row.doc_type == kind][: clamped(count, 0, 100)]
        return LookupAnswer(cutoff, tuple(chosen), said(len(chosen), cutoff))

    def _visible(self, cutoff: Cutoff, filters: Filters) -> list[Document]:
        """Rows that existed at the cutoff and pass the filters, oldest first, with what came later withheld."""
        return [
            self._as_of(found, cutoff)
            for found in self.archive.documents
            if self._existed(found, cutoff) and passes(found, filters)
        ]

    def _existed(self, found: Document, cutoff: Cutoff) -> bool:
        if not cutoff.admits(found.created_at):
            return False
        if self.archive.mode == "paper":
            return True
        return found.text_as_of < cutoff.epoch and (self.archive.late_votes == "withhold" or votes(found, cutoff))

    def _as_of(self, found: Document, cutoff: Cutoff) -> Document:
        if self.archive.mode == "paper" or votes(found, cutoff):
            return found
        withheld = tuple(name for name in ("score", "num_comments") if getattr(found, name) is not None)
        return replace(found, score=None, num_comments=None, withheld=withheld)


def votes(found: Document, cutoff: Cutoff) -> bool:
    """Whether the votes were read before the cutoff; an unknown time counts as later."""
    return found.engagement_as_of is not None and found.engagement_as_of < cutoff.epoch


def passes(found: Document, filters: Filters) -> bool:
    return (
        (filters.doc_type is None or found.doc_type == filters.doc_type)
        and (filters.subreddits is None or found.subreddit.lower() in {name.lower() for name in filters.subreddits})
        and (filters.author is None or found.author == filters.author)
        and (filters.months is None or found.month in filters.months)
        and (filters.start is None or found.created_at >= instant(filters.start))
    )


def family(rows: Sequence[Document]) -> Tree:
    """Comments by id, and children by parent id; a row whose parent is not among them is a child of None."""
    by_id = {row.id: row for row in rows}
    children: dict[str | None, list[Document]] = {}
    for row in rows:
        parent = (row.parent_id or "").removeprefix("t1_")
        is_reply = (row.parent_id or "").startswith("t1_") and parent in by_id and parent != row.id
        children.setdefault(parent if is_reply else None, []).append(row)
    return by_id, children


def walk(tree: Tree, *, focus: str | None, traversal: str, depth: int) -> set[str]:
    """The ids that a traversal reaches: `depth` steps up or down from the focus, or `depth` levels of the thread."""
    by_id, children = tree
    if focus is None:
        reached = descend(children, [row.id for row in children.get(None, [])], depth - 1)
        everything = descend(children, [row.id for row in children.get(None, [])], len(by_id))
        for row in by_id.values():  # what hangs on a cycle is reached from no root: its oldest comment stands in
            if row.id not in everything:
                reached |= descend(children, [row.id], depth - 1)
                everything |= descend(children, [row.id], len(by_id))
        return reached
    if focus not in by_id:
        return set()
    below = descend(children, [focus], depth) - {focus}
    above = ascend(children, focus, depth)
    return {"ancestors": above, "descendants": below, "all": above | {focus} | below}[traversal]


def descend(children: Mapping[str | None, list[Document]], start: Sequence[str], steps: int) -> set[str]:
    reached, level = set(start), list(start)
    for _ in range(steps):
        level = [row.id for parent in level for row in children.get(parent, []) if row.id not in reached]
        reached |= set(level)
    return reached


def ascend(children: Mapping[str | None, list[Document]], focus: str, steps: int) -> set[str]:
    parents = {row.id: parent for parent, rows in children.items() for row in rows}
    reached: set[str] = set()
    here = parents.get(focus)
    while here is not None and here not in reached and here != focus and len(reached) < steps:
        reached.add(here)
        here = parents.get(here)
    return reached


def bare(given: str, prefix: str) -> str:
    other = "t1_" if prefix == "t3_" else "t3_"
    if isinstance(given, str) and given.startswith(other):
        raise UsageError(f"{given!r} is the id of the other kind; expected {prefix}.")
    return keys.reddit_id(given)


def clamped(value: int, low: int, high: int) -> int:
    return max(low, min(value, high))


def said(count: int, cutoff: Cutoff) -> str:
    return "" if count else f"Nothing that passes the filters existed before {iso(cutoff.epoch)}."
