"""`hindcast forecast run`, `show`, `replay`, `questions` and `import`: made, looked at, taken in from elsewhere."""

from pathlib import Path
from typing import Annotated, Any, Final

import typer
from rich.text import Text

from hindcast_dagster.cli.context import Context
from hindcast_dagster.clock import iso

EvalSet = Annotated[str, typer.Option(help="Name of the eval set.")]

DryRun = Annotated[bool, typer.Option("--dry-run", help="Say what would be asked, and ask nothing.")]
MaxCost = Annotated[float | None, typer.Option(help="Stop before this many US dollars are spent.")]
Name = Annotated[str | None, typer.Option(help="Name in the tables, when it is not the arm's own.")]

CAPPED: Final = "Only the first {} questions are asked (forecast.question_limit); --limit N asks N."
STOPPED: Final = "{} are missing: the money limit was reached. Run the same command again."

group = typer.Typer(no_args_is_help=True, help="Ask forecasters the questions of an eval set.")


def register(app: typer.Typer) -> None:
    """Add the group."""
    app.add_typer(group, name="forecast")


@group.command("run")
def run(
    context: typer.Context,
    *,
    arm: Annotated[str, typer.Option(help="zero_shot, retrieval, a registered arm, or module:Class.")],
    eval_set: EvalSet,
    model: Annotated[str, typer.Option(help="Slug of the roster; none for an arm without a model.")] = "none",
    runs: Annotated[int | None, typer.Option(help="Runs per question; they differ in their seed (default 5).")] = None,
    limit: Annotated[int | None, typer.Option(help="Only the first N questions.")] = None,
    dry_run: DryRun = False,
    max_cost: MaxCost = None,
    overwrite: Annotated[
        bool, typer.Option("--overwrite", help="Replace forecasts made with other prompts, settings or archive.")
    ] = False,
    name: Name = None,
) -> None:
    """Make the missing forecasts of one arm and model. What is finished is never asked again.

    Example: hindcast forecast run --arm zero_shot --model qwen3-8b --eval-set demo --runs 5

    Interrupt it whenever you like, even with kill -9: run the same command again and only what was in flight is lost.
    The baselines of the eval set are made along with the first arm.
    """
    from hindcast_dagster.forecast import arms
    from hindcast_dagster.forecast import baselines as basing
    from hindcast_dagster.forecast import run as running
    from hindcast_dagster.forecast.records import BASELINES

    obj: Context = context.obj
    options: dict[str, Any] = {"arm": arm, "model": model, "eval_set": eval_set, "runs": runs, "limit": limit}
    options["name"] = name
    if dry_run:
        found = running.plan(obj.store, obj.settings, overwrite=overwrite, **options)
        obj.emit(found.as_dict(), text=Text(planned(found.as_dict())))
        return
    with obj.progress(f"{arm} {model}") as progress:
        manifest = running.build(
            obj.store, obj.settings, overwrite=overwrite, max_cost=max_cost, progress=progress, **options
        )
    made = int(progress.done)
    if obj.store.partition(BASELINES, eval_set).manifest() is None:  # what every model is compared with
        with obj.progress("baselines") as progress:
            basing.build(obj.store, obj.settings, eval_set=eval_set, progress=progress)
    limited = limit is None and arms.takes_model(arms.factory(arm))
    _emit(obj, manifest, eval_set, new=made, capped=obj.settings.forecast.question_limit if limited else None)


@group.command("baselines")
def baselines(context: typer.Context, *, eval_set: EvalSet) -> None:
    """Seal the forecasters without a model: market_price, constant_half, base_rate, reference_class, evidence_count.

    Example: hindcast forecast baselines --eval-set demo
    """
    from hindcast_dagster.forecast import baselines as basing

    obj: Context = context.obj
    with obj.progress("evidence_count") as progress:
        manifest = basing.build(obj.store, obj.settings, eval_set=eval_set, progress=progress)
    left_out = manifest.stats["left_out"]
    lines = [f"Baselines on {eval_set}: {manifest.rows} forecasts of {manifest.stats['questions']} questions."]
    lines += [f"{arm}: {said if isinstance(said, str) else f'{said} left out'}" for arm, said in left_out.items()]
    document = {"eval_set": eval_set, "model": "none", "rows": manifest.rows, **manifest.stats}
    obj.emit(document, text=Text("\n".join(lines)))


@group.command("show")
def show(
    context: typer.Context,
    question: Annotated[str, typer.Argument(help="Id of the question, or the beginning of one.")],
    *,
    eval_set: EvalSet,
    arm: Annotated[str, typer.Option(help="The arm.")],
    model: Annotated[str, typer.Option(help="Slug of the model.")] = "none",
    run: Annotated[int, typer.Option(help="Which run.")] = 1,
) -> None:
    """Show one forecast and everything that it did and saw: searches, documents, calls, parse steps.

    Example: hindcast forecast show 0x3f2a --eval-set demo --model smollm2 --arm retrieval --run 1
    """
    from hindcast_dagster.forecast import records, showing
    from hindcast_dagster.questions.load import load

    obj: Context = context.obj
    asked = showing.chosen([found.question for found in load(obj.store, eval_set)], question)
    record = records.find(obj.store, arm=arm, model=model, eval_set=eval_set, question_id=asked.id, run=run)
    obj.emit(showing.document(record, asked), text=Text(showing.text(record, asked)))


