"""Any server that speaks OpenAI's chat completions: vLLM, OpenAI, OpenRouter, llama.cpp, Ollama.

One attempt, no retries of its own: the client's are off, because two loops multiply (see `model`). Every decoding
setting is sent, so that no server default applies. Reference: platform.openai.com/docs/api-reference/chat and
docs.vllm.ai, "OpenAI-Compatible Server", extra parameters.
"""

import json
import os
import ssl
import time
from collections.abc import AsyncIterator
from email.utils import parsedate_to_datetime
from typing import Any, Final
from urllib.parse import urlsplit

from hindcast_dagster.errors import HindcastError, InputRefused, UsageError
from hindcast_dagster.llm import tokens
from hindcast_dagster.llm.lenient import whole
from hindcast_dagster.llm.model import Reply, TryAgain
from hindcast_dagster.llm.parse import integer
from hindcast_dagster.llm.protocol import Decoding, Message
from hindcast_dagster.llm.roster import Entry

KEY_VARIABLE: Final = "HINDCAST_LLM_KEY"
"""Holds the API key where the roster entry names no variable of its own."""
_NO_KEY: Final = "none"
MAX_BYTES: Final = 16 * 2**20
"""Of one reply; no budget of ours lets a model write that much."""
MAX_PACKED: Final = 2**18
"""Of one compressed reply: what unpacks to a thousand times its size must not fill the memory either."""
_MAX_TOKENS: Final = 2**40
_MAX_WORD: Final = 200
_OVERLOADED: Final = frozenset({429, 503, 529})
_MAY_PASS: Final = frozenset({408, 409, 425, 429})


class OpenAITransport:
    """One server."""

    slots: int | None = None

    def __init__(self, entry: Entry, base_url: str, *, key: str | None = None) -> None:
        self._entry, self._base_url = entry, _checked(base_url)
        self._key = key or _key(entry)
        self._client: Any = None

    async def start(self) -> None:
        """Make the client; connections open at the first request."""
        import openai

        self._client = openai.AsyncOpenAI(
            api_key=self._key,
            base_url=self._base_url,
            max_retries=0,
            timeout=None,
            organization="",
            project="",
            http_client=openai.DefaultAsyncHttpxClient(
                timeout=None,
                follow_redirects=False,  # prompts go to the server that was named and to no other
                event_hooks={"response": [_bounded]},
                **_connection(self._base_url),
            ),
        )

    async def send(self, messages: list[Message], decoding: Decoding, schema: dict[str, Any] | None) -> Reply:
        """Send one request; see `Transport`."""
        import httpx2
        import openai

        body = self._request(messages, decoding, schema)
        try:
            # the client's typed method walks the whole body and builds a model of the reply: a third of its CPU time
            response = await self._client.post("/chat/completions", cast_to=httpx2.Response, body=body)
        except openai.APIStatusError as error:
            # some servers say the key that they refuse; their words, and the client's error, end up in logs
            said = _said(error.response).replace(self._key, "[key]")
            raise _refusal(error.status_code, said, _retry_after(error.response.headers)) from None
        except openai.APIConnectionError as error:
            if isinstance(error.__cause__, InputRefused):
                raise error.__cause__ from None
            raise TryAgain(f"{_shown(self._base_url)} is not reachable: {error.__cause__ or error}") from error
        return _reply(response.content, response.status_code)

    def _request(self, messages: list[Message], decoding: Decoding, schema: dict[str, Any] | None) -> dict[str, Any]:
        request: dict[str, Any] = {
            "model": self._entry.remote_name,
            "messages": [{"role": message.role, "content": message.content} for message in messages],
            "temperature": decoding.temperature,
            "top_p": decoding.top_p,
            "presence_penalty": decoding.presence_penalty,
            "frequency_penalty": decoding.frequency_penalty,
            "seed": decoding.seed,
            "max_completion_tokens" if self._entry.dialect == "openai" else "max_tokens": decoding.max_tokens,
            **extra_parameters(self._entry, decoding),
        }
        if schema is not None:
            described = {"name": "reply", "schema": schema, "strict": True}
            request["response_format"] = {"type": "json_schema", "json_schema": described}
        return request

    def count_tokens(self, text: str) -> int:
        """Return an upper estimate: the tokenizer is at the server."""
        return tokens.estimate(text)

    async def close(self) -> None:
        """Close the connections."""
        client, self._client = self._client, None
        if client is not None:
            await client.close()


def extra_parameters(entry: Entry, decoding: Decoding) -> dict[str, Any]:
    """Return the decoding settings beyond OpenAI's own, in the server's words; 0 switches top_k off everywhere."""
    if entry.dialect == "openai":
        return {}
    repetition = "repeat_penalty" if entry.dialect == "llama_cpp" else "repetition_penalty"
    extra: dict[str, Any] = {
        "top_k": max(0, decoding.top_k),
        "min_p": decoding.min_p,
        repetition: decoding.repetition_penalty,
    }
    if entry.thinking != "default":
        extra["chat_template_kwargs"] = {"enable_thinking": entry.thinking == "on"}
    return extra


