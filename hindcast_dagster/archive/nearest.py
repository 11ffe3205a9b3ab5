"""The exact top k over several months: one pass over the codes with a proved bound, then exact distances of the rest.

What belongs here: ranking, and the contiguous codes that it reads. What does not: which rows are legal (that comes
in), texts, and the cutoff. One product over all admitted months beats one a month: it starts its threads once.
"""

import threading
from collections.abc import Iterable, Iterator, Mapping, Sequence
from functools import cached_property
from typing import TYPE_CHECKING, Final, NamedTuple, Protocol

from hindcast_dagster.archive.vectors import Quantised, Query, Vectors32, facts, integer_product, quantise, similarity

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    from hindcast_dagster.archive.embedding import Vectors

    Legal = NDArray[np.bool_] | None

SPARSE: Final = 0.05  # below this share of legal rows, reading their vectors costs less than scanning the month's codes
SCORES: Final = 2**24  # scores held at once: 64 MiB
GROUP: Final = 256  # scores of which the best is looked at first


class Source(Protocol):
    """What is read of a month."""

    @property
    def month(self) -> str:
        """YYYY-MM."""
        ...

    @property
    def rows(self) -> int:
        """The number of rows."""
        ...

    @property
    def vectors(self) -> Vectors32:
        """Its vectors."""
        ...

    @property
    def ids(self) -> "NDArray[np.bytes_]":
        """Its ids; equal distances are ordered by id."""
        ...


class Found(NamedTuple):
    """One ranked row."""

    distance: float
    id: bytes
    month: str
    row: int


class Span(NamedTuple):
    """A run of rows of the matrix that is scanned at once, and which of them are legal, month by month."""

    start: int
    stop: int
    legal: "list[NDArray[np.bool_]]"


class Near(NamedTuple):
    """Rows of the matrix, in order, that can be among the nearest to one query: |score - similarity| <= error."""

    rows: "NDArray[np.int64]"
    score: "NDArray[np.float64]"
    error: "NDArray[np.float64]"


