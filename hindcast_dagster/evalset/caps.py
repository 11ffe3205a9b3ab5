"""Caps: which markets of a pool may be selected at all, and the reason for each that may not.

What belongs here: rules about single rows (evidence, price, lead) and the cap per event. Outcome and topic balance is
`select`'s.
"""

import hashlib
from collections import Counter
from dataclasses import asdict, dataclass
from typing import Any

import polars as pl

from hindcast_dagster.contracts.forecasts import QUALITIES
from hindcast_dagster.contracts.markets import OUTCOMES
from hindcast_dagster.errors import UsageError
from hindcast_dagster.evalset.fill import per_event_quota
from hindcast_dagster.evalset.funnel import FunnelStep, event_key


@dataclass(frozen=True, slots=True)
class Caps:
    """What a market must satisfy beside its evidence. None switches a cap off."""

    keep: tuple[str, ...] | None = ("strong",)
    """Evidence qualities of the probe that stay; None: no probe is asked for."""
    min_resolved_contrast: float | None = None
    """Least contrast towards the resolved side, exclusive; the paper asks for none beyond the label."""
    per_event: int | None = None
    """Most markets of one event; a market without an event is an event of its own."""
    price_band: tuple[float, float] | None = None
    """Prices at t0 that stay, both ends included: leaves out markets that were decided. No price, no entry."""
    min_lead_s: int | None = None
    """Least seconds between t0 and the close."""

    def __post_init__(self) -> None:
        if self.keep is not None and not set(self.keep) <= set(QUALITIES):
            raise UsageError(f"{self.keep!r} are not evidence qualities: use {', '.join(QUALITIES)}.")
        if self.per_event is not None and self.per_event < 1:
            raise UsageError(f"At least one market per event must be allowed, found {self.per_event}.")
        if self.price_band is not None and not 0 <= self.price_band[0] <= self.price_band[1] <= 1:
            raise UsageError(f"{self.price_band!r} is not a price band: write two prices, 0 <= low <= high <= 1.")

    def as_stats(self) -> dict[str, Any]:
        """Return the caps as JSON values for a manifest."""
        return {name: list(value) if isinstance(value, tuple) else value for name, value in asdict(self).items()}


def rank(market_id: str, seed: int) -> str:
    """Return the seeded hash that decides every pick and tie."""
    return hashlib.sha256(f"{seed}:{market_id}".encode()).hexdigest()


def apply_caps(pool: pl.DataFrame, caps: Caps, seed: int) -> tuple[pl.DataFrame, list[FunnelStep], dict[str, str]]:
    """Apply the caps one after the other; the first that a market fails names its reason."""
    left, funnel, dropped = pool, [FunnelStep.of("pool", pool)], dict[str, str]()
    for step, reason in _row_rules(caps):
        gone = left.filter(reason.is_not_null()).select("id", reason=reason)
        dropped |= dict(gone.iter_rows())
        left = left.filter(reason.is_null())
        funnel.append(FunnelStep.of(step, left, Counter(gone["reason"])))
    if caps.per_event is not None:
        kept = pl.col("id").is_in(_within_events(left, caps.per_event, seed).implode())
        over = dict.fromkeys(left.filter(~kept)["id"], "event_cap")
        dropped |= over
        left = left.filter(kept)
        funnel.append(FunnelStep.of(f"at most {caps.per_event} per event", left, Counter(over.values())))
    return left, funnel, dropped


def _row_rules(caps: Caps) -> list[tuple[str, pl.Expr]]:
    """Return (step, expression that is the reason to drop a row, or null)."""
    rules: list[tuple[str, pl.Expr]] = []
    if caps.keep is not None:
        quality = pl.col("evidence_quality")
        unknown = pl.when(quality.is_null()).then(pl.lit("evidence_unknown"))
        poor = unknown.when(~quality.is_in(caps.keep)).then(pl.format("evidence_{}", quality))
        rules.append((f"evidence {' or '.join(caps.keep)}", poor))
    if caps.min_resolved_contrast is not None:
        supported = (pl.col("resolved_contrast") > caps.min_resolved_contrast).fill_null(value=False)
        rules.append(("supports the resolved side", pl.when(~supported).then(pl.lit("unsupported"))))
    if caps.price_band is not None:
        low, high = caps.price_band
        price = pl.col("price_at_t0")
        priced = pl.when(price.is_null()).then(pl.lit("no_price"))
        rules.append((f"price in [{low}, {high}]", priced.when((price < low) | (price > high)).then(pl.lit("decided"))))
    if caps.min_lead_s is not None:
        soon = (pl.col("close_at") - pl.col("t0")) < caps.min_lead_s
        rules.append((f"lead of {caps.min_lead_s} s", pl.when(soon).then(pl.lit("short_lead"))))
    return rules


def _within_events(left: pl.DataFrame, cap: int, seed: int) -> pl.Series:
    """Return the ids that stay when every event gives at most `cap` markets and balance suffers least."""
    groups: dict[str, dict[str, list[str]]] = {}
    for event, outcome, market in left.select(event_key(), "outcome", "id").iter_rows():
        groups.setdefault(event, {side: [] for side in OUTCOMES})[outcome].append(market)
    order = sorted(groups, key=lambda event: rank(event, seed))
    quota = per_event_quota([(len(groups[event]["Yes"]), len(groups[event]["No"])) for event in order], cap)
    kept = [
        market
        for event, counts in zip(order, quota, strict=True)
        for side, count in zip(OUTCOMES, counts, strict=True)
        for market in sorted(groups[event][side], key=lambda market: rank(market, seed))[:count]
    ]
    return pl.Series("id", kept, dtype=pl.String)
