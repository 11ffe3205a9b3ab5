r"""Whole lines of a dump, decoded by a second thread while this one reads them.

Decoding releases the interpreter, so the two overlap; a bounded queue keeps memory flat. Lines end at b"\n" alone:
U+2028, CR and NUL are content, and a chunk may end inside a character, so nothing is decoded as text here.
"""

import queue
import sys
import threading
from collections.abc import Generator, Iterator
from contextlib import closing, contextmanager, suppress
from pathlib import Path
from typing import Final, NamedTuple

from hindcast_dagster.corpus.dumps import as_refusal
from hindcast_dagster.corpus.frames import Broken
from hindcast_dagster.corpus.source import HashingReader, decoded
from hindcast_dagster.errors import InputRefused, NotReady

MAX_LINE: Final = 1 << 26  # a longer line is no record: it is passed on as an empty one, which no parser accepts
_AHEAD: Final = 4  # decoded pieces in flight
_SWITCH_S: Final = 0.0005  # at the default 5 ms a scanning thread starves the decoder


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

    def __iter__(self) -> Iterator[Block]:
        """Yield blocks in file order. Raises `InputRefused` unless the file is whole and ends with a newline."""
        with _reader(self.path) as reader:
            try:
                with closing(_in_thread(reader, self.path)) as pieces:
                    yield from self._blocks(pieces, reader)
            except Broken as error:
                raise as_refusal(self.path, error, offset=reader.position, line=self.count) from error
            except (MemoryError, OSError) as error:
                raise _unreadable(self.path, error) from error
            self.sha256, self.size = reader.sha256, reader.position

    def _blocks(self, pieces: Iterator[bytes], reader: HashingReader) -> Iterator[Block]:
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


def _in_thread(reader: HashingReader, path: Path) -> Generator[bytes, None, None]:
    """Run `decoded` in a thread of its own and yield what it makes; its errors surface here, and it always ends."""
    made: queue.Queue[bytes | BaseException | None] = queue.Queue(_AHEAD)
    stop = threading.Event()

    def put(item: bytes | BaseException | None) -> None:
        waiting = True
        while waiting and not stop.is_set():
            with suppress(queue.Full):
                made.put(item, timeout=0.2)
                waiting = False

    def work() -> None:
        try:
            for data in decoded(reader, path):
                put(data)
                if stop.is_set():
                    return
            put(None)
        except BaseException as error:  # noqa: BLE001 - it is raised again in the reading thread
            put(error)

    interval = sys.getswitchinterval()
    sys.setswitchinterval(_SWITCH_S)
    thread = threading.Thread(target=work, name="decode", daemon=True)
    thread.start()
    try:
        while (item := made.get()) is not None:
            if isinstance(item, BaseException):
                raise item
            yield item
    finally:
        stop.set()
        thread.join()
        sys.setswitchinterval(interval)
