"""The funnel: how many markets and events were left after each step, and how one-sided they were.

What belongs here: the row of a funnel and the paper's own numbers to set beside it. What does not: the steps.
"""

from collections import Counter
from collections.abc import Iterable, Mapping
from typing import Any, Final, NamedTuple, Self

import polars as pl


class FunnelStep(NamedTuple):
    """What was left after one step."""

    step: str
    markets: int
    events: int | None
    """None: not told."""
    no_share: float | None
    """Share of markets that resolved No; None when none is left or it is not told."""
    excluded: dict[str, int] | None = None
    """Reason -> count of the markets that the step before still had; None: not told."""

    @classmethod
    def of(cls, step: str, frame: pl.DataFrame, excluded: Mapping[str, int] | None = None) -> Self:
        """Count a frame with the columns id, event_id and outcome (null: unresolved, outside the share)."""
        markets = frame.height
        events = frame.select(event_key()).n_unique() if markets else 0
        resolved = frame.filter(pl.col("outcome").is_not_null())
        no = resolved.filter(pl.col("outcome") == "No").height
        return cls(
            step, markets, events, round(no / resolved.height, 6) if resolved.height else None, _counted(excluded)
        )

    def numbers(self) -> dict[str, Any]:
        """Return step, markets, events and share of No as JSON values."""
        return {name: value for name, value in self._asdict().items() if name != "excluded"}


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
    markets: pl.DataFrame,
    pool: pl.DataFrame,
    selection: Iterable[FunnelStep] = (),
    excluded: Mapping[str, int] | None = None,
) -> list[dict[str, Any]]:
    """Return the whole funnel of an eval set as JSON values: from the markets that were looked at to those taken.

    `markets` has the columns of contract MARKETS, `pool` those of contract EVAL_SET: resolved, with a t0 and a price.
    `excluded` counts by reason what is in the first and not in the second. Beside each step that the paper tells stand
    the paper's numbers.
    """
    listed = markets.rename({"market_id": "id"})
    unresolved = listed.filter(pl.col("outcome").is_null())
    by_market = Counter(reason or "not_resolved" for reason in unresolved["excluded"])
    unasked = Counter(excluded or {}) - by_market
    not_binary = {"not_binary": by_market.pop("not_binary", 0)}
    steps = [
        FunnelStep.of("markets", listed),
        FunnelStep.of("binary markets", listed.filter(pl.col("excluded").ne_missing("not_binary")), not_binary),
        FunnelStep.of("resolved Yes or No", listed.filter(pl.col("outcome").is_not_null()), by_market),
        FunnelStep.of("with a t0 and a price", pool, unasked),
        *(step for step in selection if step.step != "pool"),
    ]
    told = {step.step: step.numbers() for step in PAPER}
    return [step.numbers() | {"excluded": step.excluded or {}, "paper": told.get(step.step)} for step in steps]


def _counted(excluded: Mapping[str, int] | None) -> dict[str, int] | None:
    return None if excluded is None else {reason: n for reason, n in sorted(excluded.items()) if n}
