"""Runs the tasks of a backfill in processes, a few at a time; a task that fails or is killed stops no other."""

import json
import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor, as_completed
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any, Final, Literal

from hindcast_dagster.operation.backfill import Task

State = Literal["fresh", "made", "failed"]
BUG: Final = 1
KILLED: Final = 4
"""Exit code of a task whose process was killed: run the backfill again."""
_TAIL: Final = 2_000  # characters of a worker's stderr that are kept for a bug


@dataclass(frozen=True, slots=True)
class Outcome:
    """What became of one task."""

    task: Task
    state: State
    why: str = ""
    """Why there was work to do; "" for a fresh one."""
    rows: int | None = None
    seconds: float = 0.0
    error: str = ""
    code: int = 0
    """Exit code that the error asks for."""

    def as_dict(self) -> dict[str, Any]:
        """Return JSON values."""
        rest = {name: getattr(self, name) for name in ("state", "why", "rows", "seconds", "error", "code")}
        return {"group": self.task.group, "key": list(self.task.key), **rest}


Watch = Callable[[Task, float, float | None, str], None]


class Pool:
    """At most `jobs` processes at once. Leaving its context ends those that are left."""

    def __init__(self, data_root: str, *, jobs: int, dagster: bool = False, watch: Watch | None = None) -> None:
        self._data_root, self._jobs, self._dagster, self._watch = data_root, jobs, dagster, watch
        self._running: set[subprocess.Popen[str]] = set()
        self._lock, self._stopped = threading.Lock(), False

    def run(self, todo: Sequence[tuple[Task, str]]) -> Iterator[Outcome]:
        """Yield the outcome of every (task, why) in the order in which they end."""
        with self._threads() as threads:
            futures: list[Future[Outcome]] = [threads.submit(self._one, task, why) for task, why in todo]
            for future in as_completed(futures):
                yield future.result()

    @contextmanager
    def _threads(self) -> Iterator[ThreadPoolExecutor]:
        threads = ThreadPoolExecutor(self._jobs, thread_name_prefix="backfill")
        try:
            yield threads
        finally:
            with self._lock:
                self._stopped = True
                for process in self._running:
                    process.kill()
            threads.shutdown(wait=True, cancel_futures=True)

    def _one(self, task: Task, why: str) -> Outcome:
        began = time.monotonic()
        given = {"group": task.group, "key": task.key, "options": task.options}
        told = self._worker(json.dumps(given | {"data_root": self._data_root, "dagster": self._dagster}), task)
        state: State = "failed" if "error" in told else "made"
        return Outcome(task, state, why, seconds=round(time.monotonic() - began, 2), **told)

    def _worker(self, given: str, task: Task) -> dict[str, Any]:
        """Run the process of a task and return its last word."""
        command = [sys.executable, "-m", "hindcast_dagster.cli.backfill_worker", given]
        with self._lock:
            if self._stopped:
                return {"error": "The backfill was interrupted.", "code": KILLED}
            process = subprocess.Popen(  # noqa: S603 - our own module
                command,
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=subprocess.PIPE,
                text=True,
                env=self._environment(),
            )
            self._running.add(process)
        with process:
            told, said = self._listen(process, task)
        with self._lock:
            self._running.discard(process)
        return told or self._lost(process.returncode, said)

    def _listen(self, process: subprocess.Popen[str], task: Task) -> tuple[dict[str, Any], str]:
        """Read what a process says until it ends: its last word, and the end of what it wrote to stderr."""
        said: list[str] = []
        listener = threading.Thread(target=lambda: said.extend(process.stderr or ()), daemon=True)
        listener.start()
        told: dict[str, Any] = {}
        for line in process.stdout or ():
            told = self._heard(line, task) or told
        listener.join()
        return told, "".join(said)[-_TAIL:]

    def _heard(self, line: str, task: Task) -> dict[str, Any] | None:
        """Return the result that a line holds; pass progress on; a line of somebody else's printing is nothing."""
        try:
            values = json.loads(line)
        except ValueError:
            return None
        if not isinstance(values, dict) or "done" in values:
            if self._watch is not None and isinstance(values, dict):
                self._watch(task, values["done"], values["total"], values["word"])
            return None
        return values if "rows" in values or "error" in values else None

    def _lost(self, code: int, said: str) -> dict[str, Any]:
        if code == -signal.SIGKILL:
            why = "often the system's answer to too little memory: try fewer --jobs"
            return {"error": f"Its process was killed ({why}).", "code": KILLED}
        if code < 0:
            return {"error": f"Its process was ended by signal {-code}.", "code": KILLED}
        return {"error": f"Its process ended with code {code}: {said.strip()}", "code": BUG}

    def _environment(self) -> dict[str, str]:
        """Share the cores among the processes: each library would otherwise take all of them for itself."""
        share = str(max(1, (os.cpu_count() or 1) // self._jobs))
        limits = {name: share for name in ("OMP_NUM_THREADS", "POLARS_MAX_THREADS") if name not in os.environ}
        return {**os.environ, **limits, "TQDM_DISABLE": "1"}
