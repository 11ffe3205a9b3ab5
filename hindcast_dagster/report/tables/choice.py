"""How the questions of a set were chosen: the funnel beside the paper's, what was taken, what was probed."""

from typing import Any, Final

from hindcast_dagster.report.gather import Gathered
from hindcast_dagster.report.tables.fields import DASH, Field, Group, Table, count, percent

AS_OF: Final = {"close": "at the close", "t0": "at t0"}
QUALITIES: Final = ("strong", "weak", "none", "unreadable")


def funnel(gathered: Gathered) -> Table:
    """Return markets, events and share of No after each step, with what was left out there and why."""
    steps: list[dict[str, Any]] = gathered.given.eval_set_stats.get("funnel") or []
    rows = []
    for step in steps:
        paper = step.get("paper") or {}
        gone = ", ".join(f"{n:,} {reason.replace('_', ' ')}" for reason, n in (step.get("excluded") or {}).items())
        numbers = [count(step["markets"]), count(step["events"]), percent(step["no_share"], 0)]
        told = [count(paper.get("markets")), count(paper.get("events")), percent(paper.get("no_share"), 0)]
        rows.append([Field(step["step"]), Field(gone or DASH), *numbers, *told])
    return Table(
        "From the listing to the questions",
        ["Step", "Left out here", "Markets", "Events", "No %", "Paper: markets", "Paper: events", "Paper: No %"],
        [Group("", rows)],
        note="The paper (section 4.1) does not tell how many markets its probe called strong.",
        texts=2,
        wide=True,
    )


def taken(gathered: Gathered) -> Table:
    """Return what the last step of the selection had of each outcome and topic, and what it took."""
    selection = gathered.given.eval_set_stats.get("selection") or {}
    rows = [
        [Field(row["outcome"]), Field(row["topic"]), count(row["available"]), count(row["taken"])]
        for row in selection.get("taken", [])
    ]
    return Table(
        "Available and taken",
        ["Outcome", "Topic", "Available", "Taken"],
        [Group("", rows)],
        note="Outcomes are balanced first, topics inside each outcome next.",
        texts=2,
        fold=True,
    )


def probes(gathered: Gathered) -> Table:
    """Return what the coverage probe said of these questions at the close and at t0."""
    rows = [
        [Field(row["judge"]), Field(AS_OF[row["as_of"]]), *(count(row[name]) for name in QUALITIES)]
        for row in gathered.probes.iter_rows(named=True)
    ]
    return Table(
        "What the archive said of these questions",
        ["Judge", "Standing", "Strong", "Weak", "None", "Unreadable"],
        [Group("", rows)],
        note="At the close a probe sees what was written after t0, which no forecaster saw.",
        texts=2,
    )


def exposure(gathered: Gathered) -> Table:
    """Return, per model of the roster, how many questions lie after its knowledge cutoff."""
    rows = [
        [Field(each.model), Field(each.knowledge_until or "not published"),
         count(each.after), count(each.before), count(each.unknown)]
        for each in gathered.exposure
    ]  # fmt: skip
    return Table(
        "Knowledge cutoffs of the roster",
        ["Model", "Knows until", "t0 after it", "t0 before it", "Unknown"],
        [Group("", rows)],
        note="Only a question whose t0 lies after the cutoff cannot have been answered from memory.",
        texts=2,
        fold=True,
    )
