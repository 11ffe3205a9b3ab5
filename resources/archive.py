"""The archive with its cutoff: the only way in which a step reads posts."""

from typing import Any

import dagster as dg

from hindcast_dagster.archive.protocol import Archive, ArchiveView
from resources.store import StorageRoot


class ArchiveResource(dg.ConfigurableResource[Any]):
    """Opens the frozen archive. Holds no t0: each call of `at` returns a view of its own, immutable.

    Two steps, threads or processes that stand at different instants therefore cannot see through each other's cutoff.
    """

    root: dg.ResourceDependency[StorageRoot]

    def open(self, eval_set: str | None = None) -> Archive:
        """Return the archive as `eval_set` pinned it, each file checked, or as it is now. Raises `NotSealed`."""
        from hindcast_dagster.archive.open import open_archive

        store = self.root.store()
        pins = store.partition("eval_set", eval_set).require().manifest.pins if eval_set else None
        return open_archive(store, self.root.settings(), pins=pins, verify=eval_set is not None)

    def at(self, t0: object) -> ArchiveView:
        """Return the view at t0. Raises `InvalidInstant` for None, NaN, naive datetimes and milliseconds."""
        return self.open().at(t0)
