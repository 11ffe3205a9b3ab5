"""Building the archive, one month at a time: embed, write, index, verify, seal.

A month is built aside and published by its manifest; readers and other months see nothing of it before. Its version
is the hash of its logical content, so identical input gives an identical manifest, and a month that is already sealed
with that content is left as it is.
"""

import contextlib
import hashlib
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, NamedTuple

from hindcast_dagster import keys
from hindcast_dagster.archive import table
from hindcast_dagster.archive.columns import write_columns
from hindcast_dagster.archive.documents import write_documents
from hindcast_dagster.archive.embedding import open_embedder, surely
from hindcast_dagster.archive.integrity import damage, write_checksums
from hindcast_dagster.archive.month import COMMENT_INDEX, SCHEMA_VERSION, SUBMISSION_INDEX
from hindcast_dagster.archive.shards import embed
from hindcast_dagster.archive.vectors import write_vectors
from hindcast_dagster.clock import month_end, month_start
from hindcast_dagster.contracts.documents import BY_KIND
from hindcast_dagster.corpus.health import check
from hindcast_dagster.errors import InputRefused, NotReady
from hindcast_dagster.settings import Settings
from hindcast_dagster.storage.manifest import Check, Manifest, content_version
from hindcast_dagster.storage.store import NotSealed, Sealed, Store
from hindcast_dagster.storage.tables import read_table

if TYPE_CHECKING:
    import polars as pl

    from hindcast_dagster.archive.embedding import Vectors

CODE_VERSION: Final = "archive/2"
TABLES: Final = {"submissions": SUBMISSION_INDEX, "comments": COMMENT_INDEX}

Progress = Callable[[float, float | None, str], None]


class Job(NamedTuple):
    """A month to build: its corpus partition, its rows, what identifies the content, and what the manifest tells."""

    kind: str
    source: Sealed
    frame: "pl.DataFrame"
    identity: dict[str, str]
    stats: dict[str, Any]


class HollowMonth(InputRefused):
    """The month's dump was taken too early: the filters have emptied it, and an index would hide that."""


def build_submissions(
    store: Store, settings: Settings, *, month: str, accept_hollow: bool = False, progress: Progress | None = None
) -> Manifest:
    """Embed and index a month of submissions. Raises `NotSealed`, `HollowMonth`, `NotReady` (no model)."""
    job = _job(store, kind="submissions", month=month, accept_hollow=accept_hollow)
    before = store.partition(SUBMISSION_INDEX, month).manifest_or_none()
    embedded = before.stats.get("embedding") if before is not None else None
    if isinstance(embedded, dict) and surely(settings.embedding, embedded):
        job.identity.update(_embedding(embedded))
        if (sealed := _already(store, job)) is not None:
            return sealed
    embedder = open_embedder(settings.embedding)
    job.identity.update(_embedding(embedder.identity.as_dict()))
    if (sealed := _already(store, job)) is not None:
        return sealed
    texts = [document_text(title, text) for title, text in job.frame.select("title", "text").iter_rows()]
    work = store.area("work", "embedding", month)
    result = embed(embedder, texts, folder=work, progress=progress)
    job.stats.update(embedding=embedder.identity.as_dict(), truncated=result.truncated)
    manifest = seal_job(store, job, vectors=result.vectors)
    shutil.rmtree(work, ignore_errors=True)
    return manifest


def build_comments(
    store: Store, settings: Settings, *, month: str, accept_hollow: bool = False, progress: Progress | None = None
) -> Manifest:
    """Index a month of comments; they are looked up, not searched, so they have no vectors."""
    del settings
    job = _job(store, kind="comments", month=month, accept_hollow=accept_hollow)
    manifest = _already(store, job) or seal_job(store, job, vectors=None)
    if progress is not None:
        progress(manifest.rows, manifest.rows, "comments indexed")
    return manifest


def _embedding(identity: dict[str, Any]) -> dict[str, str]:
    """Return an embedding model's part in the identity of a month."""
    return {f"embedding.{name}": str(value) for name, value in identity.items()}


def document_text(title: str | None, text: str) -> str:
    """Return what is embedded of a submission: title and text."""
    return f"{title or ''}\n{text}".strip()


