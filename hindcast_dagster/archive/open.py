"""Opening the archive: which sealed months it holds, at which versions, and `at(t0)`."""

import threading
from collections.abc import Iterable
from functools import cached_property
from typing import Any

from hindcast_dagster.archive.embedding import Embedder, open_embedder
from hindcast_dagster.archive.integrity import require_undamaged
from hindcast_dagster.archive.layers import Rules
from hindcast_dagster.archive.month import COMMENT_INDEX, SUBMISSION_INDEX, Month
from hindcast_dagster.archive.nearest import Matrix
from hindcast_dagster.archive.ranking import Path, paths
from hindcast_dagster.archive.view import View
from hindcast_dagster.clock import Cutoff
from hindcast_dagster.settings import Settings
from hindcast_dagster.storage.manifest import Input, content_version
from hindcast_dagster.storage.store import NotSealed, Store

TABLES = (SUBMISSION_INDEX, COMMENT_INDEX)


class LanceArchive:
    """A frozen archive: the versions are fixed when it is opened, so a rebuild does not disturb it. Holds no t0."""

    def __init__(
        self, submissions: dict[str, Month], comments: dict[str, Month], *, rules: Rules, settings: Settings
    ) -> None:
        self.submissions, self.comments, self.rules = submissions, comments, rules
        self._settings, self._lock = settings, threading.Lock()
        self._embedder: Embedder | None = None

    @cached_property
    def pins(self) -> tuple[Input, ...]:
        """Every month at its version, as an eval set pins it."""
        months = [*self.submissions.values(), *self.comments.values()]
        return tuple(month.manifest.as_input for month in months)

    @cached_property
    def snapshot(self) -> str:
        """A hash over all pinned versions."""
        return content_version({"/".join((pin.table, *pin.key)): pin.version for pin in self.pins})

    @property
    def months(self) -> tuple[str, ...]:
        """The months whose submissions can be searched."""
        return tuple(self.submissions)

    @cached_property
    def paths(self) -> dict[str, Path]:
        """How each month of submissions is searched: exact, or through its index when memory_mb does not hold it."""
        return paths(self.submissions.values(), memory_mb=self._settings.archive.memory_mb)

    def describe(self) -> list[dict[str, Any]]:
        """Return what is open, month by month, as JSON values: rows, version, disk, model, and how it is searched."""
        return [
            {
                "table": month.manifest.table,
                "month": month.month,
                "rows": month.rows,
                "version": month.manifest.version,
                "bytes": month.bytes,
                "model": month.manifest.stats.get("embedding", {}).get("model"),
                "truncated": month.manifest.stats.get("truncated"),
                "searched": self.paths[month.month] if month.manifest.table == SUBMISSION_INDEX else None,
            }
            for month in (*self.submissions.values(), *self.comments.values())
        ]

    @cached_property
    def matrix(self) -> Matrix:
        """The codes of the months that are searched exactly."""
        return Matrix(month for name, month in self.submissions.items() if self.paths[name] == "exact")

    @property
    def embedder(self) -> Embedder:
        """The query model, loaded when the first query comes. Raises `ModelMismatch` if a table has another one."""
        with self._lock:
            if self._embedder is None:
                embedder = open_embedder(self._settings.embedding)
                for month in self.submissions.values():
                    embedder.identity.require_same(month.identity)
                self._embedder = embedder
        return self._embedder

    def at(self, t0: object) -> View:
        """Return the view at t0. Raises `InvalidInstant` for anything that is not one instant."""
        return View(self, Cutoff.of(t0))


def open_archive(
    store: Store, settings: Settings, *, pins: Iterable[Input] | None = None, verify: bool = False
) -> LanceArchive:
    """Open the sealed months of a store, or exactly the pinned versions of an eval set.

    `verify` reads every file against its checksum first. Raises `NotSealed` when nothing is sealed or a pinned version
    is gone, `InputRefused` for a damaged month.
    """
    chosen = _current(store) if pins is None else [pin for pin in pins if pin.table in TABLES]
    if not chosen:
        raise NotSealed(f"No month of the archive is sealed in {store.root}: run `hindcast archive build --month M`.")
    opened: dict[str, dict[str, Month]] = {table: {} for table in TABLES}
    for pin in sorted(chosen, key=lambda item: item.key):
        sealed = store.partition(pin.table, *pin.key).at_version(pin.version)
        opened[pin.table][pin.key[0]] = Month(sealed)
        if verify:
            require_undamaged([sealed.path])
    rules = Rules(mode=settings.archive.mode, late_votes=settings.archive.late_votes)
    return LanceArchive(opened[SUBMISSION_INDEX], opened[COMMENT_INDEX], rules=rules, settings=settings)


def _current(store: Store) -> list[Input]:
    return [manifest.as_input for table in TABLES for manifest in store.manifests(table)]
