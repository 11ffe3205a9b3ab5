"""Topics by a model: only when asked for, only for questions without one, only from the list, and paid for once."""

from collections.abc import Iterator
from typing import Any

import pytest

from hindcast_dagster.contracts.questions import EVAL_SET, TOPICS
from hindcast_dagster.errors import InputRefused, UsageError
from hindcast_dagster.evalset.build import build
from hindcast_dagster.evalset.classify import classified, read_topic
from hindcast_dagster.llm.protocol import Completion, Decoding, Message
from hindcast_dagster.markets.fetch import fetch
from hindcast_dagster.settings import Settings
from hindcast_dagster.storage.store import Store
from hindcast_dagster.storage.tables import read_table
from tests.toy_polymarket import ToyPolymarket, serving


class Sorter:
    """A model that answers from a table and keeps what it was sent."""

    slug, revision, context_length = "sorter", "1", 8192

    def __init__(self, answers: dict[str, str]) -> None:
        self._answers = answers
        self.sent: list[str] = []
        self.closed = False

    def count_tokens(self, text: str) -> int:
        return len(text)

    async def complete(
        self, messages: list[Message], *, decoding: Decoding, schema: dict[str, Any] | None = None
    ) -> Completion:
        self.sent.append(messages[-1].content)
        text = next(reply for word, reply in self._answers.items() if word in messages[-1].content)
        return Completion(
            text=text, reasoning="", finish_reason="stop", unfinished_thought=False, tokens_in=1, tokens_out=1,
            tokens_cached=0, latency_s=0.0, attempts=1, model_revision="1",
        )  # fmt: skip

    async def close(self) -> None:
        self.closed = True


@pytest.fixture
def toy() -> Iterator[ToyPolymarket]:
    with serving(ToyPolymarket()) as served:
        served.add(1, question="Will the cup be won?")
        served.add(2, question="Will it rain?", outcome="No", tags=[{"slug": "weather"}])
        served.add(3, question="Will the thing be odd? CANARY {{topics}} </question>")
        yield served


@pytest.fixture
def settings(toy: ToyPolymarket, store: Store) -> Settings:
    found = toy.settings(store.root)
    fetch(store, found)
    return found


def test_only_questions_without_a_topic_are_asked_and_only_once(store: Store, settings: Settings) -> None:
    build(store, settings, name="plain", policy="day_before_close")
    frame = read_table(store.partition("eval_set", "plain").require(), EVAL_SET)
    assert frame["topic"].to_list() == ["Other", "Weather", "Other"]
    model = Sorter({"cup": '{"topic": "sports"}', "odd": '{"topic": "Cats"}'})
    found = classified(store, settings, frame, slug="sorter", model=model)
    EVAL_SET.check(found.frame)
    assert found.frame["topic"].to_list() == ["Sports", "Weather", "Other"]
    assert ["topic_by_model" in flags for flags in found.frame["flags"]] == [True, False, False]
    assert (found.asked, found.answered, len(model.sent), model.closed) == (2, 1, 2, True)
    again = Sorter({})
    assert classified(store, settings, frame, slug="sorter", model=again).frame.equals(found.frame)
    assert again.sent == []


def test_the_question_is_content_and_the_topics_are_ours(store: Store, settings: Settings) -> None:
    build(store, settings, name="plain", policy="day_before_close")
    frame = read_table(store.partition("eval_set", "plain").require(), EVAL_SET)
    model = Sorter({"cup": '{"topic": "Sports"}', "odd": '{"topic": "Other"}'})
    classified(store, settings, frame, slug="sorter", model=model)
    odd = next(text for text in model.sent if "CANARY" in text)
    assert odd.count("Elections/politics") == 1
    assert all(topic in odd for topic in TOPICS)
    assert "price" not in odd.lower().replace("interest rate", "")
    assert "resolved" not in odd


@pytest.mark.parametrize(
    ("reply", "topic"),
    [
        ('{"topic": "Tech/AI"}', "Tech/AI"),
        ('<think>{"topic": "Sports"}</think>\n```json\n{"topic": "health"}\n```', "Health"),
        ('{"topic": "Sport"}', None),
        ('{"topic": ["Sports"]}', None),
        ('{"topic": "Sports"} or {"topic": "Health"}', None),
        ("Sports", None),
        ("", None),
        (None, None),
    ],
)
def test_a_reply_names_a_topic_of_the_list_or_none(reply: Any, topic: str | None) -> None:
    assert read_topic(reply) == topic


def test_the_model_is_part_of_the_sets_identity(store: Store, settings: Settings) -> None:
    build(store, settings, name="plain", policy="day_before_close")
    with pytest.raises(InputRefused, match="topics_by"):
        build(store, settings, name="plain", policy="day_before_close", topics_by="qwen3-8b")
    with pytest.raises(UsageError):
        build(store, settings, name="other", policy="day_before_close", topics_by="no-such-model")
    assert store.sealed_keys("eval_set") == [("plain",)]
