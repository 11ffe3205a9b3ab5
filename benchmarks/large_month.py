"""Months of half a million rows: submissions through the index, comments for look-ups; built, searched, measured.

    python benchmarks/large_month.py [--root DIR] [--rows 500000] [--dimension 256] [--memory-mb 64] [--out FILE.json]

The vectors are synthetic (no embedding); the rest is the code that builds and reads a real archive. `--memory-mb` is
smaller than the vectors, so the month goes through LanceDB's index, and the resident memory of a fresh process that
searches it is printed beside that bound.
"""

import argparse
import contextlib
import json
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

import numpy as np
from retrieval import K, Scan, found, look_ups, recall, timed, words
from synthetic import World, make

from hindcast_dagster import clock
from hindcast_dagster.archive import open as opening
from hindcast_dagster.archive.protocol import Filters
from hindcast_dagster.settings import load
from hindcast_dagster.storage.store import open_store

FRESH = """
import sys
import numpy as np
from hindcast_dagster.archive.open import open_archive
from hindcast_dagster.settings import load
from hindcast_dagster.storage.store import open_store

def peak():
    # ru_maxrss would be the parent's, when that was larger
    return int(open("/proc/self/status").read().split("VmHWM:")[1].split()[0]) / 2**10

root, memory, path = sys.argv[1:]
archive = open_archive(open_store(root), load(data_root=root, archive={"memory_mb": int(memory)}))
queries = np.load(path)
import lancedb, torch
before = peak()
view = archive.at("2024-01-30")
for query in queries:
    view.nearest(query[None], k=20)
print(archive.paths["2024-01"], round(before), round(peak()))
"""


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--root", type=Path, help="where the months are made and kept; default: a temporary folder")
    parser.add_argument("--rows", type=int, default=500_000)
    parser.add_argument("--dimension", type=int, default=256)
    parser.add_argument("--memory-mb", type=int, default=64)
    parser.add_argument("--out", type=Path, help="write the results there as JSON")
    given = parser.parse_args()
    with contextlib.ExitStack() as stack:
        root = given.root or Path(stack.enter_context(tempfile.TemporaryDirectory()))
        result = run(given, root)
    if given.out:
        given.out.write_text(json.dumps(result, indent=1) + "\n", encoding="utf-8")


def run(given: argparse.Namespace, root: Path) -> dict[str, Any]:
    """Build both months, then measure."""
    store, settings = open_store(root), load(data_root=str(root), archive={"memory_mb": given.memory_mb})
    world, built = World(given.dimension), {}
    for kind in ("submissions", "comments"):
        start = time.perf_counter()
        make(store, settings, world, kind=kind, months=1, rows=given.rows, index=True)
        built[kind] = round(time.perf_counter() - start, 1)
        print(f"{kind}: {given.rows} rows built, indexed and verified in {built[kind]} s")
    archive = opening.open_archive(store, settings)
    for month in archive.describe():
        print(f"{month['table']} {month['month']}: {month['bytes'] / 2**20:.0f} MiB, searched: {month['searched']}")
    told = {"rows": given.rows, "dimension": given.dimension, "built_s": built, "paths": archive.paths}
    return {**told, "index": search(archive, world), "fresh": fresh(given, root, world), "lookups": look_ups(archive)}


def search(archive: Any, world: World) -> list[dict[str, Any]]:
    """Print recall and time of the index path, without a filter and with selective ones."""
    scan, queries, cutoff = Scan(archive), world.queries(24), clock.month_end("2024-01") - 5 * clock.DAY
    view, told = archive.at(cutoff), []
    names = archive.submissions["2024-01"].columns.subreddit_names
    for name in (None, *names):
        keep = scan.created < cutoff
        if name is not None:
            keep &= scan.subreddits == names.index(name)
        block = Filters(subreddits=None if name is None else (name,))
        mine = found(view, queries, filters=block)
        exact, enough = recall(mine, scan.truth(queries, keep)), all(len(each) == min(K, keep.sum()) for each in mine)
        spent = timed(lambda block=block: view.nearest(queries[:1], k=K, filters=block), 10)
        print(f"{keep.mean():7.2%} of rows: {words(spent)} ms   recall {exact:.4f}   min(k, legal) kept: {enough}")
        told.append({"share": round(float(keep.mean()), 5), "recall": exact, "enough": bool(enough)})
    return told


def fresh(given: argparse.Namespace, root: Path, world: World) -> dict[str, Any]:
    """Print the peak resident memory of a process that searches the month, before and after its queries."""
    with tempfile.NamedTemporaryFile(suffix=".npy") as file:
        np.save(file.name, world.queries(8))
        command = [sys.executable, "-c", FRESH, str(root), str(given.memory_mb), file.name]
        path, before, after = subprocess.run(command, check=True, capture_output=True, text=True).stdout.split()
    vectors = given.rows * given.dimension * 5 / 2**20
    print(f"fresh process, way {path}: {before} MiB with its libraries, {after} MiB after 8 queries")
    print(f"the bound is {given.memory_mb} MiB; codes and vectors of the month are {vectors:.0f} MiB")
    return {"path": path, "libraries_mib": int(before), "peak_mib": int(after), "vectors_mib": round(vectors)}


if __name__ == "__main__":
    main()
