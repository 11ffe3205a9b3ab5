"""The frame structure of a zstd file, walked beside the decoder, to prove that its last frame ends (RFC 8878, 3.1).

`ZstdDecompressor.stream_reader` decodes many frames in bounded memory but reads a cut file as if it were whole. The
walk needs only the few header bytes of each block; everything between them is skipped.
"""

from collections.abc import Callable
from typing import Final

_MAGIC: Final = 0xFD2FB528
_SKIPPABLE: Final = 0x184D2A50
_RLE: Final = 1


class Broken(Exception):
    """The bytes are not a whole file of their format. The caller adds the place and makes it an `InputRefused`."""


class FrameWalk:
    """Feed it every compressed chunk in order, then call `finish`."""

    def __init__(self) -> None:
        self._held = b""  # the beginning of a header that the last chunk cut
        self._skip = 0
        self._step: Callable[[bytes], None] = self._magic
        self._need = 4
        self._checksum = 0
        self._between = True

    def feed(self, data: bytes) -> None:
        """Walk over one chunk. Raises `Broken` where neither a frame nor a block can begin."""
        at = 0
        while at < len(data):
            if self._skip:
                moved = min(self._skip, len(data) - at)
                self._skip -= moved
                at += moved
                continue
            taken = data[at : at + self._need - len(self._held)]
            at += len(taken)
            self._held += taken
            if len(self._held) == self._need:
                header, self._held = self._held, b""
                self._between = False
                self._step(header)

    def finish(self) -> None:
        """Raise `Broken` unless the file ended where a frame ended."""
        if not self._between or self._held or self._skip:
            raise Broken("the file ends in the middle of a zstd frame: it is cut off")

    def _expect(self, need: int, step: Callable[[bytes], None], *, skip: int = 0, between: bool = False) -> None:
        self._need, self._skip, self._between, self._step = need, skip, between, step

    def _magic(self, header: bytes) -> None:
        magic = int.from_bytes(header, "little")
        if magic & 0xFFFFFFF0 == _SKIPPABLE:
            self._expect(4, self._skippable)
        elif magic == _MAGIC:
            self._expect(1, self._descriptor)
        else:
            raise Broken("bytes that are no zstd frame follow its end")

    def _skippable(self, header: bytes) -> None:
        self._expect(4, self._magic, skip=int.from_bytes(header, "little"), between=True)

    def _descriptor(self, header: bytes) -> None:
        flags = header[0]
        self._checksum = 4 if flags & 4 else 0
        single = bool(flags & 32)
        size = (1 if single else 0, 2, 4, 8)[flags >> 6]
        self._expect(3, self._block, skip=(not single) + (0, 1, 2, 4)[flags & 3] + size)

    def _block(self, header: bytes) -> None:
        value = int.from_bytes(header, "little")
        last, kind, size = value & 1, value >> 1 & 3, value >> 3
        body = 1 if kind == _RLE else size
        if last:
            self._expect(4, self._magic, skip=body + self._checksum, between=True)
        else:
            self._expect(3, self._block, skip=body)
