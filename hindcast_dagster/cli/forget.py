"""`hindcast forget`: take-down requests. Documents leave every table, index, journal and page, and never come back."""

from pathlib import Path
from typing import Annotated, Any

import typer

from hindcast_dagster.cli.context import Context
from hindcast_dagster.errors import NotReady


def register(app: typer.Typer) -> None:
    """Add the command."""
    app.command()(forget)


def forget(
    context: typer.Context,
    *,
    ids: Annotated[
        Path | None,
        typer.Option(help="A file of ids, one a line: t3_<id> for posts, t1_<id> for comments; # begins a remark."),
    ] = None,
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Only say what would go.")] = False,
) -> None:
    """Forget documents that people asked to have taken down: seal everything without them, for good.

    Months and their indexes are sealed anew, versions that eval sets pin lose the rows, and replies of models that may
    quote the documents leave the journals. The ids are recorded as hashes, so that a later build from the dump drops
    them again (reason: forgotten). Old audits tell such documents as forgotten. Without --ids the record is enforced
    once more, for example after a restored backup. Interrupted: run it again.

    Example: hindcast forget --ids requests/2026-11-30.txt --dry-run
    """
    from hindcast_dagster.operation import forget as takedown

    given: Context = context.obj
    wanted = takedown.read_ids(ids) if ids is not None else []
    with given.progress("forgetting") as bar:
        account = takedown.forget(given.store, given.settings, wanted, dry_run=dry_run, progress=bar)
    document = account.as_dict()
    given.emit(document, text=_text(document))
    if account.failed:
        raise typer.Exit(NotReady.exit_code)


def _text(document: dict[str, Any]) -> str:
    did = "would go" if document["dry_run"] else "went"
    rows = ", ".join(f"{count} rows of {table}" for table, count in document["rows"].items()) or "no rows"
    asked = f"{document['asked']} documents asked for, {document['new']} new to the record"
    lost = f"{document['rejected_lines']} rejected lines, {document['journal_units']} journal files lose their texts"
    lines = [f"{asked}, {document['unknown']} in no sealed month.", f"{rows} {did} (every version counted); {lost}."]
    lines += [f"  {name}" for name in document["partitions"]]
    if document["reports"]:
        lines.append(
            f"Reports and audits of {', '.join(document['reports'])} are made again; copies elsewhere are yours."
        )
    if document["dumps"]:
        lines.append("The text is still in these dumps, which are yours to remove (no sealed month needs them):")
        lines += [f"  {path}" for path in document["dumps"]]
    lines += [f"Note: {remark}" for remark in document["remarks"]]
    lines += [f"NOT COMPLETE: {said}" for said in document["failed"]]
    return "\n".join(lines)
