"""The filters, in the order that is pinned: the first reason that applies is the one that is counted.

The order is part of the data contract (docs/corpus.md). `Rules` holds the limits of a build; `Sieve` applies them.
"""

import hashlib
import re
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final, NamedTuple

from hindcast_dagster import clock
from hindcast_dagster.corpus import subreddits, values
from hindcast_dagster.corpus.dumps import Kind
from hindcast_dagster.corpus.record import Record
from hindcast_dagster.errors import UsageError
from hindcast_dagster.settings import Corpus

CODE_VERSION: Final = "corpus/2"
"""Raised when the same dump and settings give other rows: what an older version sealed is then stale."""

REASONS: Final = (
    "bad_record", "other_subreddit", "no_id", "duplicate", "outside_month", "author_gone", "text_gone", "bot",
    "score_unknown", "low_score", "few_comments", "too_short", "mostly_link", "few_words", "deleted_later",
    "forgotten",
)  # fmt: skip
STUBS: Final = frozenset({"[removed]", "[deleted]", "[ Removed by Reddit ]", "[deleted by user]"})
_URL: Final = re.compile(r"https?://\S+")


class Row(NamedTuple):
    """A kept document, in the column order of the contract but for the dump's hash, which is known at the end."""

    id: str
    doc_type: str
    subreddit: str
    author: str
    title: str | None
    text: str
    created_at: int
    text_as_of: int
    engagement_as_of: int | None
    score: int
    num_comments: int | None
    link_id: str | None
    parent_id: str | None
    permalink: str | None
    month: str
    url: str | None
    over_18: bool | None
    deleted_later: bool


@dataclass(frozen=True, slots=True)
class Rules:
    """What one build keeps. Build it with `of`."""

    kind: Kind
    month: str
    start: int
    end: int
    kept: frozenset[str] | None
    """Lower-case subreddit names; None keeps every one."""
    bots: frozenset[str]
    limits: Corpus

    @classmethod
    def of(cls, settings: Corpus, *, month: str, kind: Kind) -> "Rules":
        """Read the lists that the settings name. Raises `UsageError` for one that cannot be used."""
        kept = None if settings.all_subreddits else subreddits.read(settings.subreddits_file)
        bots = _names(settings.bots_file) if settings.bots_file else frozenset()
        return cls(kind, month, clock.month_start(month), clock.month_end(month), kept, bots, settings)

    def used(self) -> dict[str, Any]:
        """Return the limits and lists of a build, lists as they were and not as file names."""
        limits = self.limits.model_dump(mode="json", exclude={"subreddits_file", "bots_file"})
        bots = hashlib.sha256("\n".join(sorted(self.bots)).encode()).hexdigest() if self.bots else None
        return {**limits, "subreddits": sorted(self.kept) if self.kept is not None else None, "bots_sha256": bots}

    def in_scope(self, name: object) -> bool:
        """Return whether a subreddit is kept. Letter case varies in people's lists, not in the dumps."""
        if type(name) is not str or not name:
            return False
        return self.kept is None or (name.isascii() and name.lower() in self.kept)

    def gone(self, record: Record) -> str | None:
        """Return why a record has no author or no text, or None."""
        author = record.author
        if type(author) is not str or not author or author == "[deleted]":
            return "author_gone"
        raw = record.body if self.kind == "comments" else record.selftext
        found = raw.strip() if type(raw) is str else ""
        if found in STUBS or (not found and self.kind == "comments"):
            return "text_gone"
        return "bot" if self.bots and author.lower() in self.bots else None

    def comments(self, record: Record) -> str | None:
        """Return why a submission was talked about too little (paper, 3.1), or None."""
        if self.kind == "submissions" and (values.whole(record.num_comments) or 0) < self.limits.min_comments:
            return "few_comments"
        return None

    def texts(self, record: Record) -> tuple[str, str]:
        """Return title ("" for a comment) and text as they are stored and counted."""
        if self.kind == "comments":
            return "", values.unescaped(record.body)
        return values.unescaped(record.title), values.unescaped(record.selftext)

    def length(self, title: str, text: str) -> str | None:
        """Return why a text is too little to read (paper, 3.1), or None."""
        words = text.split()
        if self.kind == "comments" and (reason := self._links(text, sum(map(len, words)))):
            return reason
        count = len(words) + (len(title.split()) if title else 0)
        return "few_words" if count < self.limits.min_words else None

    def _links(self, text: str, filled: int) -> str | None:
        """Judge a comment that has `filled` characters other than whitespace."""
        links = sum(map(len, _URL.findall(text))) if "http" in text else 0
        if filled - links < self.limits.min_characters:
            return "too_short"
        return "mostly_link" if 2 * links > filled else None

    def row(self, record: Record, *, id: str, created: int, score: int, title: str, text: str) -> Row:  # noqa: A002
        """Return the kept document."""
        comment = self.kind == "comments"
        link = values.bare_id(record.link_id) if comment else None
        return Row(
            id=id,
            doc_type="comment" if comment else "submission",
            subreddit=record.subreddit,
            author=record.author,
            title=None if comment else title,
            text=text,
            created_at=created,
            text_as_of=values.text_as_of(record, created),
            engagement_as_of=values.engagement_as_of(record, created),
            score=score,
            num_comments=None if comment else values.whole(record.num_comments),
            link_id=link,
            parent_id=values.parent_of(record.parent_id, link) if comment else None,
            permalink=values.text(record.permalink),
            month=self.month,
            url=None if comment else values.text(record.url),
            over_18=values.truth(record.over_18),
            deleted_later=record.meta.was_deleted_later is True,
        )


def _names(path: Path) -> frozenset[str]:
    """Read a list of author names, one a line, lower-cased."""
    try:
        lines = path.read_text(encoding="utf-8").splitlines()
    except (OSError, UnicodeDecodeError) as error:
        raise UsageError(f"The list {path} cannot be read ({error}).") from error
    return frozenset(line.strip().lower() for line in lines if line.strip() and not line.startswith("#"))