@group.command("questions")
def questions(context: typer.Context, *, eval_set: EvalSet) -> None:
    """Print the questions as a forecaster may see them: no outcome, no price, no actual close. For outside agents.

    Example: hindcast forecast questions --eval-set demo --json > questions.json
    """
    from hindcast_dagster.forecast import showing
    from hindcast_dagster.questions.load import load

    obj: Context = context.obj
    listed = [showing.visible(found.question) for found in load(obj.store, eval_set)]
    lines = [f"{found['id']}  {iso(found['t0'])}  {found['text']}" for found in listed]
    obj.emit({"eval_set": eval_set, "questions": listed}, text=Text("\n".join(lines)))


@group.command("replay")
def replay(
    context: typer.Context,
    question: Annotated[str, typer.Argument(help="Id of the question, or the beginning of one.")],
    *,
    eval_set: EvalSet,
    arm: Annotated[str, typer.Option(help="The arm, or module:Class.")],
    model: Annotated[str, typer.Option(help="Slug of the model.")] = "none",
    run: Annotated[int, typer.Option(help="Which run.")] = 1,
    name: Name = None,
) -> None:
    """Make one forecast again without calling the model, and compare every prompt with its recorded hash.

    Example: hindcast forecast replay 0x3f2a --eval-set demo --model smollm2 --arm retrieval

    The settings and the archive must be those of the run. Exit code 3 when a prompt or the forecast differs.
    """
    from hindcast_dagster.forecast import replay as replaying
    from hindcast_dagster.forecast import showing
    from hindcast_dagster.questions.load import load

    obj: Context = context.obj
    asked = showing.chosen([found.question for found in load(obj.store, eval_set)], question)
    found = replaying.of_stored(
        obj.store, obj.settings, arm=arm, model=model, eval_set=eval_set, question=asked, run=run, name=name
    )
    if found.difference:
        raise replaying.Diverged(f"The replay differs from the recorded forecast in {found.difference}.")
    calls = sum(step.kind == "call" for step in found.forecast.trace.steps)
    obj.emit(
        {"same": True, "calls": calls, "prob_yes": found.forecast.prob_yes, "status": found.forecast.status},
        text=f"The same forecast ({found.forecast.prob_yes}) from the same {calls} prompts.",
    )


@group.command("import")
def import_(
    context: typer.Context,
    file: Annotated[Path, typer.Argument(help="CSV with the columns question, run, probability.")],
    *,
    eval_set: EvalSet,
    arm: Annotated[str, typer.Option(help="Name of the arm in the tables.")] = "imported",
    model: Annotated[str, typer.Option(help="Name of the model in the tables.")] = "external",
    overwrite: Annotated[bool, typer.Option("--overwrite", help="Replace what these names held before.")] = False,
) -> None:
    """Take in forecasts that were made elsewhere; the same engine scores them.

    Example: hindcast forecast import mine.csv --eval-set demo --arm my-agent --model my-model
    """
    from hindcast_dagster.forecast import importing

    obj: Context = context.obj
    manifest = importing.build(obj.store, path=file, eval_set=eval_set, arm=arm, model=model, overwrite=overwrite)
    _emit(obj, manifest, eval_set)


def _emit(obj: Context, manifest: Any, eval_set: str, *, new: int | None = None, capped: int | None = None) -> None:
    """Print what a partition holds; `new` of its forecasts were made just now, the others were there."""
    model, _ = manifest.key
    stats = manifest.stats
    checks = [check.model_dump() for check in manifest.checks]
    document = {"eval_set": eval_set, "model": model, "rows": manifest.rows, "checks": checks, **stats}
    statuses = ", ".join(f"{count} {name}" for name, count in stats["statuses"].items())
    lines = [f"{stats['arm']} / {model} on {eval_set}: {manifest.rows} forecasts ({statuses or 'none'})."]
    if new is not None:
        document |= {"new": new, "kept": manifest.rows - new}
        lines[0] += f" {new} new, {manifest.rows - new} kept."
    if capped:
        lines.append(CAPPED.format(capped))
    if stats["stopped"]:
        lines.append(STOPPED.format(stats["missing"]))
    if failed := stats["statuses"].get("failed"):
        lines.append(f"{failed} failed (see `hindcast forecast show`); the next run tries them again.")
    flags = stats["contamination"]
    if flags["before_cutoff"] or flags["no_cutoff"]:
        lines.append(
            f"The model may know the outcome of {flags['before_cutoff'] + flags['no_cutoff']} questions "
            "(knowledge cutoff after t0, or unknown)."
        )
    if stats["identical_runs"]:
        lines.append("All runs are identical.")
    lines += [f"Warning: {check['detail']}." for check in checks if not check["passed"]]
    obj.emit(document, text=Text("\n".join(lines)))


def planned(plan: dict[str, Any]) -> str:
    """Return what a dry run says about forecasts."""
    return (
        f"{plan['arm']} / {plan['model']} on {plan['eval_set']}: {plan['questions']} questions, {plan['runs']} runs.\n"
        f"{plan['done']} forecasts are done, {plan['pending']} to make: {estimate(plan)}."
    )


def estimate(plan: dict[str, Any]) -> str:
    """Return calls, tokens and money of a plan in words."""
    known = plan["calls"] is not None
    calls = f"{plan['calls']} calls, at most {plan['tokens_in']:,} + {plan['tokens_out']:,} tokens" if known else "?"
    money = f"${plan['cost']:.2f} at most" if plan["cost"] is not None else "no price in the roster"
    return f"{calls}, {money}"
