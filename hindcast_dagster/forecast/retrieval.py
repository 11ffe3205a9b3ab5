"""The retrieval arm: research over the archive at t0, then tally and forecast (paper, sections 5.2 and B.2)."""

import asyncio
from typing import Any, Final

from hindcast_dagster.archive.protocol import ArchiveView
from hindcast_dagster.clock import iso
from hindcast_dagster.forecast import reading, research, tallying, tracing
from hindcast_dagster.forecast.calls import Caller, version_of
from hindcast_dagster.forecast.fields import fields, options
from hindcast_dagster.forecast.forecaster import Forecast
from hindcast_dagster.forecast.research import Research
from hindcast_dagster.forecast.tallying import Tallied
from hindcast_dagster.llm.parse import Refusal
from hindcast_dagster.llm.protocol import ChatModel
from hindcast_dagster.prompts.loader import load
from hindcast_dagster.questions.question import Question
from hindcast_dagster.settings import Settings

CODE: Final = 1
"""Raised with every change of behaviour that no prompt and no setting shows: part of the arm's version."""

PROMPTS: Final = (*research.PROMPTS, "research_tally", "forecast_system", "forecast_user", *reading.PROMPTS)
CALLS: Final = (*research.CALLS, "tally", "forecast", "repair", "compact", "json_only")

NO_EVIDENCE: Final = "(the archive holds no post that bears on this question)"
NO_TALLY: Final = "(no tally: the evidence was not labelled)"


class Retrieval:
    """The reference agent. Its defaults are the paper's; every one is a setting (`agent`, `decoding`)."""

    arm = "retrieval"
    uses_archive = True

    def __init__(self, model: ChatModel, settings: Settings) -> None:
        self._caller = Caller(model, settings.decoding, structured=settings.llm.structured)
        self._agent = settings.agent
        self._threads = asyncio.Semaphore(1)
        self.settings: dict[str, Any] = {
            "code": CODE,
            "agent": settings.agent.model_dump(),
            "decoding": settings.decoding.model_dump(include={*CALLS, "top_p"}),
            "structured": settings.llm.structured,
        }
        self.version = version_of(self.arm, prompts=PROMPTS, settings=self.settings)

    async def forecast(self, question: Question, archive: ArchiveView, *, run: int) -> Forecast:
        """Research one question in the archive at t0, label what was found, and forecast."""
        found = Research(self._caller, self._agent, question, archive, run, self._threads)
        stop = await found.conduct()
        tallied = await self._tally(found) if found.pool.found else None
        background = found.report or (_listed(found) if found.pool.found else NO_EVIDENCE)
        prompt = load("forecast_user").fill(
            trusted={"schema": load("forecast_schema").text},
            options=options(question),
            report=found.short(background),
            tally=_told(tallied) if found.pool.found else "evidence_quality: none",
            **fields(question),
        )
        read = await reading.read_forecast(
            self._caller,
            "forecast",
            question=question,
            system=load("forecast_system").text,
            user=prompt,
            run=run,
            background=reading.quoted("Evidence in short:", "report", found.short(background)),
        )
        return reading.forecast_of(read, extra=_extra(found, tallied), stop_reason=stop, rounds=len(found.rounds),
                                   **_evidence(found, tallied))  # fmt: skip

    async def _tally(self, found: Research) -> Tallied | Refusal:
        prompt, known = load("research_tally"), fields(found.question)
        system = load("research_system").text
        frame = prompt.fill(trusted={"evidence": ""}, **known)
        room = self._caller.room("tally", system, frame, wanted=self._agent.evidence_tokens)
        best = found.pool.ranked()[: max(self._agent.expanded, 1)]
        evidence = found.render(best, room.evidence)
        done = await self._caller.ask(
            "tally",
            system=system,
            user=prompt.fill(trusted={"evidence": evidence.text}, **known),
            run=found.run,
            schema=tallying.SCHEMA,
        )
        read = (
            Refusal("unfinished_thought", "the reply ends inside a reasoning span")
            if done.unfinished_thought
            else tallying.read_tally(done.text, evidence.keys)
        )
        tracing.note("tally", kind="parse", **_noted(read))
        return read


def _noted(read: Tallied | Refusal) -> dict[str, Any]:
    if isinstance(read, Refusal):
        return {"refusal": read.reason, "detail": read.detail}
    return {
        "refusal": None,
        "yes": read.yes.as_dict(),
        "no": read.no.as_dict(),
        "quality": read.quality,
        "conflict": read.conflict,
        "blocks": {block.key: [block.yes, block.no] for block in read.blocks},
    }


def _evidence(found: Research, tallied: Tallied | Refusal | None) -> dict[str, Any]:
    """Return the evidence fields. No document: quality none, scores 0. No readable tally: unbinned, all None."""
    if not found.pool.found:
        return {"evidence_quality": "none", "yes_score": 0, "no_score": 0}
    if not isinstance(tallied, Tallied):
        return {}
    return {"evidence_quality": tallied.quality, "yes_score": tallied.yes.score, "no_score": tallied.no.score}


def _extra(found: Research, tallied: Tallied | Refusal | None) -> dict[str, Any]:
    labels = (
        {"yes": tallied.yes.as_dict(), "no": tallied.no.as_dict(), "conflict": tallied.conflict}
        if isinstance(tallied, Tallied)
        else None
    )
    return {
        "rounds": found.rounds,
        "confidence_per_round": [done["confidence"] for done in found.rounds],
        "yield_per_round": [done["yield"] for done in found.rounds],
        "missing": found.missing,
        "fallback_queries": found.fallback,
        "tally": labels,
        "tokens_offered": found.offered,
        "tokens_shown": found.shown,
        "tokens_trimmed": max(0, found.offered - found.shown),
    }


def _told(tallied: Tallied | Refusal | None) -> str:
    """Return the tally, and the labels that bear on a side, as the forecast call reads them."""
    if not isinstance(tallied, Tallied):
        return NO_TALLY
    sides = (("Yes", tallied.yes), ("No", tallied.no))
    lines = [
        f"{name}: {side.strong} / {side.weak} / {side.irrel} / {side.contra} (score {side.score})"
        for name, side in sides
    ]
    bearing = [block for block in tallied.blocks if {block.yes, block.no} - {"irrel", None}]
    lines += [f"- {block.key}: Yes {block.yes or '?'}, No {block.no or '?'}" for block in bearing]
    return "\n".join([*lines, f"evidence_quality: {tallied.quality}"])


def _listed(found: Research) -> str:
    """Return the best posts by title: what the forecast reads when no summary could be used."""
    best = [item.document for item in found.pool.ranked()[: max(found.agent.expanded, 1)]]
    lines = [f"- {post.key}, {iso(post.created_at)[:10]}: {post.title or post.text[:200]}" for post in best]
    return "\n".join(["Posts found (no report could be written):", *lines])
