"""Polymarket: the real APIs, or the sample world's server on loopback."""

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import dagster as dg

from hindcast_dagster.sample.reach import reachable
from hindcast_dagster.settings import Settings
from resources.store import StorageRoot


class PolymarketResource(dg.ConfigurableResource[Any]):
    """Yields settings whose three base URLs answer, for the time of one step."""

    root: dg.ResourceDependency[StorageRoot]

    @contextmanager
    def reachable(self) -> Iterator[Settings]:
        """Yield the settings; with `polymarket.source = "sample"` a loopback server runs while the body does."""
        with reachable(self.root.settings()) as settings:
            yield settings
