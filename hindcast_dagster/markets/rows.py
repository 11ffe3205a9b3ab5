"""Raw market rows by close month: every version of every market, byte for byte as Gamma answered it.

What belongs here: sorting the pages of a walk into `raw/markets/<month>.ndjson.zst`. A version that is already stored
is not stored again; a market whose close moved to another month leaves a note in the old one. The months are derived
from these files alone, so they can be rebuilt without the network.
"""

import json
from collections.abc import Iterator
from typing import Any, Final, NamedTuple

import msgspec

from hindcast_dagster import clock
from hindcast_dagster.markets import fields
from hindcast_dagster.markets.listing import Walk, pages
from hindcast_dagster.markets.rawlog import RawLog, digest
from hindcast_dagster.storage.store import Store

AREA: Final = "markets"
SUFFIX: Final = ".ndjson.zst"
UNDATED: Final = "no-close-time"
MALFORMED: Final = "malformed"
LAST_WALK: Final = "last-walk.json"
_BATCH: Final = 2_000  # versions that one frame holds


class Version(NamedTuple):
    """One stored version of a market."""

    raw: dict[str, Any]
    fetched_at: int
    sha256: str


class Sorted(NamedTuple):
    """What a walk brought."""

    rows: int
    """Distinct markets in the listing."""
    new: int
    """Versions that were not stored before."""
    duplicates: int
    """Rows that the listing repeated."""
    malformed: int
    """Rows without a usable condition id."""
    undated: int
    """Markets without a close time."""
    months: tuple[str, ...]
    """Months that the listing holds markets of."""


class _Page(msgspec.Struct):
    markets: list[msgspec.Raw]


def walked(store: Store) -> bool:
    """Return whether a walk of the listing has ever finished: then a month without rows is a month without markets."""
    return store.area("raw", AREA, LAST_WALK).is_file()


def log(store: Store, name: str) -> RawLog:
    """Return the raw log of a close month, of `UNDATED` or of `MALFORMED`."""
    return RawLog(store.area("raw", AREA, name + SUFFIX))


def months(store: Store) -> list[str]:
    """Return the close months that raw rows are stored for, sorted."""
    folder = store.area("raw", AREA)
    names = (path.name.removesuffix(SUFFIX) for path in folder.glob(f"*{SUFFIX}")) if folder.is_dir() else ()
    return sorted(name for name in names if name not in {UNDATED, MALFORMED} and not name.startswith("walk"))


def latest(store: Store, month: str) -> Iterator[tuple[str, Version]]:
    """Yield (market id, newest stored version) of every market that closed in `month`.

    Reads the log twice and keeps only ids: a month can hold more markets than fit into memory.
    """
    newest: dict[str, int] = {}
    for number, record in enumerate(log(store, month).records()):
        newest.pop(record["market_id"], None)
        if "moved_to" not in record:
            newest[record["market_id"]] = number
    for number, record in enumerate(log(store, month).records()):
        if newest.get(record["market_id"]) == number:
            yield record["market_id"], Version(json.loads(record["raw"]), record["fetched_at"], record["sha256"])


def sort(store: Store, walk: Walk) -> Sorted:
    """Store the versions of a walk that are new. Safe to repeat after a kill: stored versions are found again."""
    sorter = _Sorter(store)
    for page in pages(walk.log):
        for text in split(page["body"]):
            sorter.take(text, page["fetched_at"])
    return sorter.finish()


def split(body: str) -> Iterator[str]:
    """Yield the rows of a page as they were written."""
    try:
        for row in msgspec.json.decode(body.encode(), type=_Page).markets:
            yield bytes(row).decode()
    except (msgspec.MsgspecError, UnicodeEncodeError):
        # A lone surrogate escape is JSON for the standard parser only; such a page is written anew row by row.
        for row in json.loads(body)["markets"]:
            yield json.dumps(row)


class _Sorter:
    def __init__(self, store: Store) -> None:
        self._store = store
        self._known = _known(store)
        self._seen: dict[str, bool] = {}
        self._pending: dict[str, list[dict[str, Any]]] = {}
        self._malformed = {record["sha256"] for record in log(store, MALFORMED).records()}
        self._months: set[str] = set()
        self._new = self._duplicates = self._bad = self._undated = 0

    def take(self, text: str, fetched_at: int) -> None:
        raw = json.loads(text)
        market, sha = fields.market_id(raw), digest(text)
        if market is None:
            self._refuse(text, sha, fetched_at)
            return
        closed = fields.close_at(raw)
        month = UNDATED if closed is None else clock.month_of(closed)
        self._duplicates += market in self._seen
        self._undated += closed is None and market not in self._seen
        self._seen[market] = True
        self._months.add(month)
        self._store_version(market, month, {"market_id": market, "fetched_at": fetched_at, "sha256": sha, "raw": text})

    def _store_version(self, market: str, month: str, record: dict[str, Any]) -> None:
        before = self._known.get(market)
        mark = (month, record["sha256"])
        if before == mark:
            return
        if before is not None and before[0] != month:
            # The note is on disk before the new version, so that no kill leaves the market in two months.
            self._append(before[0], {"market_id": market, "moved_to": month, "fetched_at": record["fetched_at"]})
            self._flush(before[0])
        self._known[market] = mark
        self._new += 1
        self._append(month, record)

    def _refuse(self, text: str, sha: str, fetched_at: int) -> None:
        self._bad += 1
        if sha not in self._malformed:
            self._malformed.add(sha)
            self._append(MALFORMED, {"fetched_at": fetched_at, "sha256": sha, "raw": text})

    def _append(self, name: str, record: dict[str, Any]) -> None:
        waiting = self._pending.setdefault(name, [])
        waiting.append(record)
        if len(waiting) >= _BATCH:
            self._flush(name)

    def _flush(self, name: str) -> None:
        log(self._store, name).append(self._pending.pop(name, []))

    def finish(self) -> Sorted:
        for name in sorted(self._pending):
            self._flush(name)
        return Sorted(
            rows=len(self._seen),
            new=self._new,
            duplicates=self._duplicates,
            malformed=self._bad,
            undated=self._undated,
            months=tuple(sorted(self._months - {UNDATED})),
        )


def _known(store: Store) -> dict[str, tuple[str, str]]:
    """Return (month, sha256) of the newest stored version of every market."""
    known: dict[str, tuple[str, str]] = {}
    for month in [*months(store), UNDATED]:
        here: dict[str, tuple[str, str]] = {}
        for record in log(store, month).records():
            here.pop(record["market_id"], None)
            if "moved_to" not in record:
                here[record["market_id"]] = (month, record["sha256"])
        known |= here
    return known
