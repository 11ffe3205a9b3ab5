"""How long stages took, and what of a run was already there: a log of its own, because a manifest holds no clock.

One line for every partition that was made, in `ledgers/stages.jsonl`. Losing it loses nothing but these numbers.
"""

import json
import os
from collections.abc import Iterator
from typing import Any, NamedTuple

from hindcast_dagster import clock
from hindcast_dagster.storage.manifest import Manifest
from hindcast_dagster.storage.store import Store


class Timing(NamedTuple):
    """One making of a partition."""

    table: str
    key: tuple[str, ...]
    version: str
    at: int
    """When it ended, epoch seconds."""
    seconds: float
    asked: int | None = None
    """Forecasts: how many were asked for in this run."""
    reused: int | None = None
    """Forecasts: how many were already there."""


def add(
    store: Store, manifest: Manifest, *, seconds: float, asked: int | None = None, reused: int | None = None
) -> None:
    """Append one line, in one write."""
    found = Timing(manifest.table, manifest.key, manifest.version, clock.now(), round(seconds, 3), asked, reused)
    path = store.area("ledgers", "stages.jsonl")
    path.parent.mkdir(parents=True, exist_ok=True)
    handle = os.open(path, os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o644)
    try:
        os.write(handle, json.dumps(found._asdict()).encode() + b"\n")
    finally:
        os.close(handle)


def read(store: Store) -> Iterator[Timing]:
    """Yield every line, oldest first; one that is cut or foreign is passed over."""
    path = store.area("ledgers", "stages.jsonl")
    for line in path.read_bytes().splitlines() if path.is_file() else ():
        try:
            values: dict[str, Any] = json.loads(line)
            yield Timing(**{**values, "key": tuple(values["key"])})
        except (ValueError, KeyError, TypeError):
            continue


def latest(store: Store) -> dict[tuple[str, tuple[str, ...]], Timing]:
    """Return the newest line of every partition."""
    return {(each.table, each.key): each for each in read(store)}
