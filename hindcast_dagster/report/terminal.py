"""Tables for a terminal (rich). The same numbers as the report, without its words."""

from collections.abc import Sequence
from typing import Any, Final, Literal

from rich import box
from rich.console import Group, RenderableType
from rich.table import Table
from rich.text import Text

from hindcast_dagster.scoring.inputs import BASELINE
from hindcast_dagster.scoring.query import Answer
from hindcast_dagster.scoring.ranking import MIN_QUESTIONS

Interval = Literal["percentile", "bca"]

DASH: Final = "-"
TREATED: Final = {"intersection": "left out", "half": "as 0.5"}
SHORT: Final = {"question": "questions", "event": "events"}
CAPTION: Final = (
    "± sample SD over runs; u/f/m/r: unparsed, failed, missing, retried; as .5: Brier with what has no "
    "probability counted as one half; best arm of a model in bold."
)


def percent(value: float | None, sd: float | None = None, *, digits: int = 1) -> str:
    """Return a fraction as a percentage without its sign, with +- SD when there is one."""
    if value is None:
        return DASH
    return f"{100 * value:.{digits}f}" + (f" ±{100 * sd:.{digits}f}" if sd is not None else "")


def points(value: float | None, sd: float | None = None, *, digits: int = 3) -> str:
    """Return a Brier-like number as the paper prints it: `.218 ±.006`."""
    if value is None:
        return DASH
    return _bare(value, digits) + (f" ±{_bare(sd, digits)}" if sd is not None else "")


def _bare(value: float, digits: int) -> str:
    text = f"{value:.{digits}f}"
    return text.replace("0.", ".", 1) if text.startswith(("0.", "-0.")) else text


def best(cells: Sequence[dict[str, Any]]) -> set[tuple[str, str, str]]:
    """Return (model, arm, column) of the best accuracy and Brier of each model that has more than one ranked arm."""
    found: set[tuple[str, str, str]] = set()
    scored = [row for row in cells if row["ranked"]]
    for model in {row["model"] for row in scored}:
        mine = [row for row in scored if row["model"] == model]
        for column, choose in (("accuracy", max), ("brier", min)) if len(mine) > 1 else ():
            top = choose(row[column] for row in mine)
            found |= {(model, row["arm"], column) for row in mine if row[column] == top}
    return found


def score_table(document: dict[str, Any]) -> RenderableType:
    """Return the score table of `scoring.build.score_document`; what is missing stands above it."""
    table = Table(title=f"Scores of {document['eval_set']}", caption=CAPTION, box=box.SIMPLE, pad_edge=False)
    table.padding = (0, 1, 0, 0)
    for name in ("model", "arm"):
        table.add_column(name, overflow="fold")
    for name in ("runs", "n", "u/f/m/r", "acc %", "Brier", "as .5"):
        table.add_column(name, justify="right", no_wrap=True)
    bold = best(document["cells"])
    previous = None
    for row in document["cells"]:
        if previous not in {None, row["model"]}:
            table.add_section()
        previous = row["model"]
        table.add_row(*_score_row(row, bold))
    return Group(*(_missing_line(each) for each in document["missing"]), table, *_unranked_line(document["cells"]))


def _unranked_line(cells: Sequence[dict[str, Any]]) -> list[Text]:
    """Return the cells whose scores stand on few or other questions, if there are any."""
    names = [f"{row['model']}/{row['arm']} ({row['questions']} questions)" for row in cells if unranked(row)]
    said = f"Not ranked, few or other questions: {', '.join(names)}."
    return [Text(said, style="yellow")] if names else []


def unranked(cell: dict[str, Any]) -> bool:
    """Tell whether a model's cell has scores and yet no place in an order."""
    return bool(cell["n"]) and cell["model"] != BASELINE and not cell["ranked"]


def _score_row(row: dict[str, Any], bold: set[tuple[str, str, str]]) -> list[Text | str]:
    def styled(text: str, column: str) -> Text:
        return Text(text, style="bold" if (row["model"], row["arm"], column) in bold else "")

    return [
        Text(row["model"]),
        Text(row["arm"]),
        str(row["runs"]),
        str(row["n"]),
        f"{row['unparsed']}/{row['failed']}/{row['missing']}/{row['retried']}",
        styled(percent(row["accuracy"], row["accuracy_sd"]), "accuracy"),
        styled(points(row["brier"], row["brier_sd"]), "brier"),
        points(row["brier_imputed"]),
    ]


def _missing_line(each: dict[str, Any]) -> Text:
    return Text(
        f"missing: {each['model']}/{each['arm']} {each['missing']} of {each['expected']}: {each['command']}",
        style="yellow",
    )


def comparison(document: dict[str, Any], *, interval: Interval) -> RenderableType:
    """Return the lines of one comparison (`cli.score.compare`'s document); what its cells lack stands above them."""
    rows = document["comparisons"]
    low, high = ("low", "high") if interval == "percentile" else ("bca_low", "bca_high")
    named = "percentile" if interval == "percentile" else "BCa"
    caption = f"95 % {named} interval, 10,000 cluster resamples, two-sided p; found: what 4 in 5 tries would find."
    pairs = max((row["pairs"] for row in rows), default=0)
    table = Table(title=f"{document['a']} minus {document['b']}, up to {pairs} pairs", caption=caption, box=box.SIMPLE)
    table.pad_edge = False
    for name in ("metric", "missing", "clusters"):
        table.add_column(name, no_wrap=True)
    for name in ("diff", "interval", "p", "found"):
        table.add_column(name, justify="right", no_wrap=True)
    for row in sorted(rows, key=lambda row: (row["metric"], row["missing"], row["cluster"]), reverse=True):
        table.add_row(
            row["metric"],
            TREATED[row["missing"]],
            f"{row['clusters']} {SHORT[row['cluster']]}",
            points(row["difference"]),
            f"{points(row[low])} .. {points(row[high])}",
            f"{row['p']:.4f}",
            points(row["detectable"]),
        )
    clusters = max((row["clusters"] for row in rows), default=0)
    said = f"Only {clusters} questions: an interval or a p from fewer than {MIN_QUESTIONS} says little."
    few = [Text(said, style="yellow")] if clusters < MIN_QUESTIONS else []
    return Group(*(_missing_line(each) for each in document["missing"]), *few, table)


def answer(found: Answer) -> RenderableType:
    """Return the rows of a query."""
    caption = "More rows were left out: see --limit." if found.truncated else None
    table = Table(caption=caption, box=box.SIMPLE, pad_edge=False)
    for name in found.columns:
        table.add_column(Text(name), overflow="fold")
    for row in found.rows:
        table.add_row(*(Text(DASH if value is None else str(value)) for value in row))
    return table
