"""Reading: the blocks of a dump with their lines found and numbered, and those that need no parsing told apart."""

from collections.abc import Callable, Generator
from typing import NamedTuple

from hindcast_dagster.corpus.lines import Block, Lines
from hindcast_dagster.corpus.record import Span

Progress = Callable[[float, float | None, str], None]
"""Gets (compressed bytes read, file size, words)."""


class Page(NamedTuple):
    """A block whose lines were found."""

    block: Block
    first_line: int
    """Number, from 1, of its first line in the file."""
    lines: int
    candidates: list[Span] | None
    """The lines that must be parsed; None: every one."""


def pages(lines: Lines, kept: frozenset[str] | None) -> Generator[Page, None, None]:
    """Yield the pages of a dump in file order; `kept` holds lower-case subreddits, None keeps every one.

    Raises `InputRefused` as `Lines` does. The scan is loaded here: in the thread that needs it, while others work.
    """
    from hindcast_dagster.corpus.scan import Scanner, count

    scanner = None if kept is None else Scanner(frozenset(name.encode() for name in kept))
    for block in lines:
        first = lines.count + 1
        if scanner is None:
            found, candidates = count(block.data, block.start, block.end), None
        else:
            found, candidates = scanner.scan(block.data, block.start, block.end)
        lines.count += found
        yield Page(block, first, found, candidates)
