"""The four look-up tools as a model calls them: typed arguments, unknown ones refused, every refusal a sentence.

A call that cannot be made costs nothing but its answer; no argument of a model can end a forecast.
"""

from collections.abc import Sequence
from typing import Any, Final, Literal, NamedTuple

from pydantic import BaseModel, ConfigDict, Field, ValidationError

from hindcast_dagster.archive.protocol import ArchiveView, Document, Filters, LookupAnswer
from hindcast_dagster.errors import UsageError
from hindcast_dagster.forecast import tracing
from hindcast_dagster.forecast.queries import problem
from hindcast_dagster.llm.parse import ToolCall

MOST_DOCUMENTS: Final = 20
"""Documents of one look-up that become evidence; a thread may hold hundreds."""


class _Arguments(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True)


class _Post(_Arguments):
    post_id: str


class _Comment(_Arguments):
    comment_id: str


class _Thread(_Arguments):
    post_id: str
    comment_id: str | None = None
    traversal: Literal["all", "ancestors", "descendants"] = "all"
    depth: int = Field(default=10, ge=1, le=50)
    limit: int = Field(default=MOST_DOCUMENTS, ge=1, le=100)


class _History(_Arguments):
    author: str = Field(max_length=200)
    posts: int = Field(default=5, ge=0, le=50)
    comments: int = Field(default=5, ge=0, le=50)


TOOLS: Final[dict[str, type[_Arguments]]] = {
    "getpostcoreinfo": _Post,
    "getcommentcoreinfo": _Comment,
    "getpostcommentslist": _Thread,
    "getauthorhistorylist": _History,
}


class Looked(NamedTuple):
    """What look-ups gave: documents, and a remark for the model about each call."""

    documents: list[Document]
    remarks: list[str]


def look_up(view: ArchiveView, calls: Sequence[ToolCall], *, limit: int) -> Looked:
    """Make up to `limit` calls."""
    documents: list[Document] = []
    remarks: list[str] = []
    for call in calls[:limit]:
        found = _made(view, call)
        if isinstance(found, str):
            tracing.note("refused_call", tool=call.name[:100], arguments=repr(call.arguments)[:500], problem=found)
            remarks.append(f"{call.name[:60]}: {found}")
            continue
        kept = found.documents[:MOST_DOCUMENTS]
        documents += kept
        remarks.append(f"{call.name}: {len(kept)} documents. {found.note}".strip())
    return Looked(documents, remarks)


def _made(view: ArchiveView, call: ToolCall) -> LookupAnswer | str:
    if call.problem:
        return call.problem
    if call.name == "search_database":
        return 'searches go into "queries".'
    if call.name not in TOOLS:
        return f"there is no such tool; there are {', '.join(TOOLS)}."
    try:
        arguments, filters = _split(call)
        return getattr(view, call.name)(**arguments, filters=filters)  # type: ignore[no-any-return]
    except (ValidationError, UsageError) as error:
        return problem(error)


def _split(call: ToolCall) -> tuple[dict[str, Any], Filters]:
    """Return the tool's own arguments and its filter block, both checked; what is in neither is refused."""
    model = TOOLS[call.name]
    own = {name: value for name, value in call.arguments.items() if name in model.model_fields}
    block = {name: value for name, value in call.arguments.items() if name not in own and value is not None}
    return model(**own).model_dump(), Filters(**block)
