"""A backfill of the sample world through a real Dagster: daemon, run queue, SQLite; killed half-way and gone on with.

`python -m scripts.backfill_dagster [--months 25] [--job comment_month] [--kill-at 8]` prints one line of JSON: seconds,
runs by status, how many ran at once, lock errors in any log, and the months that were sealed twice. Exit code 1 when a
month is missing or a lock error was seen.
"""

import argparse
import json
import os
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from collections import Counter
from importlib.resources import files
from pathlib import Path
from typing import Any

import dagster as dg

from hindcast_dagster import clock
from hindcast_dagster.sample.world import generate
from hindcast_dagster.sample.write import write
from hindcast_dagster.storage.store import Store, open_store

ROOT = Path(__file__).resolve().parent.parent
BIN = Path(sys.executable).parent
FIRST = "2024-01"
LOCKED = ("database is locked", "database table is locked")
TABLES = {"comment_month": "comment_index", "submission_month": "submission_index"}
BUSY = [dg.DagsterRunStatus.STARTED, dg.DagsterRunStatus.STARTING]


def main() -> int:
    """Run it and tell."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--months", type=int, default=25)
    parser.add_argument("--job", choices=list(TABLES), default="comment_month")
    parser.add_argument("--kill-at", type=int, default=0, help="kill -9 everything when so many months are sealed")
    parser.add_argument("--limit-s", type=float, default=1_800)
    given = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        show = Show(Path(folder), months=given.months, job=given.job)
        try:
            told = show.run(kill_at=given.kill_at, limit_s=given.limit_s)
        finally:
            show.stop()
    sys.stdout.write(json.dumps(told) + "\n")
    return 0 if told["sealed"] == given.months and not told["lock_errors"] else 1


class Show:
    """One data root, one Dagster home, one daemon."""

    def __init__(self, folder: Path, *, months: int, job: str) -> None:
        self.folder, self.job, self.months = folder, job, months
        self.store: Store = open_store(folder / "data")
        self.home, self.log = folder / "home", folder / "daemon.log"
        self.home.mkdir()
        shutil.copy(str(files("hindcast_dagster").joinpath("dagster.yaml")), self.home / "dagster.yaml")
        last = clock.shift_month(FIRST, months - 1)
        write(self.store, generate(months=months, first_month=FIRST))
        config = f'[window]\nfirst_month = "{FIRST}"\nlast_month = "{last}"\nfirst_close_month = "{FIRST}"\n'
        (self.store.root / "hindcast.toml").write_text(config + '[embedding]\nmodel = "minilm"\n')
        self.environment = {
            **os.environ,
            "DAGSTER_HOME": str(self.home),
            "HINDCAST_DATA_ROOT": str(self.store.root),
            "HF_HUB_OFFLINE": "1",
        }
        with dg.DagsterInstance.from_config(str(self.home)):
            pass  # two processes that make a fresh SQLite home at once break its schema
        self.daemon: subprocess.Popen[bytes] | None = None
        self.most = 0

    def run(self, *, kill_at: int, limit_s: float) -> dict[str, Any]:
        """Launch the backfill and wait for its end."""
        self.start()
        command = [BIN / "dagster", "job", "backfill", "-w", "workspace.yaml", "-j", self.job, "--noprompt"]
        command += ["--from", FIRST, "--to", clock.shift_month(FIRST, self.months - 1)]
        subprocess.run(command, cwd=ROOT, env=self.environment, check=True, stdout=subprocess.DEVNULL)
        began, killed = time.monotonic(), 0.0
        with dg.DagsterInstance.from_config(str(self.home)) as instance:
            while time.monotonic() - began < limit_s:
                self.most = max(self.most, instance.get_runs_count(dg.RunsFilter(statuses=BUSY)))
                if kill_at and not killed and len(self.sealed()) >= kill_at:
                    self.stop()
                    killed = time.monotonic() - began
                    self.start()
                if self.done(instance):
                    break
                time.sleep(1)
            runs = instance.get_runs()
            statuses = Counter(run.status.value for run in runs)
            failures = [
                text for run in runs if run.status == dg.DagsterRunStatus.FAILURE for text in self.said(instance, run)
            ]
        said = self.log.read_text(errors="replace") + "\n".join(failures)
        return {
            "job": self.job,
            "months": self.months,
            "sealed": len(self.sealed()),
            "seconds": round(time.monotonic() - began, 1),
            "killed_after_s": round(killed, 1),
            "runs": dict(statuses),
            "most_at_once": self.most,
            "lock_errors": sum(said.count(word) for word in LOCKED),
        }

    def start(self) -> None:
        """Start the daemon, with its code server, in a process group of its own."""
        with self.log.open("ab") as log:
            self.daemon = subprocess.Popen(
                [BIN / "dagster-daemon", "run", "-w", "workspace.yaml"],
                cwd=ROOT,
                env=self.environment,
                stdout=log,
                stderr=log,
                start_new_session=True,
            )

    def stop(self) -> None:
        """Kill the daemon, its code server and every run at once, as a power cut would."""
        if self.daemon is not None:
            os.killpg(self.daemon.pid, signal.SIGKILL)
            self.daemon.wait()
            self.daemon = None

    def sealed(self) -> list[tuple[str, ...]]:
        """Return the months that stand."""
        return self.store.sealed_keys(TABLES[self.job])

    def done(self, instance: Any) -> bool:
        """Return whether every run has ended and none waits to be tried again."""
        open_ones = [
            status for status in dg.DagsterRunStatus if status.value in {"QUEUED", "STARTED", "STARTING", "NOT_STARTED"}
        ]
        runs = instance.get_runs_count(dg.RunsFilter(statuses=open_ones))
        return len(self.sealed()) == self.months and not runs

    def said(self, instance: Any, run: Any) -> list[str]:
        """Return the messages of a run that failed."""
        return [str(entry.user_message) + str(entry.dagster_event) for entry in instance.all_logs(run.run_id)]


if __name__ == "__main__":
    sys.exit(main())
