"""The list of command modules. Each has `register(app)`, which adds its commands or its sub-app."""

from importlib import import_module
from importlib.util import find_spec
from typing import Final

import typer

GROUPS: Final = (
    "corpus",
    "archive",
    "markets",
    "coverage",
    "evalset",
    "models",
    "forecast",
    "score",
    "serve",
    "audit",
    "control",
    "operate",
    "demo",
)


def all_groups(app: typer.Typer) -> None:
    """Register every group."""
    for name in GROUPS:
        if find_spec(f"hindcast_dagster.cli.{name}") is not None:  # replaced by a plain list once all groups exist
            import_module(f"hindcast_dagster.cli.{name}").register(app)
