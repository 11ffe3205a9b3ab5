"""Checksums of a month's files, kept beside them: its manifest cannot list them, as LanceDB's file names are random."""

import json
from collections.abc import Iterable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Final

from hindcast_dagster.errors import InputRefused
from hindcast_dagster.storage.files import is_unchanged, sha256_file

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


def require_undamaged(paths: Iterable[Path]) -> None:
    """Read every file of sealed months against its checksum, once a process. Raises `InputRefused` naming the first.

    For work that is paid for or sealed: a wrong byte in a column or a vector changes what is found, and no format
    notices. A look-up by hand does not wait for it.
    """
    for path in paths:
        if (found := _changed(path)) is not None:
            raise InputRefused(
                f"{path / found} is not what was sealed: build that month again with `hindcast archive build`."
            )


def _changed(path: Path) -> str | None:
    """Return what `damage` returns, without reading a file again that this process has found unchanged."""
    try:
        sums = json.loads((path / NAME).read_text(encoding="utf-8"))
    except (OSError, ValueError):
        return NAME
    if not isinstance(sums, dict):
        return NAME
    changed = sorted(set(sums) ^ set(_files(path)))
    if not changed:
        with ThreadPoolExecutor(max_workers=4) as pool:  # hashing holds no lock of Python's
            good = pool.map(lambda name: is_unchanged(path / name, str(sums[name])), sums)
            changed = [name for name, same in zip(sums, good, strict=True) if not same]
    return changed[0] if changed else None


def _files(path: Path) -> list[str]:
    names = (each.relative_to(path).as_posix() for each in path.rglob("*") if each.is_file())
    return sorted(name for name in names if name not in NOT_LISTED)
