"""Selection: which markets of a pool become an eval set. Outcomes are balanced first, topics next (paper, section 4.1).

What belongs here: pure functions of a frame, without a store. The result depends on the rows, the caps and the seed,
never on the order of the rows: every pick and every tie is decided by a seeded hash of the market id. Reading the
pool, probing it and freezing the set belong to `evalset.build` and `coverage.probe`.
"""

from collections import Counter
from dataclasses import dataclass
from typing import Any, Final

import polars as pl

from hindcast_dagster.contracts.markets import OUTCOMES
from hindcast_dagster.errors import InputRefused, UsageError
from hindcast_dagster.evalset.caps import Caps, apply_caps, rank
from hindcast_dagster.evalset.fill import water_fill
from hindcast_dagster.evalset.funnel import FunnelStep

REQUIRED: Final = ("id", "event_id", "outcome", "topic", "t0", "close_at", "price_at_t0")


@dataclass(frozen=True, slots=True)
class Selection:
    """The markets that were taken, and the account of all that were not."""

    ids: tuple[str, ...]
    """Sorted."""
    dropped: dict[str, str]
    """Market id -> reason, for every market of the pool that was not taken."""
    funnel: tuple[FunnelStep, ...]
    taken: tuple[dict[str, Any], ...]
    """Rows of (outcome, topic, available, taken): what the last step had and what it took."""
    wanted: int | None
    """The size that was asked for; None: as many as balance allows."""

    @property
    def excluded(self) -> dict[str, int]:
        """Reason -> count, by name."""
        reasons = sorted(self.dropped.values())
        return {reason: reasons.count(reason) for reason in dict.fromkeys(reasons)}

    def as_stats(self) -> dict[str, Any]:
        """Return JSON values for a manifest."""
        return {
            "wanted": self.wanted,
            "selected": len(self.ids),
            "excluded": self.excluded,
            "funnel": [step.numbers() | {"excluded": step.excluded or {}} for step in self.funnel],
            "taken": list(self.taken),
        }


def select(pool: pl.DataFrame, *, size: int | None = None, seed: int = 0, caps: Caps | None = None) -> Selection:
    """Return the balanced selection of a pool: n markets of each outcome, their topics as even as they can be.

    n is the number of the rarer outcome that is left after the caps, or size // 2 when that is less. Inside an outcome
    the topic quotas are lexicographic max-min (water-filling). A larger size with the same seed contains the smaller
    one. `pool` has the columns `REQUIRED`, one row per market; with `caps.keep` also `evidence_quality`, with
    `caps.min_resolved_contrast` also `resolved_contrast`. Raises `InputRefused` for a pool without them, with a
    repeated id or with an unknown outcome, and `UsageError` for a size below 2.
    """
    caps = caps or Caps()
    if size is not None and size < 2:  # noqa: PLR2004 - one market of each outcome
        raise UsageError(f"A balanced set holds at least one market of each outcome: size {size} is too small.")
    left, funnel, dropped = apply_caps(_checked(pool, caps), caps, seed)
    sides = {outcome: left.filter(pl.col("outcome") == outcome) for outcome in OUTCOMES}
    n = min(side.height for side in sides.values())
    n = n if size is None else min(n, size // 2)
    ids = sorted(market for side in sides.values() for market in _fill(side, n, seed))
    return _selection(left, ids, funnel, dropped, reason="not_needed_for_balance", wanted=size)


def select_blind(pool: pl.DataFrame, *, size: int, seed: int = 0, caps: Caps | None = None) -> Selection:
    """Return the outcome-blind twin: `size` markets by how much evidence there is, whatever it says.

    Inside each topic the markets with the largest |contrast| come first (ties by seeded hash) and topic quotas are
    water-filled over the whole pool. The outcome is taken off the frame before anything is decided and joined again
    only to be counted, so no outcome can change the result. `pool` also has the column `contrast`, probed at t0.
    """
    caps = caps or Caps()
    if caps.min_resolved_contrast is not None:
        raise UsageError("An outcome-blind selection cannot ask for contrast towards the resolved side.")
    checked = _checked(pool, caps, also=("contrast",))
    blind = checked.with_columns(outcome=pl.lit("No"))
    left, _, dropped = apply_caps(blind, caps, seed)
    silent = left.filter(pl.col("contrast").is_null())
    left = left.filter(pl.col("contrast").is_not_null())
    dropped |= dict.fromkeys(silent["id"], "no_contrast")
    without = Counter(dropped.values())
    weight = dict(zip(left["id"], left["contrast"].abs(), strict=True))
    ids = sorted(_fill(left, min(size, left.height), seed, weight=weight))
    seen = checked.filter(pl.col("id").is_in(left["id"].implode()))
    funnel = [FunnelStep.of("pool", checked), FunnelStep.of("evidence at t0", seen, without)]
    return _selection(seen, ids, funnel, dropped, reason="less_evidence", wanted=size)


def _checked(pool: pl.DataFrame, caps: Caps, *, also: tuple[str, ...] = ()) -> pl.DataFrame:
    probed = ("evidence_quality",) if caps.keep is not None else ()
    turned = ("resolved_contrast",) if caps.min_resolved_contrast is not None else ()
    needed = (*REQUIRED, *probed, *turned, *also)
    if missing := [name for name in needed if name not in pool.columns]:
        raise InputRefused(f"The pool has no column {missing[0]!r}; a selection needs {', '.join(needed)}.")
    if pool["id"].n_unique() < pool.height:
        raise InputRefused(f"The pool repeats the market {pool.filter(pool['id'].is_duplicated())['id'][0]}.")
    if unknown := sorted(set(pool["outcome"].to_list()) - set(OUTCOMES), key=str):
        raise InputRefused(f"The pool holds the outcome {unknown[0]!r}: only resolved Yes and No can be selected.")
    return pool.select(list(dict.fromkeys(needed))).sort("id")


def _fill(side: pl.DataFrame, n: int, seed: int, *, weight: dict[str, float] | None = None) -> list[str]:
    """Return n ids of one frame with even topics; heavier ids first within a topic, then by seeded hash."""
    topics: dict[str, list[str]] = {}
    for topic, market in side.select("topic", "id").iter_rows():
        topics.setdefault(topic, []).append(market)
    queues = {
        topic: sorted(ids, key=lambda market: (-(weight or {}).get(market, 0.0), rank(market, seed)))
        for topic, ids in topics.items()
    }
    return water_fill(queues, n, tie=lambda market: rank(market, seed))


def _selection(
    left: pl.DataFrame,
    ids: list[str],
    funnel: list[FunnelStep],
    dropped: dict[str, str],
    *,
    reason: str,
    wanted: int | None,
) -> Selection:
    chosen = pl.col("id").is_in(pl.Series(ids, dtype=pl.String).implode())
    rest = dict.fromkeys(left.filter(~chosen)["id"], reason)
    dropped = dropped | rest
    table = left.group_by("outcome", "topic").agg(available=pl.len(), taken=chosen.sum()).sort("outcome", "topic")
    steps = (*funnel, FunnelStep.of("selected", left.filter(chosen), Counter(rest.values())))
    return Selection(tuple(ids), dropped, steps, tuple(table.to_dicts()), wanted)
