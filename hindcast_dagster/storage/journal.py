"""Journals: finished units of paid work, one file each, written the moment they exist and never asked for again.

A unit's name is the hash of its identity, so a resumed run finds what is done by looking, and two processes that
finish the same unit write the same file.
"""

import hashlib
import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from hindcast_dagster.errors import InputRefused
from hindcast_dagster.storage.files import write_atomic
from hindcast_dagster.storage.store import Store


def identity_hash(identity: dict[str, Any]) -> str:
    """Return the sha256 of an identity (JSON values), independent of key order."""
    return hashlib.sha256(json.dumps(identity, sort_keys=True, ensure_ascii=False).encode()).hexdigest()


class Journal:
    """The finished units of one (table, key): `{hash}.json` files in `journal/<table>/<key...>/`."""

    def __init__(self, store: Store, table: str, *key: str) -> None:
        store.partition(table, *key)  # refuses what cannot be a key
        self.path: Path = store.area("journal", table, *key)

    def __contains__(self, unit: str) -> bool:
        return self._file(unit).is_file()

    def write(self, unit: str, record: dict[str, Any]) -> None:
        """Store one finished unit, atomically."""
        write_atomic(self._file(unit), json.dumps(record, sort_keys=True, ensure_ascii=False).encode())

    def read(self, unit: str) -> dict[str, Any] | None:
        """Return one finished unit, or None. Raises `InputRefused` when its file is not JSON."""
        path = self._file(unit)
        try:
            data = path.read_bytes()
        except FileNotFoundError:
            return None
        try:
            record = json.loads(data)
        except ValueError as error:
            raise InputRefused(f"{path} is not JSON ({error}): delete it and run again.") from error
        if not isinstance(record, dict):
            raise InputRefused(f"{path} does not hold an object: delete it and run again.")
        return record

    def records(self) -> Iterator[tuple[str, dict[str, Any]]]:
        """Yield (unit, record) of all finished units, in the order of their hashes."""
        for path in sorted(self.path.glob("*.json")) if self.path.is_dir() else ():
            record = self.read(path.stem)
            if record is not None:
                yield path.stem, record

    def digest(self) -> str:
        """Return the sha256 over the names and bytes of all finished units: another one when any was changed."""
        whole = hashlib.sha256()
        for path in sorted(self.path.glob("*.json")) if self.path.is_dir() else ():
            whole.update(f"{path.name} {hashlib.sha256(path.read_bytes()).hexdigest()}\n".encode())
        return whole.hexdigest()

    def _file(self, unit: str) -> Path:
        if len(unit) != 64 or not set(unit) <= set("0123456789abcdef"):  # noqa: PLR2004 - a sha256 in hex
            raise InputRefused(f"{unit!r} is not the hash of a unit.")
        return self.path / f"{unit}.json"
