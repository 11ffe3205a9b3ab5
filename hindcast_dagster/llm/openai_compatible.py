"""Any server that speaks OpenAI's chat completions: vLLM, OpenAI, OpenRouter, llama.cpp, Ollama.

One attempt, no retries of its own: the client's are off, because two loops multiply (see `model`). Every decoding
setting is sent, so that no server default applies. Reference: platform.openai.com/docs/api-reference/chat and
docs.vllm.ai, "OpenAI-Compatible Server", extra parameters.
"""

import json
import os
import ssl
import time
from email.utils import parsedate_to_datetime
from typing import Any, Final
from urllib.parse import urlsplit

from hindcast_dagster.errors import HindcastError, InputRefused, UsageError
from hindcast_dagster.llm import tokens
from hindcast_dagster.llm.model import Reply, TryAgain
from hindcast_dagster.llm.protocol import Decoding, Message
from hindcast_dagster.llm.roster import Entry

KEY_VARIABLE: Final = "HINDCAST_LLM_KEY"
"""Holds the API key where the roster entry names no variable of its own."""
_NO_KEY: Final = "none"
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
            http_client=openai.DefaultAsyncHttpxClient(timeout=None, **_connection(self._base_url)),
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
    return {"verify": ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT), "follow_redirects": False}


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
    except (ValueError, AttributeError):
        pass
    return " ".join(str(text).split())[:300] or "no reason given"


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
    except ValueError as error:
        raise TryAgain(f"HTTP {status} with a body that is not JSON") from error
    try:
        choice = document["choices"][0]
        message, usage = choice["message"], document.get("usage") or {}
        details = usage.get("prompt_tokens_details") or {}
        return Reply(
            text=message.get("content") or "",
            reasoning=message.get("reasoning") or message.get("reasoning_content") or "",
            finish_reason=choice.get("finish_reason"),
            tokens_in=int(usage.get("prompt_tokens") or 0),
            tokens_out=int(usage.get("completion_tokens") or 0),
            tokens_cached=int(details.get("cached_tokens") or 0),
            revision=document.get("system_fingerprint") or None,
        )
    except (LookupError, TypeError, ValueError, AttributeError) as error:
        raise InputRefused(f"The server's reply is not a chat completion: {content[:200]!r}.") from error
