"""`hindcast status`: what is sealed, what is stale or broken, how long it took, and what forecasts have cost."""

from collections import defaultdict
from typing import Annotated, Any, NamedTuple

import typer
from rich.console import Group, RenderableType
from rich.table import Table
from rich.text import Text

from hindcast_dagster import clock
from hindcast_dagster.cli.context import Context
from hindcast_dagster.errors import HindcastError
from hindcast_dagster.storage import timings
from hindcast_dagster.storage.manifest import Manifest
from hindcast_dagster.storage.store import Store

MEBIBYTE = 2**20


def register(app: typer.Typer) -> None:
    """Add the command."""
    app.command()(status)


class Row(NamedTuple):
    """One sealed partition as `status` shows it."""

    table: str
    key: tuple[str, ...]
    rows: int = 0
    made_at: int = 0
    bytes: int = 0
    seconds: float | None = None
    """How long its stage took when it was last made; None where nobody measured."""
    stale: tuple[str, ...] = ()
    blocked: str = ""
    """The check that it failed: nothing is made from it."""
    broken: str = ""

    @property
    def problem(self) -> str:
        """What a person should look at, or ""."""
        return self.broken or self.blocked or ", ".join(self.stale)


def status(
    context: typer.Context,
    *,
    every: Annotated[
        bool, typer.Option("--all", help="Every partition, not only those with something to say.")
    ] = False,
) -> None:
    """Show what is sealed, what is stale because of something that changed since, what it took and what it cost.

    Example: hindcast --data-root data/demo status
    """
    from hindcast_dagster.operation import cost

    given: Context = context.obj
    rows = _rows(given.store)
    spent = cost.every(given.store)
    document = {
        "data_root": str(given.store.root),
        "summary": _summary(rows),
        "tables": [_told(row) for row in rows],
        "search": (ways := _search(given)),
        "forecasts": spent,
        "total": _total(spent),
    }
    if not rows:
        given.emit(
            document,
            text=f"Nothing is sealed in {given.store.root} yet: begin with `hindcast demo`, or with dumps of your own "
            "and `hindcast corpus build`.",
        )
        return
    shown = rows if every else [row for row in rows if row.problem]
    parts: list[RenderableType] = [_summary_table(_summary(rows))]
    parts += [_search_line(ways)] if any(ways.values()) else []
    parts += [_partitions_table(shown)] if shown else []
    parts += [_cost_table(spent)] if spent else []
    given.emit(document, text=Group(*parts))


def _search(given: Context) -> dict[str, list[str]]:
    """Return the months of submissions by how they are searched; none where the archive cannot be opened."""
    from hindcast_dagster.archive.open import open_archive

    try:
        paths = open_archive(given.store, given.settings).paths
    except HindcastError:  # nothing is sealed, or what is broken is told in its row
        paths = {}
    return {way: sorted(month for month, path in paths.items() if path == way) for way in ("exact", "index")}


def _search_line(ways: dict[str, list[str]]) -> Text:
    index = ways["index"]
    said = f"{len(index)} ({', '.join(index)}) through their index: raise archive.memory_mb to scan them too"
    return Text(f"Search: {len(ways['exact'])} months exactly, {said if index else '0 through an index'}.")


def _told(row: Row) -> dict[str, Any]:
    values = row._asdict() | {"key": list(row.key), "stale": list(row.stale)}
    return values | {"made_at": clock.iso(row.made_at) if row.made_at else None}


def _rows(store: Store) -> list[Row]:
    """Return every sealed partition; one that cannot be read is told beside the others, not instead of them."""
    manifests: list[Manifest] = []
    broken: list[Row] = []
    for table in store.tables():
        for key in store.sealed_keys(table):
            try:
                manifests.append(_whole(store, table, key))
            except HindcastError as error:
                broken.append(Row(table, key, broken=str(error)))
    current = {(m.table, m.key): m.version for m in manifests}
    took = timings.latest(store)
    return [*broken, *(_row(store, m, current, took.get((m.table, m.key))) for m in manifests)]


