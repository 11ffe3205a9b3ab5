"""The funnel: how many markets and events were left after each step, and how one-sided they were.

What belongs here: the row of a funnel and the paper's own numbers to set beside it. What does not: the steps.
"""

from collections.abc import Iterable
from typing import Final, NamedTuple, Self

import polars as pl


class FunnelStep(NamedTuple):
    """What was left after one step."""

    step: str
    markets: int
    events: int | None
    """None: not told."""
    no_share: float | None
    """Share of markets that resolved No; None when none is left or it is not told."""

    @classmethod
    def of(cls, step: str, frame: pl.DataFrame) -> Self:
        """Count a frame with the columns id, event_id and outcome (null: unresolved, outside the share)."""
        markets = frame.height
        events = frame.select(event_key()).n_unique() if markets else 0
        resolved = frame.filter(pl.col("outcome").is_not_null())
        no = resolved.filter(pl.col("outcome") == "No").height
        return cls(step, markets, events, round(no / resolved.height, 6) if resolved.height else None)


PAPER: Final = (
    FunnelStep("binary markets", 7_913, 1_916, None),
    FunnelStep("resolved Yes or No", 3_427, None, round(2_851 / 3_427, 6)),
    FunnelStep("selected", 216, None, round(110 / 216, 6)),
)
"""Section 4.1 of the paper; it does not tell how many markets the probe labelled strong."""


def event_key() -> pl.Expr:
    """Return what markets of one event share; a market without an event is an event of its own."""
    return pl.coalesce(pl.format("event:{}", pl.col("event_id")), pl.format("market:{}", pl.col("id")))


def funnel(
    markets: pl.DataFrame, pool: pl.DataFrame, selection: Iterable[FunnelStep] = ()
) -> list[dict[str, str | int | float | None]]:
    """Return the whole funnel of an eval set as JSON values: from the markets that were looked at to those taken.

    `markets` has the columns of contract MARKETS, `pool` those of contract EVAL_SET: resolved, with a t0 and a price.
    """
    listed = markets.rename({"market_id": "id"})
    steps = [
        FunnelStep.of("markets", listed),
        FunnelStep.of("binary markets", listed.filter(pl.col("excluded").ne_missing("not_binary"))),
        FunnelStep.of("resolved Yes or No", listed.filter(pl.col("outcome").is_not_null())),
        FunnelStep.of("with a t0 and a price", pool),
        *(step for step in selection if step.step != "pool"),
    ]
    return [step._asdict() for step in steps]
