"""Sorting kept rows that do not fit in memory: sorted runs on disk, then one streaming merge into Parquet.

Files are roughly in order of time, so runs hardly overlap and the merge moves through them like a window. The result
depends on the rows alone, not on where the runs were cut: row groups have a fixed length.
"""

import shutil
import uuid
from bisect import bisect_right
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any, Final

import pyarrow as pa
import pyarrow.parquet as pq
from filelock import FileLock, Timeout

from hindcast_dagster.contracts.documents import SCHEMA
from hindcast_dagster.contracts.table import Contract, ContractBroken
from hindcast_dagster.corpus.rules import Row
from hindcast_dagster.storage.files import clear_errors
from hindcast_dagster.storage.store import Store
from hindcast_dagster.storage.tables import ROW_GROUP

RUN_ROWS: Final = 100_000
RUN_CHARACTERS: Final = 1 << 26
MERGE_ROWS: Final = 50_000  # rows in memory while merging, about
_ORDER: Final = [("created_at", "ascending"), ("id", "ascending")]
_RUN_SCHEMA: Final = pa.schema([field for field in SCHEMA if field.name != "dump_sha256"])


@contextmanager
def workspace(store: Store) -> Iterator[Path]:
    """Give a folder for spilled data, removed at the end; folders of builds that were killed are removed first."""
    home = store.area("work", "corpus")
    with clear_errors(home):
        home.mkdir(parents=True, exist_ok=True)
        for left in home.iterdir():
            _remove_if_abandoned(left)
        folder = home / uuid.uuid4().hex
        folder.mkdir()
        lock = FileLock(folder / ".lock")
        with lock:
            try:
                yield folder
            finally:
                shutil.rmtree(folder, ignore_errors=True)


def _remove_if_abandoned(folder: Path) -> None:
    """Remove a folder whose lock is free: a living build holds its own."""
    with suppress(Timeout, OSError), FileLock(folder / ".lock", timeout=0):
        shutil.rmtree(folder, ignore_errors=True)


class Runs:
    """Collects rows; `merge` writes them, sorted, into one Parquet file."""

    def __init__(self, folder: Path, *, rows: int = RUN_ROWS, merge_rows: int = MERGE_ROWS) -> None:
        self._folder, self._limit, self._merge_rows = folder, rows, merge_rows
        self._rows: list[Row] = []
        self._characters = 0
        self._runs: list[Path] = []
        self.count = 0

    def add(self, row: Row) -> None:
        """Take one row."""
        self._rows.append(row)
        self._characters += len(row.text)
        self.count += 1
        if len(self._rows) >= self._limit or self._characters >= RUN_CHARACTERS:
            self._spill()

    def _table(self) -> pa.Table:
        columns: list[Any] = list(zip(*self._rows, strict=True)) or [()] * len(_RUN_SCHEMA)
        arrays = [pa.array(values, type=field.type) for values, field in zip(columns, _RUN_SCHEMA, strict=True)]
        self._rows, self._characters = [], 0
        return pa.table(arrays, schema=_RUN_SCHEMA).sort_by(_ORDER)

    def _spill(self) -> None:
        path = self._folder / f"run-{len(self._runs)}.arrow"
        table = self._table().combine_chunks()
        with pa.OSFile(str(path), "wb") as out, pa.ipc.new_file(out, table.schema) as writer:
            writer.write_table(table)
        self._runs.append(path)

    def merge(self, path: Path, contract: Contract, *, dump_sha256: str) -> None:
        """Write every row to `path`, sorted by (created_at, id). Raises `ContractBroken` instead of a bad table."""
        last = self._table()
        parts = _merged(
            [_Run(_opened(run)) for run in self._runs] + [_Run(last)] * bool(last.num_rows), self._merge_rows
        )
        with pq.ParquetWriter(path, contract.schema, compression="zstd", write_statistics=True) as writer:
            for table in _groups(_verified(parts, contract)):
                hashes = pa.repeat(pa.scalar(dump_sha256), table.num_rows)
                whole = table.append_column(contract.schema.field("dump_sha256"), hashes)
                writer.write_table(whole.cast(contract.schema), row_group_size=ROW_GROUP)


def _opened(path: Path) -> pa.Table:
    return pa.ipc.open_file(pa.memory_map(str(path))).read_all()


class _Run:
    """A sorted run and how far it has been read."""

    def __init__(self, table: pa.Table) -> None:
        self.table, self.at, self.end = table, 0, table.num_rows
        self._created, self._ids = table["created_at"], table["id"]

    def key(self, index: int) -> tuple[int, str]:
        return self._created[index].as_py(), self._ids[index].as_py()

    def take_to(self, cutoff: tuple[int, str]) -> pa.Table:
        """Take the rows up to `cutoff`, which is included."""
        stop = bisect_right(range(self.end), cutoff, lo=self.at, key=self.key)
        part = self.table.slice(self.at, stop - self.at)
        self.at = stop
        return part


def _merged(runs: list[_Run], rows: int) -> Iterator[pa.Table]:
    """Yield sorted tables of about `rows` rows that follow each other."""
    while runs := sorted((run for run in runs if run.at < run.end), key=lambda run: run.key(run.at)):
        horizon = runs[0].key(runs[0].end - 1)
        active = [run for run in runs if run.key(run.at) <= horizon]
        step = max(rows // len(active), 1)
        cutoff = min(run.key(min(run.at + step, run.end) - 1) for run in active)
        parts = [part for run in active if (part := run.take_to(cutoff)).num_rows]
        yield pa.concat_tables(parts).sort_by(_ORDER) if len(parts) > 1 else parts[0]


def _verified(parts: Iterator[pa.Table], contract: Contract) -> Iterator[pa.Table]:
    """Pass tables on after holding them against the contract: nulls, and keys that strictly rise across all of them."""
    import polars as pl

    required = [field.name for field in _RUN_SCHEMA if not field.nullable]
    previous: tuple[int, str] | None = None
    for table in parts:
        for name in required:
            if table[name].null_count:
                raise ContractBroken(f"Table {contract.name}: column {name} has nulls and allows none.")
        keys = pl.DataFrame(pl.from_arrow(table.select(["created_at", "id"])))
        rising = keys.select(
            (pl.col("created_at") > pl.col("created_at").shift())
            | ((pl.col("created_at") == pl.col("created_at").shift()) & (pl.col("id") > pl.col("id").shift()))
        ).to_series()[1:]
        if not rising.all() or (previous is not None and keys.row(0) <= previous):
            raise ContractBroken(f"Table {contract.name} repeats a key or is not sorted by created_at, id.")
        previous = keys.row(-1)
        yield table


def _groups(parts: Iterator[pa.Table]) -> Iterator[pa.Table]:
    """Cut a stream of tables into tables of exactly one row group each, the last one shorter."""
    held: list[pa.Table] = []
    count = 0
    for table in parts:
        held.append(table)
        count += table.num_rows
        while count >= ROW_GROUP:
            whole = pa.concat_tables(held)
            yield whole.slice(0, ROW_GROUP)
            held, count = [whole.slice(ROW_GROUP)], count - ROW_GROUP
    if count:
        yield pa.concat_tables(held)
