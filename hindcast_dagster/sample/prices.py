"""Price histories of the sample markets: noisy, but informative, as real ones are.

The log-odds of the Yes side walk from a prior towards a signal at t0, and from t0 to the close towards the outcome. How
strong the signal is depends on what people know: facts move a market, hype hardly does.
"""

import math
import random
from typing import Final

from hindcast_dagster.clock import DAY, HOUR
from hindcast_dagster.questions.question import Outcome
from hindcast_dagster.sample.model import Kind, PriceHabit

_STEP: Final = 3 * HOUR
_SIGNAL: Final[dict[Kind, float]] = {"fact": 1.6, "hype": 1.0, "silence": 0.8, "contradiction": 0.2}
_SIGNAL_SD: Final = 0.9
_NOISE: Final = 0.18
_HYPE_PUSH: Final = 0.4  # buyers who only read the hype
_SETTLED: Final = 3.2
_STALE_S: Final = 9 * DAY  # nobody traded for so long before t0


def history(
    rng: random.Random,
    *,
    open_at: int,
    close_at: int,
    t0: int,
    outcome: Outcome | None,
    kind: Kind,
    leg: bool,
    habit: PriceHabit,
) -> tuple[tuple[int, float], ...]:
    """Return (epoch seconds, price of Yes) every three hours, seconds off the grid, from the opening to the close."""
    towards = 0.0 if outcome is None else (1.0 if outcome == "Yes" else -1.0)
    prior = -1.0 if leg else rng.gauss(0, 0.3)
    push = _HYPE_PUSH if kind == "hype" else 0.0
    signal = prior * 0.5 + push + towards * rng.gauss(_SIGNAL[kind], _SIGNAL_SD)
    points, noise = [], 0.0
    for at in range(open_at + HOUR, close_at, _STEP):
        noise = 0.9 * noise + rng.gauss(0, _NOISE)
        if at < t0:
            mean = prior + (signal - prior) * (at - open_at) / max(t0 - open_at, 1)
        else:
            mean = signal + (towards * _SETTLED - signal) * (at - t0) / max(close_at - t0, 1)
        points.append((at + rng.randint(1, 40), _price(mean + noise)))
    if habit == "stale":
        points = [point for point in points if not t0 - _STALE_S <= point[0] < t0 + HOUR]
    return tuple(points) if habit != "none" else ()


def price_before(prices: tuple[tuple[int, float], ...], t0: int) -> float | None:
    """Return the last price strictly before t0; None when there is none."""
    return next((price for at, price in reversed(prices) if at < t0), None)


def _price(log_odds: float) -> float:
    """Return the price of these log-odds on a tick of half a cent, inside [0.005, 0.995]."""
    return min(max(round(200 / (1 + math.exp(-log_odds))) / 200, 0.005), 0.995)