class Matrix:
    """The codes of several months, contiguous and oldest first. Read into memory at the first search."""

    def __init__(self, sources: Iterable[Source]) -> None:
        self.sources = [source for source in sources if source.rows]
        self._position = {source.month: index for index, source in enumerate(self.sources)}
        self._lock = threading.Lock()  # one scan uses all cores; two at once only get in each other's way

    @cached_property
    def _starts(self) -> list[int]:
        starts = [0]
        for source in self.sources:
            starts.append(starts[-1] + source.rows)
        return starts

    @cached_property
    def _coded(self) -> Quantised:
        import numpy as np

        total, dimension = self._starts[-1], self.sources[0].vectors.dimension
        facts = (np.empty(total, np.float32) for _ in range(3))
        whole = Quantised(np.empty((total, dimension), np.int8), *facts)
        for start, source in zip(self._starts, self.sources, strict=False):  # month by month: none is held twice
            here, part = whole.rows(slice(start, start + source.rows)), source.vectors.quantised
            here.codes[:], here.scales[:], here.residuals[:], here.lengths[:] = part
        return whole

    def nearest(self, legal: "Mapping[str, Legal]", queries: "Vectors", *, k: int) -> list[list[Found]]:
        """Return the exact k nearest legal rows for each query, by (distance, id); fewer only if fewer are legal.

        `legal` names the admitted months; its value says which of their rows are legal, None: all of them.
        """
        spans, sparse = self._plan(legal)
        scanned = self._scan(spans, queries, k=k) if spans else [[] for _ in queries]
        return [
            self._best([*near, *(self._computed(rows, query) for rows in sparse)], query, k=k)
            for query, near in zip(queries, scanned, strict=True)
        ]

    def _plan(self, legal: "Mapping[str, Legal]") -> "tuple[list[Span], list[NDArray[np.int64]]]":
        """Split the admitted months into runs to scan, and the rows of months of which only a few are looked at."""
        import numpy as np

        spans: list[Span] = []
        sparse: list[NDArray[np.int64]] = []
        for index in sorted(self._position[month] for month in legal if month in self._position):
            mask = legal[self.sources[index].month]
            start, stop = self._starts[index], self._starts[index + 1]
            if mask is not None and np.count_nonzero(mask) < SPARSE * mask.size:
                sparse.append(start + np.flatnonzero(mask))
                continue
            masks = [np.ones(stop - start, dtype=bool) if mask is None else mask]
            if spans and spans[-1].stop == start:
                start, masks = spans[-1].start, spans.pop().legal + masks
            spans.append(Span(start, stop, masks))
        return spans, [rows for rows in sparse if rows.size]

    def _scan(self, spans: Sequence[Span], queries: "Vectors", *, k: int) -> list[list[Near]]:
        """Return, for each query, the rows of the spans that can be among its k nearest, with their bounds."""
        import numpy as np

        coded = quantise(queries)
        asked = facts(coded, queries)
        found: list[list[Near]] = [[] for _ in queries]
        step = max(1, SCORES // len(queries))
        for span in spans:
            illegal = ~np.concatenate(span.legal)
            for start in range(span.start, span.stop, step):
                part = slice(start, min(start + step, span.stop))
                with self._lock:
                    block = self._coded.rows(part)
                    sums = integer_product(coded.codes, block.codes)
                hidden = illegal[part.start - span.start : part.stop - span.start]
                for near, query, own in zip(found, asked, sums, strict=True):
                    scores = query.scores(own, block)
                    scores[hidden] = -np.inf
                    near.append(_near(scores, block, query, first=part.start, k=k))
        return found

    def _computed(self, rows: "NDArray[np.int64]", query: "Vectors") -> Near:
        import numpy as np

        return Near(rows, self._similarity(rows, query), np.zeros(len(rows)))

    def _best(self, near: Sequence[Near], query: "Vectors", *, k: int) -> list[Found]:
        """Rank what is near. The k best scores are computed first: the worst of them rules most others out."""
        import numpy as np

        if not near:
            return []
        rows, score, error = (np.concatenate(each) for each in zip(*near, strict=True))
        if rows.size > k:
            first = np.sort(rows[np.argpartition(score, rows.size - k)[rows.size - k :]])
            rows = rows[score + error >= self._similarity(first, query).min()]
        rows = np.sort(rows)  # spans and sparse months may take turns
        exact = self._similarity(rows, query)
        least = np.partition(exact, rows.size - k)[rows.size - k] if rows.size > k else -np.inf
        chosen = np.flatnonzero(exact >= least)
        return sorted(self._found(rows[chosen], exact[chosen]))[:k]

    def _by_month(self, rows: "NDArray[np.int64]") -> Iterator[tuple[Source, slice, "NDArray[np.int64]"]]:
        """Split sorted rows of the matrix: a month, where its part of `rows` is, and its own row numbers."""
        import numpy as np

        edges = np.searchsorted(rows, self._starts)
        for index in np.flatnonzero(np.diff(edges)):
            part = slice(int(edges[index]), int(edges[index + 1]))
            yield self.sources[index], part, rows[part] - self._starts[index]

    def _similarity(self, rows: "NDArray[np.int64]", query: "Vectors") -> "NDArray[np.float64]":
        """Compute sorted rows exactly."""
        import numpy as np

        vectors = np.empty((len(rows), len(query)), np.float32)
        for source, part, own in self._by_month(rows):
            vectors[part] = source.vectors.exact[own]
        return similarity(vectors, query)

    def _found(self, rows: "NDArray[np.int64]", exact: "NDArray[np.float64]") -> Iterator[Found]:
        for source, part, own in self._by_month(rows):
            for value, name, row in zip(exact[part].tolist(), source.ids[own].tolist(), own.tolist(), strict=True):
                yield Found(1.0 - value, name, source.month, row)


def _near(scores: "NDArray[np.float32]", rows: Quantised, query: Query, *, first: int, k: int) -> Near:
    """Return the rows of a block that can be among its k nearest; a score of -inf is a row that may not be seen.

    Whoever is among the k nearest has a score no lower than the k-th best one less twice the largest error of all.
    """
    import numpy as np

    worst = query.errors(rows.residuals.max(keepdims=True), rows.lengths.max(keepdims=True))
    least = max(_reached(scores, k) - 2 * float(worst[0]), float(np.finfo(np.float32).min))
    at = np.flatnonzero(scores >= least)
    error = query.errors(rows.residuals[at], rows.lengths[at])
    return Near(first + at, scores[at].astype(np.float64), error.astype(np.float64))


def _reached(scores: "NDArray[np.float32]", k: int) -> float:
    """Return a value that at least k scores reach, close to the k-th best: the k-th best of the groups' best."""
    import numpy as np

    best = scores[: scores.size - scores.size % GROUP].reshape(-1, GROUP).max(axis=1)
    best = best if best.size >= k else scores
    return float(np.partition(best, best.size - k)[best.size - k]) if best.size >= k else -np.inf
