"""The coverage probe of one close month: how far the corpus spoke about each market, and for which side (paper, 4.1).

What belongs here: the partition `coverage_probe`. A partition holds one row per market, judge and cutoff kind; probing
again with another judge adds rows and leaves the others.
"""

import asyncio
from collections import Counter
from collections.abc import Callable, Collection, Coroutine
from typing import Any, Final, NamedTuple

import polars as pl

from hindcast_dagster.archive.protocol import Archive
from hindcast_dagster.clock import Cutoff, T0Policy
from hindcast_dagster.contracts.coverage import COVERAGE
from hindcast_dagster.contracts.markets import MARKETS
from hindcast_dagster.coverage import economics, rows
from hindcast_dagster.coverage.judge import Finding, Judge
from hindcast_dagster.coverage.open import open_judge
from hindcast_dagster.coverage.run import Progress, findings
from hindcast_dagster.coverage.subjects import AS_OF, Subject, When, subjects
from hindcast_dagster.errors import UsageError
from hindcast_dagster.llm.purse import Purse
from hindcast_dagster.settings import Settings
from hindcast_dagster.storage.journal import Journal, identity_hash
from hindcast_dagster.storage.manifest import Input, Manifest
from hindcast_dagster.storage.store import Sealed, Store
from hindcast_dagster.storage.tables import publish_table, read_table

TABLE: Final = COVERAGE.name
CODE_VERSION: Final = "1"
INDEX: Final = "submission_index"


def build(
    store: Store,
    settings: Settings,
    *,
    month: str,
    judge: str | Judge,
    as_of: str = "close",
    policy: T0Policy | None = None,
    archive_end: object = None,
    at: dict[str, Cutoff] | None = None,
    market_ids: Collection[str] | None = None,
    archive: Archive | None = None,
    progress: Progress | None = None,
    purse: Purse | None = None,
) -> Manifest:
    """Probe the resolved markets of a close month and seal the partition.

    `judge` is a roster slug, `evidence_count`, or a judge of one's own. `as_of` is where the probe stands: at the
    close, as the paper does, or at t0 (`policy` and `archive_end`, or `at` per market), where a forecaster stands.
    `market_ids` narrows to some markets. `archive` replaces the store's own archive. `purse` bounds the money, over
    several months too (default: `llm.max_cost`); what it did not reach is `unprobed` in the manifest. Raises `NotReady`
    when markets or archive are not sealed, `UsageError` for an unknown judge. Killed and run again it repeats no
    finished market.
    """
    ready = prepare(store, settings, month=month, as_of=as_of, policy=policy, archive_end=archive_end, at=at,
                    market_ids=market_ids, archive=archive)  # fmt: skip
    purse = purse or economics.purse(settings, judge if isinstance(judge, str) else judge.name)
    found_judge = open_judge(settings, judge) if isinstance(judge, str) else judge
    reading = findings(
        ready.chosen,
        as_of=ready.when.as_of,
        archive=ready.archive,
        judge=found_judge,
        journal=Journal(store, TABLE, month),
        snapshot=ready.snapshot,
        concurrency=settings.llm.concurrency,
        progress=progress,
        purse=purse,
    )
    results = asyncio.run(reading if judge is found_judge else _and_close(reading, found_judge))
    pairs = [(subject, found) for subject, found in zip(ready.chosen, results, strict=True) if found is not None]
    new = COVERAGE.frame(
        [
            rows.row(subject, finding, as_of=ready.when.as_of, judge=found_judge.name, version=found_judge.version)
            for subject, finding in pairs
        ]
    )
    found = [finding for _, finding in pairs]
    account = _account(settings, when=ready.when, judge=found_judge, found=found, excluded=ready.excluded)
    account["unprobed"] = len(results) - len(pairs)
    inputs = _inputs(store, ready.market_part, ready.chosen)
    return _publish(store, month=month, markets=ready.markets, new=new, account=account, inputs=inputs)


class Ready(NamedTuple):
    """What a probe of a month is about, before any judge is asked."""

    when: When
    market_part: Sealed
    markets: pl.DataFrame
    chosen: list[Subject]
    excluded: dict[str, int]
    archive: Archive
    snapshot: Callable[[Subject], str]


