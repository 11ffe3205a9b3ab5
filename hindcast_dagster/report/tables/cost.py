"""What a forecast costs, and how long the archive takes to answer (table 3 of the paper)."""

import polars as pl

from hindcast_dagster.clock import iso
from hindcast_dagster.report.absent import NotMeasured
from hindcast_dagster.report.gather import Gathered
from hindcast_dagster.report.latency import PAPER, Host
from hindcast_dagster.report.tables.fields import (
    DASH,
    Field,
    Group,
    Table,
    by_family,
    count,
    grouped,
    metric,
    name_of,
    number,
    percent,
)
from hindcast_dagster.report.theme import arm_name
from hindcast_dagster.scoring.inputs import BASELINE


def economy(gathered: Gathered) -> Table:
    """Return what one forecast of each cell costs."""
    names = ("tokens_in", "tokens_out", "calls", "documents", "seconds", "cost")
    values = {name: metric(gathered, name) for name in (*names, "trimmed_share")}
    rows = []
    for cell in by_family(gathered, gathered.cells.filter(pl.col("model") != BASELINE)).iter_rows(named=True):
        key = (cell["model"], cell["arm"])
        if key in values["calls"]:
            digits = (0, 0, 1, 1, 1, 4)
            fields = [number(values[name].get(key), places) for name, places in zip(names, digits, strict=True)]
            cut = percent(values["trimmed_share"].get(key), 0)
            model, arm = Field(name_of(gathered, key[0])), Field(arm_name(key[1]))
            rows.append((key[0], [model, arm, number(cell["brier"]), *fields, cut]))
    columns = ["Tokens in", "Tokens out", "Calls", "Documents", "Seconds", "US $", "Cut %"]
    return Table(
        "Cost of a forecast",
        ["Model", "Arm", "Brier", *columns],
        grouped(gathered, rows),
        note="Means per forecast, failed ones included. US $ only where the roster has a price. Cut: share of "
        "forecasts whose evidence had to be shortened to fit the context.",
        texts=2,
        wide=True,
    )


def latency(gathered: Gathered) -> Table:
    """Return table 3 of the paper as measured here, with the paper's own figures beside it."""
    if isinstance(gathered.latency, NotMeasured):
        return Table("Retrieval latency", [], [])
    found = gathered.latency.latency
    printed = {months: f"{median} / {p95}" for months, median, p95 in PAPER}
    rows = [
        [
            Field(f"{row.partitions:,}"),
            count(row.rows),
            number(row.median_ms, 0 if row.median_ms >= 10 else 1),  # noqa: PLR2004 - printing only
            number(row.p95_ms, 0 if row.p95_ms >= 10 else 1),  # noqa: PLR2004
            percent(row.embedding_share, 0),
            count(row.queries),
            Field(printed.get(row.partitions, DASH)),
        ]
        for row in sorted(found.table3, key=lambda row: row.partitions)
    ]
    columns = ["Rows", "Median ms", "p95 ms", "Embedding %", "Queries", "Paper: median / p95"]
    return Table(
        "Retrieval latency",
        ["Months admitted", *columns],
        [Group("", rows)],
        note="One search, from the text of the query to 20 documents with their texts. Embedding: the part of the "
        f"median that embedding the query takes. Measured {iso(found.made_at)[:10]} on {_machine(found.host)}. The "
        "paper measured on one GPU over 18.3 million rows.",
    )


def _machine(host: Host) -> str:
    parts = [f"{host.processor}, {host.cpus} cores"]
    parts += [f"{host.memory_gib:.0f} GiB"] if host.memory_gib is not None else []
    parts += [f"load {host.load:.1f}"] if host.load is not None else []
    return f"{', '.join(parts)}, with {host.model} ({host.dimension:,} dimensions)"
