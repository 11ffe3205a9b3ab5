"""Documents as quoted data in a prompt, trimmed to a token budget.

Every part comes from the archive and is neutralised here. Posts come first, each with a fair share; comments and the
author's history get what is left, best posts first. What was offered, shown and trimmed is counted.
"""

from collections.abc import Callable, Sequence
from typing import Final, NamedTuple

from hindcast_dagster.archive.protocol import Document
from hindcast_dagster.clock import iso
from hindcast_dagster.forecast.pool import Found
from hindcast_dagster.prompts.loader import content

Count = Callable[[str], int]

LEAST: Final = 24
"""Tokens below which a part of a document says nothing."""
_CHARACTERS: Final = 8
"""Characters that a token holds at most, on average: longer text is cut before it is counted."""
_FRAME: Final = 12
"""Tokens of the number in a head, of the closing tag and of line ends, from above."""
_LINE: Final = 240  # characters of one line of an author's history


class Rendered(NamedTuple):
    """Evidence as it stands in a prompt."""

    text: str
    keys: tuple[str, ...]
    """The documents of the numbered blocks 1.. ."""
    offered: int
    """Tokens of everything that there was to show."""
    shown: int

    @property
    def trimmed(self) -> int:
        """Tokens that were left out."""
        return max(0, self.offered - self.shown)


def render(found: Sequence[Found], *, budget: int, count: Count) -> Rendered:
    """Return numbered blocks of as many documents as fit into `budget` tokens, best first."""
    parts = [_parts(item, number, count) for number, item in enumerate(found, start=1)]
    offered = sum(part.head_size + part.body_size + part.extra_size for part in parts)
    share = max(budget // max(len(found), 1), 2 * LEAST)
    shown: list[tuple[_Parts, str]] = []
    left = budget
    for part in parts:
        room = min(share, left) - part.head_size
        body = part.body if part.body_size <= room else clip(part.body, room, count) if room >= LEAST else ""
        if not body:
            break
        shown.append((part, body))
        left -= part.head_size + (part.body_size if body is part.body else count(body))
    texts = []
    for part, body in shown:
        extra = part.extra if part.extra_size <= left else clip(part.extra, left, count) if left >= LEAST else ""
        left -= part.extra_size if extra is part.extra else count(extra)
        texts.append(f"{part.head}\n{body}{extra}\n{part.tail}")
    keys = tuple(item.document.key for item in found[: len(shown)])
    return Rendered("\n".join(texts), keys, offered=offered, shown=budget - left)


class _Parts(NamedTuple):
    """One document, neutralised, and its sizes in tokens."""

    head: str
    body: str
    extra: str
    tail: str
    head_size: int
    body_size: int
    extra_size: int


def _parts(found: Found, number: int, count: Count) -> _Parts:
    """Return the parts of a document. They are made and counted once; only the number in the head changes."""
    if found.rendered is None:
        kind = "post" if found.document.doc_type == "submission" else "comment"
        head, body, extra = f"<{kind} {_head(found.document)}>", _body(found.document), _extras(found)
        sizes = (count(head) + _FRAME, count(body), count(extra) if extra else 0)
        found.rendered = (head, body, extra, f"</{kind}>", *sizes)
    made = _Parts(*found.rendered)
    return made._replace(head=made.head.replace(" ", f' n="{number}" ', 1))


def clip(text: str, budget: int, count: Count) -> str:
    """Return the beginning of a text with at most `budget` tokens, ended at a word."""
    if budget <= 0 or len(text.encode(errors="surrogatepass")) <= budget:  # a token is at least one byte
        return text if budget > 0 else ""
    part = text[: budget * _CHARACTERS]
    while part and (size := count(part)) > budget:
        part = part[: int(len(part) * budget / size * 0.97)]
    if len(part) == len(text):
        return text
    end = max(part.rfind(" "), part.rfind("\n"))
    return part[:end].rstrip() if end > 0 else ""


def _head(document: Document) -> str:
    fields = {
        "id": document.key,
        "date": iso(document.created_at)[:10],
        "subreddit": _attribute(document.subreddit),
        "author": _attribute(document.author),
        "score": document.score,
        "comments": document.num_comments,
    }
    return " ".join(f'{name}="{value}"' for name, value in fields.items() if value is not None)


def _attribute(value: str) -> str:
    """Return a value that cannot leave its quotes."""
    return " ".join(content(value).translate({ord('"'): "'", ord("<"): None, ord(">"): None}).split())


def _body(document: Document) -> str:
    title = content(document.title or "").strip()
    text = content(document.text).strip()
    return "\n".join(part for part in (f"Title: {title}" if title else "", text) if part) or "(no text)"


def _extras(found: Found) -> str:
    parts = []
    if found.comments:
        parts += ["Comments:", *(_line(comment) for comment in found.comments)]
    if found.history:
        parts += ["Other posts and comments of the author:", *(_line(other) for other in found.history)]
    return "\n" + "\n".join(parts) if parts else ""


def _line(document: Document) -> str:
    score = "" if document.score is None else f", score {document.score}"
    said = " ".join(content(f"{document.title or ''} {document.text}").split())[:_LINE]
    return f"- {document.key}, {iso(document.created_at)[:10]}, r/{_attribute(document.subreddit)}{score}: {said}"
