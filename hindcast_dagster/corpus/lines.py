r"""Whole lines of a dump, decoded by a thread of its own (see `ahead`) and found by another.

Lines end at b"\n" alone: U+2028, CR and NUL are content, and a chunk may end inside a character, so nothing is decoded
as text here.
"""

from collections.abc import Generator, Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Final, NamedTuple

from hindcast_dagster.corpus.ahead import Ahead
from hindcast_dagster.corpus.dumps import as_refusal
from hindcast_dagster.corpus.frames import Broken
from hindcast_dagster.corpus.source import HashingReader, decoded
from hindcast_dagster.errors import InputRefused, NotReady

MAX_LINE: Final = 1 << 26  # a longer line is no record: it is passed on as an empty one, which no parser accepts
AHEAD: Final = 24  # decoded pieces in flight: 96 MiB, what is decoded while the rest of the program is loaded


class Block(NamedTuple):
    """Consecutive whole lines: `data[start:end]`, which ends with a newline."""

    data: bytes
    start: int
    end: int
    position: int
    """Compressed bytes read when it was decoded."""


class Lines:
    """The lines of one dump. Iterate over it once; then `sha256` and `size` tell what was read."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self.sha256 = ""
        self.size = 0
        self.content = 0
        self.count = 0
        """Lines that the reader of the blocks has counted: it keeps this, for error messages."""

    def __iter__(self) -> Generator[Block, None, None]:
        """Yield blocks in file order. Raises `InputRefused` unless the file is whole and ends with a newline."""
        with _reader(self.path) as reader:
            try:
                with Ahead(lambda: decoded(reader, self.path), most=AHEAD) as pieces:
                    yield from self._blocks(pieces, reader)
            except Broken as error:
                raise as_refusal(self.path, error, offset=reader.position, line=self.count) from error
            except (MemoryError, OSError) as error:
                raise _unreadable(self.path, error) from error
            self.sha256, self.size = reader.sha256, reader.position

    def _blocks(self, pieces: Iterable[bytes], reader: HashingReader) -> Iterator[Block]:
        tail: list[bytes] = []
        held = 0
        for data in pieces:
            self.content += len(data)
            last = data.rfind(b"\n")
            first = data.find(b"\n") + 1 if tail else 0
            if last >= 0 and tail:
                line = b"".join([*tail, data[:first]]) if held + first <= MAX_LINE else b"\n"
                yield Block(line, 0, len(line), reader.position)
            if last + 1 > first:
                yield Block(data, first, last + 1, reader.position)
            if last >= 0:
                tail, held = [], 0
            if rest := data[last + 1 :]:
                held += len(rest)
                tail = [*tail, rest] if held <= MAX_LINE else [b"-"]
        if tail:
            raise Broken("its last line has no newline: it is cut off")


@contextmanager
def _reader(path: Path) -> Iterator[HashingReader]:
    try:
        reader = HashingReader(path)
    except OSError as error:
        raise _unreadable(path, error) from error
    with reader:
        yield reader


def _unreadable(path: Path, error: Exception) -> Exception:
    if isinstance(error, MemoryError):
        return NotReady(f"Too little memory to unpack {path}: its format needs up to 2 GiB of window.")
    return InputRefused(f"{path} cannot be read ({error}).")
