"""The words of an answer: why rows are absent, where the archive ends, what was clamped."""

from collections.abc import Sequence

from hindcast_dagster.archive.layers import Scope
from hindcast_dagster.clock import month_end, month_start


def join(*notes: str) -> str:
    """Return the notes that say something, as one text."""
    return " ".join(note for note in notes if note)


def clamped(scope: Scope) -> str:
    """Say that a later cutoff was asked for."""
    return f"The cutoff stays at {scope.cutoff.iso}; it can only be moved earlier." if scope.clamped else ""


def coverage(scope: Scope, months: Sequence[str], kind: str) -> str:
    """Say where the archive of a kind ends, when that is before the cutoff, or that it has not begun."""
    if not months:
        return f"The archive holds no {kind}s."
    if months[0] > scope.cutoff.month:
        return f"The archive of {kind}s begins in {months[0]}, after the cutoff {scope.cutoff.iso}."
    if month_end(months[-1]) < scope.cutoff.epoch:
        until = f"nothing is known of the time from then to {scope.cutoff.iso}"
        return f"The archive of {kind}s ends with {months[-1]}: {until}."
    return ""


def empty(scope: Scope, months: Sequence[str], admitted: Sequence[str]) -> str:
    """Say which rule left nothing over."""
    filters = scope.filters
    if scope.start is not None and scope.start >= scope.cutoff.epoch:
        return f"The start time is not before the cutoff {scope.cutoff.iso}, so nothing can lie between them."
    if filters.months is not None and not any(month_start(month) < scope.cutoff.epoch for month in filters.months):
        return f"None of the months asked for begins before the cutoff {scope.cutoff.iso}."
    if months and not admitted:
        return f"No month of the archive ({months[0]} to {months[-1]}) is admitted by the cutoff and the filters."
    named = [name for name in ("doc_type", "subreddits", "author", "months", "start") if _given(filters, name)]
    if named:
        return f"No row before {scope.cutoff.iso} passes the filters ({', '.join(named)})."
    return f"The archive has no such row before {scope.cutoff.iso}."


def _given(filters: object, name: str) -> bool:
    return getattr(filters, name) is not None