def _row(
    store: Store, manifest: Manifest, current: dict[tuple[str, tuple[str, ...]], str], took: timings.Timing | None
) -> Row:
    path = store.partition(manifest.table, *manifest.key).look().path
    failed = manifest.blocked
    return Row(
        manifest.table,
        manifest.key,
        rows=manifest.rows,
        made_at=manifest.made_at,
        bytes=sum(file.stat().st_size for file in path.rglob("*") if file.is_file()),
        seconds=took.seconds if took is not None and took.version == manifest.version else None,
        stale=_stale(manifest, current),
        blocked=f"failed its check {failed.name} ({failed.detail})" if failed is not None else "",
    )


def _whole(store: Store, table: str, key: tuple[str, ...]) -> Manifest:
    """Return the manifest of a partition whose files are all there. Raises `InputRefused` or `NotSealed`."""
    sealed = store.partition(table, *key).look()
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


def _summary(rows: list[Row]) -> list[dict[str, Any]]:
    """Return one line per table: partitions, rows, bytes, the newest, seconds, and how many are stale or broken."""
    by_table: dict[str, list[Row]] = defaultdict(list)
    for row in rows:
        by_table[row.table].append(row)
    return [
        {
            "table": table,
            "partitions": len(found),
            "first": " / ".join(min(row.key for row in found)),
            "last": " / ".join(max(row.key for row in found)),
            "rows": sum(row.rows for row in found),
            "bytes": sum(row.bytes for row in found),
            "newest": clock.iso(newest) if (newest := max(row.made_at for row in found)) else None,
            "seconds": round(sum(row.seconds or 0 for row in found), 1),
            "stale": sum(bool(row.stale) for row in found),
            "blocked": sum(bool(row.blocked) for row in found),
            "broken": sum(bool(row.broken) for row in found),
        }
        for table, found in sorted(by_table.items())
    ]


def _total(spent: list[dict[str, Any]]) -> dict[str, Any]:
    names = ("forecasts", "calls", "tokens_in", "tokens_out", "model_seconds")
    costs = [each["cost"] for each in spent if each["cost"] is not None]
    total = {name: sum(each[name] for each in spent) for name in names}
    return total | {"cost": round(sum(costs), 6) if costs else None}


def _summary_table(summary: list[dict[str, Any]]) -> Table:
    table = Table("table", "partitions", "rows", "MiB", "newest", "stage s", "", box=None, header_style="bold")
    for number in (1, 2, 3, 5):
        table.columns[number].justify = "right"
    for each in summary:
        words = [f"{each[name]} {name}" for name in ("broken", "blocked", "stale") if each[name]]
        style = "red" if each["broken"] or each["blocked"] else "yellow"
        size = f"{each['bytes'] / MEBIBYTE:,.1f}"
        took = f"{each['seconds']:,.1f}" if each["seconds"] else ""
        said = Text(", ".join(words), style=style)
        table.add_row(
            each["table"], f"{each['partitions']:,}", f"{each['rows']:,}", size, each["newest"] or "", took, said
        )
    return table


def _partitions_table(rows: list[Row]) -> Table:
    table = Table("table", "partition", "rows", "sealed", "stale because of, or broken", header_style="bold", box=None)
    table.columns[2].justify = "right"
    for row in rows:
        said = Text(row.problem, style="red" if row.broken or row.blocked else "yellow")
        when = clock.iso(row.made_at) if row.made_at else ""
        table.add_row(row.table, " / ".join(row.key), f"{row.rows:,}", when, said)
    return table


def _cost_table(spent: list[dict[str, Any]]) -> Table:
    heads = ("arm", "model", "eval set", "forecasts", "re-used", "calls", "tokens in", "tokens out", "US$", "model s")
    table = Table(*heads, header_style="bold", box=None)
    for column in table.columns[3:]:
        column.justify = "right"
    for each in spent:
        reused = "" if each["reused"] is None else f"{each['reused']:.0%}"
        counts = (f"{each[name]:,}" for name in ("calls", "tokens_in", "tokens_out"))
        money = "" if each["cost"] is None else f"{each['cost']:,.2f}"
        names = (each["arm"], each["model"], each["eval_set"], f"{each['forecasts']:,}", reused)
        table.add_row(*names, *counts, money, f"{each['model_seconds']:,.0f}")
    return table
