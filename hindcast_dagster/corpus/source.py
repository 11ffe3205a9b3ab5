"""The bytes of a dump: decompression in bounded memory, and the proof that the file is whole.

Published months are one zstd frame with a 2 GiB window; other files hold many frames, gzip members or plain text. A
decoder that merely stops at the end of a cut file is not enough: every format here must reach its own end mark.
"""

import bz2
import gzip
import hashlib
import io
import lzma
from collections.abc import Callable, Generator, Iterator
from pathlib import Path
from typing import IO, Any, Final, NamedTuple, cast

import zstandard

from hindcast_dagster.corpus import hugepages
from hindcast_dagster.corpus.frames import Broken, FrameWalk
from hindcast_dagster.errors import InputRefused

CHUNK: Final = 1 << 20  # compressed bytes read at a time: few, because each read makes the decoder wait for its turn
OUTPUT: Final = 1 << 22  # decompressed bytes that are handed out at a time, at most
MAX_WINDOW: Final = 1 << 31


class HashingReader(io.RawIOBase):
    """A file that counts and hashes what is read from it, so that the hash is of exactly the bytes that were used."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self._file = path.open("rb", buffering=0)
        self._hash = hashlib.sha256()
        self.position = 0

    def readable(self) -> bool:
        """Return True."""
        return True

    def read(self, size: int = -1, /) -> bytes:
        """Read up to `size` bytes."""
        data = self._file.read(size) or b""
        self._hash.update(data)
        self.position += len(data)
        return data

    def close(self) -> None:
        """Close the file."""
        self._file.close()
        super().close()

    @property
    def sha256(self) -> str:
        """The hash of everything read so far."""
        return self._hash.hexdigest()


def decoded(reader: HashingReader, path: Path) -> Generator[bytes, None, None]:
    """Yield the decompressed bytes of a dump in pieces of at most `OUTPUT` (about), until the file has ended.

    The suffix names the format and the first bytes must agree with it: a damaged head never turns a compressed file
    into plain text. Raises `Broken` for a file that is cut or damaged.
    """
    form = _form(path)
    with path.open("rb") as handle:
        head = handle.read(6)
    if not head.startswith(form.magic):
        raise Broken(f"it does not begin like a {form.name} file")
    yield from form.decode(reader)
    if reader.read(1):
        raise Broken("bytes follow its end")


def _plain(reader: HashingReader) -> Iterator[bytes]:
    while data := reader.read(OUTPUT):
        yield data


def _zstd(reader: HashingReader) -> Iterator[bytes]:
    walk = FrameWalk()
    watched = cast("IO[bytes]", _Watched(reader, walk.feed))  # the decoder calls read(size) and nothing else
    stream = zstandard.ZstdDecompressor(max_window_size=MAX_WINDOW).stream_reader(
        watched, read_size=CHUNK, read_across_frames=True
    )
    try:
        data = stream.read(OUTPUT)
        hugepages.advise(window_of(reader.path))  # the decoder has its window from here on
        while data:
            yield data
            data = stream.read(OUTPUT)
    except zstandard.ZstdError as error:
        if "Allocation error" in str(error):
            raise MemoryError from error
        raise Broken(f"zstd says {str(error).removeprefix('zstd decompress error: ')!r}") from error
    walk.finish()


class _Watched:
    """Shows every compressed chunk to `watch` on its way to the decoder."""

    def __init__(self, reader: HashingReader, watch: Callable[[bytes], None]) -> None:
        self._reader, self._watch = reader, watch

    def read(self, size: int) -> bytes:
        data = self._reader.read(size)
        self._watch(data)
        return data


def _stdlib(opened: Callable[[Any], IO[bytes]]) -> Callable[[HashingReader], Iterator[bytes]]:
    def decode(reader: HashingReader) -> Iterator[bytes]:
        try:
            with opened(reader) as stream:
                while data := stream.read(OUTPUT):
                    yield data
        except (EOFError, OSError, lzma.LZMAError, ValueError) as error:
            raise Broken(str(error).rstrip(".") or type(error).__name__) from error

    return decode


class _Form(NamedTuple):
    name: str
    magic: bytes | tuple[bytes, ...]
    decode: Callable[[HashingReader], Iterator[bytes]]


_SKIPPABLE: Final = tuple(bytes([0x50 + i, 0x2A, 0x4D, 0x18]) for i in range(16))
_FORMS: Final = {
    ".zst": _Form("zstd", (b"\x28\xb5\x2f\xfd", *_SKIPPABLE), _zstd),
    ".gz": _Form("gzip", b"\x1f\x8b", _stdlib(lambda reader: cast("IO[bytes]", gzip.GzipFile(fileobj=reader)))),
    ".bz2": _Form("bzip2", b"BZh", _stdlib(bz2.BZ2File)),
    ".xz": _Form("xz", b"\xfd7zXZ\x00", _stdlib(lzma.LZMAFile)),
}
_PLAIN: Final = _Form("plain", b"", _plain)


def _form(path: Path) -> _Form:
    if path.suffix in {".ndjson", ".jsonl", ".json"}:
        return _PLAIN
    if path.suffix in _FORMS:
        return _FORMS[path.suffix]
    raise InputRefused(f"{path} has no known suffix: expected {', '.join([*_FORMS, '.ndjson', '.jsonl'])}.")


def window_of(path: Path) -> int:
    """Return the bytes of history that a decoder of this file must hold; 0 where it is small or cannot be told."""
    if path.suffix != ".zst":
        return 0
    try:
        with path.open("rb") as handle:
            return int(zstandard.get_frame_parameters(handle.read(18)).window_size)
    except (OSError, zstandard.ZstdError):  # whoever reads the file says so
        return 0
