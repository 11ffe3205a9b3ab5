"""A synthetic archive for benchmarks: clustered unit vectors, sealed with the code that builds a real one."""

import contextlib
import functools
import sys
from collections.abc import Iterator, Sequence
from typing import Any
from unittest import mock

import numpy as np
import polars as pl

from hindcast_dagster import clock
from hindcast_dagster.archive import build, table
from hindcast_dagster.archive import open as opening
from hindcast_dagster.archive.embedding import ModelIdentity
from hindcast_dagster.contracts.documents import BY_KIND
from hindcast_dagster.settings import Settings
from hindcast_dagster.storage.store import Store
from hindcast_dagster.storage.tables import publish_table

DIMENSION = 1024
CLUSTERS = 200
FIRST = "2024-01"


class World:
    """Vectors around random centres; the text of a row is its number, and the embedder knows the vector of a number."""

    def __init__(self, dimension: int = DIMENSION) -> None:
        rng = np.random.default_rng(7)
        self.dimension = dimension
        self.centres = unit(rng.standard_normal((CLUSTERS, dimension), dtype=np.float32))
        self.identity = ModelIdentity("synthetic", "1", "", 512, "float32", dimension)

    @functools.lru_cache(maxsize=1)  # noqa: B019 - one world a run
    def vectors(self, month: int, rows: int) -> np.ndarray:
        """Return the vectors of a month."""
        rng = np.random.default_rng(1000 + month)
        noise = unit(rng.standard_normal((rows, self.dimension), dtype=np.float32))
        return unit(self.centres[rng.integers(CLUSTERS, size=rows)] + 0.9 * noise)

    def documents(self, texts: Sequence[str]) -> np.ndarray:
        """Return the vectors whose numbers the texts end with."""
        numbers = [text.rsplit("row ", 1)[1].split(" of ") for text in texts]
        month, rows = int(numbers[0][1].split()[0]), int(numbers[0][1].split()[1])
        return self.vectors(month, rows)[[int(row) for row, _ in numbers]]

    def queries(self, count: int) -> np.ndarray:
        """Return vectors to search with."""
        rng = np.random.default_rng(5)
        noise = unit(rng.standard_normal((count, self.dimension), dtype=np.float32))
        return unit(self.centres[rng.integers(CLUSTERS, size=count)] + 0.9 * noise)

    def truncated(self, _texts: Sequence[str]) -> int:
        """Return 0: nothing is cut."""
        return 0


def unit(rows: np.ndarray) -> np.ndarray:
    """Return rows at unit length."""
    return (rows / np.linalg.norm(rows, axis=1, keepdims=True)).astype(np.float32)


def frame(kind: str, month: str, number: int, rows: int, *, threads: int = 500) -> pl.DataFrame:
    """Make a month of the corpus: evenly spread over time; authors and subreddits give filters of known share."""
    start, end = clock.month_start(month), clock.month_end(month)
    index = np.arange(rows)
    created = start + index * (end - start - 1) // max(rows, 1)
    comments = kind == "comments"
    ids = [np.base_repr(1_000_000 * (number + 1) + int(i), 36).lower() for i in index]
    post = [f"{number:x}p{i % threads}" for i in index]
    above = [f"t1_{ids[i - threads]}" if i >= threads and i % 3 else f"t3_{post[i]}" for i in index]
    values: dict[str, Any] = {
        "id": ids,
        "doc_type": ["comment" if comments else "submission"] * rows,
        "subreddit": [f"sub{share(i)}" for i in index],
        "author": [f"author{i % 5000}" for i in index],
        "title": [None if comments else "A title of an ordinary length about an ordinary thing"] * rows,
        "text": [f"{'some words of a post ' * 40}row {i} of {number} {rows}" for i in index],
        "created_at": created,
        "text_as_of": created,
        "engagement_as_of": created + 36 * 3600,
        "score": [10] * rows,
        "num_comments": [None if comments else 5] * rows,
        "link_id": post if comments else [None] * rows,
        "parent_id": above if comments else [None] * rows,
        "permalink": [None] * rows,
        "month": [month] * rows,
        "url": [None] * rows,
        "over_18": [None] * rows,
        "deleted_later": [False] * rows,
        "dump_sha256": ["0" * 64] * rows,
    }
    contract = BY_KIND[kind]
    return contract.check(pl.DataFrame(values, schema=contract.polars).sort("created_at", "id"))


def share(row: int) -> str:
    """Subreddit of a row: about 0.1 %, 1 % and 10 % of all rows, and the rest."""
    place = (row * 7919) % 1000
    return next(name for name, below in (("a", 1), ("b", 11), ("c", 111), ("d", 1000)) if place < below)


@contextlib.contextmanager
def embedder(world: Any) -> Iterator[None]:
    """Let builds and archives use the synthetic vectors."""
    with (
        mock.patch.object(build, "open_embedder", return_value=world),
        mock.patch.object(opening, "open_embedder", return_value=world),
    ):
        yield


def make(store: Store, settings: Settings, world: World, *, kind: str, months: int, rows: int, index: bool) -> None:
    """Seal what is missing of the archive."""
    maker = build.build_submissions if kind == "submissions" else build.build_comments
    for number in range(months):
        month = clock.shift_month(FIRST, number)
        found = store.partition(build.TABLES[kind], month).manifest()
        if found is not None and found.rows == rows:
            continue
        contract = BY_KIND[kind]
        publish_table(store.partition(kind, month), frame(kind, month, number, rows), contract, code_version="bench")
        with embedder(world), mock.patch.object(table, "INDEX_FROM", table.INDEX_FROM if index else 10**9):
            maker(store, settings, month=month)
        print(f"  made {kind} {month}", file=sys.stderr)
