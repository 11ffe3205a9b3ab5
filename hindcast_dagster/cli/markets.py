"""`hindcast markets`: snapshots of Polymarket with outcomes, reasons and price histories."""

import json
from dataclasses import asdict
from typing import Annotated, Any

import typer
from rich import box
from rich.markup import escape
from rich.table import Table
from rich.text import Text

from hindcast_dagster.cli.context import Context
from hindcast_dagster.errors import NotReady, UsageError

ClosedFrom = Annotated[str | None, typer.Option(help="First close to cover: a date or an instant.")]
ClosedTo = Annotated[str | None, typer.Option(help="Last close to cover; a date is meant with its whole day.")]


def register(app: typer.Typer) -> None:
    """Add the group."""
    group = typer.Typer(no_args_is_help=True, help="Polymarket snapshots: outcomes with reasons, prices, rules.")
    group.command("fetch")(fetch)
    group.command("list")(list_months)
    group.command("show")(show)
    app.add_typer(group, name="markets")


def fetch(
    context: typer.Context,
    *,
    closed_from: ClosedFrom = None,
    closed_to: ClosedTo = None,
    refresh: Annotated[
        bool, typer.Option(help="Walk the listing again; --no-refresh works from what is stored.")
    ] = True,
    prices: Annotated[bool, typer.Option(help="Fetch price histories too.")] = True,
) -> None:
    """Fetch every closed market and the price histories of the months in the window, and seal them.

    Stops and goes on: an interrupted fetch asks for nothing again that is stored.

    Example: hindcast markets fetch --closed-from 2025-12-01 --closed-to 2026-01-31
    """
    from hindcast_dagster.markets.fetch import fetch as run
    from hindcast_dagster.sample.reach import reachable

    obj: Context = context.obj
    with reachable(obj.settings) as settings, obj.progress("Polymarket") as bar:
        report = run(
            obj.store,
            settings,
            closed_from=closed_from,
            closed_to=closed_to,
            progress=bar,
            refresh=refresh,
            prices=prices,
        )
    document = asdict(report)
    said = ", ".join(f"{reason} {count}" for reason, count in report.excluded.items()) or "none"
    obj.emit(
        document,
        text=f"{report.fetched} listed, {report.parsed} parsed in {len(report.months)} months, {report.kept} with an "
        f"outcome; excluded: {said}."
        + ("" if report.parsed else " Nothing closed in this window: see --closed-from and --closed-to."),
    )


def list_months(
    context: typer.Context, *, month: Annotated[str | None, typer.Option(help="List the markets of one month.")] = None
) -> None:
    """List the sealed close months, or the markets of one.

    Example: hindcast markets list --month 2026-01
    """
    obj: Context = context.obj
    if month is None:
        rows = _months(obj)
        obj.emit({"months": rows}, text=_table(rows))
        return
    rows = _markets(obj, month)
    obj.emit({"month": month, "markets": rows}, text=_table(rows))


def _months(obj: Context) -> list[dict[str, Any]]:
    priced = {manifest.key[0]: manifest.stats for manifest in obj.store.manifests("market_prices")}
    return [
        {
            "month": manifest.key[0],
            "markets": manifest.rows,
            "kept": manifest.stats.get("kept"),
            "excluded": manifest.stats.get("excluded", {}),
            "price_series": priced.get(manifest.key[0], {}).get("series"),
            "without_history": priced.get(manifest.key[0], {}).get("no_price_history"),
        }
        for manifest in obj.store.manifests("markets")
    ]


def _markets(obj: Context, month: str) -> list[dict[str, Any]]:
    from hindcast_dagster import clock, keys
    from hindcast_dagster.contracts.markets import MARKETS
    from hindcast_dagster.storage.tables import read_table

    sealed = obj.store.partition("markets", keys.month(month)).require(made_by="hindcast markets fetch")
    return [
        {
            "id": row["market_id"],
            "closed": clock.iso(row["close_at"]),
            "outcome": row["outcome"],
            "excluded": row["excluded"],
            "topic": row["topic"],
            "question": row["question"],
        }
        for row in read_table(sealed, MARKETS).iter_rows(named=True)
    ]


def show(
    context: typer.Context,
    market_id: Annotated[str, typer.Argument(help="Condition id, 0x and 64 hex digits, or slug.")],
) -> None:
    """Show one market: its rules, the notes that are never shown to a forecaster, outcome, times and price series.

    Example: hindcast markets show will-bitcoin-reach-170000-by-december-31-2025
    """
    import polars as pl

    from hindcast_dagster import clock
    from hindcast_dagster.markets import read

    obj: Context = context.obj
    wanted = market_id.strip()
    if not wanted or len(wanted) > 300:  # noqa: PLR2004 - longer than any slug
        raise UsageError("Name a market by its condition id or its slug.")
    found = read.all_markets(obj.store).filter((pl.col("market_id") == wanted.lower()) | (pl.col("slug") == wanted))
    if found.is_empty():
        raise NotReady(f"No sealed market is named {wanted!r}: see `hindcast markets list`, or fetch its month.")
    market = found.row(0, named=True)
    month = clock.month_of(market["close_at"])
    document = market | {"month": month, "series": _series(obj, month, market["market_id"])}
    obj.emit(document, text=Text(json.dumps(document, indent=1, ensure_ascii=False)))


def _series(obj: Context, month: str, market_id: str) -> dict[str, Any] | None:
    import polars as pl

    from hindcast_dagster.contracts.markets import SERIES
    from hindcast_dagster.markets.prices import SERIES_FILE
    from hindcast_dagster.storage.tables import read_table

    partition = obj.store.partition("market_prices", month)
    if partition.manifest() is None:
        return None
    rows = read_table(partition.require(), SERIES, name=SERIES_FILE).filter(pl.col("market_id") == market_id)
    return rows.row(0, named=True) if rows.height else None


def _table(rows: list[dict[str, Any]]) -> Table | str:
    if not rows:
        return "Nothing is sealed yet: run `hindcast markets fetch`."
    table = Table(*rows[0], box=box.SIMPLE, pad_edge=False)
    for row in rows:
        table.add_row(*("" if value is None else _cell(value) for value in row.values()))
    return table


def _cell(value: Any) -> str:
    return escape(", ".join(f"{k} {v}" for k, v in value.items()) if isinstance(value, dict) else str(value))
