"""Leases: a reader that holds a sealed version keeps it on disk, however often the partition is rebuilt meanwhile.

A lease is a shared lock on the version's directory; it ends with the process that holds it, also when that is killed.
Removing a version takes the exclusive lock, so a version that somebody reads stays until a later rebuild or `gc`.
"""

import contextlib
import fcntl
import os
import shutil
import weakref
from pathlib import Path


class Lease:
    """A version that stays on disk as long as this object lives."""

    def __init__(self, path: Path) -> None:
        """Take the lease. Raises `FileNotFoundError` when the version is gone, or goes while it is taken."""
        handle = os.open(path, os.O_RDONLY | os.O_DIRECTORY)
        weakref.finalize(self, os.close, handle)
        fcntl.flock(handle, fcntl.LOCK_SH)  # waits for a removal that has begun
        if not _same(path, handle):
            raise FileNotFoundError(path)


def remove_unless_held(path: Path) -> bool:
    """Remove a version directory if nobody holds a lease on it; return whether it is gone."""
    try:
        handle = os.open(path, os.O_RDONLY | os.O_DIRECTORY)
    except FileNotFoundError:
        return True
    try:
        fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
        shutil.rmtree(path, ignore_errors=True)
    except BlockingIOError:
        return False
    finally:
        os.close(handle)
    return not path.exists()


def _same(path: Path, handle: int) -> bool:
    with contextlib.suppress(FileNotFoundError):
        return os.path.samestat(path.stat(), os.fstat(handle))
    return False
