"""The list of command modules. Each has `register(app)`, which adds its commands or its sub-app."""

import inspect

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
    _flow(app)


def _flow(app: typer.Typer) -> None:
    """Join the lines of each paragraph of a help text: Typer keeps the breaks of the source, whatever the window."""
    for command in app.registered_commands:
        text = inspect.cleandoc(command.help or command.callback.__doc__ or "") if command.callback else ""
        command.help = "\n\n".join(" ".join(paragraph.splitlines()) for paragraph in text.split("\n\n"))
    for group in app.registered_groups:
        if group.typer_instance is not None:
            _flow(group.typer_instance)
