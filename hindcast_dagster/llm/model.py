"""The one way in which every backend is called: folding, slots, one retry loop with a bounded wait, and the reply.

What belongs here: what all backends share. A backend is a `Transport`: it sends one request and tells what came of it.
What does not: prompts, parsing of answers, journals. Wherever a reply comes from, its thought is taken out here.
"""

import asyncio
import logging
import time
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from functools import cache
from typing import Any, Final, Literal, NamedTuple, Protocol

from hindcast_dagster.errors import HindcastError, Unreachable, UsageError
from hindcast_dagster.llm.gate import Gate
from hindcast_dagster.llm.messages import folded
from hindcast_dagster.llm.protocol import Completion, Decoding, Message
from hindcast_dagster.llm.reasoning import split_thought
from hindcast_dagster.llm.roster import Entry
from hindcast_dagster.llm.schema import bounded
from hindcast_dagster.settings import Llm

_LOG: Final = logging.getLogger(__name__)

FIRST_WAIT_S: Final = 0.5
LONGEST_WAIT_S: Final = 30.0
"""Between two attempts, when the server names no time of its own."""


class TryAgain(HindcastError):
    """An attempt failed in a way that may pass: the loop below waits and repeats it. Never leaves this package."""

    def __init__(self, why: str, *, after_s: float | None = None, overloaded: bool = False) -> None:
        super().__init__(why)
        self.after_s = after_s
        self.overloaded = overloaded


@cache
def _stamina() -> Any:
    """Return stamina, told to report retries to `logging`: where structlog is installed it would print to stdout."""
    import stamina
    from stamina.instrumentation import RetryDetails, set_on_retry_hooks

    def told(details: RetryDetails) -> None:
        _LOG.info("%s; attempt %d follows in %.1f s", details.caused_by, details.retry_num + 1, details.wait_for)

    set_on_retry_hooks([told])
    return stamina


class Reply(NamedTuple):
    """What one attempt brought, as the backend gave it."""

    text: str
    reasoning: str
    finish_reason: str | None
    tokens_in: int
    tokens_out: int
    tokens_cached: int = 0
    revision: str | None = None


class Transport(Protocol):
    """One request to one backend."""

    slots: int | None
    """Requests that it can work on at once, when that is fewer than a setting may ask for; None: no bound."""

    async def start(self) -> None:
        """Load or connect, once. Raises `NotReady` when that fails."""
        ...

    async def send(self, messages: list[Message], decoding: Decoding, schema: dict[str, Any] | None) -> Reply:
        """Send one request. Raises `TryAgain` for what may pass and `UsageError` for what the server refuses."""
        ...

    def count_tokens(self, text: str) -> int:
        """See `ChatModel`."""
        ...

    async def close(self) -> None:
        """See `ChatModel`."""
        ...


@dataclass(slots=True)
class Totals:
    """What a model has done since it was opened."""

    calls: int = 0
    attempts: int = 0
    failed: int = 0
    tokens_in: int = 0
    tokens_out: int = 0
    tokens_cached: int = 0


@dataclass(slots=True)
class _Patience:
    """How far the retry loop of one call has come."""

    deadline: float
    attempts: int = 0
    last: Exception | str = "it did not answer"


