"""Search queries that a model wrote: read, checked, and asked in batches. A query may narrow, never widen.

No text of a model reaches a predicate: a narrowing is a typed filter of the archive or it is refused, and the refusal
is told to the model in the next round.
"""

from collections import defaultdict
from collections.abc import Iterable, Sequence
from typing import Any, Final, NamedTuple

from pydantic import ValidationError

from hindcast_dagster.archive.protocol import ArchiveView, Filters, SearchAnswer
from hindcast_dagster.errors import UsageError
from hindcast_dagster.llm.parse import texts

SUBMISSIONS: Final = Filters(doc_type="submission")
"""The reference agent searches submissions only (paper, section 3.2)."""

_LENGTH: Final = 300  # characters of a query
_NAMES: Final[dict[str, str]] = {"subreddit": "subreddits", "month": "months"}
_LISTS: Final = frozenset({"subreddits", "months"})


class Query(NamedTuple):
    """One search."""

    text: str
    filters: Filters = SUBMISSIONS


class Asked(NamedTuple):
    """Queries that can be asked, and a sentence for each that cannot."""

    queries: list[Query]
    problems: list[str]


def read_queries(value: object, *, limit: int, known: Iterable[str] = ()) -> Asked:
    """Return up to `limit` queries of a reply's list, none of them in `known`."""
    asked = {_folded(text) for text in known}
    found: list[Query] = []
    problems: list[str] = []
    for item in value if isinstance(value, list) else [value]:
        query = _read(item)
        if isinstance(query, str):
            problems.append(query)
        elif query is not None and _folded(query.text) not in asked and len(found) < limit:
            asked.add(_folded(query.text))
            found.append(query)
    return Asked(found, problems)


def search(view: ArchiveView, queries: Sequence[Query], *, k: int) -> tuple[list[SearchAnswer], list[str]]:
    """Ask all queries, those with equal filters in one batch; return answers and a sentence for each refusal."""
    batches: dict[str, list[Query]] = defaultdict(list)
    for query in queries:
        batches[repr(query.filters)].append(query)
    answers: list[SearchAnswer] = []
    problems: list[str] = []
    for batch in batches.values():
        try:
            answers += view.search_many([query.text for query in batch], k=k, filters=batch[0].filters)
        except UsageError as error:
            problems += [f"search_database({query.text!r}): {error}" for query in batch]
    notes = {answer.note for answer in answers if answer.note}
    return answers, problems + sorted(notes)


def _read(item: object) -> Query | str | None:
    """Return a query, a sentence that says why it is none, or None for nothing at all."""
    if not isinstance(item, dict):
        return next((Query(text) for text in texts(item, limit=1, max_characters=_LENGTH)), None)
    said = texts(item.get("query"), limit=1, max_characters=_LENGTH)
    if not said:
        return None
    narrowed = {str(name): value for name, value in item.items() if name != "query" and value not in (None, [], "")}
    given = {_NAMES.get(name, name): value for name, value in narrowed.items()}
    if given.pop("doc_type", "submission") != "submission":
        return f'search_database({said[0]!r}): it takes doc_type="submission" only.'
    return _filtered(said[0], given)


def _filtered(text: str, given: dict[str, Any]) -> Query | str:
    values = {name: [value] if name in _LISTS and isinstance(value, str) else value for name, value in given.items()}
    try:
        return Query(text, Filters(doc_type="submission", **values))
    except (ValidationError, UsageError, TypeError) as error:
        return f"search_database({text!r}): {problem(error)}"


def problem(error: Exception) -> str:
    """Return a validation error as one sentence for the model."""
    if isinstance(error, ValidationError):
        first = error.errors()[0]
        return f"{'.'.join(str(part) for part in first['loc'])}: {first['msg']}."
    return str(error)


def _folded(text: str) -> str:
    return " ".join(text.casefold().split())
