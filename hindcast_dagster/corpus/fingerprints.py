"""The sha256 of every dump, without reading half a terabyte again whenever somebody looks.

A hash is believed as long as the file's size, inode, modification and change time are what they were when it was made.
The change time is the kernel's and cannot be set back as `touch` and `rsync -t` set a modification time. A build never
asks here: it hashes the bytes that it reads.
"""

import hashlib
import json
import os
import re
import time
from pathlib import Path
from typing import Final

from hindcast_dagster.corpus.dumps import Description, describe
from hindcast_dagster.errors import InputRefused
from hindcast_dagster.storage.files import write_atomic
from hindcast_dagster.storage.store import Store

SETTLED_NS: Final = 2_000_000_000  # a file that changed this lately may change again within one tick of its clock
_SHA256: Final = re.compile("[0-9a-f]{64}")


def described(store: Store, path: Path) -> Description:
    """Return size and sha256 of a dump, hashed only when it has changed. Raises `InputRefused` as `describe` does."""
    known = store.area("work", "fingerprints", hashlib.sha256(os.fsencode(path)).hexdigest()[:32] + ".json")
    before = _state(path)
    if (sha256 := _remembered(known, before)) is not None:
        return Description(size=before[0], sha256=sha256)
    asked = time.time_ns()
    found = describe(path)
    if _state(path) == before and max(before[2:]) < asked - SETTLED_NS:
        write_atomic(known, json.dumps({"state": before, "sha256": found.sha256}).encode())
    return found


def _state(path: Path) -> list[int]:
    try:
        stat = path.stat()
    except OSError as error:
        raise InputRefused(f"{path} cannot be read ({error.strerror}).") from error
    return [stat.st_size, stat.st_ino, stat.st_mtime_ns, stat.st_ctime_ns]


def _remembered(known: Path, state: list[int]) -> str | None:
    """Return the hash of a file in this state; None when it is not known, or the note is damaged."""
    try:
        note = json.loads(known.read_bytes())
        sha256 = note["sha256"] if note["state"] == state else None
    except (OSError, ValueError, KeyError, TypeError):
        return None
    return sha256 if isinstance(sha256, str) and _SHA256.fullmatch(sha256) else None
