"""The row predicate: which rows of a month may be seen. The only place where a filter value becomes part of a query.

One `Predicate` has two renderings that mean the same: `sql` for LanceDB, `mask` for the columns that lie beside the
table. Values are typed; text goes through `literal`. Names that a model sends are first looked up among the names that
the archive holds, so text of a model never becomes part of a predicate at all.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from hindcast_dagster.errors import UsageError

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    from hindcast_dagster.archive.columns import Columns

NOTHING = "false"


def literal(value: object) -> str:
    """Return a value as a SQL literal: an int as digits, text in single quotes with quotes doubled.

    Raises `UsageError` for every other type, and for text with NUL, which has no literal.
    """
    if isinstance(value, int) and not isinstance(value, bool):
        return str(value)
    if isinstance(value, str) and "\x00" not in value:
        return "'" + value.replace("'", "''") + "'"
    raise UsageError(f"{value!r} cannot be part of a query.")


def one_of(name: str, values: Sequence[object]) -> str:
    """Return `name IN (...)`; an empty list admits nothing."""
    return f"{name} IN ({', '.join(literal(value) for value in values)})" if values else NOTHING


@dataclass(frozen=True, slots=True)
class Predicate:
    """The conjunction of everything that a row must satisfy. None means: no such condition."""

    before: int | None = None
    """created_at < before: the cutoff, strict."""
    text_before: int | None = None
    """text_as_of < text_before: strict mode."""
    votes_before: int | None = None
    """engagement_as_of known and < votes_before: strict mode with late_votes = hide."""
    start: int | None = None
    """created_at >= start."""
    subreddits: frozenset[str] | None = None
    """Lower-case names."""
    author: str | None = None
    months: frozenset[str] | None = None

    def sql(self, columns: "Columns", *conditions: str) -> str:
        """Return the predicate for one month's table; `conditions` are further SQL made by this module."""
        parts = list(conditions)
        bounds = (
            ("created_at", self.before),
            ("text_as_of", self.text_before),
            ("engagement_as_of", self.votes_before),
        )
        parts += [f"{name} < {literal(bound)}" for name, bound in bounds if bound is not None]
        if self.start is not None:
            parts.append(f"created_at >= {literal(self.start)}")
        if self.subreddits is not None:
            parts.append(one_of("subreddit", [columns.subreddit_names[code] for code in self._codes(columns)]))
        if self.author is not None:
            known = columns.author_code(self.author) is not None
            parts.append(f"author = {literal(self.author)}" if known else NOTHING)
        if self.months is not None and columns.month not in self.months:
            parts.append(NOTHING)
        return " AND ".join(parts) if parts else "true"

    def admits_all(self, columns: "Columns") -> bool:
        """Return whether every row of a month satisfies the predicate, from the month's latest times alone."""
        narrowed = self.start is not None or self.subreddits is not None or self.author is not None
        bounds = (
            ("created_at", self.before),
            ("text_as_of", self.text_before),
            ("engagement_as_of", self.votes_before),
        )
        late = any(bound is not None and columns.latest[name] >= bound for name, bound in bounds)
        return not (narrowed or late or (self.months is not None and columns.month not in self.months))

    def mask(self, columns: "Columns", rows: "NDArray[np.integer[Any]] | None" = None) -> "NDArray[np.bool_]":
        """Return which rows of one month (all, or those at some row numbers) satisfy the predicate."""
        import numpy as np

        at = slice(None) if rows is None else rows
        keep = np.ones(columns.rows if rows is None else len(rows), dtype=bool)
        if self.before is not None:
            keep &= columns.created_at[at] < self.before
        if self.text_before is not None:
            keep &= columns.text_as_of[at] < self.text_before
        if self.votes_before is not None:
            keep &= columns.engagement_as_of[at] < self.votes_before
        if self.start is not None:
            keep &= columns.created_at[at] >= self.start
        if self.subreddits is not None:
            keep &= np.isin(columns.subreddit[at], self._codes(columns))
        if self.author is not None:
            code = columns.author_code(self.author)
            keep &= columns.author[at] == (-1 if code is None else code)
        if self.months is not None and columns.month not in self.months:
            keep[:] = False
        return keep

    def _codes(self, columns: "Columns") -> list[int]:
        wanted = self.subreddits or frozenset()
        return [code for code, name in enumerate(columns.subreddit_names) if name.lower() in wanted]
