"""Recording: wrappers around the model and the archive view that write every call, search and look-up into a trace.

The runner puts them around what it hands to an arm, so a custom arm is traced without doing anything. The trace of the
forecast at work is found through a context variable: it follows `await` and `asyncio.to_thread`, and concurrent
forecasts each see their own. t0 is not in it; t0 lives in the view.
"""

import hashlib
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from typing import Any, Final, Literal

from hindcast_dagster.archive.protocol import (
    DEFAULT_K,
    NO_FILTERS,
    ArchiveView,
    Filters,
    LookupAnswer,
    SearchAnswer,
)
from hindcast_dagster.clock import Cutoff
from hindcast_dagster.errors import HindcastError, UsageError
from hindcast_dagster.forecast.forecaster import Seen, Step, Trace
from hindcast_dagster.llm.protocol import ChatModel, Completion, Decoding, Message

_TRACE: Final[ContextVar[Trace | None]] = ContextVar("trace", default=None)
_NAME: Final[ContextVar[str]] = ContextVar("call_name", default="call")


@contextmanager
def recording(trace: Trace) -> Iterator[Trace]:
    """Record everything that happens in this context (and what it awaits) into `trace`."""
    token = _TRACE.set(trace)
    try:
        yield trace
    finally:
        _TRACE.reset(token)


@contextmanager
def named(name: str) -> Iterator[None]:
    """Give the model calls in this context a name: the kind of call in tables and replays."""
    token = _NAME.set(name)
    try:
        yield
    finally:
        _NAME.reset(token)


def call_name() -> str:
    """Return the name of the calls in this context."""
    return _NAME.get()


def record(step: Step) -> None:
    """Append a step to the trace at work; outside of a recording nothing happens."""
    trace = _TRACE.get()
    if trace is not None:
        trace.steps.append(step)


def note(name: str, *, kind: Literal["note", "parse"] = "note", **detail: Any) -> None:
    """Append a remark with JSON values."""
    record(Step(kind=kind, name=name, detail=detail))


def messages_hash(messages: Sequence[Message]) -> str:
    """Return the sha256 of a prompt: what an audit compares after rebuilding the prompt from the archive."""
    digest = hashlib.sha256()
    for message in messages:
        content = message.content.encode(errors="surrogatepass")
        digest.update(f"{message.role} {len(content)}\n".encode())
        digest.update(content)
    return digest.hexdigest()


class TracedModel:
    """A model whose calls are recorded. The prompt is recorded as a hash, the reply as text."""

    def __init__(self, model: ChatModel) -> None:
        self._model = model

    @property
    def slug(self) -> str:
        """See `ChatModel`."""
        return self._model.slug

    @property
    def revision(self) -> str | None:
        """See `ChatModel`."""
        return self._model.revision

    @property
    def context_length(self) -> int:
        """See `ChatModel`."""
        return self._model.context_length

    def count_tokens(self, text: str) -> int:
        """See `ChatModel`."""
        return self._model.count_tokens(text)

    async def complete(
        self, messages: list[Message], *, decoding: Decoding, schema: dict[str, Any] | None = None
    ) -> Completion:
        """Call the model and record the call, also when it fails."""
        detail: dict[str, Any] = {
            "messages_sha256": messages_hash(messages),
            "messages": len(messages),
            "decoding": decoding.as_dict(),
            "structured": schema is not None,
        }
        step = Step(kind="call", name=_NAME.get(), detail=detail)
        record(step)
        try:
            completion = await self._model.complete(messages, decoding=decoding, schema=schema)
        except HindcastError as error:
            detail["error"] = f"{type(error).__name__}: {error}"
            raise
        detail |= {
            "reply": completion.text,
            "reasoning": completion.reasoning,
            "finish_reason": completion.finish_reason,
            "unfinished_thought": completion.unfinished_thought,
            "tokens_in": completion.tokens_in,
            "tokens_out": completion.tokens_out,
            "tokens_cached": completion.tokens_cached,
            "latency_s": round(completion.latency_s, 6),
            "attempts": completion.attempts,
            "model_revision": completion.model_revision,
        }
        return completion

    async def close(self) -> None:
        """See `ChatModel`."""
        await self._model.close()


