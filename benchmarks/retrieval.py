"""How exact and how fast the archive answers, at the paper's scale and beside a bare numpy scan in the same run.

    python benchmarks/retrieval.py [--root DIR] [--rows 8838] [--months 25] [--index] [--comments 100000] [--only NAME]
                                   [--out FILE.json]

Makes a synthetic archive once (clustered unit vectors, 1,024 dimensions) with the same code that builds a real one,
then prints: recall and latency over partitions and filters, batches, Table 3 end to end, a fresh process, and look-ups
by id; `--out` writes the same as JSON (docs/archive.md has its shape).
Numbers headed "recorded elsewhere" were measured by others on a machine of this kind and are not run here.
"""

import argparse
import contextlib
import functools
import json
import os
import platform
import resource
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any
from unittest import mock

import numpy as np
from synthetic import DIMENSION, World, make

from hindcast_dagster import clock
from hindcast_dagster.archive import open as opening
from hindcast_dagster.archive.protocol import Filters
from hindcast_dagster.settings import load
from hindcast_dagster.storage.store import open_store

K = 20
QUERIES = 32
PAUSE_S = 0.15  # numpy's BLAS keeps a core busy for 0.104 s after each product (process_time over a sleep)
NEAR = 200  # ranked again in float64: float32 errs by 1e-6, and the 200th is farther away than that
PARTITIONS = (3, 9, 15, 21, 25)
STEPS = ("lookups", "fresh", "table3", "search", "batches", "filters")
RECORDED = (
    ("pgvector 0.8.6, HNSW (m 16, ef 200) per month, one connection", 290, 0.988),
    ("pgvector 0.8.6, one UNION ALL", 177, 0.988),
    ("LanceDB IVF_HNSW_SQ per month through threads", 107, 0.964),
    ("LanceDB IVF_HNSW_SQ, refine 2", 136, 0.988),
)

Rows = list[dict[str, Any]]


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


def figures(spent: Sequence[float], prefix: str = "") -> dict[str, float]:
    """Return median and 95th percentile under their names in the result file."""
    found = {"median_ms": statistics.median(spent), "p95_ms": np.quantile(spent, 0.95)}
    return {prefix + name: round(float(value), 3) for name, value in found.items()}


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
    """Time two calls in turns, so that whatever else the machine does falls on both.

    Each starts on idle cores: the threads of one library spin for a while after a call and would slow the other's.
    """
    one(0), two(0)
    spent: tuple[list[float], list[float]] = ([], [])
    for turn in range(repeat):
        for call, times in zip((one, two), spent, strict=True):
            time.sleep(PAUSE_S)
            start = time.perf_counter()
            call(turn)
            times.append((time.perf_counter() - start) * 1e3)
    return spent


def partitions(archive: Any, world: World, scan: Scan) -> Rows:
    """Print recall and latency of one query over the number of admitted months."""
    queries = world.queries(QUERIES)
    print("\nOne query, from its vector to the verified top 20 (id, created_at, distance); ms")
    print("months     rows  numpy med      p95   ours med      p95   ratio  recall@20")
    told: Rows = []
    for count in [each for each in PARTITIONS if each <= len(archive.months)]:
        cutoff = clock.month_end(archive.months[count - 1]) - 5 * clock.DAY
        rows = sum(archive.submissions[month].rows for month in archive.months[:count])
        bare, ours = _race(archive.at(cutoff), scan, queries, rows)
        exact = recall(found(archive.at(cutoff), queries), scan.truth(queries, scan.created < cutoff))
        ratio = statistics.median(ours) / statistics.median(bare)
        print(f"{count:6d} {rows:8d}   {words(bare)}   {words(ours)}   {ratio:5.2f}   {exact:.4f}")
        facts = {"partitions": count, "rows": rows, "ratio": round(ratio, 3), "recall": exact}
        told.append({**facts, **figures(ours), **figures(bare, "numpy_")})
    return told


def _race(view: Any, scan: Scan, queries: np.ndarray, rows: int) -> tuple[list[float], list[float]]:
    return side_by_side(
        lambda turn: scan.one(queries[turn], rows), lambda turn: view.nearest(queries[turn][None], k=K), QUERIES
    )


