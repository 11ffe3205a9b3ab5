"""`hindcast control`: the retrieval agent in a world that is wrong on purpose, and what that shows. Never ranked."""

from typing import Annotated, Any

import typer
from rich.text import Text

from hindcast_dagster.cli.context import Context
from hindcast_dagster.cli.forecast import CAPPED, STOPPED, DryRun, MaxCost, estimate, planned

Model = Annotated[str, typer.Option("--model", help="A model of the roster (see `hindcast models list`).")]
EvalSet = Annotated[str, typer.Option("--eval-set", help="The eval set whose questions are asked.")]
Runs = Annotated[int | None, typer.Option(help="Runs per question; default: the setting.")]
Limit = Annotated[int | None, typer.Option(help="Only the first N questions.")]


def register(app: typer.Typer) -> None:
    """Add the group."""
    group = typer.Typer(
        no_args_is_help=True,
        help="Controls: what a leaky archive, another market's evidence, or late texts and votes do to the agent.",
    )
    group.command("unsealed")(unsealed)
    group.command("placebo")(placebo)
    group.command("paper")(paper)
    group.command("effects")(effects)
    group.command("selection")(selection)
    group.command("detective")(detective)
    group.command("recall")(recall)
    app.add_typer(group, name="control")


def unsealed(
    context: typer.Context,
    *,
    model: Model,
    eval_set: EvalSet,
    days: Annotated[int, typer.Option(help="Days after the close until which the agent may read.")] = 7,
    runs: Runs = None,
    limit: Limit = None,
    dry_run: DryRun = False,
    max_cost: MaxCost = None,
) -> None:
    """Let the agent read past the close, to measure what a leak would have bought.

    Example: hindcast control unsealed --model qwen3-8b --eval-set first --days 7
    """
    order = _order("unsealed", model, eval_set, runs, limit) | {"days": days}
    _run(context.obj, order, dry_run=dry_run, max_cost=max_cost)


def placebo(
    context: typer.Context,
    *,
    model: Model,
    eval_set: EvalSet,
    runs: Runs = None,
    limit: Limit = None,
    dry_run: DryRun = False,
    max_cost: MaxCost = None,
) -> None:
    """Give the agent another market's evidence, of the same topic, to tell prompt from information.

    Example: hindcast control placebo --model qwen3-8b --eval-set first
    """
    _run(context.obj, _order("placebo", model, eval_set, runs, limit), dry_run=dry_run, max_cost=max_cost)


def paper(
    context: typer.Context,
    *,
    model: Model,
    eval_set: EvalSet,
    runs: Runs = None,
    limit: Limit = None,
    dry_run: DryRun = False,
    max_cost: MaxCost = None,
) -> None:
    """Show the agent the late texts and votes that strict mode keeps back, to measure what the mode is worth.

    Example: hindcast control paper --model qwen3-8b --eval-set first
    """
    _run(context.obj, _order("paper", model, eval_set, runs, limit), dry_run=dry_run, max_cost=max_cost)


def effects(context: typer.Context, *, eval_set: EvalSet) -> None:
    """Show each control beside the retrieval arm, on the same pairs of question and run.

    Example: hindcast control effects --eval-set first --json
    """
    from hindcast_dagster.contracts.scores import CONTROLS
    from hindcast_dagster.leakage import effects as measured
    from hindcast_dagster.storage.tables import read_table

    given: Context = context.obj
    measured.build(given.store, eval_set=eval_set)
    rows = read_table(given.store.partition(CONTROLS.name, eval_set).require(), CONTROLS).to_dicts()
    given.emit({"eval_set": eval_set, "effects": rows}, text=_table(rows))


def selection(context: typer.Context, *, eval_set: EvalSet) -> None:
    """Show every cell with and without early closers, decided markets, and markets that the probe calls strong.

    Example: hindcast control selection --eval-set first --json
    """
    from hindcast_dagster.contracts.scores import SELECTION
    from hindcast_dagster.leakage import selection as measured
    from hindcast_dagster.storage.tables import read_table

    given: Context = context.obj
    measured.build(given.store, eval_set=eval_set)
    rows = read_table(given.store.partition(SELECTION.name, eval_set).require(), SELECTION).to_dicts()
    given.emit({"eval_set": eval_set, "effects": rows}, text=_selection_table(rows))


