"""Prices of the roster, and a purse that stops paid work before a limit is exceeded.

What belongs here: money, whatever it is spent on. What does not: what one forecast or one probe amounts to.
"""

import asyncio
from dataclasses import dataclass, field

from hindcast_dagster.errors import UsageError
from hindcast_dagster.llm.roster import Entry, Price, load
from hindcast_dagster.settings import Settings


def price_of(settings: Settings, model: str) -> Price | None:
    """Return the roster's price of a model, or None where it has none or is not in the roster."""
    entry = entry_or_none(settings, model)
    return entry.price if entry is not None else None


def entry_or_none(settings: Settings, model: str) -> Entry | None:
    """Return the roster entry of a slug, or None for a label that a custom arm chose."""
    return load(settings).models.get(model)


def limit_of(settings: Settings, max_cost: float | None) -> float | None:
    """Return how much may be spent, in US dollars: what was asked for, else the setting llm.max_cost."""
    return settings.llm.max_cost if max_cost is None else max_cost


def open_purse(
    settings: Settings, price: Price | None, *, max_cost: float | None, total: float | None, units: int
) -> "Purse":
    """Return the purse for `units` of work that cost `total` US dollars at most (None: nobody knows)."""
    return Purse(price, limit_of(settings, max_cost), None if total is None else total / max(units, 1))


@dataclass
class Purse:
    """Money for one run. `reserve` before a unit of work (a forecast, a probe), `settle` after it; one loop at a time.

    What is in flight is counted at the dearest unit so far, or at `estimate` before the first is done, so that the
    limit holds although many run at once. Without an estimate the first unit runs alone.
    """

    price: Price | None
    limit: float | None
    estimate: float | None
    """US dollars of one unit at most, before anything is known; None: nobody knows."""
    spent: float = 0.0
    in_flight: int = 0
    dearest: float | None = None
    _settled: asyncio.Event = field(default_factory=asyncio.Event, init=False, repr=False)

    def __post_init__(self) -> None:
        if self.limit is not None and self.price is None:
            raise UsageError("--max-cost needs a price, and the roster has none for this model: add one, or drop it.")

    async def reserve(self) -> bool:
        """Wait until one more unit may begin, and count it as begun; False when the money is spent."""
        while not self._affordable():
            if self.in_flight == 0:
                return False
            await self._settled.wait()  # what is in flight may turn out cheaper than it was counted
        self.in_flight += 1
        return True

    def _affordable(self) -> bool:
        each = self.estimate if self.dearest is None else self.dearest
        if self.limit is None:
            return True
        return self.in_flight == 0 if each is None else self.spent + (self.in_flight + 1) * each <= self.limit

    def settle(self, cost: float | None) -> None:
        """Book what was begun, by its cost in US dollars; None where nobody knows it, or where it failed."""
        self.in_flight -= 1
        if cost is not None:
            self.spent += cost
            self.dearest = max(cost, self.dearest or 0.0)
        self._settled.set()
        self._settled = asyncio.Event()
