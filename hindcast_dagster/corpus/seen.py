"""Which ids were met before, exactly, in bounded memory: the ids of a full month of comments do not fit.

The newest ids are a set in memory; a full set becomes a sorted file. Ids rise roughly with time, so a file's range
rarely overlaps the ids being asked about, and most files are never opened again.
"""

from pathlib import Path
from typing import TYPE_CHECKING, Final, NamedTuple

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

RECENT: Final = 1_000_000  # about 110 MB as a set of strings
LARGEST: Final = 8_000_000  # files are merged up to this many ids: about 300 MB while two become one


class _File(NamedTuple):
    ids: "NDArray[np.bytes_]"
    low: str
    high: str


class Seen:
    """All ids of one dump so far."""

    def __init__(self, folder: Path, *, recent: int = RECENT, largest: int = LARGEST) -> None:
        self._folder, self._limit, self._largest = folder, recent, largest
        self._recent: set[str] = set()
        self._files: list[_File] = []
        self._made = 0

    def repeats(self, ids: list[str]) -> set[int]:
        """Return the positions of ids that came before, in `ids` or in an earlier call, and remember all of them."""
        recent = self._recent
        new = set(ids)
        repeated: set[int] = set()
        if len(new) < len(ids) or not recent.isdisjoint(new):
            for i, name in enumerate(ids):
                if name in recent:
                    repeated.add(i)
                recent.add(name)
        for file in self._files:
            repeated |= _found(file, ids)
        recent |= new
        if len(recent) >= self._limit:
            self._freeze()
        return repeated

    def _freeze(self) -> None:
        import numpy as np

        ids = np.array(sorted(self._recent), dtype="S13")
        self._recent = set()
        while self._files and len(self._files[-1].ids) <= len(ids) and len(ids) * 2 <= self._largest:
            ids = np.union1d(self._files.pop().ids, ids)
        path = self._folder / f"ids-{self._made}.npy"
        self._made += 1
        np.save(path, ids)
        low, high = ids[0].decode(), ids[-1].decode()
        self._files.append(_File(np.load(path, mmap_mode="r"), low, high))


def _found(file: _File, ids: list[str]) -> set[int]:
    """Return the positions of the ids that the file holds."""
    import numpy as np

    inside = [i for i, name in enumerate(ids) if file.low <= name <= file.high]
    if not inside:
        return set()
    asked = np.array([ids[i] for i in inside], dtype="S13")
    held = file.ids[np.minimum(np.searchsorted(file.ids, asked), len(file.ids) - 1)] == asked
    return {inside[i] for i in np.flatnonzero(held)}
