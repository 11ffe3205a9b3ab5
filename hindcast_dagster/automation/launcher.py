"""Launches runs as Dagster does, and notices when the process of one is gone: then its slot is free and it is retried.

Dagster's own launcher cannot tell whether a run is still alive. After a power cut or kill -9 its runs would stay
"started" for ever and hold their places in the queue. dagster.yaml names this one.
"""

from typing import Any

import dagster as dg
from dagster._core.launcher import CheckRunHealthResult, DefaultRunLauncher, WorkerStatus
from dagster._grpc.types import CanCancelExecutionRequest, CanCancelExecutionResult
from dagster_shared.serdes import deserialize_value

from hindcast_dagster.automation.processes import PID_TAG, alive

RUNNING = CheckRunHealthResult(WorkerStatus.RUNNING)
LOST = CheckRunHealthResult(WorkerStatus.FAILED, "Its process is gone.")


class LocalRunLauncher(DefaultRunLauncher):
    """The default launcher, and a look at the server of a run: one that is gone or knows no such run has lost it."""

    @property
    def supports_check_run_worker_health(self) -> bool:
        """True: `run_monitoring` may ask."""
        return True

    def check_run_worker_health(self, run: dg.DagsterRun) -> CheckRunHealthResult:
        """Ask the process that started the run whether it still executes it; in doubt the run is taken to live.

        A run that ended a moment ago counts as lost here; monitoring looks at its status once more before it acts.
        """
        if PID_TAG in run.tags:
            return RUNNING if alive(run.tags[PID_TAG]) else LOST
        client = self._get_grpc_client_for_termination(run.run_id)  # type: ignore[no-untyped-call]
        if client is None:
            return RUNNING
        try:
            return RUNNING if self._executes(client, run.run_id) else LOST
        except Exception as error:  # noqa: BLE001 - whatever went wrong, only an absent server means a lost run
            return LOST if _absent(error) else RUNNING

    def _executes(self, client: Any, run_id: str) -> bool:
        asked = client.can_cancel_execution(CanCancelExecutionRequest(run_id=run_id))
        return bool(deserialize_value(asked, CanCancelExecutionResult).can_cancel)


def _absent(error: BaseException | None) -> bool:
    """Return whether nobody listens there; a server that is merely slow does not count."""
    while error is not None:
        code = getattr(error, "code", None)
        if callable(code) and getattr(code(), "name", "") == "UNAVAILABLE":
            return True
        error = error.__cause__
    return False
