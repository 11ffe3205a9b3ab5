"""`hindcast coverage`: how far the archive spoke about each market before it resolved."""

from typing import Annotated, Any

import typer

from hindcast_dagster.cli.context import Context
from hindcast_dagster.errors import UsageError


def register(app: typer.Typer) -> None:
    """Add the group."""
    group = typer.Typer(no_args_is_help=True, help="Coverage: how far the archive spoke about each market.")
    group.callback()(_group)
    group.command("probe")(probe)
    app.add_typer(group, name="coverage")


def _group() -> None:
    """Keep `probe` a subcommand although it is the only one."""


def probe(
    context: typer.Context,
    *,
    closed_from: Annotated[str | None, typer.Option(help="First close: a date or an instant.")] = None,
    closed_to: Annotated[str | None, typer.Option(help="Last close; a date is meant with its whole day.")] = None,
    eval_set: Annotated[
        str | None, typer.Option("--eval-set", help="The markets of this eval set; with --as-of t0 at its t0s.")
    ] = None,
    pool: Annotated[
        bool,
        typer.Option("--pool", help="With --eval-set: every market that the set was chosen from, as a twin needs it."),
    ] = False,
    model: Annotated[
        str, typer.Option("--model", help="The judge: a model of the roster, or evidence_count (no model).")
    ] = "evidence_count",
    as_of: Annotated[
        str, typer.Option("--as-of", help="close: as the paper; t0: only what a forecaster could see.")
    ] = "close",
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Say what would be asked, and ask nothing.")] = False,
    max_cost: Annotated[float | None, typer.Option(help="Stop before this many US dollars are spent.")] = None,
) -> None:
    """Weigh what the archive holds for and against each market (paper, section 4.1).

    What is finished is never asked again: run the same command after an interruption.

    Example: hindcast coverage probe --closed-from 2025-01-01 --closed-to 2025-12-31 --model evidence_count
    """
    from hindcast_dagster.coverage import span
    from hindcast_dagster.evalset.pool import span_of

    window = closed_from is not None or closed_to is not None
    if window == (eval_set is not None):
        raise UsageError("Choose the markets in one way: --closed-from/--closed-to, or --eval-set.")
    if pool and eval_set is None:
        raise UsageError("--pool is the pool of an eval set: name one with --eval-set.")
    given: Context = context.obj
    if eval_set is None:
        found = span.of_window(given.store, closed_from=closed_from, closed_to=closed_to)
    else:
        found = span_of(given.store, given.settings, eval_set) if pool else span.of_eval_set(given.store, eval_set)
    if dry_run:
        planned = span.plan(given.store, given.settings, found, judge=model, as_of=as_of).as_dict()
        given.emit(planned, text=_planned(planned))
        return
    with given.progress("probe", total=found.markets) as bar:
        manifests = list(span.build(given.store, given.settings, found, judge=model, as_of=as_of, progress=bar,
                                    max_cost=max_cost))  # fmt: skip
    document = span.summary(manifests, judge=model, as_of=as_of)
    given.emit(document, text=_text(document))


def _planned(plan: dict[str, Any]) -> str:
    money = "no price in the roster" if plan["cost"] is None else f"${plan['cost']:.2f} at most"
    return (
        f"{plan['judge']} as of {plan['as_of']}: {plan['done']} of {plan['markets']} markets are probed, "
        f"{plan['pending']} to do: {plan['calls']} calls, "
        f"at most {plan['tokens_in']:,} + {plan['tokens_out']:,} tokens, {money}."
    )


def _text(document: dict[str, Any]) -> str:
    def told(counts: dict[str, int]) -> str:
        return ", ".join(f"{count} {name}" for name, count in counts.items()) or "none"

    if not document["markets"] and not document["excluded"]:
        return "No market of this choice is sealed here: `hindcast markets fetch` gets them."
    left = (
        f"\n{document['unprobed']} are not probed: the money limit was reached. Run the same command again."
        if document["unprobed"]
        else ""
    )
    return (
        f"{document['markets']} markets of {len(document['months'])} months probed as of {document['as_of']} by "
        f"{document['judge']}.\nEvidence: {told(document['quality'])}.\nLeft out: {told(document['excluded'])}.\n"
        f"Blocks: {document['blocks']}, of which {document['unlabelled']} got no usable label."
        f"{left}"
    )
