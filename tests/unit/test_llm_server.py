"""An OpenAI-compatible server as it fails in real life: one retry loop, bounded waits, nothing refused is repeated."""

import asyncio
import contextlib
import gzip
import json
import time
from collections.abc import Iterable, Iterator
from typing import Any

import pytest

from hindcast_dagster.errors import InputRefused, Unreachable, UsageError
from hindcast_dagster.llm import model as model_module
from hindcast_dagster.llm.model import Model
from hindcast_dagster.llm.openai_compatible import KEY_VARIABLE, OpenAITransport
from hindcast_dagster.llm.protocol import Completion, Decoding, Message
from hindcast_dagster.llm.roster import Entry, ad_hoc
from hindcast_dagster.settings import Llm
from tests.scripted_llm import Fault, Said, Script, Server, Stage, scripted_server

ASK = [Message("system", "You forecast."), Message("user", "Will it rain?")]
DECODING = Decoding(temperature=0.1, max_tokens=64, seed=3)
SLOW = Fault(status=429, headers=(("Retry-After", "1"),))


@pytest.fixture(autouse=True)
def short_waits(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(model_module, "FIRST_WAIT_S", 0.01)


def served(*answers: Any, **options: Any) -> Any:
    return scripted_server(Script(Stage("any", "", answers)), **options)


def opened(server: Server, *, options: Llm | None = None, **changes: Any) -> Model:
    entry = ad_hoc(server.base_url, "scripted").model_copy(update=changes)
    return Model(entry, OpenAITransport(entry, server.base_url), options or Llm(wait_budget_s=10))


async def ask(server: Server, *, messages: list[Message] = ASK, schema: Any = None, **options: Any) -> Completion:
    model = opened(server, **options)
    try:
        return await model.complete(messages, decoding=DECODING, schema=schema)
    finally:
        await model.close()


async def test_every_decoding_setting_is_sent_and_no_default_of_the_client_or_server_applies() -> None:
    with served("fine") as server:
        completion = await ask(server)
        await ask(server, dialect="llama_cpp", thinking="off")
        await ask(server, dialect="openai")
    ours, llama, openai = server.requests
    assert ours == {
        "model": "scripted",
        "messages": [{"role": "system", "content": "You forecast."}, {"role": "user", "content": "Will it rain?"}],
        "temperature": 0.1,
        "top_p": 1.0,
        "presence_penalty": 0.0,
        "frequency_penalty": 0.0,
        "seed": 3,
        "max_tokens": 64,
        "top_k": 0,
        "min_p": 0.0,
        "repetition_penalty": 1.0,
    }
    assert llama["repeat_penalty"] == 1.0
    assert llama["chat_template_kwargs"] == {"enable_thinking": False}
    assert openai["max_completion_tokens"] == 64
    assert not openai.keys() & {"max_tokens", "top_k", "min_p", "repetition_penalty"}
    assert (completion.text, completion.finish_reason, completion.attempts) == ("fine", "stop", 1)
    assert completion.tokens_cached > 0
    assert completion.model_revision == "scripted-1"


async def test_the_schema_is_sent_only_when_the_setting_asks_for_it() -> None:
    schema = {"type": "object"}
    with served("{}") as server:
        await ask(server, schema=schema)
        await ask(server, schema=schema, options=Llm(structured=True))
    plain, structured = server.requests
    assert "response_format" not in plain
    assert structured["response_format"]["json_schema"]["schema"] == schema


async def test_what_may_pass_is_repeated_in_one_loop() -> None:
    with served(Fault(status=500), Fault("drop"), Fault("cut"), Fault("garbage"), Fault(status=408), "fine") as server:
        completion = await ask(server)
    assert (completion.text, completion.attempts) == ("fine", 6)
    assert len(server.requests) == 6


@pytest.mark.parametrize("status", [400, 401, 403, 404, 413, 422])
async def test_what_is_refused_is_never_repeated(status: int) -> None:
    with served(Fault(status=status, message="too long\nfor us"), "fine") as server:
        with pytest.raises(UsageError, match=f"HTTP {status}.*too long for us"):
            await ask(server)
        assert len(server.requests) == 1


async def test_a_document_that_is_no_completion_is_refused() -> None:
    with served(Fault("no_choices")) as server, pytest.raises(InputRefused, match="not a chat completion"):
        await ask(server)


def _completion(message: Any = None, **more: Any) -> bytes:
    choice = {
        "message": {"content": "0.5"} if message is None else message,
        "finish_reason": more.pop("finish", "stop"),
    }
    return json.dumps({"choices": [choice], **more}).encode()


def _head(*lines: str, status: str = "200 OK") -> bytes:
    return "\r\n".join([f"HTTP/1.1 {status}", "content-type: application/json", *lines, "", ""]).encode()


def _whole(body: bytes, *lines: str) -> list[bytes]:
    return [_head(f"content-length: {len(body)}", *lines), body]


async def _raw(parts: Iterable[bytes]) -> Completion:
    """Ask a server that sends these bytes, whatever they are."""

    async def answer(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.readuntil(b"\r\n\r\n")
        with contextlib.suppress(ConnectionError):
            for part in parts:
                writer.write(part)
                await writer.drain()
        writer.close()

    server = await asyncio.start_server(answer, "127.0.0.1", 0)
    entry = ad_hoc(f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}/v1", "raw")
    assert entry.base_url is not None
    options = Llm(wait_budget_s=1, request_timeout_s=20)
    model = Model(entry, OpenAITransport(entry, entry.base_url), options)
    try:
        async with server:
            return await model.complete(ASK, decoding=DECODING)
    finally:
        await model.close()


@pytest.mark.parametrize(
    "message",
    [
        {"content": ["0.5"]},
        {"content": 5},
        {"content": {"a": 1}},
        {"content": "x", "reasoning": {"a": 1}},
        "0.5",
        [],
        7,
    ],
)
async def test_a_message_of_another_type_is_refused_and_never_handed_on(message: Any) -> None:
    with pytest.raises(InputRefused, match="not a chat completion"):
        await _raw(_whole(_completion(message)))


@pytest.mark.parametrize("count", [-5, 10**30, "many", [1], {"a": 1}, True, 0.5, None])
async def test_a_count_that_is_none_is_no_count(count: Any) -> None:
    found = await _raw(_whole(_completion(usage={"prompt_tokens": count, "completion_tokens": count}, finish=[1])))
    assert (found.tokens_in, found.tokens_out, found.finish_reason) == (0, 0, "other")
    endless = b'{"choices":[{"message":{"content":"x"}}],"usage":{"prompt_tokens":1e999},"system_fingerprint":{"a":1}}'
    found = await _raw(_whole(endless))
    assert (found.tokens_in, found.model_revision) == (0, None)


async def test_half_a_character_never_leaves_the_reader() -> None:
    found = await _raw(_whole(_completion({"content": "a\ud800b", "reasoning": "\udfff"})))
    assert (found.text + found.reasoning).encode()
    assert found.text == "a\ufffdb"


def _endless() -> Iterator[bytes]:
    yield _head()
    while True:
        yield b" " * 65_536


def _bomb() -> Iterator[bytes]:
    yield _head("content-encoding: gzip")
    packed = gzip.compress(bytes(2**24))
    while True:
        yield packed


@pytest.mark.parametrize("body", [_endless, _bomb])
async def test_a_reply_without_end_is_refused_before_it_fills_the_memory(body: Any) -> None:
    with pytest.raises(InputRefused, match="larger than"):
        await _raw(body())


async def test_a_compressed_reply_is_read() -> None:
    found = await _raw(_whole(gzip.compress(_completion()), "content-encoding: gzip"))
    assert found.text == "0.5"


async def test_prompts_follow_no_redirect() -> None:
    with served("fine") as other:
        elsewhere = _head(f"location: {other.base_url}/chat/completions", "content-length: 0", status="307 Elsewhere")
        with pytest.raises(UsageError, match="307"):
            await _raw([elsewhere])
        assert not other.requests


async def test_a_reply_nested_without_end_is_not_json() -> None:
    with pytest.raises(Unreachable, match="not JSON"):
        await _raw(_whole(b"[" * 200_000))


async def test_retry_after_is_honoured() -> None:
    with served(SLOW, "fine") as server:
        started = time.monotonic()
        completion = await ask(server)
        assert completion.attempts == 2
        assert 1.0 <= time.monotonic() - started < 30


async def test_a_wait_that_the_budget_cannot_pay_is_not_begun() -> None:
    with served(Fault(status=429, headers=(("retry-after", "3600"),))) as server:
        started = time.monotonic()
        with pytest.raises(Unreachable, match=r"1 attempts.*429"):
            await ask(server, options=Llm(wait_budget_s=60))
        assert time.monotonic() - started < 30
        assert len(server.requests) == 1


async def test_the_total_wait_is_bounded_when_nobody_answers() -> None:
    with served(Fault("hang")) as server:
        model = opened(server, options=Llm(wait_budget_s=1.2, request_timeout_s=0.5))
        await model._start()  # imports the client, which takes seconds on a busy machine
        started = time.monotonic()
        with pytest.raises(Unreachable, match=r"no answer within 1.2 s.*request within 0.5 s"):
            await model.complete(ASK, decoding=DECODING)
        assert 1.0 < time.monotonic() - started < 3
        await model.close()
        assert 2 <= len(server.requests) <= 3


async def test_a_server_that_is_not_there_is_unreachable() -> None:
    with served("x") as server:
        url = server.base_url
    entry = ad_hoc(url, "scripted")
    model = Model(entry, OpenAITransport(entry, url), Llm(wait_budget_s=0.5))
    with pytest.raises(Unreachable, match="not reachable"):
        await model.complete(ASK, decoding=DECODING)
    assert model.totals.failed == 1
    await model.close()


async def test_retries_are_reported_to_logging_and_never_printed(capsys, caplog) -> None:
    with served(Fault(status=500), "fine") as server, caplog.at_level("INFO", logger="hindcast_dagster.llm.model"):
        await ask(server)
    assert capsys.readouterr().out == ""
    assert "HTTP 500: scripted fault; attempt 2 follows" in caplog.text


@pytest.mark.parametrize("messages", [ASK, [ASK[0], *ASK], [*ASK, Message("user", "Say.")]])
async def test_the_same_text_reaches_templates_without_system_role_or_with_strict_turns(messages) -> None:
    with served("fine", refuse_system=True, refuse_repeated_roles=True) as server:
        await ask(server, messages=messages, system_role=False)
        with pytest.raises(UsageError, match="System role not supported"):
            await ask(server, messages=messages)
    folded, refused = server.requests
    assert [turn["role"] for turn in folded["messages"]] == ["user"]
    assert folded["messages"][0]["content"] == "\n\n".join(message.content for message in messages)
    assert refused["messages"][0]["role"] == "system"
    assert len(server.requests) == 2


async def test_an_overlong_prompt_is_refused_once() -> None:
    long = [Message("user", "word " * 9_000)]
    with served("fine", context_length=8_192) as server:
        with pytest.raises(UsageError, match="maximum context length is 8192"):
            await ask(server, messages=long)
        assert len(server.requests) == 1


@pytest.mark.parametrize("field", ["reasoning", "reasoning_content"])
async def test_reasoning_in_its_own_field_is_kept_apart(field: str) -> None:
    with served(Said('{"prob_yes": 0.9}', reasoning='maybe {"prob_yes": 0.1}', field_name=field)) as server:
        completion = await ask(server, thought_opened=True)
    assert completion.text == '{"prob_yes": 0.9}'
    assert completion.reasoning == 'maybe {"prob_yes": 0.1}'
    assert not completion.unfinished_thought


async def test_thoughts_that_do_not_end() -> None:
    said = [
        Said('<think>hm {"prob_yes": 0.1}', finish_reason="length"),
        Said("", reasoning="hm", finish_reason="length"),
        Said('hm {"prob_yes": 0.1}', finish_reason="length"),
        Said('hm</think>{"prob_yes": 0.9}'),
        Said('{"prob_yes": 0.9}'),
    ]
    with served(*said) as server:
        found = [await ask(server, thought_opened=True) for _ in said]
    assert [one.unfinished_thought for one in found] == [True, True, True, False, False]
    assert [one.text for one in found] == ["", "", "", '{"prob_yes": 0.9}', '{"prob_yes": 0.9}']
    assert [one.finish_reason for one in found] == ["length"] * 3 + ["stop"] * 2


async def test_other_finish_reasons_are_other() -> None:
    with served(Said("", finish_reason="content_filter")) as server:
        assert (await ask(server)).finish_reason == "other"


async def test_never_more_calls_than_slots() -> None:
    with served("fine", latency_s=0.02) as server:
        model = opened(server, options=Llm(concurrency=3))
        await asyncio.gather(*(model.complete(ASK, decoding=DECODING) for _ in range(12)))
        await model.close()
    assert server.most_busy == 3
    assert (model.totals.calls, model.totals.attempts) == (12, 12)


async def test_an_overloaded_server_is_given_room_and_every_call_is_answered() -> None:
    crowded = Fault(status=429, headers=(("retry-after-ms", "50"),))

    def answer(asked: Any) -> Any:
        return crowded if server._busy > 4 else "fine"

    with served(answer, latency_s=0.01) as server:
        model = opened(server, options=Llm(concurrency=16, wait_budget_s=20))
        found = await asyncio.gather(*(model.complete(ASK, decoding=DECODING) for _ in range(60)))
        await model.close()
    assert all(one.text == "fine" for one in found)
    assert sum(one.attempts for one in found) == len(server.requests) > 60


async def test_a_cancelled_call_gives_its_slot_back() -> None:
    with served(Fault("hang"), Fault("hang"), "fine") as server:
        model = opened(server, options=Llm(concurrency=1))
        tasks = [asyncio.create_task(model.complete(ASK, decoding=DECODING)) for _ in range(2)]
        for task in tasks:
            await asyncio.sleep(0.1)
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
        script = server.script
        script.calls["any"] = 2
        assert (await asyncio.wait_for(model.complete(ASK, decoding=DECODING), 5)).text == "fine"
        await model.close()
        await model.close()


async def test_the_key_comes_from_the_variable_that_is_named_and_from_no_other(monkeypatch) -> None:
    monkeypatch.setenv("OPENAI_API_KEY", "not-for-this-server")
    monkeypatch.setenv("OPENAI_ORG_ID", "nor-this")
    with served("fine") as server:
        await ask(server)
        monkeypatch.setenv(KEY_VARIABLE, "general")
        await ask(server)
        monkeypatch.setenv("MY_SERVER_KEY", "special")
        await ask(server, key_variable="MY_SERVER_KEY")
        monkeypatch.delenv("MY_SERVER_KEY")
        with pytest.raises(UsageError, match="MY_SERVER_KEY"):
            await ask(server, key_variable="MY_SERVER_KEY")
    assert [headers["authorization"] for headers in server.headers] == [
        "Bearer none",
        "Bearer general",
        "Bearer special",
    ]
    assert not any("nor-this" in value for headers in server.headers for value in headers.values())


def test_a_url_is_shown_without_its_secrets() -> None:
    with pytest.raises(UsageError) as refused:
        OpenAITransport(ad_hoc("x", "m"), "ftp://me:secret@host/v1?key=secret")
    assert "secret" not in str(refused.value)
    assert "host/v1" in str(refused.value)


@pytest.mark.parametrize("url", ["127.0.0.1:8000", "ftp://x/v1", "", "http://"])
def test_a_base_url_that_is_none_is_refused(url: str) -> None:
    with pytest.raises(UsageError, match="not the URL of a server"):
        OpenAITransport(ad_hoc(url, "m"), url)


def test_a_bare_host_gets_the_path_of_the_protocol() -> None:
    entry: Entry = ad_hoc("http://127.0.0.1:1", "m")
    assert OpenAITransport(entry, "http://127.0.0.1:1/")._base_url == "http://127.0.0.1:1/v1"
    assert OpenAITransport(entry, "http://127.0.0.1:1/api/v1/")._base_url == "http://127.0.0.1:1/api/v1"


def test_a_model_belongs_to_one_event_loop() -> None:
    with served("fine") as server:
        model = opened(server)
        asyncio.run(model._start())  # without a connection, which nobody could close afterwards
        with pytest.raises(UsageError, match="another event loop"):
            asyncio.run(model.complete(ASK, decoding=DECODING))
        again = opened(server)

        async def once() -> str:
            text = (await again.complete(ASK, decoding=DECODING)).text
            await again.close()
            return text

        assert [asyncio.run(once()) for _ in range(2)] == ["fine", "fine"]
