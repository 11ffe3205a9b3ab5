"""Blocks: posts as a judge model reads them, numbered, quoted as data, and packed into calls.

What belongs here: rendering and packing. Votes are not shown: the probe weighs what was said, not how it was liked.
"""

from collections.abc import Callable, Iterator, Sequence

from hindcast_dagster.archive.protocol import Document
from hindcast_dagster.clock import iso
from hindcast_dagster.prompts.loader import content

_CUT = " [...]"


def render(number: int, post: Document, *, characters: int) -> str:
    """Return one numbered block of at most `characters` of the post's text, made inert for prompts."""
    text = f"{post.title or ''}\n{post.text}".strip()
    shown = text if len(text) <= characters else text[:characters].rstrip() + _CUT
    return f'<block number="{number}" date="{iso(post.created_at)[:10]}">\n{content(shown)}\n</block>'


def packed(
    blocks: Sequence[tuple[int, str]], *, most: int, room: int, count: Callable[[str], int]
) -> Iterator[list[tuple[int, str]]]:
    """Yield lists of (number, block): at most `most` blocks and, unless a single one is longer, `room` tokens each."""
    batch: list[tuple[int, str]] = []
    used = 0
    for number, block in blocks:
        size = count(block)
        if batch and (len(batch) == most or used + size > room):
            yield batch
            batch, used = [], 0
        batch.append((number, block))
        used += size
    if batch:
        yield batch
