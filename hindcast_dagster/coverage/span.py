"""Probing more than one month: a close window, or the markets of an eval set at their own t0.

What belongs here: from what a person asks for to months and market ids. The month itself is `probe`'s.
"""

from collections import Counter
from collections.abc import Iterator
from typing import Any, NamedTuple

import polars as pl

from hindcast_dagster import clock
from hindcast_dagster.archive.protocol import Archive
from hindcast_dagster.clock import Cutoff
from hindcast_dagster.coverage import economics, probe
from hindcast_dagster.coverage.open import named_judge
from hindcast_dagster.coverage.run import Progress, identity
from hindcast_dagster.coverage.subjects import Subject
from hindcast_dagster.errors import NotReady, UsageError
from hindcast_dagster.markets import read
from hindcast_dagster.questions.load import load
from hindcast_dagster.settings import Settings
from hindcast_dagster.storage.journal import Journal, identity_hash
from hindcast_dagster.storage.manifest import Manifest
from hindcast_dagster.storage.store import Store


class Span(NamedTuple):
    """Market ids by close month, and the t0 of each where an eval set gives one."""

    months: dict[str, list[str]]
    at: dict[str, Cutoff] | None

    @property
    def markets(self) -> int:
        """How many markets, resolved or not."""
        return sum(len(ids) for ids in self.months.values())


def of_window(store: Store, *, closed_from: object = None, closed_to: object = None) -> Span:
    """Return the markets with closed_from <= close <= closed_to (a date as closed_to with its whole day).

    Raises `NotReady` when no sealed market closes there.
    """
    start = 0 if closed_from is None else clock.instant(closed_from)
    end = clock.LATEST if closed_to is None else clock.until(closed_to)
    if start >= end:
        raise UsageError(f"The close window ends ({clock.iso(end)}) before it begins ({clock.iso(start)}).")
    close = pl.col("close_at")
    found = read.all_markets(store).filter((close >= start) & (close < end))
    return _span(found, None, said=f"closes from {closed_from or 'the first'} to {closed_to or 'the last'}")


def of_eval_set(store: Store, eval_set: str) -> Span:
    """Return the markets of an eval set, each with its own t0. Raises `NotSealed`."""
    at = {resolved.question.id: resolved.question.t0 for resolved in load(store, eval_set)}
    found = read.all_markets(store).filter(pl.col("market_id").is_in(list(at)))
    return _span(found, at, said=f"is in the eval set {eval_set}")


def build(
    store: Store,
    settings: Settings,
    span: Span,
    *,
    judge: str,
    as_of: str = "close",
    archive: Archive | None = None,
    progress: Progress | None = None,
    max_cost: float | None = None,
) -> Iterator[Manifest]:
    """Probe month after month and yield each manifest; see `probe.build`. `max_cost` (US dollars) is for all months."""
    before = 0
    purse = economics.purse(settings, judge, limit=max_cost)
    if purse.limit is not None:
        found = plan(store, settings, span, judge=judge, as_of=as_of, archive=archive)
        purse.estimate = None if found.cost is None else found.cost / max(found.pending, 1)
    for month, ids in span.months.items():

        def moved(done: int, total: int, word: str, *, start: int = before) -> None:
            del total
            if progress is not None:
                progress(start + done, span.markets, word)

        yield probe.build(
            store, settings, month=month, judge=judge, as_of=as_of, at=span.at, market_ids=frozenset(ids),
            archive=archive, progress=moved, purse=purse,
        )  # fmt: skip
        before += len(ids)


def plan(
    store: Store, settings: Settings, span: Span, *, judge: str, as_of: str = "close", archive: Archive | None = None
) -> economics.Plan:
    """Return what `build` would ask for, without asking (`--dry-run`). Same errors, but no engine has to be there."""
    named = named_judge(settings, judge)
    pending: list[Subject] = []
    done = 0
    for month, ids in span.months.items():
        ready = probe.prepare(
            store, settings, month=month, as_of=as_of, at=span.at, market_ids=frozenset(ids), archive=archive
        )
        journal = Journal(store, probe.TABLE, month)
        for subject in ready.chosen:
            known = identity(subject, as_of=ready.when.as_of, judge=named, archive=ready.snapshot(subject))
            if identity_hash(known) in journal:
                done += 1
            else:
                pending.append(subject)
    return economics.plan(settings, pending, judge=judge, as_of=as_of, done=done)


def summary(manifests: list[Manifest], *, judge: str, as_of: str) -> dict[str, Any]:
    """Return what the probe of several months amounts to, in the shape of `hindcast coverage probe --json`."""
    accounts = [manifest.stats["probes"][f"{judge}/{as_of}"] for manifest in manifests]
    totals: dict[str, Counter[str]] = {name: Counter() for name in ("quality", "excluded", "economics")}
    for account in accounts:
        for name, total in totals.items():
            total.update(account[name])
    sums = {
        name: sum(account.get(name, 0) for account in accounts)
        for name in ("markets", "blocks", "unlabelled", "unprobed")
    }
    months = [manifest.key[0] for manifest in manifests]
    return {"judge": judge, "as_of": as_of, "months": months, **sums} | {
        name: dict(sorted(total.items())) for name, total in totals.items()
    }


def _span(found: pl.DataFrame, at: dict[str, Cutoff] | None, *, said: str) -> Span:
    months: dict[str, list[str]] = {}
    for market, close in found.filter(pl.col("close_at").is_not_null()).select("market_id", "close_at").iter_rows():
        months.setdefault(clock.month_of(close), []).append(market)
    if not months:
        raise NotReady(f"No sealed market {said}: run `hindcast markets fetch` first, or choose another window.")
    return Span(dict(sorted(months.items())), at)
