"""Language models by their roster slug."""

from typing import Any

import dagster as dg

from hindcast_dagster.llm.protocol import ChatModel
from hindcast_dagster.llm.roster import Roster
from resources.store import StorageRoot


class LlmResource(dg.ConfigurableResource[Any]):
    """Opens models of the roster. Keys come from the environment, never from run config, which is stored in clear."""

    root: dg.ResourceDependency[StorageRoot]

    def open(self, slug: str) -> ChatModel:
        """Return the model behind a roster slug. Raises `UsageError` for an unknown one."""
        from hindcast_dagster.llm.open import open_model

        return open_model(self.root.settings(), slug)

    def roster(self) -> Roster:
        """Return the roster of models."""
        from hindcast_dagster.llm.roster import load

        return load(self.root.settings())