class TracedView:
    """An archive view whose answers are recorded: every query, filter, note and document that it hands out.

    It answers one forecast and nobody else. An arm that kept the view of another question would read under that
    question's t0, and what it saw would stand in no trace that the audit holds against the right one.
    """

    def __init__(self, view: ArchiveView, trace: Trace) -> None:
        self._view, self._trace, self._over = view, trace, False

    def end(self) -> None:
        """Refuse every question from now on: the forecast is made."""
        self._over = True

    def _refuse_others(self) -> None:
        """Raise `UsageError` for a forecast that is over, or for another one than that at work; in no trace."""
        at_work = _TRACE.get()
        if self._over or (at_work is not None and at_work is not self._trace):
            raise UsageError(
                f"This view stands at {self.cutoff.iso} for a question of its own: ask the view that this forecast was "
                "given, and keep none from one forecast to the next."
            )

    @property
    def cutoff(self) -> Cutoff:
        """t0."""
        return self._view.cutoff

    @property
    def subreddits(self) -> tuple[str, ...]:
        """See `ArchiveView`."""
        return self._view.subreddits

    def search_database(self, query: str, *, k: int = DEFAULT_K, filters: Filters = NO_FILTERS) -> SearchAnswer:
        """See `ArchiveView`."""
        return self.search_many([query], k=k, filters=filters)[0]

    def search_many(
        self, queries: Sequence[str], *, k: int = DEFAULT_K, filters: Filters = NO_FILTERS
    ) -> list[SearchAnswer]:
        """See `ArchiveView`. One step per query."""
        self._refuse_others()
        asked = {"k": k, "filters": _asked(filters)}
        try:
            answers = self._view.search_many(queries, k=k, filters=filters)
        except HindcastError as error:
            self._refused("search", "search_database", {"queries": list(queries), **asked}, error)
            raise
        for answer in answers:
            detail = {
                "query": answer.query,
                **asked,
                "cutoff": answer.cutoff.epoch,
                "note": answer.note,
                "distances": [round(hit.distance, 6) for hit in answer.hits],
            }
            seen = [Seen.of(hit.document) for hit in answer.hits]
            self._trace.steps.append(Step(kind="search", name="search_database", detail=detail, seen=seen))
        return answers

    def getpostcoreinfo(self, post_id: str, *, filters: Filters = NO_FILTERS) -> LookupAnswer:
        """See `ArchiveView`."""
        return self._lookup("getpostcoreinfo", lambda: self._view.getpostcoreinfo(post_id, filters=filters),
                            post_id=post_id, filters=_asked(filters))  # fmt: skip

    def getcommentcoreinfo(self, comment_id: str, *, filters: Filters = NO_FILTERS) -> LookupAnswer:
        """See `ArchiveView`."""
        return self._lookup("getcommentcoreinfo", lambda: self._view.getcommentcoreinfo(comment_id, filters=filters),
                            comment_id=comment_id, filters=_asked(filters))  # fmt: skip

    def getpostcommentslist(
        self,
        post_id: str,
        *,
        comment_id: str | None = None,
        traversal: Literal["all", "ancestors", "descendants"] = "all",
        depth: int = 10,
        limit: int = 100,
        filters: Filters = NO_FILTERS,
    ) -> LookupAnswer:
        """See `ArchiveView`."""
        return self._lookup(
            "getpostcommentslist",
            lambda: self._view.getpostcommentslist(
                post_id, comment_id=comment_id, traversal=traversal, depth=depth, limit=limit, filters=filters
            ),
            post_id=post_id,
            comment_id=comment_id,
            traversal=traversal,
            depth=depth,
            limit=limit,
            filters=_asked(filters),
        )

    def getauthorhistorylist(
        self, author: str, *, posts: int = 5, comments: int = 5, filters: Filters = NO_FILTERS
    ) -> LookupAnswer:
        """See `ArchiveView`."""
        return self._lookup(
            "getauthorhistorylist",
            lambda: self._view.getauthorhistorylist(author, posts=posts, comments=comments, filters=filters),
            author=author,
            posts=posts,
            comments=comments,
            filters=_asked(filters),
        )

    def _lookup(self, name: str, call: Callable[[], LookupAnswer], **arguments: Any) -> LookupAnswer:
        self._refuse_others()
        try:
            answer = call()
        except HindcastError as error:
            self._refused("lookup", name, {"arguments": arguments}, error)
            raise
        detail = {"arguments": arguments, "cutoff": answer.cutoff.epoch, "note": answer.note}
        seen = [Seen.of(document) for document in answer.documents]
        self._trace.steps.append(Step(kind="lookup", name=name, detail=detail, seen=seen))
        return answer

    def _refused(
        self, kind: Literal["search", "lookup"], name: str, detail: dict[str, Any], error: HindcastError
    ) -> None:
        refused = {**detail, "refused": f"{type(error).__name__}: {error}"}
        self._trace.steps.append(Step(kind=kind, name=name, detail=refused))


def _asked(filters: Filters) -> dict[str, Any]:
    """Return the filters that were given, as JSON values: a model's own cutoff stays visible, as a text."""
    given = filters.model_dump(exclude_none=True)
    return {name: list(value) if isinstance(value, tuple) else str(value) for name, value in given.items()}