class Model:
    """A `ChatModel` over any transport. Belongs to the event loop of its first call; close it there."""

    def __init__(self, entry: Entry, transport: Transport, options: Llm) -> None:
        self.entry, self.totals = entry, Totals()
        self._transport, self._options = transport, options
        self._gate = Gate(min(options.concurrency, transport.slots or options.concurrency))
        self._starting = asyncio.Lock()
        self._ready = False
        self._loop: asyncio.AbstractEventLoop | None = None

    @property
    def slug(self) -> str:
        """The roster slug."""
        return self.entry.slug

    @property
    def revision(self) -> str | None:
        """The pinned revision; None for a server, which alone knows what it has loaded."""
        return None if self.entry.backend == "server" else self.entry.revision

    @property
    def context_length(self) -> int:
        """Tokens that prompt and reply may take together."""
        return self.entry.context_length

    def count_tokens(self, text: str) -> int:
        """Return the number of tokens of a text, or an upper estimate."""
        return self._transport.count_tokens(text)

    async def complete(
        self, messages: list[Message], *, decoding: Decoding, schema: dict[str, Any] | None = None
    ) -> Completion:
        """Return one completion; see `ChatModel`.

        The schema is sent only when the setting `llm.structured` asks for it. The wait budget begins when the backend
        is loaded and the call has its slot; it covers every attempt and every wait between them.
        """
        await self._start()
        turns = folded(messages, system_role=self.entry.system_role)
        asked = self._schema(schema)
        async with self._gate.slot():
            started = time.perf_counter()
            try:
                reply, attempts = await self._insist(lambda: self._transport.send(turns, decoding, asked))
            except HindcastError:
                self.totals.failed += 1
                raise
            latency = time.perf_counter() - started
        self._gate.eased()
        self._count(reply, attempts)
        return self._completion(reply, attempts=attempts, latency_s=latency)

    def _schema(self, schema: dict[str, Any] | None) -> dict[str, Any] | None:
        if schema is None or not self._options.structured:
            return None
        return schema if self.entry.dialect == "openai" else bounded(schema)

    async def _start(self) -> None:
        """Load the backend before the first call: loading a large model takes longer than a request may."""
        loop = asyncio.get_running_loop()
        if self._loop not in {None, loop}:
            raise UsageError(f"{self.slug} was opened for another event loop: open a model for each asyncio.run.")
        if not self._ready:
            self._loop = loop
            async with self._starting:
                if not self._ready:
                    await self._transport.start()
                    self._ready = True

    async def _insist(self, send: Callable[[], Awaitable[Reply]]) -> tuple[Reply, int]:
        """Repeat `send` while it may help and the wait budget lasts. Raises `Unreachable` when it is spent."""
        budget = self._options.wait_budget_s
        patience = _Patience(time.monotonic() + budget)
        retrying = _stamina().retry_context(
            on=lambda error: self._again(error, patience),
            attempts=None,
            timeout=budget,
            wait_initial=FIRST_WAIT_S,
            wait_max=LONGEST_WAIT_S,
            wait_jitter=FIRST_WAIT_S,
        )
        try:
            async with asyncio.timeout(budget):  # bounds the waits between attempts too
                async for attempt in retrying:
                    with attempt:
                        patience.attempts += 1
                        return await self._once(send), patience.attempts
        except (TryAgain, TimeoutError) as error:
            raise Unreachable(
                f"{self.slug} gave no answer within {budget:g} s and {patience.attempts} attempts "
                f"({patience.last}); what is finished is kept, run the command again."
            ) from error
        raise AssertionError("the retry loop ended without a result")

    async def _once(self, send: Callable[[], Awaitable[Reply]]) -> Reply:
        limit = self._options.request_timeout_s
        try:
            async with asyncio.timeout(limit):
                return await send()
        except TimeoutError as error:
            raise TryAgain(f"no answer to a request within {limit:g} s") from error

    def _again(self, error: Exception, patience: "_Patience") -> bool | float:
        """Say whether to repeat, and after how many seconds; a wait that the budget cannot pay is not begun."""
        if not isinstance(error, TryAgain):
            return False
        patience.last = error
        left = patience.deadline - time.monotonic()
        if error.overloaded:
            self._gate.pressed(min(error.after_s or FIRST_WAIT_S, max(0.0, left)))
        if error.after_s is not None:
            return error.after_s if error.after_s < left else False
        return left > 0

    def _count(self, reply: Reply, attempts: int) -> None:
        self.totals.calls += 1
        self.totals.attempts += attempts
        self.totals.tokens_in += reply.tokens_in
        self.totals.tokens_out += reply.tokens_out
        self.totals.tokens_cached += reply.tokens_cached

    def _completion(self, reply: Reply, *, attempts: int, latency_s: float) -> Completion:
        split = split_thought(reply.text, opened=self.entry.thought_opened and not reply.reasoning)
        finish: Literal["stop", "length", "other"] = "other"
        if reply.finish_reason in {"stop", "length"}:
            finish = "stop" if reply.finish_reason == "stop" else "length"
        return Completion(
            text=split.answer,
            reasoning="\n".join(part for part in (reply.reasoning.strip(), split.reasoning) if part),
            finish_reason=finish,
            unfinished_thought=split.unfinished or (finish == "length" and bool(reply.reasoning) and not split.answer),
            tokens_in=reply.tokens_in,
            tokens_out=reply.tokens_out,
            tokens_cached=reply.tokens_cached,
            latency_s=latency_s,
            attempts=attempts,
            model_revision=reply.revision or self.revision,
        )

    async def close(self) -> None:
        """Release connections or the engine."""
        self._ready, self._loop = False, None
        await self._transport.close()
