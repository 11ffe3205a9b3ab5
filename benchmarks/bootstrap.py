"""How long paired comparisons take: 20 cells, 1,000 questions, 10,000 resamples of whole questions (issue: within 5 s).

python benchmarks/bootstrap.py [--questions 1000] [--cells 20] [--repeat 3]

Both kinds of intervals, percentile and BCa, come out of every round.
"""

import argparse
import os
import time

import numpy as np

from hindcast_dagster.scoring import bootstrap

RUNS = 5


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--questions", type=int, default=1_000)
    parser.add_argument("--cells", type=int, default=20)
    parser.add_argument("--repeat", type=int, default=3)
    given = parser.parse_args()
    differences = np.random.default_rng(0).normal(size=(given.questions, RUNS, given.cells)).sum(axis=1)
    counts = np.full_like(differences, RUNS)
    print(
        f"{given.cells} cells x {given.questions} questions x {bootstrap.RESAMPLES} resamples, {os.cpu_count()} cores"
    )
    for _ in range(given.repeat):
        wall, cpu = time.perf_counter(), time.process_time()
        found = bootstrap.intervals(differences, counts)
        wall, cpu = time.perf_counter() - wall, time.process_time() - cpu
        print(f"{len(found)} intervals: {wall:.2f} s wall, {cpu:.2f} s of processor time")


if __name__ == "__main__":
    main()
