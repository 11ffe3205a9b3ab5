"""The exact top k over several months: one pass over the codes with a proved bound, then exact distances of the rest.

What belongs here: ranking. What does not: which rows are legal (the masks come in), texts, and the cutoff.
"""

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

from hindcast_dagster.archive.vectors import Quantised, Vectors32, quantise

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    from hindcast_dagster.archive.embedding import Vectors

SPARSE = 0.2  # below this share of legal rows, computing those exactly reads less than scanning all codes


class Block(NamedTuple):
    """One month: its vectors, its ids (ties are broken by id), and which of its rows are legal (None: all)."""

    month: str
    vectors: Vectors32
    ids: "NDArray[np.bytes_]"
    legal: "NDArray[np.bool_] | None"


class Found(NamedTuple):
    """One ranked row."""

    distance: float
    id: bytes
    month: str
    row: int


class _Pool:
    """The rows that can still be among the k nearest to one query, with the k-th best lower bound so far."""

    def __init__(self, k: int) -> None:
        import numpy as np

        self.k, self.floor = k, -np.inf
        self._best = np.empty(0, dtype=np.float32)
        self.kept: list[tuple[int, NDArray[Any], NDArray[Any]]] = []

    def add(self, block: int, rows: "NDArray[Any]", lower: "NDArray[Any]", upper: "NDArray[Any]") -> None:
        """Add rows of a block with bounds on their similarity."""
        import numpy as np

        self.kept.append((block, rows, upper))
        best = np.concatenate([self._best, lower])
        if best.size > self.k:
            best = np.partition(best, best.size - self.k)[best.size - self.k :]
        self._best = best
        if best.size == self.k:
            self.floor = best.min()


def nearest(blocks: Sequence[Block], queries: "Vectors", *, k: int) -> list[list[Found]]:
    """Return the exact k nearest legal rows for each query, by (distance, id); fewer only if fewer are legal."""
    coded = quantise(queries)
    pools = [_Pool(k) for _ in queries]
    for index, block in enumerate(blocks):
        if block.vectors.rows:
            _scan(index, block, queries, coded, pools)
    return [_exact(blocks, pool, query) for pool, query in zip(pools, queries, strict=True)]


def _scan(index: int, block: Block, queries: "Vectors", coded: Quantised, pools: list[_Pool]) -> None:
    import numpy as np

    if block.legal is not None:
        rows = np.flatnonzero(block.legal)
        if rows.size < SPARSE * block.vectors.rows:
            _sparse(index, block, rows, queries, pools)
            return
    scores, error = block.vectors.scan(queries, coded)
    upper = scores + error
    if block.legal is not None:
        upper[~block.legal] = -np.inf
    for column, pool in enumerate(pools):
        rows = np.flatnonzero((upper[:, column] >= pool.floor) & (upper[:, column] > -np.inf))
        if rows.size:
            pool.add(index, rows, scores[rows, column] - error[rows, column], upper[rows, column])


def _sparse(index: int, block: Block, rows: "NDArray[Any]", queries: "Vectors", pools: list[_Pool]) -> None:
    for query, pool in zip(queries, pools, strict=True):
        if rows.size:
            exact = block.vectors.similarity(rows, query)
            pool.add(index, rows, exact, exact)


def _exact(blocks: Sequence[Block], pool: _Pool, query: "Vectors") -> list[Found]:
    found: list[Found] = []
    for index, rows, upper in pool.kept:
        block, left = blocks[index], rows[upper >= pool.floor]
        similarity = block.vectors.similarity(left, query)
        found += [
            Found(1.0 - float(value), bytes(block.ids[row]), block.month, int(row))
            for row, value in zip(left, similarity, strict=True)
        ]
    return sorted(found)[: pool.k]