def detective(
    context: typer.Context,
    *,
    model: Annotated[str, typer.Option("--model", help="A model that has not forecast this set.")],
    eval_set: EvalSet,
    limit: Annotated[int, typer.Option(help="Most documents, and most rationales, that are read.")] = 500,
    dry_run: DryRun = False,
    max_cost: MaxCost = None,
) -> None:
    """Let a second model re-read evidence and rationales for knowledge of after t0; its own exam stands beside it.

    Example: hindcast control detective --model gemma-3-27b --eval-set first --limit 200
    """
    from hindcast_dagster.leakage import detective as reading

    order = {"model": model, "eval_set": eval_set, "limit": limit}
    _read(context.obj, reading, order, dry_run=dry_run, max_cost=max_cost)


def recall(
    context: typer.Context, *, model: Model, eval_set: EvalSet, dry_run: DryRun = False, max_cost: MaxCost = None
) -> None:
    """Ask a model what happened, without archive and forecast, to measure what it remembers.

    Example: hindcast control recall --model qwen3-8b --eval-set first
    """
    from hindcast_dagster.leakage import recall as memory

    _read(context.obj, memory, {"model": model, "eval_set": eval_set}, dry_run=dry_run, max_cost=max_cost)


def _order(kind: str, model: str, eval_set: str, runs: int | None, limit: int | None) -> dict[str, Any]:
    return {"kind": kind, "model": model, "eval_set": eval_set, "runs": runs, "limit": limit}


def _run(given: Context, order: dict[str, Any], *, dry_run: bool, max_cost: float | None) -> None:
    from hindcast_dagster.leakage import controls

    if dry_run:
        plan = controls.plan(given.store, given.settings, **order).as_dict()
        given.emit(plan, text=Text(planned(plan)))
        return
    kind, eval_set = order["kind"], order["eval_set"]
    with given.progress(f"{kind} control") as bar:
        manifest = controls.build(given.store, given.settings, progress=bar, max_cost=max_cost, **order)
    stats, capped = manifest.stats, given.settings.forecast.question_limit
    document = {
        "kind": kind,
        "model": order["model"],
        "eval_set": eval_set,
        "forecasts": manifest.rows,
        "missing": stats["missing"],
        "stopped": stats["stopped"],
    }
    lines = [f"{manifest.rows} forecasts of the {kind} control, never ranked."]
    if capped and order["limit"] is None:
        lines.append(CAPPED.format(capped))
    if stats["stopped"]:
        lines.append(STOPPED.format(stats["missing"]))
    given.emit(document, text=Text("\n".join([*lines, f"See `hindcast control effects --eval-set {eval_set}`."])))


def _read(given: Context, control: Any, order: dict[str, Any], *, dry_run: bool, max_cost: float | None) -> None:
    """Plan or run a control that asks single prompts: the module of the recall probe or of the detective."""
    if dry_run:
        plan = control.plan(given.store, given.settings, **order).as_dict()
        there = f"{plan['done']} answers are there, {plan['pending']} to ask: {estimate(plan)}."
        given.emit(plan, text=Text(f"{plan['control']} / {plan['model']} on {plan['eval_set']}:\n{there}"))
        return
    with given.progress(str(control.PROMPT).replace("_", " ")) as bar:
        manifest = control.build(given.store, given.settings, progress=bar, max_cost=max_cost, **order)
    if manifest.stats["stopped"]:
        given.err.print(STOPPED.format(manifest.stats["missing"]))
    document = {"eval_set": order["eval_set"], "model": order["model"], "answers": manifest.rows}
    given.emit(document | manifest.stats)


def _table(rows: list[dict[str, Any]]) -> Any:
    from rich import box
    from rich.table import Table

    table = Table(box=box.SIMPLE, pad_edge=False)
    pairs = ("accuracy", "of control", "Brier", "of control", "documents", "of control")
    for name in ("control", "model", "topic", "n", *pairs):
        table.add_column(name, overflow="fold")
    named = ("accuracy", "accuracy_control", "brier", "brier_control", "documents", "documents_control")
    for row in rows:
        numbers = (row[name] for name in named)
        table.add_row(row["kind"], row["model"], row["topic"] or "all", str(row["n"]), *(f"{x:.4f}" for x in numbers))
    return table


def _selection_table(rows: list[dict[str, Any]]) -> Any:
    from rich import box
    from rich.table import Table

    table = Table(box=box.SIMPLE, pad_edge=False)
    for name in ("model", "arm", "effect", "side", "questions", "n", "accuracy", "Brier"):
        table.add_column(name, overflow="fold")
    for row in rows:
        names = (row[name] for name in ("model", "arm", "effect", "side", "questions", "n"))
        table.add_row(*map(str, names), f"{row['accuracy']:.4f}", f"{row['brier']:.4f}")
    return table
