"""`hindcast reregister | gc`: Dagster's view of what is sealed, and what may be removed."""

from pathlib import Path
from typing import Annotated

import typer

from hindcast_dagster.cli.context import Context
from hindcast_dagster.storage.store import Partition, Store


def register(app: typer.Typer) -> None:
    """Add the commands."""
    for command in (reregister, gc):
        app.command()(command)


def reregister(context: typer.Context) -> None:
    """Tell a fresh Dagster instance of everything that is sealed. The manifests are the truth, its event log a view.

    Example: DAGSTER_HOME=$PWD/.dagster_home hindcast --data-root data/demo reregister
    """
    from hindcast_dagster.cli.dagster_view import report_all

    given: Context = context.obj
    home, told = report_all(given.store, given.settings)
    said = f"{sum(told.values())} partitions of {len(told)} tables registered in {home}; known ones are left alone."
    given.emit({"dagster_home": home, "registered": told}, text=said)


def gc(
    context: typer.Context,
    *,
    remove: Annotated[bool, typer.Option("--remove", help="Remove them; without it they are only listed.")] = False,
) -> None:
    """List (or remove) versions that no manifest names and no eval set pins.

    Example: hindcast gc --remove
    """
    given: Context = context.obj
    found: list[Path] = []
    left: list[Path] = []
    kept: list[str] = []
    for partition in _partitions(given.store):
        manifest = partition.manifest_or_none()
        if manifest is None:
            kept.append(partition.name)
        else:
            listed = partition.prune(keep=[manifest.version], dry_run=True)
            gone = partition.prune(keep=[manifest.version]) if remove else listed
            found, left = found + gone, left + [path for path in listed if path not in gone]
    document = {
        "removed" if remove else "unreferenced": [str(path) for path in found],
        "left": [str(path) for path in left],
        "unreadable": kept,
    }
    did = "Removed" if remove else "Would remove (run with --remove)"
    lines = [f"{path}  {_size(path) if not remove else ''}".rstrip() for path in found]
    lines += [f"{did}: {len(found)} versions."] if found or left else ["Nothing to remove."]
    lines += [f"Left, because it is in use or not yours to remove: {path}." for path in left]
    lines += [f"Left alone, because its manifest cannot be read: {name}." for name in kept]
    given.emit(document, text="\n".join(lines))


def _partitions(store: Store) -> list[Partition]:
    """Return every partition with a manifest. Only versions of tables are ever removed: raw data and work stay."""
    return [store.partition(table, *key) for table in store.tables() for key in store.sealed_keys(table)]


def _size(path: Path) -> str:
    return f"{sum(file.stat().st_size for file in path.rglob('*') if file.is_file()) / 2**20:,.1f} MiB"
