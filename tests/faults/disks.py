"""Small and read-only disks, mounted for the length of one run. Needs root; elsewhere `impossible` says why not."""

import os
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import NamedTuple

PAGE = 4096


def pages(path: Path) -> int:
    """Return how many pages a tmpfs needs for the files below a path."""
    return sum(-(-each.stat().st_size // PAGE) for each in path.rglob("*") if each.is_file())


class Disk(NamedTuple):
    """A mounted disk."""

    path: Path

    def enlarge(self) -> None:
        """Give it room."""
        _mount("-o", "remount,size=256m", self.path)


@contextmanager
def small(path: Path, *, pages: int) -> Iterator[Disk]:
    """Mount an empty disk of some pages at `path`."""
    path.mkdir(parents=True, exist_ok=True)
    _mount("-t", "tmpfs", "-o", f"size={pages * PAGE}", "tmpfs", path)
    try:
        yield Disk(path)
    finally:
        subprocess.run(["umount", "-l", path], check=True)


@contextmanager
def read_only(path: Path) -> Iterator[None]:
    """Make the tree at `path` read-only, also for root."""
    _mount("--bind", path, path)
    try:
        _mount("-o", "remount,bind,ro", path)
        yield
    finally:
        subprocess.run(["umount", "-l", path], check=True)


def impossible(scratch: Path) -> str:
    """Return why nothing can be mounted here, or "" when it can."""
    if os.geteuid():
        return "needs root, to mount a disk"
    place = scratch / "mount"
    try:
        with small(place, pages=1):
            return ""
    except (OSError, subprocess.CalledProcessError) as error:
        return f"no disk can be mounted here ({error})"


def _mount(*words: str | Path) -> None:
    subprocess.run(["mount", *words], check=True, capture_output=True)
