"""`hindcast models`: what may be named as a model, where it runs, what it knows and what it costs."""

from collections.abc import Iterable
from typing import Annotated, Any

import typer
from rich import box
from rich.table import Table

from hindcast_dagster import clock
from hindcast_dagster.cli.context import Context
from hindcast_dagster.llm.roster import Encoder, Entry, load

app = typer.Typer(no_args_is_help=True, help="The model roster: `hindcast models list`.")


def register(root: typer.Typer) -> None:
    """Add the group."""
    root.add_typer(app, name="models")


@app.command("list", epilog="Example: hindcast models list --paper")
def list_models(
    context: typer.Context,
    *,
    paper: Annotated[bool, typer.Option("--paper", help="Only the models of the paper.")] = False,
    encoders: Annotated[bool, typer.Option("--encoders", help="Show the embedding models instead.")] = False,
) -> None:
    """List the roster; --json shows every field: pinned revision, source of the cutoff, size, thinking, price.

    A model without a published knowledge cutoff is flagged on every question. Add models of your own with a file of
    the same shape (setting llm.roster_file), or call any model of a server with HINDCAST_LLM__BASE_URL.
    """
    shared: Context = context.obj
    roster = load(shared.settings)
    if encoders:
        found = [encoder for encoder in roster.encoders.values() if encoder.paper or not paper]
        shared.emit({"encoders": [_encoder(item) for item in found]}, text=_encoder_table(found))
        return
    models = [entry for entry in roster if entry.paper or not paper]
    shared.emit({"models": [_model(entry) for entry in models]}, text=_table(models))


def _model(entry: Entry) -> dict[str, Any]:
    known = entry.model_dump(mode="json")
    return known | {"knowledge_cutoff": entry.knowledge_cutoff, "remarks": entry.remarks()}


def _encoder(encoder: Encoder) -> dict[str, Any]:
    return encoder.model_dump(mode="json")


def _table(models: Iterable[Entry]) -> Table:
    table = Table("slug", "backend", "context", "knows until", "licence", "remarks", box=box.SIMPLE_HEAD)
    table.columns[0].no_wrap = table.columns[3].no_wrap = True
    for entry in models:
        until = clock.iso(entry.knowledge_cutoff - 1)[:10] if entry.knowledge_cutoff else "unknown"
        remarks = "\n".join(entry.remarks() + _prices(entry))
        table.add_row(entry.slug, entry.backend, f"{entry.context_length:,}", until, entry.licence, remarks)
    return table


def _prices(entry: Entry) -> list[str]:
    price = entry.price
    return [f"{price.tokens_in:g} in, {price.tokens_out:g} out US$/M tokens"] if price else []


def _encoder_table(encoders: Iterable[Encoder]) -> Table:
    table = Table("slug", "hub id", "dimensions", "tokens", "licence", box=box.SIMPLE_HEAD)
    for item in encoders:
        table.add_row(item.slug, item.hub_id, str(item.dimensions), f"{item.max_tokens:,}", item.licence)
    return table