def _connection(base_url: str) -> dict[str, Any]:
    """Return the client's options: without TLS the certificates of the world are not read, and nothing leads to TLS."""
    if urlsplit(base_url).scheme == "https":
        return {}
    return {"verify": ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)}


async def _bounded(response: Any) -> None:
    """Let no server fill the memory: a body that is too large is refused while it is read."""
    import httpx2

    limit = MAX_PACKED if response.headers.get("content-encoding") else MAX_BYTES
    inner = response.stream

    class Bounded(httpx2.AsyncByteStream):
        async def __aiter__(self) -> AsyncIterator[bytes]:
            size = 0
            async for part in inner:
                size += len(part)
                if size > limit:
                    raise InputRefused(f"The server's reply is larger than {limit} bytes.")
                yield part

        async def aclose(self) -> None:
            await inner.aclose()

    response.stream = Bounded()


def _checked(base_url: str) -> str:
    parts = urlsplit(base_url)
    if parts.scheme not in {"http", "https"} or not parts.netloc:
        raise UsageError(f"{_shown(base_url)!r} is not the URL of a server: write it like http://127.0.0.1:8000/v1.")
    return base_url.rstrip("/") + ("" if parts.path.strip("/") else "/v1")


def _shown(url: str) -> str:
    """Return a URL without what may be a secret: user, password and query."""
    return url.partition("?")[0].rpartition("@")[2]


def _key(entry: Entry) -> str:
    if entry.key_variable is None:
        return os.environ.get(KEY_VARIABLE) or _NO_KEY
    key = os.environ.get(entry.key_variable)
    if not key:
        raise UsageError(f"{entry.name} needs an API key: set the environment variable {entry.key_variable}.")
    return key


def _refusal(status: int, said: str, after_s: float | None) -> HindcastError:
    """Return the error for a status: what may pass is tried again, a refused request never is, unchanged."""
    if status >= 500 or status in _MAY_PASS:  # noqa: PLR2004 - server errors
        return TryAgain(f"HTTP {status}: {said}", after_s=after_s, overloaded=status in _OVERLOADED)
    if status in {401, 403}:
        return UsageError(f"The server refuses the API key (HTTP {status}): {said}")
    return UsageError(f"The server refuses the request (HTTP {status}): {said}")


def _said(response: Any) -> str:
    """Return what a server says about an error, on one line and cut: it is text from outside."""
    text = response.text
    try:
        document = json.loads(text)
        inner = document.get("error", document)
        text = inner.get("message", text) if isinstance(inner, dict) else str(inner)
    except (ValueError, AttributeError, RecursionError):
        pass
    return " ".join(whole(str(text)).split())[:300] or "no reason given"


def _retry_after(headers: Any) -> float | None:
    """Return the seconds that a server asks to wait: `retry-after-ms`, or `Retry-After` as seconds or an HTTP date."""
    for name, scale in (("retry-after-ms", 1000.0), ("retry-after", 1.0)):
        value = headers.get(name, "").strip()
        if value.isascii() and value.replace(".", "", 1).isdigit():
            return float(value) / scale
        if value:
            try:
                return max(0.0, parsedate_to_datetime(value).timestamp() - time.time())
            except ValueError:
                continue
    return None


def _reply(content: bytes, status: int) -> Reply:
    """Read a chat completion. Raises `TryAgain` for a cut body and `InputRefused` for another document."""
    try:
        document = json.loads(content)
    except (ValueError, RecursionError) as error:
        raise TryAgain(f"HTTP {status} with a body that is not JSON") from error
    try:
        choice = document["choices"][0]
        message, usage = choice["message"], document.get("usage") or {}
        details = usage.get("prompt_tokens_details") or {}
        return Reply(
            text=_text(message.get("content")),
            reasoning=_text(message.get("reasoning") or message.get("reasoning_content")),
            finish_reason=_word(choice.get("finish_reason")),
            tokens_in=_tokens(usage.get("prompt_tokens")),
            tokens_out=_tokens(usage.get("completion_tokens")),
            tokens_cached=_tokens(details.get("cached_tokens")),
            revision=_word(document.get("system_fingerprint")),
        )
    except (LookupError, TypeError, ValueError, AttributeError) as error:
        raise InputRefused(f"The server's reply is not a chat completion: {content[:200]!r}.") from error


def _text(value: object) -> str:
    """Return a text without halves of characters. Raises `TypeError` for anything but a text or nothing."""
    if value is not None and not isinstance(value, str):
        raise TypeError(f"{type(value).__name__} for a text")
    return whole(value or "")


def _word(value: object) -> str | None:
    return whole(value)[:_MAX_WORD] if isinstance(value, str) and value else None


def _tokens(value: object) -> int:
    """Return a count of tokens: money is paid and refunded by it, so what is none counts as not told."""
    return integer(value, 0, _MAX_TOKENS) or 0
