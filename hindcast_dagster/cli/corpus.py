"""`hindcast corpus ...`: dumps to sealed months, and the ledger of what became of every line."""

from pathlib import Path
from typing import Annotated, Any, Final

import typer

from hindcast_dagster.cli.context import Context
from hindcast_dagster.errors import UsageError
from hindcast_dagster.settings import Settings

corpus = typer.Typer(no_args_is_help=True, help="Monthly Reddit dumps to filtered, sealed months.")

Month = Annotated[str, typer.Option(help="The month, YYYY-MM.")]
KindOption = Annotated[str, typer.Option(help="submissions or comments.")]

_BUILD_EXAMPLE: Final = "Example: hindcast corpus build --month 2024-01 --kind comments --dump /dumps/RC_2024-01.zst"
_LEDGER_EXAMPLE: Final = "Example: hindcast corpus ledger --month 2024-01 --kind comments --json"


def register(app: typer.Typer) -> None:
    """Add the group."""
    app.add_typer(corpus, name="corpus")


@corpus.command(epilog=_BUILD_EXAMPLE)
def build(
    context: typer.Context,
    *,
    month: Month,
    kind: KindOption,
    dump: Annotated[Path | None, typer.Option(help="The dump; without it, RS_/RC_<month> under dumps/.")] = None,
    subreddits: Annotated[Path | None, typer.Option(help="A file of names to keep, one a line.")] = None,
    all_subreddits: Annotated[bool, typer.Option("--all-subreddits", help="Keep every subreddit.")] = False,
) -> None:
    """Filter one month's dump into a sealed table, and count what was dropped and why.

    A dump that is cut or damaged is refused (exit code 3) and seals nothing; an older table of the month stays.
    """
    from hindcast_dagster.corpus.build import build as build_month

    shared: Context = context.obj
    settings = _settings(shared.settings, subreddits=subreddits, everything=all_subreddits)
    with shared.progress(f"{kind} {month}") as bar:
        build_month(shared.store, settings, month=month, kind=kind, dump=dump, progress=bar)
    _show(shared, month, kind)


@corpus.command(epilog=_LEDGER_EXAMPLE)
def ledger(context: typer.Context, *, month: Month, kind: KindOption) -> None:
    """Show what became of every line of a month's dump: kept, or dropped for the first reason that applied."""
    _show(context.obj, month, kind)


def _settings(settings: Settings, *, subreddits: Path | None, everything: bool) -> Settings:
    if subreddits is not None and everything:
        raise UsageError("--subreddits and --all-subreddits exclude each other.")
    if subreddits is None and not everything:
        return settings
    update = {"subreddits_file": subreddits, "all_subreddits": everything}
    return settings.model_copy(update={"corpus": settings.corpus.model_copy(update=update)})


def _show(shared: Context, month: str, kind: str) -> None:
    from hindcast_dagster.corpus import health, ledger

    found = ledger.read(shared.store, month, kind)
    verdict = health.check(shared.store, month, kind)
    document: dict[str, Any] = {
        "month": found.month,
        "kind": found.kind,
        "lines": found.lines,
        "bytes": found.bytes,
        "kept": found.kept,
        "dropped": found.dropped,
        "dump_sha256": found.dump_sha256,
        "sealed": True,
        "health": verdict.as_dict(),
        "surrogates": found.stats["surrogates"],
        "deleted_later": found.stats["deleted_later"],
    }
    if health.is_empty(verdict.numbers):
        shared.err.print(f"[bold yellow]Warning:[/] {kind} {month}: {verdict.advice}")
    elif found.dropped.get("other_subreddit") == found.lines:
        shared.err.print(
            f"[bold yellow]Warning:[/] {kind} {month}: no line is of a subreddit in the list. Name yours with "
            "--subreddits FILE, or keep every one with --all-subreddits."
        )
    shared.emit(document, text=_table(document))


def _table(document: dict[str, Any]) -> Any:
    from rich import box
    from rich.console import Group
    from rich.table import Table
    from rich.text import Text

    title = f"{document['kind']} {document['month']}"
    table = Table("", "lines", title=title, title_justify="left", box=box.SIMPLE, pad_edge=False)
    table.columns[1].justify = "right"
    for reason, count in document["dropped"].items():
        table.add_row(reason, f"{count:,}")
    table.add_section()
    table.add_row("kept", f"{document['kept']:,}", style="bold")
    table.add_row("lines", f"{document['lines']:,}")
    health = document["health"]
    return Group(table, Text(f"health: {health['verdict']}. {health['advice']}".rstrip()))
