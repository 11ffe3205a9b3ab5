"""The archive as it stood at one t0: the five tools of the paper (Table 2), each through the three layers.

A view is immutable and holds its t0; two views with different t0 share nothing that depends on it. Every tool selects
months, selects rows by the predicate, reads them under the same predicate, and re-checks each one.
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, NamedTuple

from hindcast_dagster.archive import layers, limits, notes
from hindcast_dagster.archive.columns import Columns
from hindcast_dagster.archive.layers import Layers, Scope
from hindcast_dagster.archive.month import Month, StoreDisagrees
from hindcast_dagster.archive.predicate import Predicate
from hindcast_dagster.archive.protocol import (
    DEFAULT_K,
    NO_FILTERS,
    DocType,
    Document,
    Filters,
    Hit,
    LookupAnswer,
    SearchAnswer,
)
from hindcast_dagster.archive.ranking import Ranked, rank
from hindcast_dagster.archive.thread import Node, Thread, Traversal
from hindcast_dagster.clock import Cutoff
from hindcast_dagster.errors import UsageError

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    from hindcast_dagster.archive.embedding import Vectors
    from hindcast_dagster.archive.open import LanceArchive


class Place(NamedTuple):
    """Where a row lies."""

    kind: DocType
    month: str
    row: int


@dataclass(frozen=True, slots=True)
class View:
    """The archive at `cutoff`."""

    archive: "LanceArchive"
    cutoff: Cutoff
    layers: Layers = layers.ALL

    @property
    def subreddits(self) -> tuple[str, ...]:
        """Every subreddit that has a row before t0, in alphabetical order."""
        scope = self._scope(NO_FILTERS)
        seen = {
            name
            for kind in ("submission", "comment")
            for month in self._months(kind, scope)
            for name, first in month.columns.first_seen.items()
            if scope.cutoff.admits(first)
        }
        return tuple(sorted(seen, key=lambda name: (name.lower(), name)))

    def search_database(self, query: str, *, k: int = DEFAULT_K, filters: Filters = NO_FILTERS) -> SearchAnswer:
        """Dense search over submissions: the exact top k by cosine distance among rows with created_at < t0."""
        return self.search_many([query], k=k, filters=filters)[0]

    def search_many(
        self, queries: Sequence[str], *, k: int = DEFAULT_K, filters: Filters = NO_FILTERS
    ) -> list[SearchAnswer]:
        """`search_database` for a batch of queries in one pass; answers in the order of the queries."""
        scope, wanted = self._scope(filters), limits.clamp(k, limits.K)
        texts = [limits.text(query, name="query") for query in queries]
        asked = [index for index, query in enumerate(texts) if query.strip()]
        ranked: list[list[Ranked]] = [[] for _ in texts]
        if asked and self._months("submission", scope):
            cut = [texts[index][: limits.QUERY_CHARACTERS] for index in asked]
            vectors = self.archive.embedder.queries(cut)
            for index, hits in zip(asked, self.nearest(vectors, k=wanted.value, filters=filters), strict=True):
                ranked[index] = hits
        places = [Place("submission", hit.month, hit.row) for hits in ranked for hit in hits]
        documents = self._documents(places, scope)
        return [
            self._search_answer(query, hits, documents, scope, wanted)
            for query, hits in zip(texts, ranked, strict=True)
        ]

    def nearest(self, vectors: "Vectors", *, k: int = DEFAULT_K, filters: Filters = NO_FILTERS) -> list[list[Ranked]]:
        """Return the k nearest submissions for each query vector, re-checked, without reading texts."""
        scope = self._scope(filters)
        months = self._months("submission", scope)
        found = rank(months, self.archive.paths, self.archive.matrix, self.layers.predicate(scope), vectors, k=k)
        for hits in found:
            self.layers.recheck(hits, scope)
        return found

    def getpostcoreinfo(self, post_id: str, *, filters: Filters = NO_FILTERS) -> LookupAnswer:
        """Fetch a submission by id."""
        return self._by_id("submission", post_id, filters)

    def getcommentcoreinfo(self, comment_id: str, *, filters: Filters = NO_FILTERS) -> LookupAnswer:
        """Fetch a comment by id."""
        return self._by_id("comment", comment_id, filters)

    def getpostcommentslist(
        self,
        post_id: str,
        *,
        comment_id: str | None = None,
        traversal: Traversal = "all",
        depth: int = 10,
        limit: int = 100,
        filters: Filters = NO_FILTERS,
    ) -> LookupAnswer:
        """List comments under a post by creation time, or walk from `comment_id` to its ancestors or descendants.

        Oldest first. `depth` counts levels of the thread, or steps from `comment_id`. When there are more than
        `limit`, the oldest are returned, or for ancestors the nearest; the note says how many there were.
        """
        scope, post = self._scope(filters), limits.document_id(post_id, kind="submission")
        focus = None if comment_id is None else limits.document_id(comment_id, kind="comment")
        if traversal not in ("all", "ancestors", "descendants"):
            raise UsageError(f"traversal must be all, ancestors or descendants, found {traversal!r:.80}.")
        if focus is None and traversal == "ancestors":
            raise UsageError("traversal 'ancestors' needs the comment_id to start from.")
        levels, most = limits.clamp(depth, limits.DEPTH), limits.clamp(limit, limits.LIMIT)
        thread = self._thread(post, scope.widened())
        reached = self._narrowed(thread.walk(focus=focus, traversal=traversal, depth=levels.value), scope)
        kept = reached[-most.value :] if traversal == "ancestors" else reached[: most.value]
        size = f"{len(thread.nodes)} comments of this post existed before {scope.cutoff.iso}." if thread.nodes else ""
        cut = f"{len(kept)} of {len(reached)} are listed." if len(kept) < len(reached) else ""
        gone = f"Comment {focus} is not among them." if focus and thread.nodes and focus not in thread.nodes else ""
        places = [Place("comment", node.month, node.row) for node in kept]
        return self._lookup_answer(places, scope, "comment", levels.note, most.note, size, gone, cut)

    def getauthorhistorylist(
        self, author: str, *, posts: int = 5, comments: int = 5, filters: Filters = NO_FILTERS
    ) -> LookupAnswer:
        """List an author's most recent posts, then comments, newest first in each."""
        scope, name = self._scope(filters), limits.text(author, name="author")
        most = {"submission": limits.clamp(posts, limits.POSTS), "comment": limits.clamp(comments, limits.COMMENTS)}
        places = [
            place
            for kind, wanted in most.items()
            for place in self._newest(kind, name, wanted.value, scope)  # type: ignore[arg-type]
        ]
        kind: DocType = "comment" if filters.doc_type == "comment" else "submission"
        return self._lookup_answer(places, scope, kind, *(wanted.note for wanted in most.values()))

    # What the tools are made of.

    def _scope(self, filters: Filters) -> Scope:
        return Scope.of(self.cutoff, filters, self.archive.rules)

    def _all(self, kind: str) -> Mapping[str, Month]:
        return self.archive.submissions if kind == "submission" else self.archive.comments

    def _months(self, kind: str, scope: Scope) -> list[Month]:
        """Layer 1: the admitted months, oldest first; none if the call asked for the other kind of document."""
        if scope.filters.doc_type not in (None, kind):
            return []
        months = self._all(kind)
        return [months[name] for name in self.layers.select(months, scope)]

    def _by_id(self, kind: DocType, given: str, filters: Filters) -> LookupAnswer:
        scope, bare = self._scope(filters), limits.document_id(given, kind=kind)
        places = [
            Place(kind, month.month, int(row))
            for month in self._months(kind, scope)
            for row in self._legal(month, month.columns.rows_of_id(bare), self.layers.predicate(scope))
        ]
        return self._lookup_answer(places, scope, kind)

    def _thread(self, post: str, scope: Scope) -> Thread:
        predicate = self.layers.predicate(scope)
        return Thread.of(
            _node(month.columns, int(row))
            for month in self._months("comment", scope)
            for row in self._legal(month, month.columns.rows_of_link(post), predicate)
        )

    def _narrowed(self, nodes: Sequence[Node], scope: Scope) -> list[Node]:
        import numpy as np

        predicate = self.layers.predicate(scope)
        kept: set[tuple[str, int]] = set()
        for month in self._months("comment", scope):
            rows = np.array([node.row for node in nodes if node.month == month.month], dtype=np.int64)
            kept.update((month.month, row) for row in self._legal(month, rows, predicate).tolist())
        return [node for node in nodes if (node.month, node.row) in kept]

    def _newest(self, kind: DocType, author: str, count: int, scope: Scope) -> Iterator[Place]:
        predicate, left = self.layers.predicate(scope), count
        for month in reversed(self._months(kind, scope)):
            if left <= 0:
                return
            rows = self._legal(month, month.columns.rows_of_author(author), predicate)
            newest = rows[::-1][:left]
            left -= len(newest)
            yield from (Place(kind, month.month, int(row)) for row in newest)

    @staticmethod
    def _legal(month: Month, rows: "NDArray[np.integer]", predicate: Predicate) -> "NDArray[np.integer]":
        """Layer 2 on a few rows of a month."""
        return rows[predicate.mask(month.columns, rows)] if len(rows) else rows

    def _documents(self, places: Iterable[Place], scope: Scope) -> dict[Place, Document]:
        """Read rows by number and predicate, re-check every one (layer 3), and withhold what came later."""
        import numpy as np

        predicate, wanted = self.layers.predicate(scope), sorted(set(places))
        groups: dict[tuple[DocType, str], list[int]] = {}
        for place in wanted:
            groups.setdefault((place.kind, place.month), []).append(place.row)
        found = {
            Place(kind, name, row): document
            for (kind, name), rows in groups.items()
            for row, document in self._all(kind)[name].fetch(np.array(rows), predicate).items()
        }
        if missing := [place for place in wanted if place not in found]:
            raise StoreDisagrees(
                f"Row {missing[0].row} of {missing[0].month} was selected and is not returned under the same predicate."
            )
        self.layers.recheck(list(found.values()), scope)
        return {place: layers.as_seen(document, scope) for place, document in found.items()}

    def _lookup_answer(self, places: Sequence[Place], scope: Scope, kind: DocType, *said: str) -> LookupAnswer:
        found = self._documents(places, scope)
        documents = tuple(found[place] for place in places)
        return LookupAnswer(scope.cutoff, documents, notes.join(*said, self._remarks(kind, scope, len(documents))))

    def _search_answer(
        self,
        query: str,
        hits: Sequence[Ranked],
        documents: Mapping[Place, Document],
        scope: Scope,
        wanted: limits.Clamped,
    ) -> SearchAnswer:
        found = tuple(Hit(documents[Place("submission", hit.month, hit.row)], hit.distance) for hit in hits)
        said = [wanted.note]
        if not query.strip():
            said.append("The query is empty: nothing was searched.")
        elif scope.filters.doc_type == "comment":
            said.append("Search covers submissions only; read comments through getpostcommentslist.")
        else:
            cut = f"The query was cut to {limits.QUERY_CHARACTERS} characters."
            said.append(cut if len(query) > limits.QUERY_CHARACTERS else "")
            fewer = f"Only {len(found)} rows pass the cutoff and the filters." if 0 < len(found) < wanted.value else ""
            said += [fewer, self._remarks("submission", scope, len(found))]
        return SearchAnswer(query, scope.cutoff, found, notes.join(*said))

    def _remarks(self, kind: DocType, scope: Scope, count: int) -> str:
        months = list(self._all(kind))
        admitted = [month.month for month in self._months(kind, scope)]
        why = "" if count else notes.empty(scope, months, admitted)
        return notes.join(why, notes.coverage(scope, months, kind), notes.clamped(scope))


def _node(columns: Columns, row: int) -> Node:
    return Node(
        created_at=int(columns.created_at[row]),
        id=columns.ids[row].decode(),
        parent=columns.parents[row].decode(),
        month=columns.month,
        row=row,
    )
