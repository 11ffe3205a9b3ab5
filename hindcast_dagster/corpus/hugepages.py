"""Huge pages for the decoder's window: 2 GiB in pages of 4 KiB cost as much time to hand out as the decoding itself.

A hint to the kernel and nothing else: where it is not Linux, or the kernel does not take hints, all works as before.
"""

import ctypes
import mmap
from contextlib import suppress
from pathlib import Path
from typing import Final

SMALLEST: Final = 1 << 26  # a smaller window is filled once and costs nothing worth a hint
_ANONYMOUS_FIELDS: Final = 5  # a line of /proc/self/maps without a file name


def advise(size: int) -> int:
    """Ask for huge pages in the mappings of this process that can hold `size` bytes; return how many were asked for."""
    advice = getattr(mmap, "MADV_HUGEPAGE", None)
    if advice is None or size < SMALLEST:
        return 0
    with suppress(OSError, ValueError, AttributeError):
        libc = ctypes.CDLL(None)
        lines = [line.split() for line in Path("/proc/self/maps").read_text(encoding="utf-8").splitlines()]
        ranges = [line[0].split("-") for line in lines if len(line) == _ANONYMOUS_FIELDS]
        large = [(int(a, 16), int(b, 16) - int(a, 16)) for a, b in ranges if int(b, 16) - int(a, 16) >= size]
        return sum(libc.madvise(ctypes.c_void_p(at), ctypes.c_size_t(length), advice) == 0 for at, length in large)
    return 0
