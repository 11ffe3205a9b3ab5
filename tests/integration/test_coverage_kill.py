"""The probe killed with SIGKILL at random moments and run again: no finished market is asked twice, the table is the same."""

import json
import os
import random
import signal
import subprocess
import sys
import time
from collections import Counter
from pathlib import Path

import pytest

from hindcast_dagster.clock import DAY
from hindcast_dagster.contracts.coverage import COVERAGE
from hindcast_dagster.contracts.markets import MARKETS
from hindcast_dagster.storage.journal import Journal
from hindcast_dagster.storage.store import open_store
from hindcast_dagster.storage.tables import publish_table, read_table
from tests.leak_world import CLOSE, market_row

ROOT = Path(__file__).resolve().parents[2]
MONTH = "2025-03"
MARKETS_COUNT = 12
PROGRAM = """
import asyncio, json, sys
from hindcast_dagster.coverage import probe
from hindcast_dagster.coverage.judge import Finding
from hindcast_dagster.evidence.labels import Tallies, Tally
from hindcast_dagster.settings import load
from hindcast_dagster.storage.store import open_store
from tests.toy_archive import ToyArchive

class Slow:
    name, version = "slow", "1"
    async def read(self, question, view):
        with open(sys.argv[2], "a") as log:
            log.write(question.id + "\\n")
        await asyncio.sleep(0.15)
        return Finding(Tallies(Tally(strong=int(question.id, 16)), Tally()), 0.5, "strong", {}, ())
    async def close(self): ...

settings = load(data_root=sys.argv[1], llm={"concurrency": 2})
probe.build(open_store(sys.argv[1]), settings, month="2025-03", judge=Slow(), archive=ToyArchive([]))
"""


def run(root, log, *, kill_after=None):
    """Run the probe in a process of its own; kill it after a while if that is asked for."""
    command = [sys.executable, "-c", PROGRAM, str(root), str(log)]
    child = subprocess.Popen(command, cwd=ROOT, env=os.environ | {"PYTHONPATH": str(ROOT)})
    if kill_after is not None:
        deadline = time.monotonic() + 60
        journal = root / "journal" / "coverage_probe" / MONTH
        while child.poll() is None and len(list(journal.glob("*.json"))) < kill_after and time.monotonic() < deadline:
            time.sleep(0.02)
        child.send_signal(signal.SIGKILL)
    return child.wait(timeout=120)


def world(root):
    rows = [
        market_row(market_id=f"0x{number:064x}", close_at=CLOSE - number * DAY)
        for number in range(1, MARKETS_COUNT + 1)
    ]
    store = open_store(root)
    publish_table(store.partition("markets", MONTH), MARKETS.frame(rows), MARKETS, code_version="1")
    return store


@pytest.mark.slow
def test_killed_twice_and_resumed(tmp_path):
    root, log = tmp_path / "root", tmp_path / "asked.txt"
    store = world(root)
    chance = random.Random(5)
    in_flight = 0
    for kill_after in sorted(chance.sample(range(1, MARKETS_COUNT - 2), 2)):
        assert run(root, log, kill_after=kill_after) == -signal.SIGKILL
        assert store.partition("coverage_probe", MONTH).manifest() is None, "nothing half done is sealed"
        in_flight += 2
    assert run(root, log) == 0
    asked = Counter(log.read_text().split())
    assert len(asked) == MARKETS_COUNT
    assert sum(asked.values()) <= MARKETS_COUNT + in_flight, "only what was in flight is asked again"
    finished = [json.dumps(record, sort_keys=True) for _, record in Journal(store, "coverage_probe", MONTH).records()]
    assert len(finished) == MARKETS_COUNT
    undisturbed = world(tmp_path / "other")
    assert run(tmp_path / "other", tmp_path / "other.txt") == 0
    tables = [read_table(each.partition("coverage_probe", MONTH).require(), COVERAGE) for each in (store, undisturbed)]
    assert tables[0].equals(tables[1])
