"""Golden traces: what the agent asks, finds and is told on the sample world, prompt hashes included.

A change of a prompt, of ranking, rendering or trimming shows here. When it is wanted, write the file anew with
`python -m tests.golden.test_forecast_traces` and read the difference.
"""

import asyncio
import hashlib
import json
from pathlib import Path
from typing import Any

from hindcast_dagster.forecast.forecaster import Forecast, Step, Trace
from hindcast_dagster.forecast.retrieval import Retrieval
from hindcast_dagster.forecast.tracing import TracedModel, TracedView, recording
from hindcast_dagster.forecast.zero_shot import ZeroShot
from hindcast_dagster.settings import load
from tests.forecast_world import Script
from tests.sample_toys import archive, as_question, world

FILE = Path(__file__).with_name("forecast_traces.json")
KINDS = ("fact", "hype", "silence", "contradiction")


def seed_queries(prompt: str) -> str:
    """What a sensible model asks: words of the question, split in two."""
    asked = prompt.split("\nQuestion: ", 1)[1].splitlines()[0].rstrip("?").split()
    half = len(asked) // 2
    return json.dumps({"queries": [" ".join(asked[half:]), {"query": " ".join(asked[:half])}, "rumours and news"]})


def forecasts() -> dict[str, Forecast]:
    found = world()
    posts, settings = archive(found), load()
    chosen = {kind: next(m for m in found.markets if m.kind == kind and m.status == "resolved") for kind in KINDS}
    made = {}
    for arm in (ZeroShot, Retrieval):
        for kind, market in chosen.items():
            script, trace = Script(answers={"seed_queries": seed_queries}), Trace()
            question = as_question(market)

            async def go(arm: Any = arm, script: Any = script, trace: Any = trace, question: Any = question) -> Any:
                with recording(trace):
                    view = TracedView(posts.at(question.t0), trace)
                    return await arm(TracedModel(script), settings).forecast(question, view, run=1)

            made[f"{arm.arm} {kind}"] = asyncio.run(go())
            made[f"{arm.arm} {kind}"].trace = trace
    return made


def brief(step: Step) -> str:
    detail = step.detail
    seen = " ".join(found.key for found in step.seen)
    if step.kind == "call":
        return f"call {step.name} {detail['messages_sha256'][:16]} {detail['decoding']['max_tokens']}"
    if step.kind == "search":
        return f"search {detail['query']!r} k={detail['k']} {detail['filters']} at {detail['cutoff']}: {seen}"
    if step.kind == "lookup":
        return f"{step.name} {detail['arguments']} at {detail['cutoff']}: {seen}"
    return f"{step.kind} {step.name} {json.dumps(detail, sort_keys=True)}"


def traces() -> dict[str, Any]:
    return {
        name: {
            "prob_yes": made.prob_yes,
            "stop_reason": made.stop_reason,
            "rounds": made.rounds,
            "evidence_quality": made.evidence_quality,
            "extra": made.extra,
            "steps": [brief(step) for step in made.trace.steps],
        }
        for name, made in forecasts().items()
    }


def digest() -> str:
    """What the traces were made of: a sample world of other posts or markets needs other traces."""
    told = [(post.key, post.created_at, post.text_as_of) for rows in world().posts.values() for post in rows]
    return hashlib.sha256(repr([told, [market.question for market in world().markets]]).encode()).hexdigest()[:16]


def test_the_traces_on_the_sample_world_are_the_golden_ones() -> None:
    golden = json.loads(FILE.read_text(encoding="utf-8"))
    assert golden.pop("world") == digest(), "the sample world has changed: write the golden traces anew"
    found = json.loads(json.dumps(traces()))
    assert found.keys() == golden.keys()
    for name in golden:
        assert found[name] == golden[name], name


def test_no_golden_trace_holds_a_document_of_the_future() -> None:
    planted = {truth.market_id: truth for truth in world().planted}
    for market in world().markets:
        truth = planted[market.market_id]
        forbidden = {*truth.between, *truth.after, *truth.late_text}
        shown = {
            found.document.key for found in archive(world()).at(market.t0).search_database(market.question, k=50).hits
        }
        assert not shown & forbidden


if __name__ == "__main__":
    FILE.write_text(json.dumps({"world": digest()} | traces(), indent=1, ensure_ascii=False) + "\n", encoding="utf-8")
