"""A scripted model: recorded answers by stage, latency and faults, in process or behind a small OpenAI-compatible server.

A `Script` is a list of `Stage`s. The first stage whose marker occurs in the prompt answers; its n-th call gets the n-th
answer (the last one repeats). An answer is a text, a `Fault`, or a function of what was asked.

    script = Script(Stage("queries", "seed queries", ['{"queries": ["a", "b"]}']), Stage("forecast", "", ['{...}']))
    model = ScriptedModel(script)                     # a ChatModel
    with scripted_server(script, latency_s=0.2) as server:   # server.base_url, server.requests
        ...
"""

import asyncio
import itertools
import json
import threading
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from typing import Any, Literal

from hindcast_dagster.errors import Unreachable, UsageError
from hindcast_dagster.llm.protocol import Completion, Decoding, Message
from hindcast_dagster.llm.reasoning import split_thought
from hindcast_dagster.llm.tokens import estimate


@dataclass(frozen=True)
class Asked:
    """One request."""

    messages: tuple[Message, ...]
    decoding: dict[str, Any]
    schema: dict[str, Any] | None
    stage: str
    number: int
    """How often this stage was asked before."""

    @property
    def text(self) -> str:
        return "\n".join(message.content for message in self.messages)


@dataclass(frozen=True)
class Fault:
    """What goes wrong instead of an answer."""

    kind: Literal["status", "drop", "hang", "garbage", "cut", "no_choices"] = "status"
    status: int = 500
    headers: tuple[tuple[str, str], ...] = ()
    message: str = "scripted fault"


@dataclass(frozen=True)
class Said:
    """An answer with more than a text."""

    text: str
    reasoning: str = ""
    field_name: str = "reasoning_content"
    finish_reason: str = "stop"


Answer = str | Said | Fault | Callable[[Asked], "str | Said | Fault"]


@dataclass(frozen=True)
class Stage:
    """Answers of one stage: `marker` is a text that only its prompts contain ("" matches every prompt)."""

    name: str
    marker: str
    answers: Sequence[Answer]


class Script:
    """Stages, and the count of calls of each. Safe for threads."""

    def __init__(self, *stages: Stage) -> None:
        self.stages = stages
        self.calls: Counter[str] = Counter()
        self.asked: list[Asked] = []
        self.remember = True
        self._lock = threading.Lock()

    def answer(self, messages: Sequence[Message], decoding: dict[str, Any], schema: Any = None) -> str | Said | Fault:
        text = "\n".join(message.content for message in messages)
        stage = next((stage for stage in self.stages if stage.marker in text), None)
        if stage is None:
            raise AssertionError(f"no stage of the script answers {text[:300]!r}")
        with self._lock:
            asked = Asked(tuple(messages), decoding, schema, stage.name, self.calls[stage.name])
            self.calls[stage.name] += 1
            if self.remember:
                self.asked.append(asked)
        chosen = stage.answers[min(asked.number, len(stage.answers) - 1)]
        return chosen(asked) if callable(chosen) else chosen


class ScriptedModel:
    """A `ChatModel` that answers from a script, without a server. A fault is what the retry loop makes of it."""

    revision = "scripted-1"

    def __init__(
        self, script: Script, *, slug: str = "scripted", context_length: int = 131_072, latency_s: float = 0.0
    ) -> None:
        self.script, self.slug, self.context_length, self.latency_s = script, slug, context_length, latency_s
        self.closed = False
        self.busy = self.most_busy = 0

    def count_tokens(self, text: str) -> int:
        return estimate(text)

    async def complete(
        self, messages: list[Message], *, decoding: Decoding, schema: dict[str, Any] | None = None
    ) -> Completion:
        self.busy += 1
        self.most_busy = max(self.most_busy, self.busy)
        try:
            await asyncio.sleep(self.latency_s)
            answer = self.script.answer(messages, decoding.as_dict(), schema)
        finally:
            self.busy -= 1
        if isinstance(answer, Fault):
            if answer.kind == "status" and 400 <= answer.status < 500 and answer.status != 429:
                raise UsageError(f"The server refuses the request (HTTP {answer.status}): {answer.message}")
            raise Unreachable(f"{self.slug} gave no answer ({answer.message})")
        said = Said(answer) if isinstance(answer, str) else answer
        split = split_thought(said.text)
        return Completion(
            text=split.answer,
            reasoning=said.reasoning or split.reasoning,
            finish_reason=said.finish_reason if said.finish_reason in {"stop", "length"} else "other",  # type: ignore[arg-type]
            unfinished_thought=split.unfinished,
            tokens_in=sum(estimate(message.content) for message in messages),
            tokens_out=estimate(said.text),
            tokens_cached=0,
            latency_s=self.latency_s,
            attempts=1,
            model_revision=self.revision,
        )

    async def close(self) -> None:
        self.closed = True