def _job(store: Store, *, kind: str, month: str, accept_hollow: bool) -> Job:
    """Read the corpus month and what identifies its content. Raises `NotSealed`, `HollowMonth`, `InputRefused`."""
    source = store.partition(kind, keys.month(month)).require(
        made_by=f"hindcast corpus build --month {month} --kind {kind}"
    )
    if _health(store, source, month=month, kind=kind) == "hollow" and not accept_hollow:
        raise HollowMonth(
            f"{kind} {month} is hollow: too few of its rows were fetched again after they settled, so the filters have "
            "emptied it. Use another dump, or build it knowingly with --accept-hollow."
        )
    return _job_of(source, month=month, kind=kind, stats={"accepted_hollow": accept_hollow})


def corpus_job(store: Store, *, kind: str, month: str) -> Job:
    """Return the job of a month whatever its health: for sealing again what was sealed before. Raises `NotSealed`."""
    return _job_of(store.partition(kind, month).require(), month=month, kind=kind, stats={})


def _job_of(source: Sealed, *, month: str, kind: str, stats: dict[str, Any]) -> Job:
    frame = _rows(source, month=month, kind=kind)
    identity = {"rows": _digest(frame), "input": source.manifest.version, "code": CODE_VERSION}
    return Job(kind, source, frame, identity, stats)


def _digest(frame: "pl.DataFrame") -> str:
    """Return a hash of ids and texts, in order."""
    digest = hashlib.sha256()
    for row in frame.select("id", "title", "text").iter_rows():
        for value in row:
            data = (value or "").encode()
            digest.update(len(data).to_bytes(8, "big") + data)
    return digest.hexdigest()


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


def _already(store: Store, job: Job) -> Manifest | None:
    """Return the sealed month if it has this content and is undamaged; clear the way for a rebuild if it is not."""
    partition = store.partition(TABLES[job.kind], *job.source.manifest.key)
    manifest = partition.manifest_or_none()
    version = content_version({"": SCHEMA_VERSION, **job.identity})
    if manifest is None or manifest.version != version:
        return None
    with contextlib.suppress(NotSealed):
        if damage(partition.require().path) is None:
            return manifest
    partition.discard(version)
    return None


def lay(path: Path, frame: "pl.DataFrame", *, kind: str, vectors: "Vectors | None") -> int:
    """Write every file of a month below `path` and return the version of its table."""
    version = table.write(path, frame, kind=kind, vectors=vectors)
    write_documents(path, frame)
    write_columns(path, frame)
    if vectors is not None:
        write_vectors(path, vectors)
    write_checksums(path)
    return version


def seal_job(store: Store, job: Job, *, vectors: "Vectors | None") -> Manifest:
    """Write, index, verify and seal a month, unless its corpus month has been sealed anew without some document."""
    if store.partition(job.kind, *job.source.manifest.key).require().manifest.version != job.source.manifest.version:
        raise NotReady(f"{job.kind} {job.source.manifest.key[0]} was rebuilt meanwhile: run the same command again.")
    with store.partition(TABLES[job.kind], *job.source.manifest.key).draft() as draft:
        version = lay(draft.path, job.frame, kind=job.kind, vectors=vectors)
        return draft.seal(
            rows=job.frame.height,
            schema_version=SCHEMA_VERSION,
            code_version=CODE_VERSION,
            inputs=[job.source.as_input],
            checks=_checks(job, embedded=vectors is not None),
            stats={"lance_version": version, **job.stats},
            identity=job.identity,
        )


def _checks(job: Job, *, embedded: bool) -> list[Check]:
    """Return what was proved before sealing; each of these raises when it does not hold."""
    checks = [
        Check(name="rows_read_back_and_distinct_ids", passed=True, detail=f"{job.frame.height} rows"),
        Check(name="indexes_cover_all_rows", passed=True),
        Check(name="predicate_self_test", passed=True),
    ]
    if embedded:
        checks.append(Check(name="vectors_finite_and_unit", passed=True, detail=f"{job.stats['truncated']} texts cut"))
    return checks
