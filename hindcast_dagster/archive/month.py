"""One sealed month of one kind, opened: its table, its columns and, for submissions, its vectors."""

from collections.abc import Sequence
from functools import cached_property
from typing import TYPE_CHECKING, Any, Final

from hindcast_dagster.archive.columns import Columns
from hindcast_dagster.archive.embedding import ModelIdentity
from hindcast_dagster.archive.predicate import Predicate, one_of
from hindcast_dagster.archive.protocol import DocType, Document
from hindcast_dagster.archive.table import ROW, LanceTable
from hindcast_dagster.archive.vectors import Vectors32
from hindcast_dagster.errors import InputRefused
from hindcast_dagster.storage.store import Sealed

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    Rows = NDArray[np.integer[Any]]

SUBMISSION_INDEX: Final = "submission_index"
COMMENT_INDEX: Final = "comment_index"
SCHEMA_VERSION: Final = "archive/1"
STORED: Final = tuple(name for name in Document.__dataclass_fields__ if name not in {"doc_type", "month", "withheld"})
DOC_TYPES: Final[dict[str, DocType]] = {SUBMISSION_INDEX: "submission", COMMENT_INDEX: "comment"}


class Month:
    """A month of submissions or comments. Immutable; nothing is read before it is needed."""

    def __init__(self, sealed: Sealed) -> None:
        manifest = sealed.manifest
        if manifest.schema_version != SCHEMA_VERSION:
            raise InputRefused(
                f"{sealed.path} holds {manifest.schema_version}, this program reads {SCHEMA_VERSION}: rebuild that "
                f"month with `hindcast archive build --month {manifest.key[0]}`."
            )
        self.manifest, self.month, self.rows = manifest, manifest.key[0], manifest.rows
        self.columns = Columns(sealed.path, month=self.month, rows=self.rows)
        self.table = LanceTable(sealed.path, version=int(manifest.stats["lance_version"]))
        self._path = sealed.path

    @cached_property
    def identity(self) -> ModelIdentity:
        """The model of the vectors. Only for submissions."""
        return ModelIdentity(**self.manifest.stats["embedding"])

    @cached_property
    def vectors(self) -> Vectors32:
        """The vectors. Only for submissions."""
        return Vectors32(self._path, rows=self.rows, dimension=self.identity.dimension)

    @property
    def ids(self) -> "NDArray[np.bytes_]":
        """Bare ids, in the order of the rows."""
        return self.columns.ids

    @property
    def bytes(self) -> int:
        """What the month takes on disk."""
        return sum(path.stat().st_size for path in self._path.rglob("*") if path.is_file())

    def legal(self, predicate: Predicate) -> "NDArray[np.bool_] | None":
        """Return which rows satisfy the predicate; None: all of them."""
        return None if predicate.admits_all(self.columns) else predicate.mask(self.columns)

    def fetch(self, rows: "Rows", predicate: Predicate) -> dict[int, Document]:
        """Return the documents at some row numbers that satisfy the predicate, by row number."""
        if not len(rows):
            return {}
        where = predicate.sql(self.columns, one_of(ROW, [int(row) for row in rows]))
        return {found[ROW]: self._document(found) for found in self.table.rows(where, limit=len(rows))}

    def nearest(self, vector: Any, predicate: Predicate, *, k: int, exact: bool) -> Sequence[int]:
        """Return row numbers of about the k nearest legal rows, from LanceDB."""
        return self.table.nearest(vector, predicate.sql(self.columns), k=k, exact=exact)

    def _document(self, row: dict[str, Any]) -> Document:
        """Return a row as a document; a column that the table lacks is null in the whole month."""
        values: dict[str, Any] = {name: row.get(name) for name in STORED}
        return Document(doc_type=DOC_TYPES[self.manifest.table], month=self.month, **values)
