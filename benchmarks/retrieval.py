"""How exact and how fast the archive answers, at the paper's scale and beside a bare numpy scan in the same run.

    python benchmarks/retrieval.py [--root DIR] [--rows 8838] [--months 25] [--index] [--comments 100000] [--only NAME]

Makes a synthetic archive once (clustered unit vectors, 1,024 dimensions) with the same code that builds a real one,
then prints: recall and latency over partitions and filters, batches, texts, a fresh process, and look-ups by id.
Numbers headed "recorded elsewhere" were measured by others on a machine of this kind and are not run here.
"""

import argparse
import contextlib
import functools
import os
import resource
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any
from unittest import mock

import numpy as np
import polars as pl

from hindcast_dagster import clock
from hindcast_dagster.archive import build, table
from hindcast_dagster.archive import open as opening
from hindcast_dagster.archive.embedding import ModelIdentity
from hindcast_dagster.archive.protocol import Filters
from hindcast_dagster.contracts.documents import BY_KIND
from hindcast_dagster.settings import Settings, load
from hindcast_dagster.storage.store import Store, open_store
from hindcast_dagster.storage.tables import publish_table

DIMENSION = 1024
CLUSTERS = 200
K = 20
QUERIES = 32
NEAR = 200  # ranked again in float64: float32 errs by 1e-6, and the 200th is farther away than that
FIRST = "2024-01"
PARTITIONS = (3, 9, 15, 21, 25)
RECORDED = (
    ("pgvector 0.8.6, HNSW (m 16, ef 200) per month, one connection", 290, 0.988),
    ("pgvector 0.8.6, one UNION ALL", 177, 0.988),
    ("LanceDB IVF_HNSW_SQ per month through threads", 107, 0.964),
    ("LanceDB IVF_HNSW_SQ, refine 2", 136, 0.988),
)


class World:
    """Vectors around random centres; the text of a row is its number, and the embedder knows the vector of a number."""

    def __init__(self) -> None:
        rng = np.random.default_rng(7)
        self.centres = unit(rng.standard_normal((CLUSTERS, DIMENSION), dtype=np.float32))
        self.identity = ModelIdentity("synthetic", "1", "", 512, "float32", DIMENSION)

    @functools.lru_cache(maxsize=1)  # noqa: B019 - one world a run
    def vectors(self, month: int, rows: int) -> np.ndarray:
        """Return the vectors of a month."""
        rng = np.random.default_rng(1000 + month)
        noise = unit(rng.standard_normal((rows, DIMENSION), dtype=np.float32))
        return unit(self.centres[rng.integers(CLUSTERS, size=rows)] + 0.9 * noise)

    def documents(self, texts: Sequence[str]) -> np.ndarray:
        """Return the vectors whose numbers the texts end with."""
        numbers = [text.rsplit("row ", 1)[1].split(" of ") for text in texts]
        month, rows = int(numbers[0][1].split()[0]), int(numbers[0][1].split()[1])
        return self.vectors(month, rows)[[int(row) for row, _ in numbers]]

    def queries(self, count: int) -> np.ndarray:
        """Return vectors to search with."""
        rng = np.random.default_rng(5)
        noise = unit(rng.standard_normal((count, DIMENSION), dtype=np.float32))
        return unit(self.centres[rng.integers(CLUSTERS, size=count)] + 0.9 * noise)

    def lengths(self, texts: Sequence[str]) -> list[int]:
        """Return any lengths: nothing is cut."""
        return [len(text) for text in texts]


def unit(rows: np.ndarray) -> np.ndarray:
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


def timed(call: Callable[[], Any], repeat: int) -> list[float]:
    """Milliseconds of each call, after one that is not counted."""
    call()
    spent = []
    for _ in range(repeat):
        start = time.perf_counter()
        call()
        spent.append((time.perf_counter() - start) * 1e3)
    return spent


def words(spent: Sequence[float]) -> str:
    return f"{statistics.median(spent):8.1f} {np.quantile(spent, 0.95):8.1f}"


