"""`hindcast audit`: hold every document of every trace of an eval set against its t0, from the Parquet corpus."""

from typing import Annotated, Any

import typer

from hindcast_dagster.cli.context import Context

RED = 3  # input refused: the traces, questions or prices are outside the cutoff contract


def register(app: typer.Typer) -> None:
    """Add the command."""
    app.command("audit")(audit)


def audit(
    context: typer.Context,
    *,
    eval_set: Annotated[str, typer.Option("--eval-set", help="The eval set whose forecasts are audited.")],
) -> None:
    """Prove that nothing from after t0 was shown: look every document of every trace up again.

    Green: exit code 0. Amber: the same, but some of it cannot be vouched for. Red: every violation by question, run,
    step and document, and exit code 3.

    Example: hindcast audit --eval-set demo --json
    """
    from hindcast_dagster.leakage import audit as leak_audit

    given: Context = context.obj
    leak_audit.build(given.store, given.settings, eval_set=eval_set)
    document = leak_audit.report(given.store, eval_set)
    given.emit(document, text=_text(document))
    if not document["clean"]:
        raise typer.Exit(RED)


def _text(document: dict[str, Any]) -> Any:
    from rich.console import Group

    open_ends = document["unverified"] or document["imported"] or document["forgotten"]["unproved"]
    sound = "AMBER: no leak found, and not everything could be looked up" if open_ends else "GREEN: nothing leaked"
    verdict = sound if document["clean"] else "RED"
    late = ", ".join(f"{number} {kind}" for kind, number in document["late"].items())
    head = (
        f"{verdict}. {document['forecasts']} forecasts, {document['documents']} documents looked up again "
        f"({document['mode']} mode; {late})."
    )
    if document["unverified"]:
        head += (
            f" {document['unverified']} questions have no market here that their text and price could be held against."
        )
    if document["imported"]:
        head += f" {document['imported']} forecasts were imported: what they saw is unknown and is not vouched for."
    if (gone := document["forgotten"])["documents"]:
        head += (
            f" {gone['documents']} documents, seen by {gone['forecasts']} forecasts, were forgotten since (take-down): "
            f"judged by the instants that were kept"
            + (f"; {gone['unproved']} have none and are not vouched for." if gone["unproved"] else ".")
        )
    if document["clean"]:
        return head
    return Group(head, *(_violation(row) for row in document["violations"]))


def _violation(row: dict[str, Any]) -> Any:
    """Say one violation in lines that any window can hold: its ids are long."""
    from rich.text import Text

    who = f"{row['model']} {row['arm']} run {row['run']}".strip()
    where = ", ".join(str(row[name]) for name in ("step", "document") if row[name])
    lines = [(f"\n{row['kind']}", "bold"), (f"\n  question {row['question'] or '-'}", ""), (f"\n  {who}, {where}", "")]
    return Text.assemble(*lines, f"\n  {row['detail']}")
