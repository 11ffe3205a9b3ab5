"""An eval set for a person at a terminal: what it is, how it came to be, its questions page by page."""

from typing import Any, Final

from rich import box
from rich.console import Group, RenderableType
from rich.table import Table
from rich.text import Text

from hindcast_dagster.clock import iso

_LINES: Final = ("policy", "archive_end", "gap_days", "capped_share", "decided_share", "yes_share", "stale_share",
                 "flags", "topics", "durations", "outcomes", "without_topic", "topics_by_model", "evidence", "judge",
                 "excluded")  # fmt: skip
DASH: Final = "-"


def whole(name: str, document: dict[str, Any], *, limit: int, offset: int) -> RenderableType:
    """Return an eval set as `hindcast evalset show` prints it."""
    parts: list[RenderableType] = [_summary(name, document)]
    if document["funnel"]:
        parts.append(_funnel(document["funnel"]))
    if taken := (document["selection"] or {}).get("taken"):
        parts.append(_taken(taken))
    parts += [_contamination(document["contamination"]), _questions(document["questions"], limit, offset)]
    return Group(*parts)


def _summary(name: str, document: dict[str, Any]) -> Table:
    title = f"eval set {name}: {len(document['questions'])} questions"
    table = Table("what", "value", title=title, box=box.SIMPLE, show_header=False, pad_edge=False)
    for key in _LINES:
        value = document.get(key)
        if value in (None, {}):
            continue
        said = ", ".join(f"{k} {v}" for k, v in value.items()) if isinstance(value, dict) else str(value)
        table.add_row(key.replace("_", " "), Text(said))
    return table


def _funnel(steps: list[dict[str, Any]]) -> Table:
    title = "from the listing to the set, beside the paper"
    table = Table(title=title, box=box.SIMPLE, pad_edge=False)
    table.add_column("step")
    for column in ("markets", "events", "No", "paper"):
        table.add_column(column, justify="right", no_wrap=True)
    table.add_column("left out here")
    for step in steps:
        gone = ", ".join(f"{n} {reason}" for reason, n in (step.get("excluded") or {}).items())
        row = (str(step["markets"]), _count(step["events"]), _share(step["no_share"]), _paper(step.get("paper")))
        table.add_row(Text(step["step"]), *row, Text(gone))
    return table


def _paper(told: dict[str, Any] | None) -> str:
    if told is None:
        return DASH
    events = "" if told["events"] is None else f" in {told['events']:,} events"
    no = "" if told["no_share"] is None else f", {told['no_share']:.0%} No"
    return f"{told['markets']:,}{events}{no}"


def _taken(rows: list[dict[str, Any]]) -> Table:
    table = Table("outcome", "topic", title="available and taken", box=box.SIMPLE, pad_edge=False)
    for column in ("available", "taken"):
        table.add_column(column, justify="right")
    for row in rows:
        table.add_row(row["outcome"], Text(row["topic"]), str(row["available"]), str(row["taken"]))
    return table


def _contamination(rows: list[dict[str, Any]]) -> Table:
    title = "t0 and the models' knowledge cutoffs"
    table = Table("model", "knows until", title=title, box=box.SIMPLE, pad_edge=False)
    for column in ("after", "before", "unknown"):
        table.add_column(column, justify="right")
    for row in rows:
        counts = (str(row[name]) for name in ("after", "before", "unknown"))
        table.add_row(Text(row["model"]), row["knowledge_until"] or "not published", *counts)
    return table


def _questions(questions: list[dict[str, Any]], limit: int, offset: int) -> RenderableType:
    page = questions[offset : offset + limit]
    last = offset + len(page)
    title = f"questions {offset + 1}-{last} of {len(questions)}" if page else f"{len(questions)} questions, none listed"
    caption = f"Next page: --offset {last}; all of them: --json." if page and last < len(questions) else None
    table = Table(title=title, caption=caption, box=box.SIMPLE, pad_edge=False)
    table.add_column("id", no_wrap=True)
    for column in ("t0", "close"):
        table.add_column(column, no_wrap=True)
    table.add_column("price", justify="right", no_wrap=True)
    for column in ("outcome", "topic", "question"):
        table.add_column(column)
    for row in page:
        price = DASH if row["price_at_t0"] is None else f"{row['price_at_t0']:.3f}"
        times = (_minute(row["t0"]), _minute(row["close_at"]))
        table.add_row(row["id"][:12], *times, price, row["outcome"], Text(row["topic"]), Text(row["text"]))
    return table


def _minute(epoch: int) -> str:
    """Return a time without its seconds, midnight as a date: the question needs the width."""
    date, _, clock = iso(epoch).rstrip("Z").partition("T")
    return f"{date} {clock[:5]}".removesuffix(" 00:00") if clock[-2:] == "00" else f"{date} {clock[:5]}"


def _count(value: int | None) -> str:
    return DASH if value is None else str(value)


def _share(value: float | None) -> str:
    return DASH if value is None else f"{value:.0%}"
