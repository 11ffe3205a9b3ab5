"""Building the archive, one month at a time: embed, write, index, verify, seal.

A month is built aside and published by its manifest; readers and other months see nothing of it before. Its version
is the hash of its logical content, so identical input gives an identical manifest, and a month that is already sealed
with that content is left as it is.
"""

import hashlib
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, Final

from hindcast_dagster import keys
from hindcast_dagster.archive import columns, table, vectors
from hindcast_dagster.archive.embedding import open_embedder
from hindcast_dagster.archive.month import COMMENT_INDEX, SCHEMA_VERSION, SUBMISSION_INDEX
from hindcast_dagster.archive.shards import Result, embed
from hindcast_dagster.clock import month_end, month_start
from hindcast_dagster.contracts.documents import BY_KIND
from hindcast_dagster.corpus.health import check
from hindcast_dagster.errors import InputRefused
from hindcast_dagster.settings import Settings
from hindcast_dagster.storage.manifest import Check, Manifest
from hindcast_dagster.storage.store import Sealed, Store
from hindcast_dagster.storage.tables import read_table

if TYPE_CHECKING:
    import polars as pl

CODE_VERSION: Final = "archive/1"
TABLES: Final = {"submissions": SUBMISSION_INDEX, "comments": COMMENT_INDEX}

Progress = Callable[[float, float | None, str], None]


class HollowMonth(InputRefused):
    """The month's dump was taken too early: the filters have emptied it, and an index would hide that."""


def build_submissions(
    store: Store, settings: Settings, *, month: str, accept_hollow: bool = False, progress: Progress | None = None
) -> Manifest:
    """Embed and index a month of submissions. Raises `NotSealed`, `HollowMonth`, `NotReady` (no model)."""
    source = _source(store, month=month, kind="submissions", accept_hollow=accept_hollow)
    frame = _rows(source, month=month, kind="submissions")
    texts = [document_text(title, text) for title, text in frame.select("title", "text").iter_rows()]
    work = store.area("work", "embedding", month)
    result = embed(open_embedder(settings.embedding), texts, folder=work, progress=progress)
    identity = open_embedder(settings.embedding).identity
    stats = {"embedding": identity.as_dict(), "truncated": result.truncated}
    manifest = _seal(store, source, frame, kind="submissions", result=result, stats=stats, accepted=accept_hollow)
    _discard(work)
    return manifest


def build_comments(
    store: Store, settings: Settings, *, month: str, accept_hollow: bool = False, progress: Progress | None = None
) -> Manifest:
    """Index a month of comments; they are looked up, not searched, so they have no vectors."""
    del settings
    source = _source(store, month=month, kind="comments", accept_hollow=accept_hollow)
    frame = _rows(source, month=month, kind="comments")
    manifest = _seal(store, source, frame, kind="comments", result=None, stats={}, accepted=accept_hollow)
    if progress is not None:
        progress(frame.height, frame.height, "comments indexed")
    return manifest


def document_text(title: str | None, text: str) -> str:
    """Return what is embedded of a submission: title and text."""
    return f"{title or ''}\n{text}".strip()


def _source(store: Store, *, month: str, kind: str, accept_hollow: bool) -> Sealed:
    source = store.partition(kind, keys.month(month)).require(
        made_by=f"hindcast corpus build --month {month} --kind {kind}"
    )
    if _health(store, source, month=month, kind=kind) == "hollow" and not accept_hollow:
        raise HollowMonth(
            f"{kind} {month} is hollow: too few of its rows were fetched again after they settled, so the filters have "
            "emptied it. Use another dump, or build it knowingly with --accept-hollow."
        )
    return source


def _health(store: Store, source: Sealed, *, month: str, kind: str) -> str:
    """Return the verdict beside the neighbours of today, or the sealed one of a table that has no numbers to judge."""
    health = source.manifest.stats.get("health")
    if not isinstance(health, dict):
        return "unknown"
    return check(store, month, kind).verdict if "numbers" in health else str(health.get("verdict", "unknown"))


def _rows(source: Sealed, *, month: str, kind: str) -> "pl.DataFrame":
    """Read the month and refuse what the look-ups could not find again."""
    frame = read_table(source, BY_KIND[kind])
    first, last = month_start(month), month_end(month)
    outside = frame.filter((frame["created_at"] < first) | (frame["created_at"] >= last) | (frame["month"] != month))
    if outside.height:
        raise InputRefused(f"{source.path}: {outside.height} rows lie outside {month}, for example {outside['id'][0]}.")
    for name in frame["id"]:
        if keys.reddit_id(name) != name:
            raise InputRefused(f"{source.path}: {name!r} is not a bare id.")
    return frame


def _seal(
    store: Store,
    source: Sealed,
    frame: "pl.DataFrame",
    *,
    kind: str,
    result: Result | None,
    stats: dict[str, Any],
    accepted: bool,
) -> Manifest:
    with store.partition(TABLES[kind], *source.manifest.key).draft() as draft:
        version = table.write(draft.path, frame, kind=kind, vectors=None if result is None else result.vectors)
        columns.write_columns(draft.path, frame)
        if result is not None:
            vectors.write_vectors(draft.path, result.vectors)
        return draft.seal(
            rows=frame.height,
            schema_version=SCHEMA_VERSION,
            code_version=CODE_VERSION,
            inputs=[source.as_input],
            checks=_checks(frame, result),
            stats={"lance_version": version, "accepted_hollow": accepted, **stats},
            identity=_identity(source, frame, stats),
        )


def _checks(frame: "pl.DataFrame", result: Result | None) -> list[Check]:
    """Return what was proved before sealing; each of these raises when it does not hold."""
    checks = [
        Check(name="row_count_and_distinct_ids", passed=True, detail=f"{frame.height} rows"),
        Check(name="indexes_cover_all_rows", passed=True),
        Check(name="predicate_self_test", passed=True),
    ]
    if result is not None:
        checks.append(Check(name="vectors_finite_and_unit", passed=True, detail=f"{result.truncated} texts cut"))
    return checks


def _identity(source: Sealed, frame: "pl.DataFrame", stats: dict[str, Any]) -> dict[str, str]:
    """Return what determines the content of the partition, by name."""
    digest = hashlib.sha256()
    for row in frame.select("id", "title", "text").iter_rows():
        for value in row:
            data = (value or "").encode()
            digest.update(len(data).to_bytes(8, "big") + data)
    model = {f"embedding.{name}": str(value) for name, value in stats.get("embedding", {}).items()}
    return {"rows": digest.hexdigest(), "input": source.manifest.version, "code": CODE_VERSION, **model}


def _discard(work: Any) -> None:
    import shutil

    shutil.rmtree(work, ignore_errors=True)
