"""Durable file operations: write aside, flush to disk, rename; and hashing."""

import contextlib
import errno
import hashlib
import os
import uuid
from collections.abc import Iterator
from pathlib import Path

from hindcast_dagster.errors import NotReady, UsageError


@contextlib.contextmanager
def clear_errors(path: Path) -> Iterator[None]:
    """Turn the operating system's word about a full or unwritable disk into one sentence that names the place."""
    try:
        yield
    except OSError as error:
        if error.errno in {errno.ENOSPC, errno.EDQUOT}:
            raise NotReady(
                f"No space left on the disk that holds {path}: free some and run the command again."
            ) from error
        if error.errno in {errno.EACCES, errno.EPERM, errno.EROFS, errno.ENOTDIR}:
            raise UsageError(
                f"{path} cannot be written ({os.strerror(error.errno)}): choose another --data-root."
            ) from error
        raise


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


def sha256_file(path: Path) -> str:
    """Return the sha256 of a file."""
    with path.open("rb") as handle:
        return hashlib.file_digest(handle, "sha256").hexdigest()
