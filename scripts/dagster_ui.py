"""Dagster's UI and daemon, started as `make ui` does, for the browser test and for scripts that show things.

    with running(root=Path("/tmp/root"), home=Path("/tmp/home")) as ui:
        ui.ask("{ version }")

`root` is the data root and `home` DAGSTER_HOME; the port is a free one of 127.0.0.1.
"""

import contextlib
import json
import os
import signal
import socket
import subprocess
import time
import urllib.request
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypeVar

ROOT = Path(__file__).resolve().parents[1]
LOCATION = "hindcast"
REPOSITORY = {"repositoryLocationName": LOCATION, "repositoryName": "__repository__"}
DONE = {"SUCCESS", "FAILURE", "CANCELED"}
Found = TypeVar("Found")

_RUNS = """{ runsOrError(limit: 1000) { ... on Runs { results {
    runId status jobName startTime endTime tags { key value } } } } }"""
_START_SENSOR = """mutation($one: SensorSelector!) { startSensor(sensorSelector: $one) {
    __typename ... on PythonError { message } } }"""
_TICKS = """query($one: SensorSelector!) { sensorOrError(sensorSelector: $one) { ... on Sensor {
    sensorState { ticks(limit: 10) { tickId status skipReason timestamp runIds error { message } } } } } }"""


class NotInTimeError(RuntimeError):
    """Something that was waited for did not come."""


@dataclass(frozen=True)
class Run:
    """One run as the UI lists it."""

    run_id: str
    job: str
    status: str
    tags: Mapping[str, str]
    seconds: float

    @property
    def partition(self) -> str:
        """The partition that the run makes, if any."""
        return self.tags.get("dagster/partition", "")


@dataclass(frozen=True)
class Ui:
    """A running UI."""

    url: str
    log: Path

    def ask(self, query: str, **variables: Any) -> dict[str, Any]:
        """Return the data of one GraphQL query. Raises `RuntimeError` with the server's words."""
        body = json.dumps({"query": query, "variables": variables}).encode()
        request = urllib.request.Request(f"{self.url}/graphql", body, {"Content-Type": "application/json"})
        with urllib.request.urlopen(request, timeout=60) as answer:
            document: dict[str, Any] = json.load(answer)
        if document.get("errors"):
            raise RuntimeError(str(document["errors"])[:2000])
        return dict(document["data"])

    def runs(self) -> list[Run]:
        """Return every run, newest first."""
        rows = self.ask(_RUNS)["runsOrError"]["results"]
        return [
            Run(
                row["runId"],
                row["jobName"],
                row["status"],
                {tag["key"]: tag["value"] for tag in row["tags"]},
                (row["endTime"] or time.time()) - (row["startTime"] or time.time()),
            )
            for row in rows
        ]

    def start_sensor(self, name: str) -> None:
        """Turn a sensor on."""
        answer = self.ask(_START_SENSOR, one={**REPOSITORY, "sensorName": name})["startSensor"]
        if answer["__typename"] != "Sensor":
            raise RuntimeError(f"The sensor {name} was not started: {answer.get('message', answer)}")

    def ticks(self, sensor: str) -> list[dict[str, Any]]:
        """Return the last ticks of a sensor, newest first."""
        found = self.ask(_TICKS, one={**REPOSITORY, "sensorName": sensor})["sensorOrError"]
        return list(found["sensorState"]["ticks"])

    def wait(self, what: str, found: Callable[[], Found | None], *, limit_s: float = 120.0) -> Found:
        """Return the first value of `found` that is not empty. Raises `NotInTimeError` naming `what`."""
        until = time.monotonic() + limit_s
        while time.monotonic() < until:
            if value := found():
                return value
            time.sleep(0.5)
        raise NotInTimeError(
            f"Not within {limit_s:.0f} s: {what}. The server's log ends:\n{self.log.read_text()[-3000:]}"
        )


@contextlib.contextmanager
def running(*, root: Path, home: Path, environment: Mapping[str, str] | None = None) -> Iterator[Ui]:
    """Run `make ui` on a free port until the body ends; its output goes to `home`/ui.log."""
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    home.mkdir(parents=True, exist_ok=True)
    log = home / "ui.log"
    # -o: whoever runs this has just installed; a touched lock file must not start pip here.
    command = ["make", "-s", "ui", "-o", ".venv/.run", f"PORT={port}", f"DAGSTER_HOME={home}"]
    given = os.environ | {"HINDCAST_DATA_ROOT": str(root), "MAKEFLAGS": "", "MAKELEVEL": ""} | dict(environment or {})
    with log.open("w") as out:
        process = subprocess.Popen(
            command, cwd=ROOT, env=given, stdout=out, stderr=subprocess.STDOUT, start_new_session=True
        )
    ui = Ui(f"http://127.0.0.1:{port}", log)
    try:
        ui.wait("the UI answers", lambda: process.poll() is not None or _answers(ui))
        if process.poll() is not None:
            raise RuntimeError(f"`make ui` ended with {process.returncode}:\n{log.read_text()[-3000:]}")
        yield ui
    finally:
        _end(process)


def _answers(ui: Ui) -> bool:
    with contextlib.suppress(OSError, RuntimeError, ValueError):
        return bool(ui.ask("{ version }"))
    return False


def _end(process: "subprocess.Popen[bytes]") -> None:
    """End make, the web server, the daemon and the code servers: they share a process group of their own."""
    for signal_number, patience in ((signal.SIGINT, 20), (signal.SIGKILL, 10)):
        with contextlib.suppress(ProcessLookupError):
            os.killpg(process.pid, signal_number)
        with contextlib.suppress(subprocess.TimeoutExpired):
            process.wait(patience)
        until = time.monotonic() + patience
        while time.monotonic() < until and _alive(process.pid):
            time.sleep(0.1)
        if not _alive(process.pid):
            return


def _alive(group: int) -> bool:
    try:
        os.killpg(group, 0)
    except ProcessLookupError:
        return False
    return True