class Scan:
    """The yardstick: a bare numpy float32 scan over the same vectors, held contiguously."""

    def __init__(self, archive: Any) -> None:
        opened = archive.submissions.values()
        self.ids = np.concatenate([month.columns.ids for month in opened])
        self.created = np.concatenate([month.columns.created_at for month in opened])
        self.subreddits = np.concatenate([month.columns.subreddit for month in opened])
        self.matrix = np.concatenate([month.vectors.exact for month in opened])

    def one(self, query: np.ndarray, rows: int) -> np.ndarray:
        """Scan the first `rows` for one query."""
        scores = self.matrix[:rows] @ query
        best = np.argpartition(scores, -K)[-K:]
        return best[np.argsort(-scores[best])]

    def many(self, queries: np.ndarray) -> np.ndarray:
        """Scan everything for several queries."""
        return np.argpartition(queries @ self.matrix.T, -K, axis=1)[:, -K:]

    def truth(self, queries: np.ndarray, keep: np.ndarray) -> list[set[bytes]]:
        """Return the exact top k of each query among some rows: float32 for the best 200, float64 among those."""
        scores = queries @ self.matrix.T
        scores[:, ~keep] = -np.inf
        return [self._exact(query, row) for query, row in zip(queries, scores, strict=True)]

    def _exact(self, query: np.ndarray, scores: np.ndarray) -> set[bytes]:
        best = np.argpartition(scores, -NEAR)[-NEAR:]
        best = best[scores[best] > -np.inf]
        exact = np.einsum("ij,j->i", self.matrix[best].astype(np.float64), query.astype(np.float64))
        ranked = sorted(zip(1 - exact, self.ids[best].tolist(), strict=True))
        return {name for _, name in ranked[:K]}


def found(view: Any, queries: np.ndarray, **asked: Any) -> list[set[bytes]]:
    return [{hit.id.encode() for hit in view.nearest(query[None], k=K, **asked)[0]} for query in queries]


def recall(mine: list[set[bytes]], meant: list[set[bytes]]) -> float:
    return float(np.mean([len(one & two) / len(two) for one, two in zip(mine, meant, strict=True)]))


def side_by_side(one: Callable[[int], Any], two: Callable[[int], Any], repeat: int) -> tuple[list[float], list[float]]:
    """Time two calls in turns, so that whatever else the machine does falls on both."""
    one(0), two(0)
    spent: tuple[list[float], list[float]] = ([], [])
    for turn in range(repeat):
        for call, times in zip((one, two), spent, strict=True):
            start = time.perf_counter()
            call(turn)
            times.append((time.perf_counter() - start) * 1e3)
    return spent


def partitions(archive: Any, world: World, scan: Scan) -> None:
    """Print recall and latency of one query over the number of admitted months."""
    queries = world.queries(QUERIES)
    print("\nOne query, from its vector to the verified top 20 (id, created_at, distance); ms")
    print("months     rows  numpy med      p95   ours med      p95   ratio  recall@20")
    for count in [each for each in PARTITIONS if each <= len(archive.months)]:
        cutoff = clock.month_end(archive.months[count - 1]) - 5 * clock.DAY
        rows = sum(archive.submissions[month].rows for month in archive.months[:count])
        bare, ours = _race(archive.at(cutoff), scan, queries, rows)
        exact = recall(found(archive.at(cutoff), queries), scan.truth(queries, scan.created < cutoff))
        ratio = statistics.median(ours) / statistics.median(bare)
        print(f"{count:6d} {rows:8d}   {words(bare)}   {words(ours)}   {ratio:5.2f}   {exact:.4f}")


def _race(view: Any, scan: Scan, queries: np.ndarray, rows: int) -> tuple[list[float], list[float]]:
    return side_by_side(
        lambda turn: scan.one(queries[turn], rows), lambda turn: view.nearest(queries[turn][None], k=K), QUERIES
    )


def batches(archive: Any, world: World, scan: Scan) -> None:
    """Print the time of batches of queries in one pass."""
    queries = world.queries(QUERIES)
    view = archive.at(clock.month_end(archive.months[-1]) - 5 * clock.DAY)
    print(f"\nBatches over {len(archive.months)} months, ms per query")
    for size in (8, 32):
        part = queries[:size]
        spent = side_by_side(lambda _, part=part: scan.many(part), lambda _, part=part: view.nearest(part, k=K), 5)
        bare, ours = ([each / size for each in times] for times in spent)
        ratio = statistics.median(ours) / statistics.median(bare)
        print(f"batch {size:3d}: numpy {words(bare)}   ours {words(ours)}   ratio {ratio:.2f}")


