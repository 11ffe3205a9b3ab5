"""Memory: whether this machine can unpack a dump, asked before the first byte is read."""

from pathlib import Path
from typing import Final

from hindcast_dagster.corpus.source import window_of
from hindcast_dagster.errors import NotReady

OVERHEAD: Final = 512 << 20  # the program, decoded pieces, ids and rows before they are spilled
RATIO: Final = 100  # a dump unpacks 10 to 30 fold: a small file never fills its window


def require(path: Path) -> None:
    """Raise `NotReady`, naming the file, when its window does not fit into the memory that this process may use."""
    window = window_of(path)
    needed = min(window, path.stat().st_size * RATIO) + OVERHEAD
    if (free := available()) is not None and free < needed:
        raise _too_little(path, needed, free, "is free on this machine")
    allowed = _address_space_left()
    if allowed is not None and allowed < window + OVERHEAD:
        raise _too_little(path, window + OVERHEAD, allowed, "is left of this process's limit (ulimit -v)")


def _too_little(path: Path, needed: int, found: int, where: str) -> NotReady:
    return NotReady(f"{path} needs {needed / 2**30:.1f} GiB of memory to unpack; {found / 2**30:.1f} GiB {where}.")


def available() -> int | None:
    """Return the bytes of memory that are available, the container's limit included; None where nobody says."""
    limits = [_meminfo(), _cgroup()]
    return min((limit for limit in limits if limit is not None), default=None)


def _meminfo() -> int | None:
    try:
        lines = Path("/proc/meminfo").read_text(encoding="ascii").splitlines()
    except OSError:
        return None
    found = [int(line.split()[1]) for line in lines if line.startswith("MemAvailable:")]
    return found[0] << 10 if found else None


def _cgroup() -> int | None:
    """Return what a version 2 control group leaves; page cache that it can drop counts as free."""
    folder = Path("/sys/fs/cgroup")
    try:
        limit = folder.joinpath("memory.max").read_text(encoding="ascii").strip()
        used = int(folder.joinpath("memory.current").read_text(encoding="ascii"))
        stat = dict(line.split() for line in folder.joinpath("memory.stat").read_text(encoding="ascii").splitlines())
    except (OSError, ValueError):
        return None
    return int(limit) - used + int(stat.get("inactive_file", 0)) if limit.isdigit() else None


def _address_space_left() -> int | None:
    try:
        import resource

        limit = resource.getrlimit(resource.RLIMIT_AS)[0]
        used = int(Path("/proc/self/statm").read_text(encoding="ascii").split()[0]) * resource.getpagesize()
    except (ImportError, OSError, ValueError):
        return None
    return None if limit == resource.RLIM_INFINITY else limit - used
