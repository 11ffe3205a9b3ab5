"""The five tools as a language model or an MCP client calls them: JSON in, JSON out.

Each tool has a model of its arguments, which gives its JSON schema and refuses what it does not know. A mistake of the
caller becomes a text that it can learn from; a `CutoffViolation` is nobody's mistake but ours and is raised.
"""

import json
from dataclasses import asdict
from typing import Annotated, Any, ClassVar, Final, Literal

from pydantic import BaseModel, BeforeValidator, ConfigDict, Field, ValidationError

from hindcast_dagster.archive.protocol import (
    DEFAULT_K,
    MAX_K,
    ArchiveView,
    DocType,
    Document,
    Filters,
    LookupAnswer,
    SearchAnswer,
)
from hindcast_dagster.errors import UsageError

ERROR_CHARACTERS: Final = 400  # an error may echo what was sent, which may be long


def _one_or_many(value: object) -> object:
    """Take one name for a list of one, and a list that was sent as JSON text: models often send either."""
    if not isinstance(value, str):
        return value
    if value.lstrip().startswith("["):
        try:
            return json.loads(value)
        except (ValueError, RecursionError):
            return value  # refused by the type, in words
    return [value]


Names = Annotated[list[str] | None, BeforeValidator(_one_or_many)]
Instant = str | int | None


class Block(BaseModel):
    """The filter block of all five tools (paper, A.1). Every field narrows."""

    model_config = ConfigDict(extra="forbid", frozen=True)
    purpose: ClassVar[str]

    cutoff: Instant = Field(
        default=None, description="An earlier instant than the server's; a later one has no effect."
    )
    doc_type: DocType | None = Field(default=None, description="submission or comment.")
    subreddits: Names = Field(default=None, description="Only these subreddits; case does not matter.")
    months: Names = Field(default=None, description="Only these months, YYYY-MM.")
    start: Instant = Field(default=None, description="Only what was created at or after this instant.")

    def filters(self, **more: Any) -> Filters:
        """Return the filter block of the protocol."""
        names = ("cutoff", "doc_type", "subreddits", "months", "start")
        return Filters(**{name: getattr(self, name) for name in names}, **more)

    def call(self, view: ArchiveView) -> dict[str, Any]:
        """Answer the call from a view."""
        raise NotImplementedError


class SearchDatabase(Block):
    """Arguments of `search_database`."""

    purpose = "Dense (vector) retrieval over submissions: the nearest in meaning among those created before the cutoff."

    query: str = Field(description="What to look for, in plain words.")
    k: int = Field(default=DEFAULT_K, description=f"How many hits, 1 to {MAX_K}.")
    author: str | None = Field(default=None, description="Only this author; exact.")

    def call(self, view: ArchiveView) -> dict[str, Any]:
        """Search."""
        return search_json(view.search_database(self.query, k=self.k, filters=self.filters(author=self.author)))


class GetPostCoreInfo(Block):
    """Arguments of `getpostcoreinfo`."""

    purpose = "Fetch a post by id."

    post_id: str = Field(description="The id of a submission, with or without t3_.")

    def call(self, view: ArchiveView) -> dict[str, Any]:
        """Look up."""
        return one_json(view.getpostcoreinfo(self.post_id, filters=self.filters()))


class GetCommentCoreInfo(Block):
    """Arguments of `getcommentcoreinfo`."""

    purpose = "Fetch a comment by id."

    comment_id: str = Field(description="The id of a comment, with or without t1_.")

    def call(self, view: ArchiveView) -> dict[str, Any]:
        """Look up."""
        return one_json(view.getcommentcoreinfo(self.comment_id, filters=self.filters()))


class GetPostCommentsList(Block):
    """Arguments of `getpostcommentslist`."""

    purpose = "List comments under a post, oldest first, or walk from one comment to its ancestors or descendants."

    post_id: str = Field(description="The id of the submission.")
    comment_id: str | None = Field(default=None, description="The comment to walk from.")
    traversal: Literal["all", "ancestors", "descendants"] = Field(default="all", description="Which way to walk.")
    depth: int = Field(default=10, description="Levels of the thread, or steps from comment_id; 1 to 50.")
    limit: int = Field(default=100, description="At most so many comments; 1 to 500.")
    author: str | None = Field(default=None, description="Only comments of this author; exact.")

    def call(self, view: ArchiveView) -> dict[str, Any]:
        """Walk the thread."""
        answer = view.getpostcommentslist(
            self.post_id,
            comment_id=self.comment_id,
            traversal=self.traversal,
            depth=self.depth,
            limit=self.limit,
            filters=self.filters(author=self.author),
        )
        return many_json(answer)


