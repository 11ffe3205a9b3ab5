"""The research stage: a bounded loop of queries, expansion, summary and reflection over the archive at t0 (paper, 5.2).

What belongs here: the state of one research and its rounds. The cutoff is not here: the view enforces it.
"""

import asyncio
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any, Final, TypeVar

from hindcast_dagster.archive.protocol import ArchiveView
from hindcast_dagster.evidence import cues
from hindcast_dagster.forecast import blocks, schemas, toolbox, tracing
from hindcast_dagster.forecast.blocks import Rendered
from hindcast_dagster.forecast.calls import Caller
from hindcast_dagster.forecast.fields import fields, options
from hindcast_dagster.forecast.pool import Found, Harvest, Pool
from hindcast_dagster.forecast.queries import SUBMISSIONS, Query, read_queries, search
from hindcast_dagster.forecast.replies import Reflection, object_of, read_reflection
from hindcast_dagster.llm.parse import ToolCall
from hindcast_dagster.llm.protocol import Completion
from hindcast_dagster.prompts.loader import load
from hindcast_dagster.questions.question import Question
from hindcast_dagster.settings import Agent

T = TypeVar("T")

PROMPTS: Final = ("research_system", "research_task", "research_queries", "research_summary", "research_reflect")
CALLS: Final = ("seed_queries", "summary", "reflection")

NOTHING: Final = "(none yet)"
_REPORT_SHARE: Final = 4
"""A report may take a quarter of the context of a later call."""
_REMARKS: Final = 12  # remarks of tools that are told to the model


