"""`hindcast forecast sweep`: models x arms x points of the markets' lives, asked and scored (paper, table 7)."""

from typing import Annotated, Any

import typer
from rich import box
from rich.console import Group
from rich.table import Table
from rich.text import Text

from hindcast_dagster.cli.context import Context
from hindcast_dagster.cli.forecast import group

Models = Annotated[
    list[str] | None, typer.Option("--model", help="A model of the roster; repeat it. Default: the paper's two.")
]
Arms = Annotated[list[str] | None, typer.Option("--arm", help="An arm; repeat it. Default: zero_shot and retrieval.")]


def register(app: typer.Typer) -> None:
    """Add the command to the group `forecast`."""
    del app
    group.command("sweep")(sweep)


def sweep(
    context: typer.Context,
    name: Annotated[str, typer.Argument(help="The eval set whose markets are swept.")],
    *,
    model: Models = None,
    arm: Arms = None,
    points: Annotated[
        int | None, typer.Option(help="A trajectory of so many points; default: 25, 50, 75 and 100 %.")
    ] = None,
    runs: Annotated[int, typer.Option(min=1, help="Runs per question.")] = 5,
    limit: Annotated[int | None, typer.Option(help="Only the first N questions of each set.")] = None,
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Say what would be asked, and ask nothing.")] = False,
    max_cost: Annotated[
        float | None, typer.Option(help="Stop before this many US dollars are spent on all cells together.")
    ] = None,
) -> None:
    """Run a lookback sweep: build its sets, make what is missing of every cell, score all of it.

    Example: hindcast forecast sweep paper-like --model ministral-8b --model qwen3-8b --max-cost 20

    Without options it is the paper's table 7: two models, 25, 50, 75 and 100 %, five runs, both arms. Interrupt it
    whenever you like: what is finished is never asked again.
    """
    from hindcast_dagster.evalset import lookback
    from hindcast_dagster.evalset.sweep import build_sweep
    from hindcast_dagster.evalset.sweep import points as fractions
    from hindcast_dagster.scoring.evaluate import evaluate
    from hindcast_dagster.scoring.sweep import sweep as swept

    obj: Context = context.obj
    order = lookback.Order(
        name, tuple(model or lookback.PAPER_MODELS), tuple(arm or lookback.ARMS), fractions(points), runs, limit
    )
    if dry_run:
        plans = lookback.plan(obj.store, obj.settings, order)
        total = dict(lookback.totals(plans))
        planned = {"name": name, "cells": [each.as_dict() for each in plans], "total": total}
        obj.emit(planned, text=_planned(planned))
        return
    with obj.progress("eval sets") as bar:
        built = build_sweep(obj.store, obj.settings, name=name, fractions=order.fractions, progress=bar)
    with obj.progress("forecasts") as bar:
        asked = list(lookback.ask(obj.store, obj.settings, order, max_cost=max_cost, progress=bar))
    sets = [manifest.key[0] for manifest in built.sets.values()]
    with obj.progress("scores", total=len(sets)) as bar:
        for done, each in enumerate(sets, start=1):
            evaluate(obj.store, obj.settings, eval_set=each)
            bar(done)
    rows = [row for row in swept(obj.store, sets[-1]).to_dicts() if row["eval_set"] in sets]
    costs = [each.spent for each in asked if each.spent is not None]
    document: dict[str, Any] = {
        "name": name,
        "sets": sets,
        "left_out": built.left_out,
        "cells": [each.as_dict() for each in asked],
        "not_asked": len(order.cells()) - len(asked),
        "spent": round(sum(costs), 6) if costs else None,
        "stopped": any(each.manifest.stats["stopped"] for each in asked),
        "scores": rows,
    }
    obj.emit(document, text=Group(_scores(name, rows), Text("\n".join(_remarks(document)))))


def _planned(document: dict[str, Any]) -> Table:
    first = document["cells"][0]
    size = f"{first['questions']} questions x {first['runs']} runs a cell"
    title = f"What a sweep over {document['name']} would ask: {size}"
    table = Table(title=title, box=box.SIMPLE, pad_edge=False)
    columns = ("model", "arm", "eval_set", "done", "pending", "calls", "cost")
    for column in columns:
        table.add_column(column.replace("_", " "), justify="left" if column in columns[:3] else "right")
    for row in document["cells"]:
        table.add_row(*(_known(row[column], money=column == "cost") for column in columns))
    total = document["total"]
    table.add_section()
    sums = (_known(total[column], money=column == "cost") for column in ("done", "pending", "calls", "cost"))
    table.add_row("together, at most", "", "", *sums)
    return table


def _known(value: Any, *, money: bool = False) -> str:
    if value is None:
        return "no price" if money else "?"
    return f"${value:.2f}" if money else str(value)


def _scores(name: str, rows: list[dict[str, Any]]) -> Table:
    from hindcast_dagster.report.terminal import percent, points

    table = Table(title=f"Lookback sweep over {name}", box=box.SIMPLE, pad_edge=False)
    table.add_column("model")
    table.add_column("arm")
    for column in ("t0 at", "accuracy %", "Brier", "skill vs market"):
        table.add_column(column, justify="right", no_wrap=True)
    previous = None
    for row in rows:
        if previous not in {None, row["model"]}:
            table.add_section()
        previous = row["model"]
        scores = (percent(row["accuracy"], row["accuracy_sd"]), points(row["brier"], row["brier_sd"]))
        share = f"{row['fraction']:.0%}"
        table.add_row(Text(row["model"]), Text(row["arm"]), share, *scores, points(row["brier_skill"]))
    return table


def _remarks(document: dict[str, Any]) -> list[str]:
    said = [f"{document['left_out']} markets are not sealed here or have no price at some point, and are left out."]
    missing = sum(cell["missing"] for cell in document["cells"])
    if document["stopped"]:
        said.append(
            f"The money limit was reached (${document['spent']:.4f} spent): {missing} forecasts of the cells asked are "
            f"missing, {document['not_asked']} cells were not asked. Run the same command again to go on."
        )
    said.append(f"Its figures: hindcast report --eval-set {document['sets'][-1]}")
    return said
