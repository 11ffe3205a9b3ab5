"""Checksums of a month's files, kept beside them: its manifest cannot list them, as LanceDB's file names are random."""

import json
from pathlib import Path
from typing import Final

from hindcast_dagster.storage.files import sha256_file

NAME: Final = "checksums.json"
NOT_LISTED: Final = {NAME, "manifest.json"}


def write_checksums(path: Path) -> None:
    """Write the sha256 of every file below `path`."""
    sums = {name: sha256_file(path / name) for name in _files(path)}
    (path / NAME).write_text(json.dumps(sums, indent=0, sort_keys=True), encoding="utf-8")


def damage(path: Path) -> str | None:
    """Return the name of a file that is missing, new or changed since the month was sealed; None: all is well."""
    try:
        sums = json.loads((path / NAME).read_text(encoding="utf-8"))
    except (OSError, ValueError):
        return NAME
    found = _files(path)
    changed = sorted(set(sums) ^ set(found)) or [name for name in found if sha256_file(path / name) != sums[name]]
    return changed[0] if changed else None


def _files(path: Path) -> list[str]:
    names = (each.relative_to(path).as_posix() for each in path.rglob("*") if each.is_file())
    return sorted(name for name in names if name not in NOT_LISTED)
