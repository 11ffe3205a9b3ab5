"""`hindcast score`, `compare`, `report` and `sql`: what came out, in numbers."""

from typing import Annotated, Any, Literal

import typer

from hindcast_dagster.cli.context import Context
from hindcast_dagster.errors import NotReady

Kind = Literal["percentile", "bca"]
EvalSet = Annotated[str, typer.Option(help="Name of the eval set.")]
RequireComplete = Annotated[bool, typer.Option(help="Exit 4 when any cell lacks forecasts.")]


def register(app: typer.Typer) -> None:
    """Add the commands."""
    app.command("score")(score)
    app.command("compare")(compare)
    app.command("report")(report)
    app.command("sql")(sql)


def score(context: typer.Context, *, eval_set: EvalSet, require_complete: RequireComplete = False) -> None:
    """Score every forecast of an eval set and print the score table.

    Example: hindcast score --eval-set demo --json | jq '.cells[] | [.model, .arm, .brier]'
    """
    from hindcast_dagster.report import terminal
    from hindcast_dagster.scoring import build

    obj: Context = context.obj
    _score(obj, eval_set)
    document = build.score_document(obj.store, obj.settings, eval_set=eval_set)
    obj.emit(document, text=terminal.score_table(document))
    _refuse_incomplete(obj, document["missing"], require_complete=require_complete)


def compare(
    context: typer.Context,
    a: Annotated[str, typer.Argument(help="model/arm, for example qwen3-8b/retrieval.")],
    b: Annotated[str, typer.Argument(help="model/arm, for example none/market_price.")],
    *,
    eval_set: EvalSet,
    interval: Annotated[Kind, typer.Option(help="The interval that is printed; --json holds both.")] = "percentile",
    require_complete: RequireComplete = False,
) -> None:
    """Compare two cells on the questions that both answered: paired bootstrap, clustered by question and by event.

    Example: hindcast compare qwen3-8b/retrieval qwen3-8b/zero_shot --eval-set demo --interval bca
    """
    from hindcast_dagster.contracts.scores import SCORED
    from hindcast_dagster.report import terminal
    from hindcast_dagster.scoring import build, inputs
    from hindcast_dagster.scoring import compare as comparing
    from hindcast_dagster.storage.tables import read_table

    obj: Context = context.obj
    given = inputs.load(obj.store, eval_set)
    scored = read_table(build.current(obj.store, given), SCORED)
    rows = comparing.compare(given, scored, [comparing.chosen(scored, a, b)])
    _, manifest = build.read_cells(obj.store, eval_set)
    lacking = [each for each in manifest.stats["missing"] if f"{each['model']}/{each['arm']}" in {a, b}]
    document = {"eval_set": eval_set, "a": a, "b": b, "missing": lacking, "comparisons": rows.to_dicts()}
    obj.emit(document, text=terminal.comparison(document, interval=interval))
    _refuse_incomplete(obj, lacking, require_complete=require_complete)


def report(context: typer.Context, *, eval_set: EvalSet, require_complete: RequireComplete = False) -> None:
    """Write the report of an eval set: one HTML file that needs no network, and the release bundle beside it.

    Example: hindcast report --eval-set demo
    """
    from hindcast_dagster.report import build as reporting
    from hindcast_dagster.scoring import build

    obj: Context = context.obj
    _score(obj, eval_set)
    _, manifest = build.read_cells(obj.store, eval_set)
    made = reporting.build(obj.store, obj.settings, eval_set=eval_set)
    path = reporting.path_of(obj.store, eval_set)
    document = {
        "eval_set": eval_set,
        "report": str(path),
        "bundle": str(path.parent / "release"),
        "not_measured": made.stats["not_measured"],
        "missing": manifest.stats["missing"],
    }
    obj.emit(document, text=f"{path}\n{path.parent / 'release'}")
    _refuse_incomplete(obj, manifest.stats["missing"], require_complete=require_complete)


def sql(
    context: typer.Context,
    query: Annotated[str, typer.Argument(help="One SELECT over the sealed tables; each table is a view.")],
    *,
    limit: Annotated[int, typer.Option(min=1, help="Rows printed at most.")] = 200,
) -> None:
    """Query the sealed tables with SQL (DuckDB). Partition keys are the columns key_1, key_2.

    Example: hindcast sql "select model, arm, avg(brier) from scored_forecasts group by all order by 3"

    `hindcast sql "show tables"` lists the views. Nothing else can be read: no file, no network, no other statement.
    """
    from hindcast_dagster.report import terminal
    from hindcast_dagster.scoring import query as querying

    obj: Context = context.obj
    answer = querying.run(obj.store, query, limit=limit)
    obj.emit(answer.document(), text=terminal.answer(answer))


def _score(obj: Context, eval_set: str) -> None:
    from hindcast_dagster.scoring.evaluate import evaluate

    with obj.progress("scores") as bar:
        evaluate(obj.store, obj.settings, eval_set=eval_set, progress=bar)


def _refuse_incomplete(obj: Context, missing: list[dict[str, Any]], *, require_complete: bool) -> None:
    """Exit 4 behind the result: a second JSON document on stdout would break whoever reads the first."""
    if missing and require_complete:
        first = missing[0]
        obj.err.print(
            f"hindcast: {len(missing)} cells are not complete, first {first['model']}/{first['arm']} "
            f"({first['missing']} of {first['expected']} forecasts missing): run `{first['command']}`.",
            markup=False,
        )
        raise typer.Exit(NotReady.exit_code)
