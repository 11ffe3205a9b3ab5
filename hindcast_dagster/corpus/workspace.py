"""A folder for what a build spills to disk: gone when the build ends, and swept by the next one if it was killed."""

import shutil
import uuid
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from filelock import FileLock, Timeout

from hindcast_dagster.errors import NotReady
from hindcast_dagster.storage.files import clear_errors
from hindcast_dagster.storage.store import Store


@contextmanager
def workspace(store: Store) -> Iterator[Path]:
    """Give an empty folder under `work/`, removed at the end. A living build holds the lock of its own."""
    home = store.area("work", "corpus")
    with clear_errors(home):
        home.mkdir(parents=True, exist_ok=True)
        with FileLock(home / ".lock"):  # nobody sweeps between a folder's creation and its lock
            for left in home.iterdir():
                _remove_if_abandoned(left)
            folder = home / uuid.uuid4().hex
            folder.mkdir()
            lock = FileLock(folder / ".lock")
            lock.acquire()
        try:
            yield folder
        finally:
            lock.release()
            shutil.rmtree(folder, ignore_errors=True)


def require_idle(store: Store) -> None:
    """Remove what killed builds have left. Raises `NotReady` while a build is at work."""
    home = store.area("work", "corpus")
    for folder in home.iterdir() if home.is_dir() else ():
        _remove_if_abandoned(folder)
        if folder.is_dir():
            raise NotReady(f"A month of the corpus is being built ({folder}): wait for it, then run it again.")


def _remove_if_abandoned(folder: Path) -> None:
    if folder.is_dir():
        with suppress(Timeout, OSError), FileLock(folder / ".lock", timeout=0):
            shutil.rmtree(folder, ignore_errors=True)
