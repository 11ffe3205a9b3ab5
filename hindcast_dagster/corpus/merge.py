"""Merging sorted runs into the one Parquet file of a month, in bounded memory and checked on the way.

Dumps are roughly in order of time, so runs hardly overlap and the merge moves through them like a window. The file
depends on the rows alone, not on where runs were cut: row groups have a fixed length.
"""

from bisect import bisect_right
from collections.abc import Iterable, Iterator
from pathlib import Path

import polars as pl
import pyarrow.parquet as pq

from hindcast_dagster.contracts.table import Contract, ContractBroken
from hindcast_dagster.corpus.runs import ORDER, Run
from hindcast_dagster.storage.tables import ROW_GROUP

_Key = tuple[int, str]


def write(path: Path, runs: Iterable[Run], contract: Contract, *, dump_sha256: str) -> int:
    """Write all rows of `runs`, sorted by (created_at, id), and return their number. Raises `ContractBroken`.

    The contract is held while the rows pass: no null where none is allowed, and keys that strictly rise. That no id has
    two times follows from the de-duplication before.
    """
    return write_sorted(path, merged(runs), contract, dump_sha256=dump_sha256)


def write_sorted(path: Path, frames: Iterable[pl.DataFrame], contract: Contract, *, dump_sha256: str) -> int:
    """Write frames that follow each other in order, as `write` does: the same rows give the same bytes."""
    rows = 0
    with pq.ParquetWriter(path, contract.schema, compression="zstd", write_statistics=True) as writer:
        for frame in _groups(_checked(iter(frames), contract)):
            whole = frame.with_columns(dump_sha256=pl.lit(dump_sha256)).select(contract.schema.names)
            writer.write_table(whole.to_arrow().cast(contract.schema), row_group_size=ROW_GROUP)
            rows += frame.height
    return rows


class _Cursor:
    """A place in a run: the window that is in memory, and how far it has been taken."""

    def __init__(self, run: Run) -> None:
        self._windows = run.windows()
        self._next()

    def _next(self) -> None:
        frame = next(self._windows, None)
        self.open = frame is not None
        if frame is not None:
            self._frame, self._at = frame, 0
            self._created, self._ids = (frame[name] for name in ORDER)
            self.last = self._key(frame.height - 1)

    def _key(self, index: int) -> _Key:
        return self._created[index], self._ids[index]

    def take_to(self, cutoff: _Key) -> pl.DataFrame:
        """Take the rows of the window up to `cutoff`, which is included; move on when it is used up."""
        stop = bisect_right(range(self._frame.height), cutoff, lo=self._at, key=self._key)
        part = self._frame[self._at : stop]
        self._at = stop
        if stop == self._frame.height:
            self._next()
        return part


def merged(runs: Iterable[Run]) -> Iterator[pl.DataFrame]:
    """Yield sorted frames that follow each other and hold all rows of `runs`.

    Up to the smallest key that ends a window in memory, every row is known. Runs that begin later stay closed.
    """
    waiting = sorted(runs, key=lambda run: run.first, reverse=True)
    cursors: list[_Cursor] = []
    while waiting or cursors:
        while waiting and (not cursors or waiting[-1].first <= min(cursor.last for cursor in cursors)):
            cursors.append(_Cursor(waiting.pop()))
        cutoff = min(cursor.last for cursor in cursors)
        parts = [part for cursor in cursors if (part := cursor.take_to(cutoff)).height]
        cursors = [cursor for cursor in cursors if cursor.open]
        yield pl.concat(parts).sort(ORDER) if len(parts) > 1 else parts[0]


def _checked(frames: Iterator[pl.DataFrame], contract: Contract) -> Iterator[pl.DataFrame]:
    required = [field.name for field in contract.schema if not field.nullable]
    previous: _Key | None = None
    for frame in frames:
        for name in required:
            if name in frame.columns and frame[name].null_count():
                raise ContractBroken(f"Table {contract.name}: column {name} has nulls and allows none.")
        keys = frame.select(ORDER)
        if not _rises(keys) or (previous is not None and keys.row(0) <= previous):
            raise ContractBroken(f"Table {contract.name} repeats a key or is not sorted by created_at, id.")
        previous = keys.row(-1)
        yield frame


def _rises(keys: pl.DataFrame) -> bool:
    """Return whether each row's (created_at, id) is greater than the one before."""
    created, name = (pl.col(column) for column in ORDER)
    later = created > created.shift()
    same = (created == created.shift()) & (name > name.shift())
    return bool(keys.select((later | same).slice(1).all()).item())


def _groups(frames: Iterator[pl.DataFrame]) -> Iterator[pl.DataFrame]:
    """Cut a stream of frames into frames of exactly one row group each; the last one is shorter."""
    held: list[pl.DataFrame] = []
    count = 0
    for frame in frames:
        held.append(frame)
        count += frame.height
        while count >= ROW_GROUP:
            whole = pl.concat(held)
            yield whole[:ROW_GROUP]
            held, count = [whole[ROW_GROUP:]], count - ROW_GROUP
    if count:
        yield pl.concat(held)
