"""A few seeds of the fault suite (`make faults` runs many): no fault loses, falsifies or ends in no clear error."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

from tests.faults import compare, run
from tests.faults.catalogue import Row

ROOT = Path(__file__).resolve().parents[2]


@pytest.mark.slow
@pytest.mark.timeout(900)
def test_every_fault_in_every_stage_ends_well_or_in_one_clear_sentence():
    command = [sys.executable, "-m", "tests.faults", "--seeds", "2", "--no-write"]
    done = subprocess.run(command, cwd=ROOT, env=os.environ, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr[-8000:]
    rows = [line for line in done.stderr.splitlines() if " runs: " in line]
    assert len(rows) > 80, "every fault, every stage"
    assert sum("kill -9" in line and "2 runs" in line for line in rows) == 9
    assert not any("0 runs: \n" in line for line in rows)


def test_what_is_lost_or_wrong_is_seen():
    before, after = {"a": 1, "b": 2}, {"a": 1, "b": 3, "c": 4}
    assert compare.never_lost({"a": 1, "b": 2}, before, after) == ""
    assert compare.never_lost({"a": 1, "b": 3, "c": 4}, before, after) == ""
    assert "b is lost" in compare.never_lost({"a": 1}, before, after)
    assert "c is wrong" in compare.never_lost({"a": 1, "b": 2, "c": 5}, before, after)
    assert compare.difference(after, after) == ""
    assert "c: is missing" in compare.difference(before, after)


def test_the_table_names_what_was_not_run_and_what_was_wrong():
    row = Row("kill -9", "corpus", runs=2, wrong=["seed 1: a is lost"])
    row.ends.update(["killed", "killed"])
    said = run.table([row, *run.NOT_RUN], seconds=90, machine="2 cores")
    assert "| kill -9 | corpus | 2 | 2 \N{MULTIPLICATION SIGN} killed | 1 |" in said
    assert "1 wrong" in said
    assert said.count("not run") == len(run.NOT_RUN)
