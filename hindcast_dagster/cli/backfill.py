"""`hindcast backfill`: history by month, close months, or models by eval sets; what is fresh is left alone."""

import time
from collections import Counter
from collections.abc import Sequence
from datetime import timedelta
from typing import Annotated, Any, Final

import typer
from rich.console import Group
from rich.table import Table
from rich.text import Text

from hindcast_dagster.cli.backfill_pool import Outcome, Pool
from hindcast_dagster.cli.context import Bar, Context
from hindcast_dagster.errors import UsageError
from hindcast_dagster.operation import backfill
from hindcast_dagster.operation.backfill import Task

group = typer.Typer(no_args_is_help=True, help="Make many partitions at once; what is sealed and fresh is left alone.")

First = Annotated[str, typer.Option("--from", help="First month, YYYY-MM.")]
Last = Annotated[str, typer.Option("--to", help="Last month, YYYY-MM, included.")]
Jobs = Annotated[int, typer.Option("--jobs", min=1, max=64, help="How many at a time, each in a process of its own.")]
DryRun = Annotated[bool, typer.Option("--dry-run", help="Only list what would be made, and why.")]
Through = Annotated[
    bool, typer.Option("--dagster", help="As runs of Dagster in DAGSTER_HOME: with its checks and its history.")
]
SEVERITY: Final = (1, 3, 2, 4)
"""Exit codes from worst to best: a bug, input refused, wrong usage, not ready."""


def register(app: typer.Typer) -> None:
    """Add the group."""
    app.add_typer(group, name="backfill")


@group.command("months")
def months(
    context: typer.Context,
    *,
    first: First,
    last: Last,
    kind: Annotated[list[str] | None, typer.Option(help="submissions or comments; without it, both.")] = None,
    accept_hollow: Annotated[bool, typer.Option("--accept-hollow", help="Index months of hollow health too.")] = False,
    jobs: Jobs = 3,
    dry_run: DryRun = False,
    dagster: Through = False,
) -> None:
    """History: filter the dump of each month and build its index.

    Interrupted or killed: run it again; finished months, and finished parts of an embedding, are not done twice.

    Example: hindcast backfill months --from 2024-01 --to 2026-01 --jobs 3
    """
    tasks = backfill.history(
        backfill.months(first, last), kind or ["submissions", "comments"], accept_hollow=accept_hollow
    )
    _run(context.obj, tasks, jobs=jobs, dry_run=dry_run, dagster=dagster)


@group.command("markets")
def markets(
    context: typer.Context,
    *,
    first: First,
    last: Last,
    judge: Annotated[str, typer.Option(help="Probe coverage with this judge; none: no probe.")] = "evidence_count",
    as_of: Annotated[str, typer.Option("--as-of", help="Where the probe stands: close or t0.")] = "close",
    jobs: Jobs = 3,
    dry_run: DryRun = False,
    dagster: Through = False,
) -> None:
    """Close months: the listing is walked once, then markets, prices and coverage probe of each month.

    Example: hindcast backfill markets --from 2025-01 --to 2026-01 --judge evidence_count
    """
    given: Context = context.obj
    tasks = backfill.closed(backfill.months(first, last), judge=None if judge == "none" else judge, as_of=as_of)
    if not dry_run:
        with given.progress("listing") as bar:
            backfill.walk(given.store, given.settings, progress=bar)
    _run(given, tasks, jobs=jobs, dry_run=dry_run, dagster=dagster)


@group.command("forecasts")
def forecasts(
    context: typer.Context,
    *,
    eval_set: Annotated[list[str], typer.Option("--eval-set", help="An eval set; may be given several times.")],
    model: Annotated[list[str], typer.Option("--model", help="A roster slug; may be given several times.")],
    arm: Annotated[list[str] | None, typer.Option(help="zero_shot, retrieval, ...; without it, both of these.")] = None,
    runs: Annotated[int | None, typer.Option(min=1, help="Runs per question.")] = None,
    limit: Annotated[int | None, typer.Option(min=1, help="Only the first N questions.")] = None,
    max_cost: Annotated[float | None, typer.Option(min=0, help="US dollars per model, arm and eval set.")] = None,
    jobs: Jobs = 1,
    dry_run: DryRun = False,
    dagster: Through = False,
) -> None:
    """Every model on every eval set. Finished forecasts are never asked again; what it would cost: --dry-run.

    Example: hindcast backfill forecasts --eval-set first --model qwen3-8b --model gemma-3-12b --dry-run
    """
    arms = arm or ["zero_shot", "retrieval"]
    tasks = backfill.predictions(arms, model, eval_set, runs=runs, limit=limit, max_cost=max_cost)
    _run(context.obj, tasks, jobs=jobs, dry_run=dry_run, dagster=dagster)


