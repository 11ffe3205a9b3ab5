"""Children that run one thing and can be killed: forked from a parent that has imported everything and used nothing.

A start from nothing costs seconds of imports; a fork costs milliseconds. The parent must not start a thread pool
(Polars, LanceDB and OpenBLAS do not survive a fork), so everything that computes runs in a child.
"""

import json
import os
import select
import signal
import sys
import time
import traceback
from collections.abc import Callable
from typing import Any, NamedTuple

from hindcast_dagster.errors import HindcastError
from hindcast_dagster.storage.files import disk_error

PATIENCE_S = 120.0


class Outcome(NamedTuple):
    """How a child ended: its exit code as the command line has it (-9: killed), its sentence, and what it returned."""

    code: int
    said: str = ""
    value: Any = None


class Child:
    """A running child."""

    def __init__(self, work: Callable[[], Any]) -> None:
        """Fork and start `work`, whose JSON value or error becomes the outcome."""
        self._read, write = os.pipe()
        self.pid = os.fork()
        if self.pid == 0:
            os.close(self._read)
            _child(work, write)
        os.close(write)

    def kill(self) -> None:
        """Send SIGKILL."""
        os.kill(self.pid, signal.SIGKILL)

    def wait(self, patience_s: float = PATIENCE_S) -> Outcome:
        """Wait for the end; a child that hangs is killed and told as code -1."""
        until = time.monotonic() + patience_s
        data = b""
        while True:
            ready, _, _ = select.select([self._read], [], [], max(until - time.monotonic(), 0))
            if not ready:
                self.kill()
                os.waitpid(self.pid, 0)
                os.close(self._read)
                return Outcome(-1, f"hung for {patience_s:.0f} s")
            part = os.read(self._read, 1 << 20)
            if not part:
                break
            data += part
        os.close(self._read)
        _, status = os.waitpid(self.pid, 0)
        code = os.waitstatus_to_exitcode(status)
        return Outcome(code) if code < 0 else Outcome(code, *json.loads(data))


def run(work: Callable[[], Any]) -> Outcome:
    """Run `work` in a child to its end."""
    return Child(work).wait()


def _child(work: Callable[[], Any], pipe: int) -> None:
    """Do the work, write the outcome, and leave without the parent's exit handlers."""
    code, said, value = 1, "", None
    try:
        quiet = os.open(os.devnull, os.O_RDWR)
        for stream in (1, 2):
            os.dup2(quiet, stream)
        sys.stdout, sys.stderr = os.fdopen(1, "w"), os.fdopen(2, "w")
        code, said, value = _done(work)
        with os.fdopen(pipe, "wb") as out:
            out.write(json.dumps([said, value]).encode())
    finally:
        os._exit(code)


def _done(work: Callable[[], Any]) -> tuple[int, str, Any]:
    """Return what the command line would: exit code and sentence (see `cli.main`)."""
    try:
        return 0, "", work()
    except HindcastError as error:
        return error.exit_code, str(error), None
    except BaseException as error:  # noqa: BLE001 - a bug is an outcome too
        if (plain := disk_error(error, getattr(error, "filename", None) or "the data root")) is not None:
            return plain.exit_code, str(plain), None
        return 1, "".join(traceback.format_exception(error)[-3:]) + traceback.format_exc()[-1500:], None
