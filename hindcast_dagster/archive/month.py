"""One sealed month of one kind, opened: its table, its columns and, for submissions, its vectors."""

from collections.abc import Sequence
from functools import cached_property
from typing import TYPE_CHECKING, Any, Final

from hindcast_dagster.archive.columns import Columns
from hindcast_dagster.archive.documents import Documents
from hindcast_dagster.archive.embedding import ModelIdentity
from hindcast_dagster.archive.predicate import Predicate
from hindcast_dagster.archive.protocol import DocType, Document
from hindcast_dagster.archive.table import LanceTable
from hindcast_dagster.archive.vectors import Vectors32
from hindcast_dagster.clock import LATEST
from hindcast_dagster.errors import InputRefused
from hindcast_dagster.storage.lease import Lease
from hindcast_dagster.storage.store import NotSealed, Sealed

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    Rows = NDArray[np.integer[Any]]

SUBMISSION_INDEX: Final = "submission_index"
COMMENT_INDEX: Final = "comment_index"
SCHEMA_VERSION: Final = "archive/2"
DOC_TYPES: Final[dict[str, DocType]] = {SUBMISSION_INDEX: "submission", COMMENT_INDEX: "comment"}


class StoreDisagrees(InputRefused):
    """A month's documents are not the rows that the columns beside them hold: the partition is damaged."""


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
        self.documents = Documents(sealed.path, rows=self.rows)
        self._path = sealed.path
        try:
            self._lease = Lease(sealed.path)  # a rebuild leaves it on disk as long as this month is open
        except FileNotFoundError as error:
            raise NotSealed(f"{sealed.path} was rebuilt and removed while it was being opened: try again.") from error

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
        """Return the documents at some row numbers that satisfy the predicate, by row number.

        What is returned must carry the id and the times that the predicate looked at; raises `StoreDisagrees` when it
        does not.
        """
        import numpy as np

        legal = np.unique(rows[predicate.mask(self.columns, rows)]).tolist() if len(rows) else []
        found = dict(zip(legal, map(self._document, self.documents.take(legal) if legal else ()), strict=True))
        for row, document in found.items():
            if not self._agrees(row, document):
                raise StoreDisagrees(
                    f"Row {row} of {self.month} is not the row that the columns beside it name: rebuild that month "
                    f"with `hindcast archive build --month {self.month}`."
                )
        return found

    def _agrees(self, row: int, found: Document) -> bool:
        """Return whether a document is the row that was selected: the same id, the same times."""
        columns, votes = self.columns, LATEST if found.engagement_as_of is None else found.engagement_as_of
        return bool(
            found.id.encode() == columns.ids[row]
            and found.created_at == columns.created_at[row]
            and found.text_as_of == columns.text_as_of[row]
            and votes == columns.engagement_as_of[row]
        )

    def nearest(self, vector: Any, predicate: Predicate, *, k: int, exact: bool) -> Sequence[int]:
        """Return row numbers of about the k nearest legal rows, from LanceDB."""
        return self.table.nearest(vector, predicate.sql(self.columns), k=k, exact=exact)

    def _document(self, values: dict[str, Any]) -> Document:
        return Document(doc_type=DOC_TYPES[self.manifest.table], month=self.month, **values)
