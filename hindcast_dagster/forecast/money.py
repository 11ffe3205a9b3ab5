"""What forecasts cost, by the prices of the roster, and a purse that stops a run before its limit is exceeded."""

import asyncio
from dataclasses import dataclass, field

from hindcast_dagster.errors import UsageError
from hindcast_dagster.forecast.forecaster import Forecast
from hindcast_dagster.llm.roster import Entry, Price, load
from hindcast_dagster.settings import Settings


def price_of(settings: Settings, model: str) -> Price | None:
    """Return the roster's price of a model, or None where it has none or is not in the roster."""
    entry = entry_or_none(settings, model)
    return entry.price if entry is not None else None


def entry_or_none(settings: Settings, model: str) -> Entry | None:
    """Return the roster entry of a slug, or None for a label that a custom arm chose."""
    return load(settings).models.get(model)


def cost_of(forecast: Forecast, price: Price | None) -> float | None:
    """Return what the calls of a forecast cost in US dollars; None without a price."""
    if price is None:
        return None
    calls = [step.detail for step in forecast.trace.steps if step.kind == "call"]
    return sum(
        price.of(
            tokens_in=call.get("tokens_in", 0),
            tokens_out=call.get("tokens_out", 0),
            tokens_cached=call.get("tokens_cached", 0),
        )
        for call in calls
    )


@dataclass
class Purse:
    """Money for one run. `reserve` before a forecast, `settle` after it; only one event loop uses a purse.

    What is in flight is counted at the dearest forecast so far, or at `estimate` before the first is done, so that the
    limit holds although many run at once. Without an estimate the first forecast runs alone.
    """

    price: Price | None
    limit: float | None
    estimate: float | None
    """US dollars of one forecast at most, before anything is known; None: nobody knows."""
    spent: float = 0.0
    in_flight: int = 0
    dearest: float | None = None
    _settled: asyncio.Event = field(default_factory=asyncio.Event, init=False, repr=False)

    def __post_init__(self) -> None:
        if self.limit is not None and self.price is None:
            raise UsageError("--max-cost needs a price, and the roster has none for this model: add one, or drop it.")

    async def reserve(self) -> bool:
        """Wait until one more forecast may begin, and count it as begun; False when the money is spent."""
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

    def settle(self, forecast: Forecast) -> float | None:
        """Book a finished forecast and return its cost."""
        cost = cost_of(forecast, self.price)
        self.in_flight -= 1
        if cost is not None:
            self.spent += cost
            self.dearest = max(cost, self.dearest or 0.0)
        self._settled.set()
        self._settled = asyncio.Event()
        return cost
