"""Throughput of the resumable, sharded embedding beside a bare `model.encode` on the same texts in the same run.

    python benchmarks/embedding.py [--texts 256] [--model minilm]

Both sides are timed in turns, on halves of the texts, so that whatever else the machine does falls on both.
"""

import argparse
import os
import random
import statistics
import tempfile
import time
from pathlib import Path

from hindcast_dagster.archive.embedding import open_embedder
from hindcast_dagster.archive.shards import embed
from hindcast_dagster.settings import load

TURNS = 4


def texts(count: int) -> list[str]:
    """Return posts of mixed length, from a seed: most are short, a few are cut by the model."""
    rng = random.Random(11)
    vocabulary = ("the market moved after news", "of a vote", "on the new rate", "while people argued", "for days")
    return [" ".join(rng.choices(vocabulary, k=min(120, int(rng.lognormvariate(2.3, 1))) + 2)) for _ in range(count)]


def main() -> None:
    """Print documents per second of both, and their ratio."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--texts", type=int, default=256)
    parser.add_argument("--model", default="minilm")
    given = parser.parse_args()
    settings = load(embedding={"model": given.model}).embedding
    embedder = open_embedder(settings)
    model = embedder._model  # noqa: SLF001 - the yardstick is the model itself
    documents = texts(given.texts)
    model.encode(documents[:32], batch_size=settings.batch_size, show_progress_bar=False)
    ratios = []
    for _ in range(TURNS):
        start = time.perf_counter()
        model.encode(documents, batch_size=settings.batch_size, show_progress_bar=False, normalize_embeddings=True)
        bare = time.perf_counter() - start
        with tempfile.TemporaryDirectory() as folder:
            start = time.perf_counter()
            result = embed(embedder, documents, folder=Path(folder))
            ours = time.perf_counter() - start
        ratios.append(bare / ours)
        print(
            f"bare {given.texts / bare:6.1f} texts/s   ours {given.texts / ours:6.1f} texts/s   ratio {bare / ours:.3f}"
        )
    print(
        f"median ratio {statistics.median(ratios):.3f}; {result.truncated} of {given.texts} texts cut; "
        f"{os.cpu_count()} CPUs, load {os.getloadavg()[0]:.1f}"
    )


if __name__ == "__main__":
    main()
