"""How many real questions the embedded model answers with a forecast, by JSON schema and without.

    python benchmarks/embedded_questions.py QUESTIONS.jsonl.gz [--count 20]

The file holds one resolved market a line (question, background, market_info_open_datetime). Zero-shot, one run, the
paper's prompt and retries, shorter replies. The model has no skill: what is measured is whether the machinery reads it.
"""

import argparse
import asyncio
import gzip
import json
import sys
import time
from collections import Counter
from pathlib import Path
from typing import Any

from hindcast_dagster.clock import DAY, Cutoff
from hindcast_dagster.forecast.nowhere import Nowhere
from hindcast_dagster.forecast.zero_shot import CALLS, ZeroShot
from hindcast_dagster.llm.open import open_model
from hindcast_dagster.questions.question import Question
from hindcast_dagster.settings import load

MODEL = "smollm2"


def questions(path: Path, count: int) -> list[Question]:
    """Return the first `count` markets as questions that stand one day after they opened."""
    with gzip.open(path, "rt", encoding="utf-8") as file:
        rows = [json.loads(line) for line, _ in zip(file, range(count), strict=False)]
    return [_question(row) for row in rows]


def _question(row: dict[str, Any]) -> Question:
    return Question(
        id=row["conditionId"],
        source="polymarket",
        event_id=None,
        text=row["question"],
        criteria=row["background"],
        options=("Yes", "No"),
        t0=Cutoff(Cutoff.of(row["market_info_open_datetime"]).epoch + DAY),
        planned_close=None,
        topic="Other",
        duration="medium",
        tags=(),
        price_at_t0=None,
        base_rate=0.5,
        reference_rate=0.5,
    )


async def answered(asked: list[Question], *, structured: bool, max_tokens: int = 512) -> Counter[str]:
    """Forecast every question and count the parse steps that succeeded; `unparsed` when none did."""
    short = {kind: {"temperature": 0.1, "max_tokens": max_tokens} for kind in CALLS}
    settings = load(llm={"structured": structured}, decoding=short)
    model = open_model(settings, MODEL)
    arm = ZeroShot(model, settings)
    steps: Counter[str] = Counter()
    for question in asked:
        found = await arm.forecast(question, Nowhere(question.t0), run=1)
        steps[found.parse_step or "unparsed"] += 1
        print(f"  {question.text[:60]}: {found.parse_step or 'unparsed'} {found.prob_yes}", file=sys.stderr, flush=True)
    await model.close()
    return steps


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("questions", type=Path)
    parser.add_argument("--count", type=int, default=20)
    parser.add_argument("--max-tokens", type=int, default=512, help="Reply budget; the paper's would let it ramble.")
    parser.add_argument("--structured", choices=("on", "off"), action="append", help="Default: both.")
    given = parser.parse_args()
    asked = questions(given.questions, given.count)
    for word in given.structured or ("on", "off"):
        started = time.perf_counter()
        steps = asyncio.run(answered(asked, structured=word == "on", max_tokens=given.max_tokens))
        parsed = len(asked) - steps["unparsed"]
        each = (time.perf_counter() - started) / len(asked)
        print(f"structured {word}: {parsed} of {len(asked)} parsed, {dict(steps)}, {each:.1f} s each", flush=True)


if __name__ == "__main__":
    main()
