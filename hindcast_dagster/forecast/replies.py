"""Reading the replies of the research stage. No reply ends a research: what cannot be read is recorded and left out."""

import json
from collections.abc import Sequence
from typing import Any, NamedTuple

from hindcast_dagster.forecast import tracing
from hindcast_dagster.forecast.queries import Query, read_queries
from hindcast_dagster.llm.parse import Refusal, ToolCall, probability, single_object, texts, tool_calls
from hindcast_dagster.llm.protocol import Completion


class Reflection(NamedTuple):
    """What a reflection says."""

    confidence: float | None
    missing: list[str]
    queries: list[Query]
    lookups: list[ToolCall]
    problems: list[str]
    """A sentence for the model about each query that cannot be asked."""


def read_reflection(done: Completion, *, asked: Sequence[str], limit: int) -> Reflection:
    """Read a reflection; queries that were asked before do not count."""
    found = object_of("reflection", done, "queries", "confidence")
    queries = read_queries(found.get("queries"), limit=limit, known=asked)
    return Reflection(
        confidence=probability(found.get("confidence")),
        missing=texts(found.get("missing"), limit=10),
        queries=queries.queries,
        lookups=_calls(found.get("lookups"), done),
        problems=queries.problems,
    )


def object_of(kind: str, done: Completion, *having: str) -> dict[str, Any]:
    """Return the object of a reply, or one that holds only the refusal; either way it is recorded."""
    found: dict[str, Any] | Refusal = (
        Refusal("unfinished_thought", "") if done.unfinished_thought else single_object(done.text, having=having)
    )
    refusal = found.reason if isinstance(found, Refusal) else None
    tracing.note(kind, kind="parse", refusal=refusal)
    return {"refusal": refusal} if isinstance(found, Refusal) else found


def _calls(value: object, done: Completion) -> list[ToolCall]:
    """Return the look-ups of a reflection: of its list, and objects beside it. Calls inside a thought do not count."""
    if done.unfinished_thought:
        return []
    items = [item for item in value if isinstance(item, dict)] if isinstance(value, list) else []
    return [call for item in items for call in tool_calls(json.dumps(item))] + tool_calls(done.text)
