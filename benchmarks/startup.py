"""How long the definitions take to load, and what a step costs beside its work: both beside nothing, in one run.

    python benchmarks/startup.py [--repeat 3]

Every figure is the smallest of `--repeat` wall times, ours and the comparison taken in turn. `validate` is `dagster
definitions validate` on our definitions and on an empty `Definitions`. `step` is `dagster asset materialize` of an
asset that does nothing, in a module of its own, beside the asset `comments` on a dump of one line: what Dagster's
process costs with our definitions, plus the step around the library's work. `work_s` and `suite_s` are what the library
and the expectation suite take within that step, measured in a process of their own. Prints one JSON document.
"""

import argparse
import json
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[1]
DAGSTER = str(Path(sys.executable).with_name("dagster"))
LIMIT_S = 2.0
MONTH = "2024-01"
LINE = {
    "id": "abc", "link_id": "t3_abc", "parent_id": "t3_abc", "author": "someone", "subreddit": "politics",
    "body": "word " * 30, "score": 9, "created_utc": 1_704_100_000, "retrieved_on": 1_704_900_000,
}  # fmt: skip
EMPTY = "import dagster as dg\ndefs = dg.Definitions()\n"
NOOP = """import dagster as dg

@dg.asset(partitions_def=dg.StaticPartitionsDefinition(["2024-01"]))
def noop() -> None: ...

defs = dg.Definitions(
    assets=[noop],
    executor=dg.multiprocess_executor.configured({"max_concurrent": 2, "start_method": {"spawn": {}}}),
)
"""
WORK = """import json, time, sys
started = time.perf_counter()
from hindcast_dagster.corpus.build import build
from hindcast_dagster.settings import load
from hindcast_dagster.storage.store import open_store
settings = load()
store = open_store(settings.data_root)
manifest = build(store, settings, month="2024-01", kind="comments")
built = time.perf_counter()
import polars as pl
from hindcast_dagster.contracts.documents import COMMENTS
from hindcast_dagster.contracts.suites import run_suite
from hindcast_dagster.storage.tables import DATA
run_suite(COMMENTS, pl.scan_parquet(store.partition("comments", "2024-01").require().file(DATA)))
print(json.dumps([built - started, time.perf_counter() - built]))
"""


def main() -> None:
    """Measure and print; ends with 1 when a limit is exceeded."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else "")
    parser.add_argument("--repeat", type=int, default=3)
    repeat = parser.parse_args().repeat
    with tempfile.TemporaryDirectory() as folder:
        place = Path(folder)
        (place / "empty_defs.py").write_text(EMPTY, encoding="utf-8")
        (place / "noop_defs.py").write_text(NOOP, encoding="utf-8")
        dumps = place / "data" / "dumps"
        dumps.mkdir(parents=True)
        (dumps / f"RC_{MONTH}.ndjson").write_text(json.dumps(LINE) + "\n", encoding="utf-8")
        (place / "home").mkdir()
        (place / "home" / "dagster.yaml").write_bytes((ROOT / "hindcast_dagster" / "dagster.yaml").read_bytes())
        environment = os.environ | {
            "DAGSTER_HOME": str(place / "home"),
            "HINDCAST_DATA_ROOT": str(place / "data"),
            "PYTHONPATH": f"{place}{os.pathsep}{ROOT}",
        }
        found = measured(environment, repeat=repeat)
    print(json.dumps(found, indent=1))
    sys.exit(0 if found["validate"]["within"] and found["step"]["within"] else 1)


def measured(environment: Mapping[str, str], *, repeat: int) -> dict[str, Any]:
    """Return both comparisons."""
    ours = "hindcast_dagster.definitions"

    def validate(module: str) -> Callable[[], None]:
        return lambda: run(environment, DAGSTER, "definitions", "validate", "-m", module)

    def step(asset: str, module: str) -> Callable[[], None]:
        command = (DAGSTER, "asset", "materialize", "--select", asset, "--partition", MONTH, "-m", module)
        return lambda: run(environment, *command)

    loading = compare(validate("empty_defs"), validate(ours), repeat=repeat)
    stepping = compare(step("noop", "noop_defs"), step("comments", ours), repeat=repeat)
    parts = [json.loads(output(environment, sys.executable, "-c", WORK)) for _ in range(repeat)]
    work, suite = (min(part[place] for part in parts) for place in (0, 1))
    stepping |= {"work_s": round(work, 2), "suite_s": round(suite, 2)}
    own = stepping["difference_s"] - work - suite
    loading["within"] = loading["difference_s"] <= LIMIT_S
    return {"validate": loading, "step": stepping | {"own_overhead_s": round(own, 2), "within": own <= LIMIT_S}}


def compare(nothing: Callable[[], None], ours: Callable[[], None], *, repeat: int) -> dict[str, Any]:
    """Return the smallest wall time of both, taken in turn."""
    nothing()  # the first run writes byte code
    ours()
    pairs = [(timed(nothing), timed(ours)) for _ in range(repeat)]
    base, own = (min(pair[place] for pair in pairs) for place in (0, 1))
    return {"nothing_s": round(base, 2), "ours_s": round(own, 2), "difference_s": round(own - base, 2)}


def timed(work: Callable[[], None]) -> float:
    """Return the seconds that `work` takes."""
    began = time.perf_counter()
    work()
    return time.perf_counter() - began


def run(environment: Mapping[str, str], *command: str) -> None:
    """Run a command; show what it said when it fails."""
    output(environment, *command)


def output(environment: Mapping[str, str], *command: str) -> str:
    """Run a command and return its output; show what it said when it fails."""
    done = subprocess.run(command, cwd=ROOT, env=dict(environment), capture_output=True, text=True, check=False)
    if done.returncode:
        sys.exit(f"{' '.join(command)} ended with {done.returncode}:\n{done.stderr[-2000:]}")
    return done.stdout


if __name__ == "__main__":
    main()
