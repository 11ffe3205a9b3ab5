"""One month's LanceDB table: write, index, verify, and the two questions that are asked of it.

LanceDB is the store of texts and metadata. A table is written once, in one batch, indexed and verified before its
partition is sealed, and read at the version that the manifest names.
"""

import warnings
from collections.abc import Sequence
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import pyarrow as pa

from hindcast_dagster.errors import HindcastError, InputRefused

if TYPE_CHECKING:
    import polars as pl

    from hindcast_dagster.archive.embedding import Vectors

FOLDER: Final = "lance"
TABLE: Final = "rows"
ROW: Final = "row"
VECTOR: Final = "vector"
SCALAR: Final = {
    "submissions": (ROW, "id", "author", "subreddit", "created_at"),
    "comments": (ROW, "id", "link_id", "parent_id", "author", "created_at"),
}
INDEX_FROM: Final = 5_000  # below this LanceDB's exact scan of one month is as fast as its index
# never shown, or the same in every row of a month
LEFT_OUT: Final = ("over_18", "deleted_later", "dump_sha256", "doc_type", "month")


class TableNotVerified(HindcastError):
    """A table that was just written does not hold what was written: it is not sealed."""


def write(path: Path, frame: "pl.DataFrame", *, kind: str, vectors: "Vectors | None") -> int:
    """Write, index and verify the table of a month below `path`; return its LanceDB version."""
    import lancedb
    import polars as pl

    kept = {*SCALAR[kind], "engagement_as_of"}  # named by indexes or by the predicate
    empty = [name for name in frame.columns if name not in kept and 0 < frame[name].null_count() == frame.height]
    arrow = frame.drop({*LEFT_OUT, *empty}).with_row_index(ROW).with_columns(pl.col(ROW).cast(pl.Int64)).to_arrow()
    arrow = arrow.cast(pa.schema([_field(field) for field in arrow.schema]))
    if vectors is not None:
        arrow = arrow.append_column(
            VECTOR, pa.FixedSizeListArray.from_arrays(pa.array(vectors.ravel()), vectors.shape[1])
        )
    table = lancedb.connect(path / FOLDER).create_table(TABLE, arrow)
    if frame.height:
        _index(table, kind=kind, vectors=vectors)
    _verify(table, arrow)
    return int(table.version)


def _field(field: pa.Field) -> pa.Field:
    """Plain strings: LanceDB's scalar indexes know them best."""
    return pa.field(field.name, pa.string() if pa.types.is_large_string(field.type) else field.type, field.nullable)


def _index(table: Any, *, kind: str, vectors: "Vectors | None") -> None:
    from lancedb.index import Bitmap, BTree, HnswSq

    with warnings.catch_warnings():
        warnings.simplefilter("ignore", DeprecationWarning)
        for name in SCALAR[kind]:
            table.create_index(name, config=Bitmap() if name == "subreddit" else BTree())
        if vectors is not None and len(vectors) >= INDEX_FROM:
            partitions = max(1, len(vectors) // 1_000_000)
            table.create_index(VECTOR, config=HnswSq(distance_type="cosine", num_partitions=partitions))


def _verify(table: Any, arrow: pa.Table) -> None:
    """Read every value but the vectors back, look for unindexed rows, and run the predicate at its own edge."""
    names = [name for name in arrow.column_names if name != VECTOR]
    found = table.search().select(names).limit(arrow.num_rows + 1).to_arrow().select(names)
    if not found.equals(arrow.select(names)):
        raise TableNotVerified(f"The table holds {found.num_rows} rows, not the {arrow.num_rows} that were written.")
    ids = found["id"].to_pylist()
    if len(set(ids)) != len(ids):
        raise TableNotVerified(f"{len(ids) - len(set(ids))} ids occur twice.")
    for index in table.list_indices():
        stats = table.index_stats(index.name)
        if stats is None or stats.num_unindexed_rows:
            raise TableNotVerified(f"Index {index.name} leaves rows out: {stats}.")
    if arrow.num_rows:
        times = arrow["created_at"].to_numpy()
        edge = int(times[len(times) // 2])
        found, meant = table.count_rows(f"created_at < {edge}"), int((times < edge).sum())
        if found != meant:
            raise TableNotVerified(
                f"`created_at < {edge}` finds {found} rows of {meant}: LanceDB's predicate is broken."
            )


@cache
def self_test() -> None:
    """Run the cutoff predicate on three rows, once a process: some versions of LanceDB have answered it wrongly."""
    import lancedb

    edge = 1_769_817_600
    rows = pa.table({"created_at": pa.array([edge - 1, edge, None], pa.int64())})
    table = lancedb.connect("memory://").create_table(TABLE, rows)
    found = table.search().where(f"created_at < {edge}").limit(3).to_arrow()["created_at"].to_pylist()
    if found != [edge - 1]:
        raise TableNotVerified(
            f"LanceDB {lancedb.__version__} answers `created_at < {edge}` with {found}: do not use it."
        )


class LanceTable:
    """A sealed month's table, opened when first asked, at its sealed version."""

    def __init__(self, path: Path, *, version: int) -> None:
        self._path, self._version = path / FOLDER, version
        self._opened: Any = None

    @property
    def _table(self) -> Any:
        if self._opened is None:
            import lancedb

            self_test()
            try:
                opened = lancedb.connect(self._path).open_table(TABLE)
                opened.checkout(self._version)
            except Exception as error:  # LanceDB raises bare kinds for a missing or damaged table
                raise InputRefused(f"{self._path} cannot be opened ({error}): rebuild that month.") from error
            if opened.schema.field("created_at").type != pa.int64():
                raise InputRefused(f"{self._path}: created_at is not int64 seconds; rebuild that month.")
            self._opened = opened
        return self._opened

    def nearest(self, vector: "Vectors", where: str, *, k: int, exact: bool) -> Sequence[int]:
        """Return the row numbers of about the k nearest by cosine, pre-filtered; `exact` bypasses the index."""
        query = (
            self._table.search(vector, vector_column_name=VECTOR)
            .distance_type("cosine")
            .where(where, prefilter=True)
            .select([ROW, "_distance"])
            .limit(k)
        )
        query = query.bypass_vector_index() if exact else query.refine_factor(4).ef(max(200, 8 * k))
        found: list[int] = query.to_arrow()[ROW].to_pylist()
        return found
