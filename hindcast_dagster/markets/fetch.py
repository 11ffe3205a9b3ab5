"""`hindcast markets fetch`: the listing walk, the raw rows, the months and their prices, in one session.

A session ends when everything it covers is sealed; until then its walk lies in `raw/markets/walk.log`, and the next run
goes on from there without asking for anything that is stored.
"""

import collections
import json
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Final

from filelock import FileLock, Timeout

from hindcast_dagster import clock
from hindcast_dagster.errors import NotReady, UsageError
from hindcast_dagster.markets import build, listing, rows
from hindcast_dagster.markets import prices as histories
from hindcast_dagster.markets.http import client
from hindcast_dagster.markets.outcome import judge
from hindcast_dagster.markets.rawlog import RawLog
from hindcast_dagster.settings import Settings
from hindcast_dagster.storage.files import write_atomic
from hindcast_dagster.storage.manifest import Manifest
from hindcast_dagster.storage.store import Store

Progress = Callable[[float, float | None, str], None]

_WALK: Final = "walk.log"


@dataclass(frozen=True, slots=True)
class FetchReport:
    """What a fetch brought and what the sealed months hold."""

    fetched: int
    """Rows of the listing, each market once; without a walk (`refresh=False`) the stored rows."""
    parsed: int
    """Rows that became a row of a month in the window."""
    kept: int
    """Markets with an outcome."""
    excluded: dict[str, int]
    """Reason -> markets; malformed rows and markets without a close time are counted over the whole listing."""
    months: tuple[str, ...]
    new_versions: int = 0
    duplicates: int = 0
    series: dict[str, int] = field(default_factory=dict)
    """Price series: total, without history, without token."""


def fetch(
    store: Store,
    settings: Settings,
    *,
    closed_from: object = None,
    closed_to: object = None,
    progress: Progress | None = None,
    refresh: bool = True,
    prices: bool = True,
    max_age_s: float = 0.0,
    wait_s: float = 0.0,
) -> FetchReport:
    """Walk the listing into `raw/`, then seal the close months of the window and their price series.

    `closed_from` and `closed_to` are instants or dates; whole months are built, both ends included; None is open. The
    walk itself covers every closed market, because the listing cannot be filtered by close. `refresh=False` works from
    what is stored and walks only when nothing is; a walk that finished less than `max_age_s` ago is not repeated;
    `prices=False` seals the markets alone; `wait_s` is how long another fetch on this root is waited for. Raises
    `NotReady` when it does not end by then, and `Unreachable` when the wait budget of a request is spent;
    nothing stored is lost and the next run goes on from there.
    """
    first, last = _window(closed_from, closed_to)
    with _alone(store, wait_s):
        brought, since = _listing(store, settings, progress, max_age_s=max_age_s if refresh else float("inf"))
        months = [month for month in rows.months(store) if first <= month <= last]
        built = {month: build.build(store, settings, month=month) for month in months}
        series = [
            histories.build(store, settings, month=month, progress=progress, since=since) for month in months if prices
        ]
        _walk_log(store).path.unlink(missing_ok=True)
    return _report(store, brought, built, series)


def _window(closed_from: object, closed_to: object) -> tuple[str, str]:
    first = "0000-01" if closed_from is None else clock.month_of(clock.instant(closed_from))
    last = "9999-12" if closed_to is None else clock.month_of(clock.instant(closed_to))
    if first > last:
        raise UsageError(f"The window ends ({last}) before it begins ({first}).")
    return first, last


@contextmanager
def _alone(store: Store, wait_s: float) -> Iterator[None]:
    path = store.area("raw", rows.AREA, ".lock")
    path.parent.mkdir(parents=True, exist_ok=True)
    try:
        with FileLock(path, timeout=wait_s):
            yield
    except Timeout as error:
        raise NotReady("Another `hindcast markets fetch` is running on this data root: wait for it to end.") from error


def _walk_log(store: Store) -> RawLog:
    return RawLog(store.area("raw", rows.AREA, _WALK))


def _listing(
    store: Store, settings: Settings, progress: Progress | None, *, max_age_s: float
) -> tuple[rows.Sorted | None, int]:
    """Walk, or finish the walk of a session that was interrupted. Returns what it brought and when it began."""
    log = _walk_log(store)
    if not log.path.is_file() and clock.now() - _last_walk(store) < max_age_s:
        return None, clock.now()
    with client("gamma", settings.polymarket.gamma_url, budget_s=settings.polymarket.wait_budget_s) as gamma:
        walked = listing.walk(log, gamma, progress=progress)
    brought = rows.sort(store, walked)
    record = {"started_at": walked.started_at, "pages": walked.pages} | brought._asdict()
    write_atomic(store.area("raw", rows.AREA, rows.LAST_WALK), json.dumps(record, indent=1).encode())
    return brought, walked.started_at


def _last_walk(store: Store) -> int:
    """Return when the last finished walk began; 0 when there is none or its record is not readable."""
    try:
        return int(json.loads(store.area("raw", rows.AREA, rows.LAST_WALK).read_bytes())["started_at"])
    except (OSError, ValueError, KeyError, TypeError):
        return 0


def _report(
    store: Store, brought: rows.Sorted | None, built: dict[str, Manifest], series: list[Manifest]
) -> FetchReport:
    excluded: collections.Counter[str] = collections.Counter()
    for manifest in built.values():
        excluded.update(manifest.stats["excluded"])
        excluded["malformed"] += manifest.stats["malformed"]
    excluded["malformed"] += sum(1 for _ in rows.log(store, rows.MALFORMED).records())
    excluded.update(str(judge(version.raw).excluded) for _, version in rows.latest(store, rows.UNDATED))
    totals: collections.Counter[str] = collections.Counter()
    for manifest in series:
        totals.update({name: manifest.stats[name] for name in ("series", "points", "no_price_history", "no_token")})
    parsed = sum(manifest.stats["markets"] for manifest in built.values())
    return FetchReport(
        fetched=brought.rows + brought.malformed if brought else parsed,
        parsed=parsed,
        kept=sum(manifest.stats["kept"] for manifest in built.values()),
        excluded={reason: count for reason, count in sorted(excluded.items()) if count},
        months=tuple(sorted(built)),
        new_versions=brought.new if brought else 0,
        duplicates=brought.duplicates if brought else 0,
        series=dict(totals),
    )
