"""Runs and the processes that make them: who is still alive, and what becomes of the run of one that is not."""

import os
from typing import Any, Final

import dagster as dg

PID_TAG: Final = "hindcast/pid"
"""Tag of a run that a `hindcast` command executes in its own process."""


def alive(pid: str) -> bool:
    """Return whether a process of this machine exists."""
    try:
        os.kill(int(pid), 0)
    except (ProcessLookupError, ValueError):
        return False
    except PermissionError:
        return True
    return True


def bury(home: Any) -> int:
    """End the runs whose `hindcast` process is gone (killed), and free their slots; return how many.

    Nobody else notices the death of a run that Dagster did not launch itself: its slot in a pool would stay taken, and
    the next run of that pool would wait for ever.
    """
    begun = [dg.DagsterRunStatus.STARTED, dg.DagsterRunStatus.STARTING]
    found = [run for run in home.get_runs(dg.RunsFilter(statuses=begun)) if PID_TAG in run.tags]
    dead = [run for run in found if not alive(run.tags[PID_TAG])]
    for run in dead:
        home.report_run_failed(run, "Its process is gone (killed).")
        home.event_log_storage.free_concurrency_slots_for_run(run.run_id)
    return len(dead)
