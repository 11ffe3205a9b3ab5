"""Taking forgotten documents out of sealed months of the archive: table, columns, vectors and indexes.

Nothing is embedded again: the vectors of the documents that stay are taken from the version before. The current month
is sealed anew, as a rebuild would seal it; a version that an eval set pins keeps its name and loses the rows.
"""

from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from hindcast_dagster.archive import build as building
from hindcast_dagster.archive.month import COMMENT_INDEX, SUBMISSION_INDEX, Month
from hindcast_dagster.contracts.documents import SUBMISSIONS
from hindcast_dagster.storage.files import remove_tree
from hindcast_dagster.storage.forgotten import PREFIXES, Forgotten
from hindcast_dagster.storage.manifest import Manifest
from hindcast_dagster.storage.store import NotSealed, Partition, Sealed, Store

if TYPE_CHECKING:
    import numpy as np
    import polars as pl

    from hindcast_dagster.archive.embedding import Vectors

KINDS: Final = {SUBMISSION_INDEX: "submissions", COMMENT_INDEX: "comments"}


def held(sealed: Sealed, record: Forgotten) -> set[str]:
    """Return the bare ids of forgotten documents that a version still holds."""
    prefix = PREFIXES[KINDS[sealed.manifest.table]]
    return {name for name in _ids(Month(sealed)) if prefix + name in record}


def reseal(store: Store, partition: Partition, record: Forgotten) -> int:
    """Take forgotten documents out of the current version; return how many went.

    It is sealed anew from the corpus month, when that is the one it was made from; an index that was stale before stays
    what it is, without those rows. The corpus months come first.
    """
    sealed = partition.require()
    gone = held(sealed, record)
    if gone and not _from_corpus(store, sealed, gone):
        _rewrite(partition, sealed, gone)
    return len(gone)


def rewrite_pinned(partition: Partition, version: str, record: Forgotten) -> int:
    """Take forgotten documents out of a version that somebody pins; it keeps its name. Returns how many went."""
    sealed = partition.at_version(version)
    gone = held(sealed, record)
    if gone:
        _rewrite(partition, sealed, gone)
    return len(gone)


def drop_work(store: Store, month: str) -> None:
    """Remove vectors that a killed build has left: some may be of forgotten texts, and a build makes them again."""
    remove_tree(store.area("work", "embedding", month))


def _ids(month: Month) -> list[str]:
    return [name.decode() for name in month.ids.tolist()]


def _from_corpus(store: Store, sealed: Sealed, gone: set[str]) -> bool:
    """Seal the month from its corpus month and the vectors that are there; False when the two do not agree."""
    old = sealed.manifest
    kind, (name,) = KINDS[old.table], old.key
    try:
        job = building.corpus_job(store, kind=kind, month=name)
    except NotSealed:
        return False
    month = Month(sealed)
    frame = _frame(month, gone)
    if not job.frame.select("id", "title", "text").equals(frame.select("id", "title", "text")):
        return False
    job.stats.update({key: value for key, value in old.stats.items() if key not in {"lance_version", "forgotten"}})
    if kind == "submissions":
        told = old.stats["embedding"].items()
        job.identity.update({f"embedding.{key}": str(value) for key, value in told})
    building.seal_job(store, job, vectors=_vectors(month, gone))
    return True


def _rewrite(partition: Partition, sealed: Sealed, gone: set[str]) -> None:
    month = Month(sealed)
    kind = KINDS[sealed.manifest.table]

    def write(path: Path, old: Manifest) -> Manifest:
        frame, vectors = _frame(month, gone), _vectors(month, gone)
        version = building.lay(path, frame, kind=kind, vectors=vectors)
        stats = {**old.stats, "lance_version": version, "forgotten": old.stats.get("forgotten", 0) + len(gone)}
        return old.model_copy(update={"rows": frame.height, "stats": stats})

    partition.rewrite(sealed.manifest.version, write)


def _frame(month: Month, gone: set[str]) -> "pl.DataFrame":
    """Return the rows that stay, with every column of the corpus; what the table does not keep is null."""
    import polars as pl

    places = _staying(month, gone).tolist()
    schema = SUBMISSIONS.polars
    rows: list[dict[str, Any]] = month.documents.take(places) if places else []
    return pl.DataFrame([{name: row.get(name) for name in schema} for row in rows], schema=schema, orient="row")


def _vectors(month: Month, gone: set[str]) -> "Vectors | None":
    import numpy as np

    if month.manifest.table != SUBMISSION_INDEX:
        return None
    return np.ascontiguousarray(month.vectors.exact[_staying(month, gone)])


def _staying(month: Month, gone: set[str]) -> "np.ndarray[Any, Any]":
    import numpy as np

    return np.flatnonzero([name not in gone for name in _ids(month)])