def batches(archive: Any, world: World, scan: Scan) -> Rows:
    """Print the time of batches of queries in one pass, and of as many callers at once."""
    queries = world.queries(QUERIES)
    view = archive.at(clock.month_end(archive.months[-1]) - 5 * clock.DAY)
    print(f"\nBatches over {len(archive.months)} months, ms per query")
    told: Rows = []
    for size in (1, 2, 4, 8, 16, 32):
        part = queries[:size]
        spent = side_by_side(lambda _, part=part: scan.many(part), lambda _, part=part: view.nearest(part, k=K), 5)
        bare, ours = ([each / size for each in times] for times in spent)
        ratio, rate = statistics.median(ours) / statistics.median(bare), 1e3 / statistics.median(ours)
        print(f"batch {size:3d}: numpy {words(bare)}   ours {words(ours)}   ratio {ratio:.2f}   {rate:6.1f} queries/s")
        told.append({"batch": size, "ratio": round(ratio, 3), **figures(ours), **figures(bare, "numpy_")})
    return [*told, callers(archive, queries)]


def callers(archive: Any, queries: np.ndarray) -> dict[str, Any]:
    """Print the rate of 64 markets that ask one query each, from 16 threads, every one at a cutoff of its own."""
    end = clock.month_end(archive.months[-1])
    views = [archive.at(end - n * 11 * clock.DAY) for n in range(64)]
    with ThreadPoolExecutor(16) as pool:
        start = time.perf_counter()
        found = list(pool.map(lambda n: views[n].nearest(queries[n % QUERIES][None], k=K)[0], range(64)))
        spent = time.perf_counter() - start
    own = all(hit.created_at < view.cutoff.epoch for view, hits in zip(views, found, strict=True) for hit in hits)
    print(f"64 callers with 64 cutoffs on 16 threads: {64 / spent:.1f} queries/s; each saw only its own past: {own}")
    return {"callers": 64, "threads": 16, "queries_per_s": round(64 / spent, 1), "own_past_only": own}


def filters(archive: Any, world: World, scan: Scan) -> Rows:
    """Print recall and time of selective filters, and whether min(k, legal rows) came back."""
    queries = world.queries(8)
    cutoff = clock.month_end(archive.months[-1]) - 5 * clock.DAY
    view = archive.at(cutoff)
    print("\nSelective filters, one query; ms")
    told: Rows = []
    for code, name in enumerate(archive.submissions[archive.months[0]].columns.subreddit_names):
        keep, block = (scan.created < cutoff) & (scan.subreddits == code), Filters(subreddits=(name,))
        ours = timed(lambda block=block: view.nearest(queries[:1], k=K, filters=block), 10)
        mine = found(view, queries, filters=block)
        enough = all(len(each) == min(K, int(keep.sum())) for each in mine)
        exact = recall(mine, scan.truth(queries, keep))
        print(f"{keep.mean():7.2%} of rows: {words(ours)}   recall {exact:.4f}   min(k, legal) kept: {enough}")
        told.append({"share": round(float(keep.mean()), 5), "recall": exact, "enough": enough, **figures(ours)})
    return told


def table_three(archive: Any, world: World) -> Rows:
    """Print Table 3 of the paper, end to end: query embedding, search, texts."""
    from hindcast_dagster.archive.embedding import open_embedder

    real = open_embedder(load(embedding={"model": "minilm"}).embedding)
    questions = [f"Will event number {n} happen before the end of the month?" for n in range(QUERIES)]
    vectors, embedding = world.queries(QUERIES), list[float]()

    class Both:
        identity = world.identity

        def queries(self, texts: Sequence[str]) -> np.ndarray:
            """Spend the time of a real query embedding; search with a vector of the synthetic world."""
            start = time.perf_counter()
            real.queries(texts)
            embedding.append((time.perf_counter() - start) * 1e3)
            return vectors[[questions.index(text) for text in texts]]

    print("\nEnd to end (query embedding with MiniLM, search, texts of 20 hits), one query; ms")
    print("months      med      p95   embedding   its share   search   texts")
    told: Rows = []
    with mock.patch.object(archive, "_embedder", Both()):
        for count in [each for each in PARTITIONS if each <= len(archive.months)]:
            cutoff = clock.month_end(archive.months[count - 1]) - 5 * clock.DAY
            view, turn = archive.at(cutoff), iter(range(10**9))
            embedding.clear()
            whole = timed(lambda view=view, turn=turn: view.search_database(questions[next(turn) % QUERIES]), QUERIES)
            own = statistics.median(embedding[1:])
            bare = timed(lambda view=view, turn=turn: view.nearest(vectors[next(turn) % QUERIES][None], k=K), QUERIES)
            middle, search = statistics.median(whole), statistics.median(bare)
            share = min(1.0, own / middle)
            print(
                f"{count:6d} {words(whole)}   {own:9.1f}   {share:9.0%}   {search:6.1f}  {middle - own - search:6.1f}"
            )
            rows = sum(archive.submissions[month].rows for month in archive.months[:count])
            facts = {"partitions": count, "embedding_share": round(share, 4), "queries": QUERIES, "rows": rows}
            told.append({**facts, **figures(whole), "embedding_ms": round(own, 3), "search_ms": round(search, 3)})
    return told


