"""The three layers of the cutoff (design, section 3; paper, section 3.3), each a function that can be tested alone.

1. `select`: months no later than t0's month and no earlier than a start-time bound.
2. `row_predicate`: `created_at < t0`, strict, in the query of every tool, before anything is ranked.
3. `recheck`: every row about to be returned is looked at once more; a future row raises `CutoffViolation`.

`Layers` holds the three. Only tests build another one than `ALL`; no setting reaches it.
"""

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import Final, Literal, Protocol

from hindcast_dagster.archive.predicate import Predicate
from hindcast_dagster.archive.protocol import Document, Filters
from hindcast_dagster.clock import Cutoff, instant, month_of
from hindcast_dagster.errors import CutoffViolation


class Dated(Protocol):
    """A row about to be returned: a document, or a ranked row before its text is read."""

    @property
    def key(self) -> str:
        """Prefixed id."""
        ...

    @property
    def created_at(self) -> int:
        """Epoch seconds."""
        ...

    @property
    def text_as_of(self) -> int:
        """Epoch seconds."""
        ...

    @property
    def engagement_as_of(self) -> int | None:
        """Epoch seconds, or None when unknown."""
        ...


Mode = Literal["strict", "paper"]
LateVotes = Literal["withhold", "hide"]


@dataclass(frozen=True, slots=True)
class Rules:
    """What the archive shows of a row that existed before t0 (docs/archive.md has the table)."""

    mode: Mode = "strict"
    late_votes: LateVotes = "withhold"

    @property
    def strict(self) -> bool:
        """Texts and votes of later than t0 are kept back."""
        return self.mode == "strict"

    @property
    def hide(self) -> bool:
        """Rows with later votes are dropped altogether."""
        return self.strict and self.late_votes == "hide"


@dataclass(frozen=True, slots=True)
class Scope:
    """One tool call: the effective cutoff, min(t0, the call's own), and the narrowing filters, parsed."""

    cutoff: Cutoff
    clamped: bool
    """The call asked for a later cutoff than t0."""
    start: int | None
    filters: Filters
    rules: Rules

    @classmethod
    def of(cls, t0: Cutoff, filters: Filters, rules: Rules) -> "Scope":
        """Parse the filters of a call at t0. Raises `InvalidInstant`."""
        asked = None if filters.cutoff is None else Cutoff.of(filters.cutoff)
        return cls(
            cutoff=t0.clamp(asked),
            clamped=asked is not None and asked > t0,
            start=None if filters.start is None else instant(filters.start),
            filters=filters,
            rules=rules,
        )

    def widened(self) -> "Scope":
        """Return the scope without narrowing filters: what a thread is built from."""
        return Scope(self.cutoff, self.clamped, None, Filters(), self.rules)


def select(months: Iterable[str], scope: Scope) -> list[str]:
    """Return the months that may hold an admitted row, sorted."""
    first = "" if scope.start is None else month_of(scope.start)
    last, wanted = scope.cutoff.month, scope.filters.months
    return sorted(month for month in months if first <= month <= last and (wanted is None or month in wanted))


def row_predicate(scope: Scope) -> Predicate:
    """Return the predicate of a call."""
    cutoff, filters, rules = scope.cutoff.epoch, scope.filters, scope.rules
    return Predicate(
        before=cutoff,
        text_before=cutoff if rules.strict else None,
        votes_before=cutoff if rules.hide else None,
        start=scope.start,
        subreddits=None if filters.subreddits is None else frozenset(name.lower() for name in filters.subreddits),
        author=filters.author,
        months=None if filters.months is None else frozenset(filters.months),
    )


def recheck(rows: Sequence[Dated], scope: Scope) -> None:
    """Raise `CutoffViolation` if any row is not strictly before the cutoff, by its creation or (strict) its text."""
    for found in rows:
        late = not scope.cutoff.admits(found.created_at)
        edited = scope.rules.strict and not scope.cutoff.admits(found.text_as_of)
        votes = scope.rules.hide and not scope.cutoff.admits(found.engagement_as_of)
        if late or edited or votes:
            what = "was created" if late else "has a text" if edited else "has votes"
            raise CutoffViolation(
                f"{found.key} {what} at or after the cutoff {scope.cutoff.iso} and was about to be returned. "
                "Nothing was handed out; please report this as a bug of the archive."
            )


def as_seen(found: Document, scope: Scope) -> Document:
    """Return the row as it may be seen: in strict mode without votes that were read at or after the cutoff."""
    if not scope.rules.strict or scope.cutoff.admits(found.engagement_as_of):
        return found
    from dataclasses import replace

    withheld = tuple(name for name in ("score", "num_comments") if getattr(found, name) is not None)
    return replace(found, score=None, num_comments=None, withheld=withheld)


@dataclass(frozen=True, slots=True)
class Layers:
    """The three layers as they are used by a view."""

    select: Callable[[Iterable[str], Scope], list[str]] = select
    predicate: Callable[[Scope], Predicate] = row_predicate
    recheck: Callable[[Sequence[Dated], Scope], None] = recheck


ALL: Final = Layers()