def filters(archive: Any, world: World, scan: Scan) -> None:
    """Print recall and time of selective filters, and whether min(k, legal rows) came back."""
    queries = world.queries(8)
    cutoff = clock.month_end(archive.months[-1]) - 5 * clock.DAY
    view = archive.at(cutoff)
    print("\nSelective filters, one query; ms")
    for code, name in enumerate(archive.submissions[archive.months[0]].columns.subreddit_names):
        keep, block = (scan.created < cutoff) & (scan.subreddits == code), Filters(subreddits=(name,))
        ours = timed(lambda block=block: view.nearest(queries[:1], k=K, filters=block), 10)
        mine = found(view, queries, filters=block)
        enough = all(len(each) == min(K, int(keep.sum())) for each in mine)
        exact = recall(mine, scan.truth(queries, keep))
        print(f"{keep.mean():7.2%} of rows: {words(ours)}   recall {exact:.4f}   min(k, legal) kept: {enough}")


def table_three(archive: Any, world: World) -> None:
    """Print Table 3 of the paper, end to end: query embedding, search, texts."""
    from hindcast_dagster.archive.embedding import open_embedder

    real = open_embedder(load(embedding={"model": "minilm"}).embedding)
    questions = [f"Will event number {n} happen before the end of the month?" for n in range(QUERIES)]
    vectors = world.queries(QUERIES)

    class Both:
        identity = world.identity

        def queries(self, texts: Sequence[str]) -> np.ndarray:
            """Spend the time of a real query embedding; search with a vector of the synthetic world."""
            real.queries(texts)
            return vectors[[questions.index(text) for text in texts]]

    embedding = timed(lambda: real.queries(questions[:1]), QUERIES)
    print("\nEnd to end (query embedding with MiniLM, search, texts of 20 hits), one query; ms")
    print(f"query embedding alone: {words(embedding)}")
    print("months      med      p95   embedding's share   texts")
    with mock.patch.object(archive, "_embedder", Both()):
        for count in [each for each in PARTITIONS if each <= len(archive.months)]:
            cutoff = clock.month_end(archive.months[count - 1]) - 5 * clock.DAY
            view, turn = archive.at(cutoff), iter(range(10**9))
            whole = timed(lambda view=view, turn=turn: view.search_database(questions[next(turn) % QUERIES]), QUERIES)
            bare = timed(lambda view=view, turn=turn: view.nearest(vectors[next(turn) % QUERIES][None], k=K), QUERIES)
            middle = statistics.median(whole)
            texts = middle - statistics.median(bare) - statistics.median(embedding)
            print(f"{count:6d} {words(whole)}   {statistics.median(embedding) / middle:17.0%}   {texts:5.1f}")


FRESH = """
import sys, time
start = time.perf_counter()
import lancedb, numpy as np, torch
from hindcast_dagster.archive.open import open_archive
from hindcast_dagster.settings import load
from hindcast_dagster.storage.store import open_store
imported = time.perf_counter()
archive = open_archive(open_store(sys.argv[1]), load(data_root=sys.argv[1]))
view = archive.at(int(sys.argv[2]))
vector = np.load(sys.argv[3])
hits = view.nearest(vector, k=20)
ranked = time.perf_counter()
for hit in hits[0]:
    assert view.getpostcoreinfo(hit.id).document is not None
done = time.perf_counter()
import resource
peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 2**10
print(f"{imported - start:.2f} {ranked - imported:.3f} {done - ranked:.3f} {peak:.0f}")
"""


def fresh(root: Path, archive: Any, world: World) -> None:
    """Print the time of the first query of a fresh process."""
    with tempfile.NamedTemporaryFile(suffix=".npy") as file:
        np.save(file.name, world.queries(1))
        cutoff = clock.month_end(archive.months[-1]) - 5 * clock.DAY
        arguments = [sys.executable, "-c", FRESH, str(root), str(cutoff), file.name]
        environment = {**os.environ, "PYTHONPATH": str(Path(__file__).parents[1])}
        runs = [
            [
                float(word)
                for word in subprocess.run(
                    arguments, env=environment, check=True, capture_output=True, text=True
                ).stdout.split()
            ]
            for _ in range(2)
        ]
    imports, first, texts, memory = runs[-1]
    print("\nFresh process, warm page cache; s")
    print(f"imports {imports:.2f}   open and first query {first:.2f}   20 look-ups by id {texts:.2f}")
    print(f"peak resident memory {memory:.0f} MiB, of which mapped vectors may be dropped by the system at any time")


