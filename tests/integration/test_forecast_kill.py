"""kill -9 in the middle of 40 agent forecasts, twice: the resumed run asks only for what was in flight."""

import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from hindcast_dagster import keys
from hindcast_dagster.forecast import records
from hindcast_dagster.forecast.run import plan
from hindcast_dagster.settings import load
from hindcast_dagster.storage.store import Store
from tests.forecast_world import DEFAULTS, archive, question, seal_eval_set
from tests.scripted_llm import Script, Server, Stage, scripted_server

ROOT = Path(__file__).resolve().parents[2]
MODEL = keys.to_slug("scripted")
QUESTIONS, RUNS = 20, 2
CALLS_EACH = 5  # seed queries, summary, reflection, (nothing new in round 2), tally, forecast

WORKER = """
import sys
from hindcast_dagster.forecast.run import build
from hindcast_dagster.settings import load
from hindcast_dagster.storage.store import open_store
from tests.forecast_world import archive

root, url, model, runs = sys.argv[1:]
settings = load(data_root=root, llm={"base_url": url, "concurrency": 8})
build(open_store(root), settings, arm="retrieval", model=model, eval_set="small", runs=int(runs), archive=archive())
"""


def script() -> Script:
    reflection = '{"confidence": 0.4, "queries": ["one more", "and one"]}'
    return Script(
        Stage("seed_queries", "This is round 1.", [str(DEFAULTS["seed_queries"])]),
        Stage("summary", "Write the evidence report anew", [str(DEFAULTS["summary"])]),
        Stage("reflection", "Reflect briefly", [reflection]),
        Stage("tally", "Label each block", [str(DEFAULTS["tally"])]),
        Stage("forecast", "Step 1 - PRIOR", [str(DEFAULTS["forecast"])]),
    )


def start(store: Store, server: Server) -> "subprocess.Popen[bytes]":
    command = [sys.executable, "-c", WORKER, str(store.root), server.base_url, MODEL, str(RUNS)]
    return subprocess.Popen(command, cwd=ROOT, env=os.environ | {"PYTHONPATH": str(ROOT)})


def kill_after(process: "subprocess.Popen[bytes]", server: Server, completions: int) -> None:
    until = time.monotonic() + 60
    while server.completions < completions:
        assert process.poll() is None, "the worker ended before it was killed"
        assert time.monotonic() < until
        time.sleep(0.005)
    process.send_signal(signal.SIGKILL)
    process.wait()
    time.sleep(0.3)  # requests that were on the wire still reach the server


def finished(store: Store) -> int:
    return sum(1 for _ in records.traces(store, "small"))


@pytest.mark.slow
def test_killed_twice_and_resumed_makes_exactly_the_missing_calls(store: Store) -> None:
    seal_eval_set(store, [question(number) for number in range(1, QUESTIONS + 1)])
    undisturbed = QUESTIONS * RUNS * CALLS_EACH
    wasted = before = 0
    with scripted_server(script(), latency_s=0.02) as server:
        for stop_at in (60, 130):
            kill_after(start(store, server), server, stop_at)
            kept = finished(store)
            wasted = server.completions - kept * CALLS_EACH
            assert before < kept < QUESTIONS * RUNS
            assert wasted >= 0
            before = kept
        assert start(store, server).wait(timeout=120) == 0
        assert server.completions == undisturbed + wasted
        assert finished(store) == QUESTIONS * RUNS
        assert records.all_forecasts(store, "small").height == QUESTIONS * RUNS
        settings = load(data_root=str(store.root), llm={"base_url": server.base_url})
        left = plan(store, settings, arm="retrieval", model=MODEL, eval_set="small", runs=RUNS, archive=archive())
        assert (left.done, left.pending) == (QUESTIONS * RUNS, 0)
    assert set(records.all_forecasts(store, "small")["calls"]) == {CALLS_EACH}
