"""Throughput of the resumable, sharded embedding beside a bare `model.encode` on the same texts in the same run.

    python benchmarks/embedding.py [--texts 256] [--model minilm]

Both sides are timed in turns, and which of them goes first alternates, so that whatever else the machine does falls on
both. What is ours beyond the model: sorting, counting cut texts, checking vectors, and keeping finished shards on disk.
"""

import argparse
import os
import random
import statistics
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

from hindcast_dagster.archive.embedding import open_embedder
from hindcast_dagster.archive.shards import embed
from hindcast_dagster.settings import load

TURNS = 6


def texts(count: int) -> list[str]:
    """Return posts of mixed length, from a seed: most are short, a few are cut by the model."""
    rng = random.Random(11)
    vocabulary = ("the market moved after news", "of a vote", "on the new rate", "while people argued", "for days")
    return [" ".join(rng.choices(vocabulary, k=min(120, int(rng.lognormvariate(2.3, 1))) + 2)) for _ in range(count)]


def seconds(call: Callable[[], None]) -> float:
    """Return how long a call takes."""
    start = time.perf_counter()
    call()
    return time.perf_counter() - start


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
    ratios, result = [], None

    def bare() -> None:
        model.encode(documents, batch_size=settings.batch_size, show_progress_bar=False, normalize_embeddings=True)

    def ours() -> None:
        nonlocal result
        with tempfile.TemporaryDirectory() as folder:
            result = embed(embedder, documents, folder=Path(folder))

    for turn in range(TURNS):
        spent = {call: seconds(call) for call in ((bare, ours) if turn % 2 else (ours, bare))}
        ratios.append(spent[bare] / spent[ours])
        rates = {call: given.texts / took for call, took in spent.items()}
        print(f"bare {rates[bare]:6.1f} texts/s   ours {rates[ours]:6.1f} texts/s   ratio {ratios[-1]:.3f}")
    assert result is not None
    print(
        f"median ratio {statistics.median(ratios):.3f}; {result.truncated} of {given.texts} texts cut; "
        f"{os.cpu_count()} CPUs, load {os.getloadavg()[0]:.1f}"
    )


if __name__ == "__main__":
    main()
