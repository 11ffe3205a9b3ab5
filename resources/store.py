"""The storage root: where everything is kept, and the settings that go with it."""

from typing import Any

import dagster as dg
from pydantic import Field

from hindcast_dagster.settings import Settings, load
from hindcast_dagster.storage.store import Store, open_store


class StorageRoot(dg.ConfigurableResource[Any]):
    """Hands out the store and the settings of one data root. Reads them when asked, in the process that asks."""

    data_root: str = Field(default="", description="Local path; empty: HINDCAST_DATA_ROOT, else the settings' default.")

    def settings(self) -> Settings:
        """Return the settings of this root. Raises `UsageError`."""
        return load(data_root=self.data_root or None)

    def store(self) -> Store:
        """Return the store at this root. Raises `UsageError`."""
        return open_store(self.settings().data_root)
