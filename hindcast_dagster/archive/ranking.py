"""Ranking one call: which way each month is searched, and one exact scale for all of them.

Months whose vectors fit into the memory bound are scanned exactly. Larger ones are asked through their LanceDB index,
with more candidates than needed, or exactly when the filters leave few rows; the distances of its candidates are then
computed from the vectors, so months merge on one scale (raw distances of an index are on another).
"""

from collections.abc import Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Final, Literal, NamedTuple

from hindcast_dagster.archive.month import Month
from hindcast_dagster.archive.nearest import Found, Matrix
from hindcast_dagster.archive.predicate import Predicate

if TYPE_CHECKING:
    from hindcast_dagster.archive.embedding import Vectors

Path = Literal["exact", "index"]

CANDIDATES: Final = 4  # candidates of an indexed month per wanted hit
EXACT_BELOW: Final = 20_000  # legal rows of an indexed month below which LanceDB scans them exactly
BYTES_PER_VALUE: Final = 5  # float32 and its int8 code


class Ranked(NamedTuple):
    """One ranked row with what the re-check looks at."""

    distance: float
    id: str
    month: str
    row: int
    created_at: int
    text_as_of: int
    engagement_as_of: int

    @property
    def key(self) -> str:
        """Prefixed id."""
        return "t3_" + self.id


def paths(months: Iterable[Month], *, memory_mb: int) -> dict[str, Path]:
    """Return how each month is searched: the smallest are scanned, as many as fit into `memory_mb`."""
    left = memory_mb * 2**20
    chosen: dict[str, Path] = {}
    for month in sorted(months, key=lambda item: (item.rows, item.month)):
        need = month.rows * month.identity.dimension * BYTES_PER_VALUE
        chosen[month.month] = "exact" if need <= left else "index"
        left -= need if need <= left else 0
    return chosen


def rank(
    months: Sequence[Month],
    ways: Mapping[str, Path],
    matrix: Matrix,
    predicate: Predicate,
    vectors: "Vectors",
    *,
    k: int,
) -> list[list[Ranked]]:
    """Return the k nearest legal rows of the admitted months for each query vector, by (distance, id).

    `matrix` holds the months that `ways` scans exactly.
    """
    by_name = {month.month: month for month in months}
    scanned = {month.month: month.legal(predicate) for month in months if ways[month.month] == "exact"}
    found = matrix.nearest(scanned, vectors, k=k)
    for month in months:
        if ways[month.month] == "index":
            for hits, vector in zip(found, vectors, strict=True):
                hits.extend(_from_index(month, predicate, vector, k=k))
    return [[_ranked(by_name[hit.month], hit) for hit in sorted(hits)[:k]] for hits in found]


def _from_index(month: Month, predicate: Predicate, vector: "Vectors", *, k: int) -> list[Found]:
    import numpy as np

    mask = month.legal(predicate)
    legal = month.rows if mask is None else int(mask.sum())
    if not legal:
        return []
    rows = np.array(month.nearest(vector, predicate, k=CANDIDATES * k, exact=legal <= EXACT_BELOW), dtype=np.int64)
    if len(rows) < min(k, legal):  # an index may lose rows; the exact scan does not
        rows = np.array(month.nearest(vector, predicate, k=k, exact=True), dtype=np.int64)
    similarity = month.vectors.similarity(rows, vector)
    return [
        Found(1.0 - float(value), bytes(month.columns.ids[row]), month.month, int(row))
        for row, value in zip(rows, similarity, strict=True)
    ]


def _ranked(month: Month, hit: Found) -> Ranked:
    columns = month.columns
    return Ranked(
        distance=max(0.0, hit.distance),
        id=hit.id.decode(),
        month=hit.month,
        row=hit.row,
        created_at=int(columns.created_at[hit.row]),
        text_as_of=int(columns.text_as_of[hit.row]),
        engagement_as_of=int(columns.engagement_as_of[hit.row]),
    )
