"""Durable file operations: write aside, flush to disk, rename; and hashing."""

import contextlib
import errno
import hashlib
import os
import shutil
import uuid
from collections.abc import Iterator
from pathlib import Path
from typing import Final

from hindcast_dagster.errors import HindcastError, InputRefused, NotReady, UsageError

_FULL: Final = frozenset({errno.ENOSPC, errno.EDQUOT})
_LAST_BLOCKS: Final = 1 << 16
_READ_ONLY: Final = frozenset({errno.EACCES, errno.EPERM, errno.EROFS})


@contextlib.contextmanager
def clear_errors(path: Path) -> Iterator[None]:
    """Turn the operating system's word about a full or unwritable disk into one sentence that names the place."""
    try:
        yield
    except HindcastError:
        raise
    except Exception as error:
        if (plain := disk_error(error, path)) is not None:
            raise plain from error
        raise


def disk_error(error: BaseException, path: object) -> HindcastError | None:
    """Return what a full or unwritable disk should say at `path`, or None when `error` is about something else."""
    number = error.errno if isinstance(error, OSError) else None
    # LanceDB, DuckDB, Polars and numpy report a full disk in errors of their own, some without saying so
    if number in _FULL or os.strerror(errno.ENOSPC) in str(error) or (number is None and _has_no_room(path)):
        return NotReady(f"No space left on the disk that holds {path}: free some and run the command again.")
    if isinstance(error, OSError) and number in _READ_ONLY:
        return NotReady(
            f"{path} cannot be written ({os.strerror(number)}): make it writable, or choose another --data-root."
        )
    if number == errno.ENOTDIR:
        return UsageError(f"{path} cannot be written ({os.strerror(number)}): choose another --data-root.")
    return None


def _has_no_room(path: object) -> bool:
    """Return whether the disk that holds a path is full to its last few blocks."""
    if not isinstance(path, Path) or not path.exists():
        return False
    disk = os.statvfs(path)
    return disk.f_bavail * disk.f_frsize < _LAST_BLOCKS


def sync_directory(path: Path) -> None:
    """Flush a directory entry, so that a rename survives a power cut."""
    handle = os.open(path, os.O_RDONLY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)


def sync_tree(path: Path) -> None:
    """Flush every file and directory below `path`."""
    for folder, _, names in os.walk(path):
        for name in names:
            handle = os.open(Path(folder) / name, os.O_RDONLY)
            try:
                os.fsync(handle)
            finally:
                os.close(handle)
        sync_directory(Path(folder))


def write_atomic(path: Path, data: bytes) -> None:
    """Write a file so that a reader sees the old content or the new, never a part, whatever is killed when."""
    with clear_errors(path.parent):
        path.parent.mkdir(parents=True, exist_ok=True)
        aside = path.with_name(f".{path.name}.{uuid.uuid4().hex}.tmp")
        try:
            with aside.open("wb") as out:
                out.write(data)
                out.flush()
                os.fsync(out.fileno())
            aside.replace(path)
            sync_directory(path.parent)
        finally:
            aside.unlink(missing_ok=True)


def read_bounded(path: Path, limit: int) -> bytes:
    """Return the content of a foreign file. Raises `InputRefused` above `limit`, also for one that tells no size."""
    with path.open("rb") as file:
        data = file.read(limit + 1)
    if len(data) > limit:
        raise InputRefused(f"{path} is larger than {limit // 2**20} MB.")
    return data


def remove_tree(path: Path) -> None:
    """Remove a directory for good, for what has to go.

    Raises `NotReady` when anything of it is left (another owner, a link): nobody may be told that it is gone.
    """
    shutil.rmtree(path, ignore_errors=True)
    if path.exists() or path.is_symlink():
        raise NotReady(f"{path} could not be removed: remove it by hand, or as its owner, and run the command again.")


def sha256_file(path: Path) -> str:
    """Return the sha256 of a file."""
    with path.open("rb") as handle:
        return hashlib.file_digest(handle, "sha256").hexdigest()


_seen: set[tuple[str, int, int, int, str]] = set()


def is_unchanged(path: Path, sha256: str) -> bool:
    """Return whether a file has this sha256; a file that this process has found unchanged is not read again."""
    stat = path.stat()
    mark = (str(path), stat.st_ino, stat.st_size, stat.st_mtime_ns, sha256)
    if mark not in _seen:
        if sha256_file(path) != sha256:
            return False
        _seen.add(mark)
    return True
