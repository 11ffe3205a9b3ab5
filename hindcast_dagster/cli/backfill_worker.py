"""The process that makes one task of a backfill: `python -m hindcast_dagster.cli.backfill_worker TASK`.

A process of its own, so that memory goes back when it ends and one that is killed takes nobody with it. It writes one
JSON object a line to stdout: progress, then the result. It ends itself when the backfill that started it is gone.
"""

import json
import os
import sys
import threading
import traceback
from typing import Any

from hindcast_dagster.errors import HindcastError
from hindcast_dagster.operation.backfill import Task


def main(text: str) -> int:
    """Do the task and return 0 whatever became of it; the result tells."""
    sys.stdout.reconfigure(line_buffering=True)  # type: ignore[union-attr]
    threading.Thread(target=_watch, daemon=True).start()
    given = json.loads(text)
    task = Task(given["group"], tuple(given["key"]), given["options"])
    try:
        rows = _do(task, given["data_root"], dagster=given["dagster"])
        _say({"rows": rows})
    except HindcastError as error:
        _say({"error": str(error), "code": error.exit_code})
    except Exception as error:  # noqa: BLE001 - the last place that can turn one into a sentence and a code
        from hindcast_dagster.storage.files import disk_error

        if (plain := disk_error(error, getattr(error, "filename", None) or "the data root")) is not None:
            _say({"error": str(plain), "code": plain.exit_code})
        else:
            traceback.print_exception(error)
            _say({"error": f"This is a bug ({type(error).__name__}: {error}).", "code": 1})
    return 0


def _do(task: Task, data_root: str, *, dagster: bool) -> int:
    from hindcast_dagster.operation import backfill
    from hindcast_dagster.settings import load
    from hindcast_dagster.storage.store import open_store

    settings = load(data_root=data_root)
    if not dagster:
        return backfill.do(open_store(data_root), settings, task, progress=_progress).rows
    from hindcast_dagster.cli import dagster_backfill

    return dagster_backfill.do(open_store(data_root), settings, task)


def _progress(done: float, total: float | None = None, word: str = "") -> None:
    _say({"done": done, "total": total, "word": word})


def _say(values: dict[str, Any]) -> None:
    sys.stdout.write(json.dumps(values) + "\n")


def _watch() -> None:
    """End this process when the other side of stdin is gone: a backfill that was killed leaves nobody working on."""
    while os.read(0, 1024):
        pass
    os._exit(137)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1]))
