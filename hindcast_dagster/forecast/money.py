"""What a forecast costs, by the prices of the roster."""

from hindcast_dagster.forecast.forecaster import Forecast
from hindcast_dagster.llm.purse import Purse, entry_or_none, price_of
from hindcast_dagster.llm.roster import Price

__all__ = ["Purse", "cost_of", "entry_or_none", "price_of"]


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
