"""The list of command modules. Each has `register(app)`, which adds its commands or its sub-app."""

import typer

from hindcast_dagster.cli import (
    archive,
    audit,
    backfill,
    control,
    corpus,
    coverage,
    demo,
    doctor,
    evalset,
    forecast,
    forget,
    markets,
    models,
    operate,
    score,
    serve,
    status,
    sweep,
)

GROUPS = (
    demo,
    doctor,
    operate,
    backfill,
    forget,
    corpus,
    archive,
    markets,
    coverage,
    evalset,
    models,
    forecast,
    score,
    audit,
    control,
    serve,
    status,
    sweep,
)


def all_groups(app: typer.Typer) -> None:
    """Register every group, in the order in which `hindcast --help` shows them."""
    for group in GROUPS:
        group.register(app)