def prepare(
    store: Store,
    settings: Settings,
    *,
    month: str,
    as_of: str = "close",
    policy: T0Policy | None = None,
    archive_end: object = None,
    at: dict[str, Cutoff] | None = None,
    market_ids: Collection[str] | None = None,
    archive: Archive | None = None,
) -> Ready:
    """Return what `build` with the same arguments is about. Same errors."""
    stand = next((known for known in AS_OF if known == as_of), None)
    if stand is None:
        raise UsageError(f"The probe stands at close or at t0, found {as_of!r}.")
    market_part = store.partition("markets", month).require(made_by="hindcast markets fetch")
    markets = read_table(market_part, MARKETS)
    opened = archive or _archive(store, settings)
    end = None if archive_end is None else Cutoff.of(archive_end)
    when = When(stand, policy or T0Policy("day_before_close"), end, at)
    chosen, excluded = subjects(markets, when, settings=settings.questions, only=market_ids)

    def snapshot(subject: Subject) -> str:
        return visible(store, settings, opened, subject.question.t0)

    return Ready(when, market_part, markets, chosen, excluded, opened, snapshot)


async def _and_close(reading: Coroutine[Any, Any, list[Finding | None]], judge: Judge) -> list[Finding | None]:
    try:
        return await reading
    finally:
        await judge.close()


def visible(store: Store, settings: Settings, archive: Archive, cutoff: Cutoff) -> str:
    """Return a hash of what a cutoff admits: the month tables, and the mode that decides about late texts.

    A month sealed later leaves it as it is.
    """
    seen = [
        [month, manifest.version]
        for month in archive.months
        if month <= cutoff.month and (manifest := store.partition(INDEX, month).manifest()) is not None
    ]
    return identity_hash({"months": seen or archive.snapshot, "mode": _mode(settings)})


def _mode(settings: Settings) -> str:
    return f"{settings.archive.mode}/{settings.archive.late_votes}"


def _archive(store: Store, settings: Settings) -> Archive:
    from hindcast_dagster.archive.open import open_archive

    return open_archive(store, settings, verify=True)


def _account(
    settings: Settings, *, when: When, judge: Judge, found: list[Finding], excluded: dict[str, int]
) -> dict[str, Any]:
    """Return how one probe was made, for the manifest."""
    spent: Counter[str] = Counter()
    for finding in found:
        spent.update(finding.economics)
    return {
        "judge": judge.name,
        "judge_version": judge.version,
        "as_of": when.as_of,
        "policy": str(when.policy) if when.as_of == "t0" and when.fixed is None else None,
        "archive_end": when.archive_end.iso if when.archive_end else None,
        "settings": settings.coverage.model_dump(mode="json"),
        "archive_mode": _mode(settings),
        "excluded": excluded,
        "economics": dict(sorted(spent.items())),
    }


def _inputs(store: Store, markets: Sealed, chosen: list[Subject]) -> list[Input]:
    latest = max((subject.question.t0.month for subject in chosen), default="")
    indexes = [manifest.as_input for manifest in store.manifests(INDEX) if manifest.key[0] <= latest]
    return [markets.as_input, *indexes]


def _publish(
    store: Store,
    *,
    month: str,
    markets: pl.DataFrame,
    new: pl.DataFrame,
    account: dict[str, Any],
    inputs: list[Input],
) -> Manifest:
    """Merge with what other judges and cutoffs have left, and seal."""
    partition = store.partition(TABLE, month)
    before = partition.intact()  # a damaged table is made anew, from the journal
    readable = before is not None and before.schema_version == COVERAGE.schema_version
    old = read_table(partition.require(), COVERAGE) if readable else None
    table = rows.merge(new, old, markets=set(markets["market_id"]))
    accounts = dict(before.stats.get("probes", {})) if before is not None and readable else {}
    accounts[f"{account['judge']}/{account['as_of']}"] = account
    stats = {"probes": {name: accounts[name] | rows.counts(table, name) for name in sorted(accounts)}}
    return publish_table(partition, table, COVERAGE, code_version=CODE_VERSION, inputs=inputs, stats=stats)