class GetAuthorHistoryList(Block):
    """Arguments of `getauthorhistorylist`."""

    purpose = "List recent posts, then recent comments, by an author; newest first in each."

    author: str = Field(description="The author, exactly as written.")
    posts: int = Field(default=5, description="At most so many posts; 0 to 100.")
    comments: int = Field(default=5, description="At most so many comments; 0 to 100.")

    def call(self, view: ArchiveView) -> dict[str, Any]:
        """List."""
        answer = view.getauthorhistorylist(
            self.author, posts=self.posts, comments=self.comments, filters=self.filters()
        )
        return many_json(answer)


TOOLS: Final[dict[str, type[Block]]] = {
    "search_database": SearchDatabase,
    "getpostcoreinfo": GetPostCoreInfo,
    "getcommentcoreinfo": GetCommentCoreInfo,
    "getpostcommentslist": GetPostCommentsList,
    "getauthorhistorylist": GetAuthorHistoryList,
}


def schema(name: str) -> dict[str, Any]:
    """Return the JSON schema of a tool's arguments."""
    found = TOOLS[name].model_json_schema()
    found.pop("description", None)
    return found


def call(view: ArchiveView, name: object, arguments: object) -> dict[str, Any]:
    """Answer one call; a mistake of the caller gives `{"error": text}`, never an exception.

    `arguments` is a mapping, or JSON text of one (some models send it so).
    """
    try:
        return _parsed(name, arguments).call(view)
    except (UsageError, ValidationError) as error:
        return {"error": _shortened(_words(error))}


def _parsed(name: object, arguments: object) -> Block:
    tool = TOOLS.get(name) if isinstance(name, str) else None
    if tool is None:
        raise UsageError(f"There is no tool {name!r:.80}; the tools are {', '.join(TOOLS)}.")
    if isinstance(arguments, str | bytes):
        try:
            arguments = json.loads(arguments)
        except (ValueError, RecursionError) as error:
            raise UsageError(f"The arguments are not JSON: {error}.") from error
    if not isinstance(arguments, dict):
        raise UsageError(f"The arguments must be an object, found a {type(arguments).__name__}.")
    return tool.model_validate(arguments)


def _shortened(text: str) -> str:
    """Keep both ends of a long error: what was found stands first, what to do last."""
    half = ERROR_CHARACTERS // 2 - 5
    return text if len(text) <= ERROR_CHARACTERS else f"{text[:half]} ... {text[-half:]}"


def _words(error: UsageError | ValidationError) -> str:
    if isinstance(error, UsageError):
        return str(error)
    said = (f"{'.'.join(str(part) for part in each['loc']) or 'arguments'}: {each['msg']}" for each in error.errors())
    return "; ".join(said)


def document_json(document: Document) -> dict[str, Any]:
    """Return a document as JSON values; `key` is its prefixed id."""
    return {"key": document.key, **asdict(document), "withheld": list(document.withheld)}


def search_json(answer: SearchAnswer) -> dict[str, Any]:
    """Return a search answer as JSON values (design, section 6)."""
    hits = [{**document_json(hit.document), "distance": hit.distance} for hit in answer.hits]
    return {"cutoff": answer.cutoff.epoch, "query": answer.query, "hits": hits, "note": answer.note}


def one_json(answer: LookupAnswer) -> dict[str, Any]:
    """Return the answer to a look-up by id as JSON values."""
    found = answer.document
    document = None if found is None else document_json(found)
    return {"cutoff": answer.cutoff.epoch, "document": document, "note": answer.note}


def many_json(answer: LookupAnswer) -> dict[str, Any]:
    """Return a list of documents as JSON values."""
    documents = [document_json(found) for found in answer.documents]
    return {"cutoff": answer.cutoff.epoch, "documents": documents, "note": answer.note}
