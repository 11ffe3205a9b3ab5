"""Looks documents up in the sealed Parquet corpus. Shares no code with the archive: it is the audit's own eye.

What belongs here: from prefixed ids to the three instants that decide what may be seen of a document. The corpus
version is the one from which the archive that the eval set pins was made, as long as it is on disk, else the current.
"""

from collections.abc import Collection, Iterable, Iterator
from typing import Final, NamedTuple

import polars as pl

from hindcast_dagster.contracts.documents import BY_KIND
from hindcast_dagster.storage.manifest import Input
from hindcast_dagster.storage.store import NotSealed, Sealed, Store
from hindcast_dagster.storage.tables import scan_table

KINDS: Final = {"submissions": "t3_", "comments": "t1_"}
INDEXES: Final = {"submission_index": "submissions", "comment_index": "comments"}
_COLUMNS: Final = ("id", "created_at", "text_as_of", "engagement_as_of")


class Facts(NamedTuple):
    """When a document came to be, and when its text and its votes were true (epoch seconds)."""

    created_at: int
    text_as_of: int
    engagement_as_of: int | None


class Lookup(NamedTuple):
    """The answer for a set of ids."""

    facts: dict[str, Facts]
    """By prefixed id; an id that no month holds is absent."""
    months: tuple[Input, ...]
    """Every corpus partition that was read."""


def look_up(store: Store, keys: Collection[str], *, pins: Iterable[Input] = ()) -> Lookup:
    """Look every id up in every sealed month: where a trace says a document lies is not believed.

    Raises `NotSealed` when a month is gone from which a pinned archive was made: what cannot be looked up is not red.
    """
    pinned = dict(_pinned(store, pins))
    facts: dict[str, Facts] = {}
    months: list[Input] = []
    for kind, prefix in KINDS.items():
        wanted = sorted(key.removeprefix(prefix) for key in keys if key.startswith(prefix))
        for month in sorted({*store.sealed_keys(kind), *(key for name, key in pinned if name == kind)}):
            sealed = _sealed(store, kind, month, pinned.get((kind, month)))
            months.append(sealed.as_input)
            for key, found in _month(sealed, kind, wanted):
                # The later of two rows decides, should one id ever lie in two months.
                facts[prefix + key] = max(found, facts.get(prefix + key, found), key=lambda fact: fact.created_at)
    return Lookup(facts, tuple(months))


def _month(sealed: Sealed, kind: str, wanted: list[str]) -> Iterator[tuple[str, Facts]]:
    if not wanted:
        return
    ids = pl.LazyFrame({"id": wanted}, schema={"id": pl.String})
    rows = scan_table(sealed, BY_KIND[kind]).select(_COLUMNS).join(ids, on="id", how="semi").collect()
    for key, *instants in rows.iter_rows():
        yield key, Facts(*instants)


def _pinned(store: Store, pins: Iterable[Input]) -> Iterator[tuple[tuple[str, tuple[str, ...]], str]]:
    """Yield ((kind, key), corpus version) from which each pinned index was made."""
    for pin in pins:
        if pin.table not in INDEXES:
            continue
        try:
            made_of = store.partition(pin.table, *pin.key).at_version(pin.version).manifest.inputs
        except NotSealed:
            continue
        yield from (((part.table, part.key), part.version) for part in made_of if part.table == INDEXES[pin.table])


def _sealed(store: Store, kind: str, month: tuple[str, ...], version: str | None) -> Sealed:
    partition = store.partition(kind, *month)
    if version is not None:
        try:
            return partition.at_version(version)
        except NotSealed:  # rebuilt since; the current one must then agree with the traces
            return partition.require()
    return partition.require()


def texts(store: Store, keys: Collection[str], *, pins: Iterable[Input] = ()) -> dict[str, str]:
    """Return title and text of documents by prefixed id; an id that no month holds is absent."""
    pinned = dict(_pinned(store, pins))
    found: dict[str, str] = {}
    for kind, prefix in KINDS.items():
        wanted = pl.LazyFrame({"id": sorted(key.removeprefix(prefix) for key in keys if key.startswith(prefix))})
        for month in store.sealed_keys(kind):
            sealed = _sealed(store, kind, month, pinned.get((kind, month)))
            rows = scan_table(sealed, BY_KIND[kind]).select("id", "title", "text")
            for key, title, text in rows.join(wanted.cast(pl.String), on="id", how="semi").collect().iter_rows():
                found[prefix + key] = f"{title or ''}\n{text}".strip()
    return found
