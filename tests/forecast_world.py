"""A small world for the tests of forecasters: an eval set, a toy archive, and a model that answers by a script."""

import asyncio
import json
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any

import polars as pl

from hindcast_dagster.clock import Cutoff, iso
from hindcast_dagster.contracts.questions import EVAL_SET
from hindcast_dagster.forecast import tracing
from hindcast_dagster.llm.protocol import Completion, Decoding, Message
from hindcast_dagster.questions.question import Question
from hindcast_dagster.storage.manifest import Input, Manifest
from hindcast_dagster.storage.store import Store
from hindcast_dagster.storage.tables import publish_table
from tests.toy_archive import ToyArchive, document

T0 = 1_740_787_200  # 2025-03-01T00:00:00Z
DAY = 86_400


def question(number: int = 1, **values: Any) -> Question:
    base: dict[str, Any] = {
        "id": f"0x{number:064x}",
        "source": "polymarket",
        "event_id": f"event-{number}",
        "text": f"Will Zorba Corp launch rocket {number} by April?",
        "criteria": "Resolves Yes if the launch takes place.",
        "options": ("Yes", "No"),
        "t0": Cutoff(T0),
        "planned_close": T0 + 30 * DAY,
        "topic": "Other",
        "duration": "medium",
        "tags": (),
        "price_at_t0": 0.6,
        "base_rate": 0.3,
        "reference_rate": 0.25,
    }
    return Question(**(base | values))


def seal_eval_set(
    store: Store, questions: list[Question], *, name: str = "small", pins: Sequence[Input] = ()
) -> Manifest:
    rows = [
        {
            "id": found.id,
            "source": found.source,
            "event_id": found.event_id,
            "series": None,
            "text": found.text,
            "criteria": found.criteria,
            "options": list(found.options),
            "topic": found.topic,
            "duration": found.duration,
            "tags": list(found.tags),
            "open_at": T0 - 40 * DAY,
            "planned_close": found.planned_close,
            "close_at": found.t0.epoch + 2 * DAY,
            "t0": found.t0.epoch,
            "outcome": "Yes",
            "price_at_t0": found.price_at_t0,
            "price_age_s": None if found.price_at_t0 is None else 3600,
            "price_route": None if found.price_at_t0 is None else "clob",
            "base_rate": found.base_rate,
            "base_rate_n": 10,
            "reference_rate": found.reference_rate,
            "reference_n": 3,
            "flags": [],
        }
        for found in questions
    ]
    frame: pl.DataFrame = EVAL_SET.frame(rows)
    return publish_table(store.partition("eval_set", name), frame, EVAL_SET, code_version="test", pins=pins)


def archive(count: int = 30, *, start: int = T0 - 60 * DAY, **values: Any) -> ToyArchive:
    """Posts every second day from two months before T0, each with an author and a comment; the last lie after T0."""
    rows = []
    for number in range(count):
        at, name = start + 2 * DAY * number, f"p{number}"
        title = f"Rocket news {number}: Zorba Corp"
        rows += [
            document(name, at, f"Zorba Corp confirmed the launch of rocket {number % 5}.", title=title,
                     author=f"author{number % 7}", subreddit="space", **values),
            document(f"c{number}", at + 3600, f"Comment on rocket {number}.", link_id=name, author="commenter"),
        ]  # fmt: skip
    return ToyArchive(rows)


Answer = str | Callable[[str], str]
FORECAST = json.dumps({"choice": "Yes", "prob_yes": 0.7, "prob_no": 0.3, "confidence": 0.6, "reasoning": "brief"})


@dataclass
class Script:
    """A ChatModel that answers by the name of the call: one text, a list in order (the last repeats), or a function.

    It counts words as tokens, records every prompt, and can be told to raise at its n-th call.
    """

    answers: dict[str, Answer | list[Answer]] = field(default_factory=dict)
    slug: str = "scripted"
    revision: str | None = "rev-1"
    context_length: int = 100_000
    delay_s: float = 0.0
    fail_at: int | None = None
    error: Exception | None = None
    unfinished: frozenset[str] = frozenset()
    calls: list[tuple[str, list[Message], Decoding]] = field(default_factory=list)
    closed: bool = False

    def count_tokens(self, text: str) -> int:
        return len(text.split())

    async def complete(
        self, messages: list[Message], *, decoding: Decoding, schema: dict[str, Any] | None = None
    ) -> Completion:
        name = tracing.call_name()
        self.calls.append((name, list(messages), decoding))
        if self.fail_at is not None and len(self.calls) >= self.fail_at:
            raise self.error or RuntimeError("scripted failure")
        await asyncio.sleep(self.delay_s)
        text = self._answer(name, messages[-1].content)
        return Completion(
            text="" if name in self.unfinished else text,
            reasoning=text if name in self.unfinished else "",
            finish_reason="stop",
            unfinished_thought=name in self.unfinished,
            tokens_in=sum(self.count_tokens(message.content) for message in messages),
            tokens_out=self.count_tokens(text),
            tokens_cached=0,
            latency_s=0.001,
            attempts=1,
            model_revision=self.revision,
        )

    def _answer(self, name: str, prompt: str) -> str:
        found = self.answers.get(name, DEFAULTS.get(name, FORECAST))
        if isinstance(found, list):
            seen = sum(call == name for call, _, _ in self.calls)
            found = found[min(seen, len(found)) - 1]
        return found(prompt) if callable(found) else found

    async def close(self) -> None:
        self.closed = True

    def names(self) -> list[str]:
        return [name for name, _, _ in self.calls]

    def prompt(self, name: str, nth: int = 0) -> str:
        """All that the nth call of a name was sent."""
        found = [messages for call, messages, _ in self.calls if call == name]
        return "\n".join(message.content for message in found[nth])


DEFAULTS: dict[str, Answer | list[Answer]] = {
    "seed_queries": json.dumps({"queries": [f"rocket launch {number}" for number in range(6)]}),
    "summary": "Key facts\n- a launch is planned [t3_p1]\nEvidence for each option\nEvidence against each option\n"
    "Uncertainty\nSuggested probability direction\nup",
    "reflection": lambda prompt: json.dumps(
        {
            "reflection": "more is needed",
            "confidence": 0.4,
            "missing": ["a date"],
            "queries": [f"follow up {len(prompt)} {number}" for number in range(5)],
        }
    ),
    "tally": json.dumps(
        {
            "labels": {"1": {"yes": "strong", "no": "contra"}, "2": {"yes": "weak", "no": "irrel"}},
            "evidence_quality": "weak",
        }
    ),
    "forecast": json.dumps(
        {
            "choice": "Yes",
            "prob_yes": 0.8,
            "prob_no": 0.2,
            "confidence": 0.7,
            "reasoning": "Prior P(Yes) = 0.60, category 4. Then the report.",
        }
    ),
}

__all__ = ["DAY", "FORECAST", "T0", "Script", "archive", "iso", "question", "seal_eval_set"]
