"""The exact top k over several months: one pass over the codes with a proved bound, then exact distances of the rest.

What belongs here: ranking, and the contiguous codes that it reads. What does not: which rows are legal (that comes
in), texts, and the cutoff. One product over all admitted months beats one a month: it starts its threads once.
"""

import threading
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Any, Final, NamedTuple, Protocol

from hindcast_dagster.archive.vectors import Quantised, Vectors32, bounded, integer_product, quantise

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    from hindcast_dagster.archive.embedding import Vectors

    Legal = NDArray[np.bool_] | None

SPARSE: Final = 0.05  # below this share of legal rows, reading their vectors costs less than scanning the month's codes
SCORES: Final = 2**24  # scores held at once: 64 MiB


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


@dataclass(frozen=True, slots=True)
class _Candidates:
    """Rows of one month with bounds on their similarity to one query."""

    source: int
    rows: "NDArray[Any]"
    lower: "NDArray[Any]"
    upper: "NDArray[Any]"


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
        scanned = self._scan(spans, queries) if spans else [[] for _ in queries]
        answers = []
        for query, candidates in zip(queries, scanned, strict=True):
            exactly = [self._exactly(index, rows, query) for index, rows in sparse]
            answers.append(self._best([*candidates, *exactly], query, k=k))
        return answers

    def _plan(self, legal: "Mapping[str, Legal]") -> tuple[list[Span], list[tuple[int, Any]]]:
        """Split the admitted months into runs to scan, and months of which only a few rows are looked at."""
        import numpy as np

        spans: list[Span] = []
        sparse: list[tuple[int, Any]] = []
        for index in sorted(self._position[month] for month in legal if month in self._position):
            mask = legal[self.sources[index].month]
            start, stop = self._starts[index], self._starts[index + 1]
            if mask is not None and np.count_nonzero(mask) < SPARSE * mask.size:
                sparse.append((index, np.flatnonzero(mask)))
                continue
            masks = [np.ones(stop - start, dtype=bool) if mask is None else mask]
            if spans and spans[-1].stop == start:
                start, masks = spans[-1].start, spans.pop().legal + masks
            spans.append(Span(start, stop, masks))
        return spans, [(index, rows) for index, rows in sparse if rows.size]

    def _scan(self, spans: Sequence[Span], queries: "Vectors") -> list[list[_Candidates]]:
        """Return bounds for every row of the spans, for each query."""
        import numpy as np

        coded = quantise(queries)
        found: list[list[_Candidates]] = [[] for _ in queries]
        step = max(1, SCORES // len(queries))
        for span in spans:
            illegal = ~np.concatenate(span.legal)
            for start in range(span.start, span.stop, step):
                part = slice(start, min(start + step, span.stop))
                with self._lock:
                    block = self._coded.rows(part)
                    sums = integer_product(coded.codes, block.codes)
                rows = np.arange(part.start, part.stop)
                hidden = illegal[part.start - span.start : part.stop - span.start]
                for candidates, (score, error) in zip(found, bounded(sums, block, coded, queries), strict=True):
                    score[hidden] = -np.inf
                    candidates.append(_Candidates(-1, rows, score - error, score + error))
        return found

    def _exactly(self, index: int, rows: "NDArray[Any]", query: "Vectors") -> _Candidates:
        exact = self.sources[index].vectors.similarity(rows, query)
        return _Candidates(index, rows, exact, exact)

    def _best(self, candidates: Sequence[_Candidates], query: "Vectors", *, k: int) -> list[Found]:
        """Keep what can still be among the k nearest, compute it exactly, and rank it."""
        import numpy as np

        if not candidates:
            return []
        lower = np.concatenate([each.lower for each in candidates])
        floor = np.partition(lower, lower.size - k)[lower.size - k] if lower.size > k else -np.inf
        found: list[Found] = []
        for each in candidates:
            kept = (each.upper >= floor) & (each.upper > -np.inf)
            found += self._ranked(each, np.flatnonzero(kept), query)
        return sorted(found)[:k]

    def _ranked(self, candidates: _Candidates, kept: "NDArray[Any]", query: "Vectors") -> list[Found]:
        import numpy as np

        rows = candidates.rows[kept]
        if candidates.source >= 0:
            return self._found(candidates.source, rows, candidates.upper[kept])
        found: list[Found] = []
        edges = np.searchsorted(rows, self._starts)
        for index in np.flatnonzero(np.diff(edges)):
            own = rows[edges[index] : edges[index + 1]] - self._starts[index]
            found += self._found(int(index), own, self.sources[index].vectors.similarity(own, query))
        return found

    def _found(self, index: int, rows: "NDArray[Any]", similarity: "NDArray[Any]") -> list[Found]:
        source = self.sources[index]
        distances, ids = (1.0 - similarity).tolist(), source.ids[rows].tolist()
        return [Found(*each) for each in zip(distances, ids, [source.month] * len(rows), rows.tolist(), strict=True)]
