"""The four look-up tools as the retrieval agent's model calls them.

Arguments are checked by the same models that the tool server uses (`archive.tools`); what comes back are documents
that become evidence. A call that cannot be made costs nothing but its answer, a sentence for the model.
"""

from collections.abc import Sequence
from typing import Any, Final, NamedTuple

from pydantic import ValidationError

from hindcast_dagster.archive.protocol import ArchiveView, Document, Filters, LookupAnswer
from hindcast_dagster.archive.tools import TOOLS, Block
from hindcast_dagster.errors import UsageError
from hindcast_dagster.forecast import tracing
from hindcast_dagster.forecast.queries import problem
from hindcast_dagster.llm.parse import ToolCall

MOST_DOCUMENTS: Final = 20
"""Documents of one look-up that become evidence; a thread may hold hundreds."""
SEARCH: Final = "search_database"
LOOKUPS: Final = tuple(name for name in TOOLS if name != SEARCH)


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
    if call.name == SEARCH:
        return 'searches go into "queries".'
    if call.name not in LOOKUPS:
        return f"there is no such tool; there are {', '.join(LOOKUPS)}."
    try:
        arguments, filters = _split(TOOLS[call.name].model_validate(call.arguments))
        return getattr(view, call.name)(**arguments, filters=filters)  # type: ignore[no-any-return]
    except (ValidationError, UsageError) as error:
        return problem(error)


def _split(block: Block) -> tuple[dict[str, Any], Filters]:
    """Return the tool's own arguments and its filter block; a thread's `author` belongs to the filters."""
    own = {name: getattr(block, name) for name in type(block).model_fields if name not in Block.model_fields}
    narrowed = {"author": own.pop("author")} if "post_id" in own and "author" in own else {}
    return own, block.filters(**narrowed)