@dataclass
class Research:
    """One research on one question. `run` is the seed of its calls."""

    caller: Caller
    agent: Agent
    question: Question
    view: ArchiveView
    run: int
    threads: asyncio.Semaphore
    """Searches of all concurrent forecasts share it: the archive is local work, the model is waiting."""
    pool: Pool = field(default_factory=Pool)
    report: str = ""
    asked: list[str] = field(default_factory=list)
    remarks: list[str] = field(default_factory=list)
    rounds: list[dict[str, Any]] = field(default_factory=list)
    missing: list[str] = field(default_factory=list)
    fallback: bool = False
    """The seed queries were made without the model, because its reply held none."""
    offered: int = 0
    shown: int = 0

    async def conduct(self) -> str:
        """Do the rounds and return why they ended: a stop reason of the contract."""
        queries = await self._seed()
        for number in range(1, self.agent.rounds + 1):
            harvest = await self._search(queries, number)
            if not self.pool.found:
                return "no_documents"
            await self._summarise(number)
            if number == self.agent.rounds:
                break
            if harvest.share < self.agent.min_yield:
                return "diminishing_yield"
            thought = await self._reflect(number)
            self.rounds[-1]["confidence"] = thought.confidence
            self.missing = thought.missing
            if thought.confidence is not None and thought.confidence >= self.agent.stop_confidence:
                return "confidence"
            await self._look_up(thought.lookups, number + 1)
            queries = thought.queries
            if not queries:
                await self._summarise(number + 1)  # what the look-ups brought
                return "no_queries"
        return "round_budget"

    def render(self, found: Sequence[Found], budget: int) -> Rendered:
        """Return blocks of evidence within a budget, and count what was offered and shown."""
        made = blocks.render(found, budget=budget, count=self.caller.model.count_tokens)
        self.offered += made.offered
        self.shown += made.shown
        tracing.note("evidence", shown=list(made.keys), offered=made.offered, tokens=made.shown, trimmed=made.trimmed)
        return made

    def short(self, text: str) -> str:
        """Return a report as far as a later call has room for it."""
        count = self.caller.model.count_tokens
        return blocks.clip(text, self.caller.model.context_length // _REPORT_SHARE, count) or NOTHING

    async def local(self, work: Callable[[], T]) -> T:
        """Do archive work beside the event loop, so that the calls of other forecasts go on."""
        async with self.threads:
            return await asyncio.to_thread(work)

    @cached_property
    def task(self) -> str:
        """The part that all research prompts of a question begin with: caches hit on it."""
        return load("research_task").fill(
            trusted={},
            options=options(self.question),
            subreddits=", ".join(self.view.subreddits) or "(none)",
            **fields(self.question),
        )

    async def _ask(self, kind: str, user: str, schema: dict[str, Any] | None = None) -> Completion:
        system = load("research_system").text
        return await self.caller.ask(kind, system=system, user=user, run=self.run, schema=schema)

    async def _seed(self) -> list[Query]:
        count = self.agent.seed_queries
        user = load("research_queries").fill(trusted={"task": self.task, "count": str(count)})
        found = object_of("seed_queries", await self._ask("seed_queries", user, schemas.QUERIES), "queries")
        asked = read_queries(found.get("queries"), limit=count)
        self.remarks = asked.problems
        self.fallback = not asked.queries
        if self.fallback:
            tracing.note("fallback_queries", reason=str(found.get("refusal", "no usable query")))
        return asked.queries or [Query(text) for text in cues.queries(self.question, count=count)]

    async def _search(self, queries: Sequence[Query], number: int) -> Harvest:
        def work() -> tuple[Harvest, list[str]]:
            answers, problems = search(self.view, queries, k=self.agent.hits_per_query)
            gained = self.pool.add(answers, round_=number)
            if not gained.hits and any(query.filters != SUBMISSIONS for query in queries):
                wide = [Query(query.text) for query in queries]
                answers, more = search(self.view, wide, k=self.agent.hits_per_query)
                gained = self.pool.add(answers, round_=number)
                problems += ["No hit within the filters of the queries; they were asked again without.", *more]
            self.pool.expand(self.view, self.agent, round_=number)
            return gained, problems

        harvest, problems = await self.local(work)
        self.asked += [query.text for query in queries]
        self.remarks += problems
        self.rounds.append(
            {"queries": len(queries), "hits": harvest.hits, "new": harvest.new, "yield": round(harvest.share, 6),
             "confidence": None}
        )  # fmt: skip
        return harvest

    async def _summarise(self, number: int) -> None:
        """Write the report anew from the report so far and the new evidence; an empty reply leaves it as it was."""
        new = self.pool.ranked(round_=number)[: max(self.agent.expanded, 1)]
        if not new:
            return
        known = {"report": self.short(self.report), "round": str(number)}
        prompt = load("research_summary")
        frame = prompt.fill(trusted={"task": self.task, "evidence": ""}, **known)
        room = self.caller.room("summary", load("research_system").text, frame, wanted=self.agent.evidence_tokens)
        evidence = self.render(new, room.evidence)
        done = await self._ask("summary", prompt.fill(trusted={"task": self.task, "evidence": evidence.text}, **known))
        if done.text.strip() and not done.unfinished_thought:
            self.report = done.text.strip()
        else:
            tracing.note("report", kind="parse", refusal="unfinished_thought" if done.unfinished_thought else "empty")

    async def _reflect(self, number: int) -> Reflection:
        agent = self.agent
        user = load("research_reflect").fill(
            trusted={"task": self.task, "round": str(number), "rounds": str(agent.rounds),
                     "least": str(agent.follow_ups_min), "most": str(agent.follow_ups_max),
                     "lookups": str(agent.lookups)},
            report=self.short(self.report),
            asked="\n".join(f"- {text}" for text in self.asked),
            remarks="\n".join(f"- {text}" for text in self.remarks[-_REMARKS:]) or NOTHING,
        )  # fmt: skip
        self.remarks = []
        done = await self._ask("reflection", user, schemas.REFLECTION)
        found = read_reflection(done, asked=self.asked, limit=agent.follow_ups_max)
        self.remarks += found.problems
        return found

    async def _look_up(self, calls: Sequence[ToolCall], number: int) -> None:
        """Make the model's look-ups; what they bring is new evidence of the round that follows."""
        if not calls or not self.agent.lookups:
            return
        looked = await self.local(lambda: toolbox.look_up(self.view, calls, limit=self.agent.lookups))
        self.pool.look_up(looked.documents, round_=number)
        self.remarks += looked.remarks
