"""Embedding a month so that a crash loses at most two shards: texts sorted by length, embedded and kept in shards.

A shard is named by the model's identity and its own texts, so a shard that is already there is never computed again,
whatever else changed; finished shards are removed once the month is sealed.
"""

import hashlib
import json
from collections.abc import Callable, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from pathlib import Path
from typing import TYPE_CHECKING, Final, NamedTuple

from hindcast_dagster.archive.embedding import Embedder, checked
from hindcast_dagster.errors import HindcastError
from hindcast_dagster.storage.files import write_atomic

if TYPE_CHECKING:
    from hindcast_dagster.archive.embedding import Vectors

SHARD: Final = 1_024  # texts; on one CPU core about half a minute of work

Progress = Callable[[float, float | None, str], None]


class Result(NamedTuple):
    """(n, d) float32 in the order of the texts, how many were cut, and how many shards were found finished."""

    vectors: "Vectors"
    truncated: int
    resumed: int


def embed(embedder: Embedder, texts: Sequence[str], *, folder: Path, progress: Progress | None = None) -> Result:
    """Embed `texts`, keeping finished shards in `folder`."""
    import numpy as np

    identity = embedder.identity
    order = sorted(
        range(len(texts)), key=lambda index: (-len(texts[index]), index)
    )  # longest first: memory peaks early
    vectors = np.empty((len(texts), identity.dimension), dtype=np.float32)
    resumed = 0
    writes: list[Future[None]] = []
    with ThreadPoolExecutor(1, thread_name_prefix="shards") as writer:  # the disk is not waited for
        for start in range(0, len(order), SHARD):
            rows = order[start : start + SHARD]
            part = [texts[row] for row in rows]
            path = folder / f"{_name(identity.as_dict(), part)}.npy"
            ready = _read(path, count=len(rows), dimension=identity.dimension)
            if ready is None:
                ready = embedder.documents(part)
                writes.append(writer.submit(write_atomic, path, ready.tobytes()))
            else:
                resumed += 1
            vectors[rows] = ready
            if progress is not None:
                progress(min(start + SHARD, len(order)), len(order), "texts embedded")
    for write in writes:
        write.result()
    return Result(vectors, embedder.truncated(texts), resumed)


def _read(path: Path, *, count: int, dimension: int) -> "Vectors | None":
    """Return a finished shard, or None when it is absent or not what it should be."""
    import numpy as np

    try:
        data = np.frombuffer(path.read_bytes(), dtype=np.float32)
        return checked(data.reshape(-1, dimension), dimension, count=count)
    except (OSError, ValueError, HindcastError):
        return None


def _name(identity: dict[str, object], texts: Sequence[str]) -> str:
    digest = hashlib.sha256(json.dumps(identity, sort_keys=True).encode())
    for text in texts:
        data = text.encode("utf-8", "surrogatepass")
        digest.update(len(data).to_bytes(8, "big") + data)
    return digest.hexdigest()