@dataclass
class Server:
    """A running server and what reached it."""

    script: Script
    base_url: str = ""
    latency_s: float = 0.0
    slots: int = 1_000
    refuse_system: bool = False
    refuse_repeated_roles: bool = False
    context_length: int | None = None
    requests: list[dict[str, Any]] = field(default_factory=list)
    headers: list[dict[str, str]] = field(default_factory=list)
    completions: int = 0
    most_busy: int = 0
    connections: int = 0
    _busy: int = 0
    _free: asyncio.Semaphore | None = None

    async def serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.connections += 1
        try:
            while head := await reader.readuntil(b"\r\n\r\n"):
                lines = head.decode("latin-1").split("\r\n")
                headers = {
                    name.lower(): value.strip() for name, _, value in (line.partition(":") for line in lines[1:])
                }
                body = await reader.readexactly(int(headers.get("content-length", 0)))
                if not await self._respond(lines[0], headers, body, writer):
                    break
        except (asyncio.IncompleteReadError, ConnectionError, asyncio.CancelledError):
            pass
        finally:
            writer.close()

    async def _respond(self, line: str, headers: dict[str, str], body: bytes, writer: asyncio.StreamWriter) -> bool:
        path = line.split(" ")[1]
        if path.endswith("/models"):
            return await self._send(writer, 200, {"object": "list", "data": [{"id": "scripted", "object": "model"}]})
        if not path.endswith("/chat/completions"):
            return await self._send(writer, 404, {"error": {"message": f"no route {path}"}})
        request = json.loads(body)
        if self.script.remember:
            self.requests.append(request)
            self.headers.append(headers)
        assert self._free is not None
        async with self._free:
            self._busy += 1
            self.most_busy = max(self.most_busy, self._busy)
            try:
                await asyncio.sleep(self.latency_s)
                return await self._complete(request, writer)
            finally:
                self._busy -= 1

    async def _complete(self, request: dict[str, Any], writer: asyncio.StreamWriter) -> bool:
        messages = [Message(item["role"], item["content"]) for item in request["messages"]]
        refused = self._refusal([message.role for message in messages], messages, request)
        if refused:
            return await self._send(writer, 400, {"error": {"message": refused, "type": "BadRequestError"}})
        schema = request.get("response_format", {}).get("json_schema", {}).get("schema")
        answer = self.script.answer(messages, request, schema)
        if isinstance(answer, Fault):
            return await self._fail(answer, writer)
        self.completions += 1
        said = _cut(Said(answer) if isinstance(answer, str) else answer, request.get("max_tokens"))
        return await self._send(writer, 200, _completion(messages, said))

    def _refusal(self, roles: list[str], messages: list[Message], request: dict[str, Any]) -> str | None:
        if self.refuse_system and "system" in roles:
            return "System role not supported"
        if self.refuse_repeated_roles and any(a == b for a, b in itertools.pairwise(roles)):
            return "Conversation roles must alternate user/assistant/user/assistant/..."
        used = sum(estimate(message.content) for message in messages) + request.get("max_tokens", 0)
        if self.context_length is not None and used > self.context_length:
            return f"This model's maximum context length is {self.context_length} tokens, you requested {used}."
        return None

    async def _fail(self, fault: Fault, writer: asyncio.StreamWriter) -> bool:
        if fault.kind == "hang":
            await asyncio.sleep(3_600)
        if fault.kind in {"hang", "drop"}:
            return False
        if fault.kind == "garbage":
            return await self._send(writer, 200, b"<html>502 Bad Gateway</html>")
        if fault.kind == "no_choices":
            return await self._send(writer, 200, {"object": "error", "detail": "nothing"})
        if fault.kind == "cut":
            writer.write(b"HTTP/1.1 200 OK\r\ncontent-type: application/json\r\ncontent-length: 999\r\n\r\n{")
            await writer.drain()
            return False
        return await self._send(writer, fault.status, {"error": {"message": fault.message}}, fault.headers)

    async def _send(
        self,
        writer: asyncio.StreamWriter,
        status: int,
        document: dict[str, Any] | bytes,
        headers: tuple[tuple[str, str], ...] = (),
    ) -> bool:
        body = document if isinstance(document, bytes) else json.dumps(document).encode()
        extra = "".join(f"{name}: {value}\r\n" for name, value in headers)
        head = f"HTTP/1.1 {status} -\r\ncontent-type: application/json\r\n{extra}content-length: {len(body)}\r\n\r\n"
        writer.write(head.encode() + body)
        await writer.drain()
        return True


def _cut(said: Said, max_tokens: int | None) -> Said:
    """Honour the reply budget."""
    if max_tokens is None or estimate(said.text) <= max_tokens:
        return said
    end = next(end for end in range(len(said.text), -1, -1) if estimate(said.text[:end]) <= max_tokens)
    return replace(said, text=said.text[:end], finish_reason="length")


def _completion(messages: list[Message], said: Said) -> dict[str, Any]:
    tokens_in = sum(estimate(message.content) for message in messages)
    tokens_out = estimate(said.text + said.reasoning)
    message: dict[str, Any] = {"role": "assistant", "content": said.text}
    if said.reasoning:
        message[said.field_name] = said.reasoning
    return {
        "id": "chatcmpl-scripted",
        "object": "chat.completion",
        "created": 0,
        "model": "scripted",
        "system_fingerprint": "scripted-1",
        "choices": [{"index": 0, "message": message, "finish_reason": said.finish_reason}],
        "usage": {
            "prompt_tokens": tokens_in,
            "completion_tokens": tokens_out,
            "total_tokens": tokens_in + tokens_out,
            "prompt_tokens_details": {"cached_tokens": estimate(messages[0].content)},
        },
    }


@contextmanager
def scripted_server(script: Script, **options: Any) -> Iterator[Server]:
    """Serve a script on a loopback port, in a thread with its own event loop; options are fields of `Server`."""
    server, started = Server(script, **options), threading.Event()
    stop: list[Callable[[], object]] = []

    async def main() -> None:
        server._free, stopped, loop = asyncio.Semaphore(server.slots), asyncio.Event(), asyncio.get_running_loop()
        listening = await asyncio.start_server(server.serve, "127.0.0.1", 0)
        server.base_url = f"http://127.0.0.1:{listening.sockets[0].getsockname()[1]}/v1"
        stop.append(lambda: loop.call_soon_threadsafe(stopped.set))
        started.set()
        await stopped.wait()
        listening.close()  # asyncio.run cancels the connections that are still open

    thread = threading.Thread(target=lambda: asyncio.run(main()), daemon=True)
    thread.start()
    started.wait()
    try:
        yield server
    finally:
        stop[0]()
        thread.join()