FRESH = """
import sys, time
start = time.perf_counter()
import numpy as np, pyarrow, torch
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
status = open("/proc/self/status").read()  # ru_maxrss would be the parent's, when that was larger
peak = int(status.split("VmHWM:")[1].split()[0]) / 2**10
print(f"{imported - start:.2f} {ranked - imported:.3f} {done - ranked:.3f} {peak:.0f}")
"""


def fresh(root: Path, archive: Any, world: World) -> dict[str, float]:
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
    vectors = sum(month.rows * month.identity.dimension for month in archive.submissions.values()) * 5 / 2**20
    print(f"archive.memory_mb bounds codes and vectors; those of this archive take {vectors:.0f} MiB")
    print(f"peak resident memory {memory:.0f} MiB, of which mapped vectors may be dropped by the system at any time")
    return {"imports_s": imports, "first_query_s": first, "look_ups_s": texts, "peak_mib": memory}


def look_ups(archive: Any) -> Rows:
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
    told: Rows = []
    for name, tool in tools.items():
        turn = iter(range(10**9))
        spent = timed(lambda tool=tool, turn=turn: tool(next(turn) % 64), 128)
        print(f"{name:22s} {words(spent)}")
        told.append({"tool": name, **figures(spent)})
    return told


def host() -> dict[str, Any]:
    """Return what the numbers depend on."""
    about = Path("/proc/cpuinfo")
    lines = about.read_text().splitlines() if about.exists() else []
    names = [line.split(":", 1)[1].strip() for line in lines if "model name" in line]
    memory = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES") / 2**30
    return {
        "cpus": os.cpu_count(),
        "processor": names[0] if names else platform.processor() or "unknown",
        "load": round(os.getloadavg()[0], 2),
        "memory_gib": round(memory, 1),
        "model": "minilm for queries, synthetic vectors for documents",
        "dimension": DIMENSION,
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--root", type=Path, help="where the archive is made and kept; default: a temporary folder")
    parser.add_argument("--rows", type=int, default=8838)
    parser.add_argument("--months", type=int, default=25)
    parser.add_argument("--comments", type=int, default=100_000, help="comments a month, over 18 months; 0: none")
    parser.add_argument("--index", action="store_true", help="also build LanceDB's vector indexes (minutes)")
    parser.add_argument("--only", action="append", choices=STEPS, help="only this part; may be repeated")
    parser.add_argument("--out", type=Path, help="write the results there as JSON")
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
    wanted, result = set(given.only or STEPS), {"host": host(), "made_at": int(time.time())}
    steps: dict[str, Callable[[], Any]] = {
        "lookups": lambda: look_ups(archive) if archive.comments else [],
        "fresh": lambda: fresh(root, archive, world),
        "table3": lambda: table_three(archive, world),
        "search": lambda: partitions(archive, world, scan()),
        "batches": lambda: batches(archive, world, scan()),
        "filters": lambda: filters(archive, world, scan()),
    }
    for name in STEPS:
        if name in wanted:
            result[name] = steps[name]()
    if given.out:
        given.out.parent.mkdir(parents=True, exist_ok=True)
        given.out.write_text(json.dumps(result, indent=1) + "\n", encoding="utf-8")
    if "search" in wanted:
        print("\nrecorded elsewhere, 25 months: " + "; ".join(f"{n}: {ms} ms, recall {r}" for n, ms, r in RECORDED))
    print(
        f"\npeak resident memory of this process {resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 2**10:.0f} MiB"
    )


if __name__ == "__main__":
    main()
