"""Subjects: which markets of a close month are probed, as what question, and under which cutoff.

What belongs here: the step from a market row to a `Question` without its outcome. What does not: judging.
"""

from collections import Counter
from collections.abc import Collection
from dataclasses import dataclass
from typing import Any, Final, Literal, get_args

import polars as pl

from hindcast_dagster.clock import Cutoff, T0Policy
from hindcast_dagster.questions.duration import duration
from hindcast_dagster.questions.question import Outcome, Question
from hindcast_dagster.settings import Questions

AsOf = Literal["close", "t0"]
AS_OF: Final[tuple[AsOf, ...]] = get_args(AsOf)
DAY_BEFORE: Final = T0Policy("day_before_close")


@dataclass(frozen=True, slots=True)
class When:
    """Under which cutoff a market is probed."""

    as_of: AsOf = "close"
    policy: T0Policy = DAY_BEFORE
    archive_end: Cutoff | None = None
    fixed: dict[str, Cutoff] | None = None
    """t0 per market, taken from an eval set; wins over the policy."""

    def cutoff(self, *, market_id: str, open_at: int | None, close_at: int) -> Cutoff | None:
        """Return the cutoff of one market, or None when the policy gives it no t0."""
        if self.as_of == "t0" and self.fixed is not None:
            return self.fixed.get(market_id)
        if self.as_of == "t0":
            found = self.policy.resolve(open_at=open_at, close_at=close_at, archive_end=self.archive_end)
            return found.cutoff if found else None
        close = Cutoff(close_at)
        return close if self.archive_end is None else min(close, self.archive_end)


@dataclass(frozen=True, slots=True)
class Subject:
    """A market to be probed. The question goes to the judge, the outcome only to the code that turns the contrast."""

    question: Question
    outcome: Outcome


def subjects(
    markets: pl.DataFrame, when: When, *, settings: Questions, only: Collection[str] | None = None
) -> tuple[list[Subject], dict[str, int]]:
    """Return the resolved markets that can be probed, by id, and the count of the others by reason."""
    found: list[Subject] = []
    excluded: Counter[str] = Counter()
    for row in markets.sort("market_id").iter_rows(named=True):
        if only is not None and row["market_id"] not in only:
            continue
        if row["outcome"] is None or row["close_at"] is None:
            excluded[row["excluded"] or "not_resolved"] += 1
            continue
        cutoff = when.cutoff(market_id=row["market_id"], open_at=row["open_at"], close_at=row["close_at"])
        if cutoff is None:
            excluded["no_t0"] += 1
        else:
            found.append(Subject(_question(row, cutoff, settings), row["outcome"]))
    return found, dict(sorted(excluded.items()))


def _question(row: dict[str, Any], cutoff: Cutoff, settings: Questions) -> Question:
    return Question(
        id=row["market_id"],
        source="polymarket",
        event_id=row["event_id"],
        text=row["question"],
        criteria=row["rules"],
        options=("Yes", "No"),
        t0=cutoff,
        planned_close=row["planned_close"],
        topic=row["topic"],
        duration=duration(
            open_at=row["close_at"] if row["open_at"] is None else row["open_at"],
            close_at=row["close_at"],
            settings=settings,
        ),
        tags=tuple(row["tags"] or ()),
        price_at_t0=None,
        base_rate=0.5,
        reference_rate=0.5,
    )
