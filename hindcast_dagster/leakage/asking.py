"""Asking a model many single prompts: each once and never again, within the money, and counted before it is asked.

What belongs here: what the recall probe and the leak detective share. What a reply means is theirs.
"""

import asyncio
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from typing import Any, Final, NamedTuple

from hindcast_dagster.forecast.work import Progress
from hindcast_dagster.llm.protocol import ChatModel, Completion, Decoding, Message
from hindcast_dagster.llm.purse import Purse, open_purse, price_of
from hindcast_dagster.llm.roster import Price
from hindcast_dagster.llm.tokens import CHARACTERS_PER_TOKEN
from hindcast_dagster.settings import Settings
from hindcast_dagster.storage.journal import Journal

DECODING: Final = Decoding(temperature=0.0, max_tokens=1_024)


class Ask(NamedTuple):
    """One prompt."""

    unit: str
    """Its name in the journal: whatever decides the reply."""
    prompt: str
    kept: Mapping[str, Any]
    """What the journal holds beside the reply."""


@dataclass(frozen=True, slots=True)
class Plan:
    """An estimate from above: every reply fills its budget."""

    control: str
    model: str
    eval_set: str
    done: int
    pending: int
    calls: int
    tokens_in: int
    tokens_out: int
    cost: float | None
    """US dollars; None without a price in the roster."""

    def as_dict(self) -> dict[str, Any]:
        """Return JSON values."""
        return asdict(self)


@dataclass(frozen=True)
class Asking:
    """All prompts of one control for one model, and where the replies are kept."""

    control: str
    slug: str
    """The model, as the roster names it."""
    eval_set: str
    model: ChatModel
    asks: tuple[Ask, ...]
    journal: Journal

    def plan(self, settings: Settings) -> Plan:
        """Return what `replies` would ask for, without asking."""
        pending = [ask for ask in self.asks if ask.unit not in self.journal]
        tokens_in = sum(round(len(ask.prompt) / CHARACTERS_PER_TOKEN) for ask in pending)
        tokens_out = len(pending) * (DECODING.max_tokens or 0)
        price = price_of(settings, self.slug)
        return Plan(
            control=self.control, model=self.slug, eval_set=self.eval_set, done=len(self.asks) - len(pending),
            pending=len(pending), calls=len(pending), tokens_in=tokens_in, tokens_out=tokens_out,
            cost=price.of(tokens_in=tokens_in, tokens_out=tokens_out) if price else None,
        )  # fmt: skip

    def replies(
        self, settings: Settings, *, close: bool, max_cost: float | None = None, progress: Progress | None = None
    ) -> list[str | None]:
        """Return the reply to every prompt, in order; None for those that the money did not reach.

        `max_cost` (US dollars; default: the setting llm.max_cost) stops before it is exceeded. `close` closes the
        model.
        """
        expected = self.plan(settings)
        price = price_of(settings, self.slug)
        purse = open_purse(settings, price, max_cost=max_cost, total=expected.cost, units=expected.pending)
        return asyncio.run(self._all(purse, settings.llm.concurrency, progress, close=close))

    async def _all(self, purse: Purse, concurrency: int, progress: Progress | None, *, close: bool) -> list[str | None]:
        slots, answered = asyncio.Semaphore(concurrency), 0

        async def one(ask: Ask) -> str | None:
            nonlocal answered
            async with slots:
                reply = await self._one(ask, purse)
            answered += reply is not None
            if progress is not None:
                progress(answered, len(self.asks), "")
            return reply

        try:
            return await asyncio.gather(*map(one, self.asks))
        finally:
            if close:
                await self.model.close()

    async def _one(self, ask: Ask, purse: Purse) -> str | None:
        known = self.journal.read(ask.unit)
        if known is not None:
            return str(known["reply"])
        if not await purse.reserve():
            return None
        cost = None
        try:
            reply = await self.model.complete([Message("user", ask.prompt)], decoding=DECODING)
            cost = _cost(reply, purse.price)
        finally:
            purse.settle(cost)
        text = "" if reply.unfinished_thought else reply.text
        self.journal.write(ask.unit, {**ask.kept, "reply": text})
        return text


def _cost(reply: Completion, price: Price | None) -> float | None:
    if price is None:
        return None
    return price.of(tokens_in=reply.tokens_in, tokens_out=reply.tokens_out, tokens_cached=reply.tokens_cached)


def left_out(said: list[str | None]) -> dict[str, Any]:
    """Return what a manifest says about prompts that the money did not reach."""
    missing = sum(reply is None for reply in said)
    return {"stopped": missing > 0, "missing": missing}