def look_ups(archive: Any) -> None:
    """Print the time of the four by-id tools."""
    months = list(archive.comments)
    view = archive.at(clock.month_end(months[-1]) - 5 * clock.DAY)
    rng = np.random.default_rng(3)
    comments = [archive.comments[months[int(m)]].columns for m in rng.integers(len(months), size=64)]
    ids = [each.ids[int(rng.integers(each.rows))].decode() for each in comments]
    posts = [
        f"{int(m):x}p{int(p)}"
        for m, p in zip(rng.integers(len(months), size=64), rng.integers(500, size=64), strict=True)
    ]
    authors = [f"author{int(a)}" for a in rng.integers(5000, size=64)]
    submissions = list(archive.submissions)
    heads = [archive.submissions[submissions[int(m)]].columns for m in rng.integers(len(submissions), size=64)]
    post_ids = [each.ids[int(rng.integers(each.rows))].decode() for each in heads]
    print(f"\nLook-ups over {len(months)} months x {archive.comments[months[0]].rows} comments; ms")
    tools: dict[str, Callable[[int], Any]] = {
        "getpostcoreinfo": lambda i: view.getpostcoreinfo(post_ids[i]),
        "getcommentcoreinfo": lambda i: view.getcommentcoreinfo(ids[i]),
        "getpostcommentslist": lambda i: view.getpostcommentslist(posts[i], limit=200),
        "getauthorhistorylist": lambda i: view.getauthorhistorylist(authors[i]),
    }
    for name, tool in tools.items():
        turn = iter(range(10**9))
        print(f"{name:22s} {words(timed(lambda tool=tool, turn=turn: tool(next(turn) % 64), 128))}")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--root", type=Path, help="where the archive is made and kept; default: a temporary folder")
    parser.add_argument("--rows", type=int, default=8838)
    parser.add_argument("--months", type=int, default=25)
    parser.add_argument("--comments", type=int, default=100_000, help="comments a month, over 18 months; 0: none")
    parser.add_argument("--index", action="store_true", help="also build LanceDB's vector indexes (minutes)")
    parser.add_argument("--only", action="append", help="partitions, batches, filters, table, fresh, lookups")
    given = parser.parse_args()
    with contextlib.ExitStack() as stack:
        root = given.root or Path(stack.enter_context(tempfile.TemporaryDirectory()))
        run(given, root)


def run(given: argparse.Namespace, root: Path) -> None:
    store, settings, world = open_store(root), load(data_root=str(root)), World()
    make(store, settings, world, kind="submissions", months=given.months, rows=given.rows, index=given.index)
    if given.comments:
        make(store, settings, world, kind="comments", months=18, rows=given.comments, index=False)
    archive = opening.open_archive(store, settings)
    scan = functools.cache(lambda: Scan(archive))
    print(f"{os.cpu_count()} CPUs, load {os.getloadavg()[0]:.1f}; {given.months} months x {given.rows} x {DIMENSION}")
    wanted = set(given.only or ("partitions", "batches", "filters", "table", "fresh", "lookups"))
    steps: dict[str, Callable[[], None]] = {
        "partitions": lambda: partitions(archive, world, scan()),
        "batches": lambda: batches(archive, world, scan()),
        "filters": lambda: filters(archive, world, scan()),
        "table": lambda: table_three(archive, world),
        "fresh": lambda: fresh(root, archive, world),
        "lookups": lambda: look_ups(archive) if archive.comments else None,
    }
    for name, step in steps.items():
        if name in wanted:
            step()
    if "partitions" in wanted:
        print("\nrecorded elsewhere, 25 months: " + "; ".join(f"{n}: {ms} ms, recall {r}" for n, ms, r in RECORDED))
    print(
        f"\npeak resident memory of this process {resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 2**10:.0f} MiB"
    )


if __name__ == "__main__":
    main()
