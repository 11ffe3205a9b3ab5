"""The documents of one month beside its LanceDB table: the same rows, as Arrow lays them out, memory-mapped.

A look-up knows its row numbers already (see `columns`). Here they become documents in microseconds; a LanceDB table
takes milliseconds for the same rows (docs/adr/0009). Written from the rows that the table was verified against.
"""

from collections.abc import Sequence
from functools import cached_property
from mmap import ACCESS_READ, mmap
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import pyarrow as pa

from hindcast_dagster.archive.protocol import Document
from hindcast_dagster.errors import InputRefused

if TYPE_CHECKING:
    import polars as pl

FILE: Final = "documents.arrow"
STORED: Final = tuple(name for name in Document.__dataclass_fields__ if name not in {"doc_type", "month", "withheld"})


def write_documents(path: Path, frame: "pl.DataFrame") -> None:
    """Write what a document shows of each row of `frame` (a documents table), in its order, below `path`."""
    table = frame.select(STORED).to_arrow().combine_chunks()
    with pa.OSFile(str(path / FILE), "wb") as out, pa.ipc.new_file(out, table.schema) as writer:
        writer.write_table(table)


class Documents:
    """The documents of one sealed month, mapped when one is first asked for."""

    def __init__(self, path: Path, *, rows: int) -> None:
        self._path, self._rows = path / FILE, rows

    @cached_property
    def _mapped(self) -> pa.Table:
        try:
            with self._path.open("rb") as file:
                mapped = mmap(file.fileno(), 0, access=ACCESS_READ)
            found = pa.ipc.open_file(pa.BufferReader(pa.py_buffer(mapped))).read_all()
        except (OSError, ValueError, pa.ArrowInvalid) as error:
            raise InputRefused(f"{self._path} cannot be read ({error}): rebuild that month.") from error
        if found.num_rows != self._rows:
            raise InputRefused(f"{self._path} holds {found.num_rows} rows, not {self._rows}: rebuild that month.")
        return found

    def take(self, rows: Sequence[int]) -> list[dict[str, Any]]:
        """Return the values of some rows by column name, in the order of the row numbers."""
        try:
            found: list[dict[str, Any]] = self._mapped.take(pa.array(rows, pa.int64())).to_pylist()
        except (pa.ArrowException, UnicodeDecodeError) as error:
            raise InputRefused(f"{self._path} is damaged ({error}): rebuild that month.") from error
        return found
