"""Kept rows on their way to disk: sorted runs, because a month of them may not fit in memory (see `merge`)."""

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Final, NamedTuple

import polars as pl
import pyarrow as pa

from hindcast_dagster.contracts.documents import SCHEMA
from hindcast_dagster.corpus.rules import Row

PIECE_ROWS: Final = 5_000  # rows that are Python objects at a time: a frame holds them in a tenth of the memory
PIECE_CHARACTERS: Final = 1 << 24
RUN_BYTES: Final = 1 << 26
WINDOW_ROWS: Final = 4_096  # rows of a run that are read back at a time
ORDER: Final = ("created_at", "id")
# Spelt out: Polars asks pyarrow for an empty array otherwise, which imports pandas (a quarter of a second).
_TYPES: Final = {pa.string(): pl.String(), pa.int64(): pl.Int64(), pa.bool_(): pl.Boolean()}
RUN_SCHEMA: Final = pl.Schema({field.name: _TYPES[field.type] for field in SCHEMA if field.name != "dump_sha256"})


class Run(NamedTuple):
    """Sorted rows: where they begin, and a way to read them in windows that follow each other."""

    first: tuple[int, str]
    windows: Callable[[], Iterator[pl.DataFrame]]


class Runs:
    """Collects rows in any order and gives them back as sorted runs that may overlap."""

    def __init__(self, folder: Path, *, piece_rows: int = PIECE_ROWS, run_bytes: int = RUN_BYTES) -> None:
        self._folder, self._piece_rows, self._run_bytes = folder, piece_rows, run_bytes
        self._rows: list[Row] = []
        self._characters = 0
        self._pieces: list[pl.DataFrame] = []
        self._runs: list[Run] = []
        self.count = 0

    def add(self, row: Row) -> None:
        """Take one row."""
        self._rows.append(row)
        self._characters += len(row.text)
        self.count += 1
        if len(self._rows) >= self._piece_rows or self._characters >= PIECE_CHARACTERS:
            self._pack()
            if sum(piece.estimated_size() for piece in self._pieces) >= self._run_bytes:
                self._spill()

    def _pack(self) -> None:
        if self._rows:
            columns = zip(RUN_SCHEMA.items(), zip(*self._rows, strict=True), strict=True)
            self._pieces.append(pl.DataFrame([pl.Series(name, values, dtype=kind) for (name, kind), values in columns]))
            self._rows, self._characters = [], 0

    def _sorted(self) -> pl.DataFrame:
        pieces, self._pieces = self._pieces, []
        return pl.concat(pieces).sort(ORDER)

    def _spill(self) -> None:
        path = self._folder / f"run-{len(self._runs)}.arrow"
        frame = self._sorted()
        frame.write_ipc(path, record_batch_size=WINDOW_ROWS)
        self._runs.append(Run(frame.select(ORDER).row(0), lambda: _read(path)))

    def finish(self) -> list[Run]:
        """Return every run. Those on disk are read window by window, when their turn comes."""
        self._pack()
        if self._pieces:
            frame = self._sorted()
            self._runs.append(Run(frame.select(ORDER).row(0), lambda: frame.iter_slices(WINDOW_ROWS)))
        return self._runs


def _read(path: Path) -> Iterator[pl.DataFrame]:
    with pa.OSFile(str(path), "rb") as source:
        reader = pa.ipc.open_file(source)
        for index in range(reader.num_record_batches):
            yield pl.DataFrame(pl.from_arrow(reader.get_batch(index)))