def _run(given: Context, tasks: Sequence[Task], *, jobs: int, dry_run: bool, dagster: bool) -> None:
    if not tasks:
        raise UsageError("There is nothing to make: name months, or models and eval sets.")
    began = time.monotonic()
    needs = [(task, backfill.need(given.store, given.settings, task)) for task in tasks]
    todo = [
        (task, f"{why.table}: {why.why}" if why.why else "looked at again")
        for task, why in needs
        if why.why or task.group == "closed"
    ]
    fresh = [Outcome(task, "fresh") for task, why in needs if not why.why and task.group != "closed"]
    if dry_run:
        given.emit(_planned(given, todo, fresh), text=_plan_text(todo, len(fresh)))
        return
    made = _work(given, todo, jobs=jobs, dagster=dagster) if todo else []
    order = {task.name: number for number, task in enumerate(tasks)}
    outcomes = sorted([*fresh, *made], key=lambda each: order[each.task.name])
    seconds = round(time.monotonic() - began, 1)
    counts = Counter(each.state for each in outcomes)
    document = {"seconds": seconds, "jobs": jobs, **{state: counts[state] for state in ("made", "fresh", "failed")}}
    given.emit(document | {"tasks": [each.as_dict() for each in outcomes]}, text=_text(outcomes, seconds))
    if failed := {each.code for each in outcomes if each.state == "failed"}:
        raise typer.Exit(next(code for code in SEVERITY if code in failed))


def _work(given: Context, todo: Sequence[tuple[Task, str]], *, jobs: int, dagster: bool) -> list[Outcome]:
    """Run the pool under a progress bar; where stderr is no terminal, say each partition in a line."""
    if dagster:
        _prepare_dagster()
    outcomes: list[Outcome] = []
    began = time.monotonic()
    with given.progress(f"0 of {len(todo)}", total=len(todo)) as bar:
        pool = Pool(str(given.store.root), jobs=min(jobs, len(todo)), dagster=dagster, watch=_watch(bar, outcomes))
        for outcome in pool.run(todo):
            outcomes.append(outcome)
            bar(len(outcomes), len(todo), outcome.task.name)
            if not given.err.is_terminal or outcome.state == "failed":
                given.err.print(Text(_line(outcome, len(outcomes), len(todo), time.monotonic() - began)))
    return outcomes


def _prepare_dagster() -> None:
    """Make the instance before several processes do, and end the runs of processes that are gone."""
    from hindcast_dagster.automation.processes import bury
    from hindcast_dagster.cli.demo_pipeline import instance

    bury(instance())


def _watch(bar: Bar, outcomes: list[Outcome]) -> Any:
    def watch(task: Task, done: float, total: float | None, word: str) -> None:
        share = f"{done / total:.0%} " if total else ""
        bar(len(outcomes), None, f"{task.name}: {share}{word}")

    return watch


def _line(outcome: Outcome, done: int, total: int, elapsed: float) -> str:
    left = timedelta(seconds=round(elapsed / done * (total - done)))
    said = outcome.error if outcome.state == "failed" else f"{outcome.rows:,} rows"
    return f"[{done}/{total}] {outcome.task.name}: {outcome.state} in {outcome.seconds:.1f} s, {said}; {left} left"


def _text(outcomes: Sequence[Outcome], seconds: float) -> Group:
    counts = Counter(each.state for each in outcomes)
    table = Table("partition", "", "rows", "seconds", "why, or what failed", box=None, header_style="bold")
    for column in (table.columns[2], table.columns[3]):
        column.justify = "right"
    for each in outcomes:
        style = {"failed": "red", "made": "green"}.get(each.state, "dim")
        rows = "" if each.rows is None else f"{each.rows:,}"
        shown = f"{each.seconds:.1f}" if each.seconds else ""
        table.add_row(each.task.name, Text(each.state, style=style), rows, shown, Text(each.error or each.why))
    said = f"{counts['made']} made, {counts['fresh']} fresh, {counts['failed']} failed in {seconds:.1f} s."
    if counts["failed"]:
        said += " Run the same command again for those that failed."
    return Group(table, Text(said))


def _planned(given: Context, todo: Sequence[tuple[Task, str]], fresh: Sequence[Outcome]) -> dict[str, Any]:
    listed = [{"group": task.group, "key": list(task.key), "why": why, **_estimate(given, task)} for task, why in todo]
    return {"dry_run": True, "to_make": listed, "fresh": [list(each.task.key) for each in fresh]}


def _estimate(given: Context, task: Task) -> dict[str, Any]:
    """Return calls, tokens and money of a prediction; nothing for what costs no money."""
    if task.group != "predictions":
        return {}
    from hindcast_dagster.forecast.run import plan

    arm, model, name = task.key
    options = {key: value for key, value in task.options.items() if key != "max_cost"}
    found = plan(given.store, given.settings, arm=arm, model=model, eval_set=name, **options).as_dict()
    return {key: found[key] for key in ("pending", "calls", "tokens_in", "tokens_out", "cost")}


def _plan_text(todo: Sequence[tuple[Task, str]], fresh: int) -> Group:
    table = Table("would make", "why", box=None, header_style="bold")
    for task, why in todo:
        table.add_row(task.name, why)
    said = f"{len(todo)} to make, {fresh} fresh. Nothing was done."
    return Group(*([table] if todo else []), Text(said))
