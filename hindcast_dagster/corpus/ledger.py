"""The ledger: what became of every line of a dump, and the first lines of each reason as they were.

Counts are kept in the manifest of the partition. The rejected lines are raw words of people: they lie beside the
tables under `ledgers/`, never inside a partition, and no release holds them.
"""

import hashlib
import json
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Any, Final, NamedTuple, Self

import zstandard

from hindcast_dagster import keys
from hindcast_dagster.corpus.dumps import Kind, kind_of
from hindcast_dagster.corpus.rules import REASONS
from hindcast_dagster.storage.files import write_atomic
from hindcast_dagster.storage.manifest import Manifest
from hindcast_dagster.storage.store import Store

SAMPLES: Final = 1_000
LONGEST: Final = 1 << 16  # bytes of a rejected line that are kept


class Ledger(NamedTuple):
    """The counts of one sealed month: lines = kept + the sum of dropped."""

    month: str
    kind: str
    lines: int
    bytes: int
    kept: int
    dropped: dict[str, int]
    dump_sha256: str
    stats: dict[str, Any]
    """Everything else that was counted: surrogates, deleted_later, strays, the measures of health, ..."""


def rejects_name(stats: dict[str, Any]) -> str:
    """Return the file name of the rejects of a build, made of its counts."""
    return f"rejects-{hashlib.sha256(json.dumps(stats, sort_keys=True).encode()).hexdigest()[:32]}.jsonl.zst"


def of_manifest(manifest: Manifest) -> Ledger:
    """Return the ledger that a manifest of `submissions` or `comments` holds."""
    stats = dict(manifest.stats)
    named = {name: stats.pop(name) for name in ("lines", "bytes", "kept", "dropped", "dump_sha256")}
    named["dropped"] = {reason: named["dropped"][reason] for reason in REASONS if reason in named["dropped"]}
    return Ledger(month=manifest.key[0], kind=manifest.table, stats=stats, **named)


def read(store: Store, month: str, kind: str) -> Ledger:
    """Return the ledger of a sealed month. Raises `NotSealed` naming the command that makes it."""
    table: Kind = kind_of(kind)
    command = f"hindcast corpus build --month {keys.month(month)} --kind {table}"
    return of_manifest(store.partition(table, month).require(made_by=command).manifest)


class Rejects:
    """The first `SAMPLES` lines of each reason, written as they come. Leave its context to close the file.

    A line that `hidden` is true of (it holds a forgotten document) is never kept.
    """

    def __init__(self, folder: Path, *, hidden: Callable[[bytes], bool] = lambda _: False) -> None:
        self._hidden = hidden
        self.path = folder / "rejects.jsonl.zst"
        self.counts: Counter[str] = Counter()
        self._file = self.path.open("wb")
        self._out = zstandard.ZstdCompressor().stream_writer(self._file)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def wants(self, reason: str) -> bool:
        """Return whether another line of this reason would be kept."""
        return self.counts[reason] < SAMPLES

    def add(self, reason: str, *, line: int, raw: bytes) -> None:
        """Keep one rejected line (its number counts from 1) if its reason still wants one."""
        if not self.wants(reason) or self._hidden(raw):
            return
        self.counts[reason] += 1
        cut = {"cut_from": len(raw)} if len(raw) > LONGEST else {}
        text = raw[:LONGEST].decode("utf-8", "backslashreplace")
        record = {"reason": reason, "line": line, "raw": text, **cut}
        self._out.write(json.dumps(record, ensure_ascii=False).encode() + b"\n")

    def publish(self, home: Path, name: str) -> None:
        """Move the finished file to `home/name`; files of earlier builds stay until `keep_only`."""
        self.close()
        write_atomic(home / name, self.path.read_bytes())

    def close(self) -> None:
        """Finish the file."""
        if not self._file.closed:
            self._out.close()  # type: ignore[no-untyped-call]


def keep_only(home: Path, name: str) -> None:
    """Remove the rejects of builds that are no longer the sealed one."""
    for path in home.glob("rejects-*.jsonl.zst"):
        if path.name != name:
            path.unlink(missing_ok=True)
