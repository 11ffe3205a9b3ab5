"""What is trustworthy about an eval set: each card says what was checked, what was found, and what it means."""

import statistics
from dataclasses import dataclass, field
from typing import Any, Final, Literal

import polars as pl

from hindcast_dagster.clock import iso
from hindcast_dagster.report.absent import NotMeasured
from hindcast_dagster.report.gather import Audit, Gathered
from hindcast_dagster.report.tables.fields import name_of
from hindcast_dagster.scoring.inputs import BASELINE

Verdict = Literal["good", "warn", "bad", "unknown"]

STALE_HOURS: Final = 36


@dataclass(frozen=True)
class Card:
    """One card. `command` is set on what was not measured."""

    name: str
    title: str
    verdict: Verdict
    headline: str
    text: str
    facts: list[tuple[str, str]] = field(default_factory=list)
    command: str = ""


def cards(gathered: Gathered) -> list[Card]:
    """Return the cards, in the order of what a sceptical reader asks first."""
    return [
        _leaks(gathered),
        _contamination(gathered),
        _complete(gathered),
        _exclusions(gathered),
        _months(gathered),
        _late(gathered),
        _prices(gathered),
        _twin(gathered),
    ]


def _absent(name: str, title: str, part: NotMeasured) -> Card:
    return Card(name, title, "unknown", "Not measured", f"{part.what}: not there.", command=part.command)


def _leaks(gathered: Gathered) -> Card:
    if not isinstance(gathered.audit, Audit):
        return _absent("leaks", "Leak audit", gathered.audit)
    rows, stats = gathered.audit
    by_kind = dict(rows.group_by("kind", maintain_order=True).len().sort("kind").iter_rows())
    names = {"forecasts": "Forecasts", "documents": "Documents", "sightings": "Sightings"}
    names |= {"unverified": "Questions without a market to check", "imported": "Imported, seen unknown"}
    checked = [(word, f"{stats[name]:,}") for name, word in names.items() if name in stats]
    if gone := stats.get("forgotten", {}).get("documents"):
        checked.append(("Documents forgotten since (take-down), judged by instants that were kept", f"{gone:,}"))
    found = [(kind.replace("_", " "), f"{n:,}") for kind, n in by_kind.items()]
    text = (
        "Every document of every trace was looked up again in the corpus and held against its question's t0, by code "
        "that shares nothing with the archive."
    )
    if rows.height:
        return Card("leaks", "Leak audit", "bad", f"{rows.height:,} violations", text, checked + found)
    if unsure := stats.get("unverified"):
        return Card("leaks", "Leak audit", "warn", f"{unsure:,} questions could not be checked", text, checked)
    if (imported := stats.get("imported")) or gone:
        said = f"{imported:,} imported forecasts not vouched for" if imported else f"{gone:,} documents forgotten since"
        return Card("leaks", "Leak audit", "warn", said, text, checked)
    if stats.get("documents") == 0:
        return Card(
            "leaks", "Leak audit", "unknown", "No document was read", "No forecaster was handed a post.", checked
        )
    return Card("leaks", "Leak audit", "good", "Nothing leaked", text, checked)


def _contamination(gathered: Gathered) -> Card:
    asked = gathered.scored.filter(pl.col("model") != BASELINE)
    counts = (
        asked.group_by("model", "beyond_cutoff", maintain_order=True)
        .agg(pl.col("question_id").n_unique().alias("n"))
        .sort("model", "beyond_cutoff")
    )
    words = {
        "after": "after its cutoff",
        "before": "before its cutoff: may be remembered",
        "unknown": "cutoff not published",
    }
    facts = [
        (name_of(gathered, row["model"]), f"{row['n']:,} {words[row['beyond_cutoff']]}")
        for row in counts.iter_rows(named=True)
    ]
    kinds = set(counts["beyond_cutoff"])
    verdict: Verdict = "bad" if "before" in kinds else "warn" if "unknown" in kinds else "good"
    headline = {
        "bad": "Some answers may be remembered",
        "warn": "Memory cannot be ruled out",
        "good": "All questions lie after every model's cutoff",
    }[verdict]
    if not facts:
        return Card("contamination", "Contamination", "unknown", "No model was asked", "Only baselines are scored.")
    text = (
        "Whether t0 lies after all that a model can have read in training. Telling a model the date hides nothing "
        "from it."
    )
    return Card("contamination", "Contamination", verdict, headline, text, facts)


def _complete(gathered: Gathered) -> Card:
    lost = {name: int(gathered.cells[name].sum()) for name in ("unparsed", "failed", "missing")}
    expected = int(gathered.cells["expected"].sum())
    facts = [(name.capitalize(), f"{n:,} of {expected:,}") for name, n in lost.items()]
    text = "A forecast without a probability is no forecast: it is counted here and has no score."
    if not any(lost.values()):
        return Card("complete", "Completeness", "good", "Every forecast is there", text, facts)
    return Card(
        "complete", "Completeness", "warn", f"{sum(lost.values()):,} forecasts have no probability", text, facts
    )


def _exclusions(gathered: Gathered) -> Card:
    stats = gathered.given.eval_set_stats
    excluded: dict[str, int] = stats.get("excluded") or {}
    facts = [(reason.replace("_", " "), f"{n:,}") for reason, n in sorted(excluded.items(), key=lambda item: -item[1])]
    facts += [(f"flag: {flag.replace('_', ' ')}", f"{n:,}") for flag, n in (stats.get("flags") or {}).items()]
    total, kept = sum(excluded.values()), gathered.given.questions.height
    if "excluded" not in stats:
        text = "This eval set does not say what was left out of it."
        return Card("exclusions", "Exclusions", "unknown", "Not recorded", text, facts)
    text = f"{kept:,} questions are asked; {total:,} candidates were left out, each for one counted reason."
    return Card("exclusions", "Exclusions", "good", f"{total:,} left out, by reason", text, facts)


def _months(gathered: Gathered) -> Card:
    if not gathered.health:
        text = "This eval set pins no month of the archive: no forecaster of it can have searched."
        return Card("months", "Archive months", "unknown", "No archive pinned", text)
    odd = {name: health for name, health in gathered.health.items() if health.get("verdict") != "ok"}
    facts = [(name, str(health.get("verdict", "unknown"))) for name, health in odd.items()]
    hollow = sum(health.get("verdict") == "hollow" for health in odd.values())
    total = len(gathered.health)
    text = (
        f"{total} months are pinned. A hollow month is one whose votes were hardly ever counted again, so that the "
        "engagement floors empty it; an unknown one has no neighbour to be compared with."
    )
    if hollow:
        return Card("months", "Archive months", "bad", f"{hollow} of {total} months are hollow", text, facts)
    if odd:
        return Card("months", "Archive months", "warn", f"{len(odd)} of {total} months of unknown health", text, facts)
    return Card("months", "Archive months", "good", "No hollow month", text, facts)


def _late(gathered: Gathered) -> Card:
    if isinstance(gathered.seen, NotMeasured):
        return _absent("late", "Late texts and votes", gathered.seen)
    seen = gathered.seen
    facts = [
        ("Documents handed to forecasters", f"{seen.sightings:,}"),
        ("Votes counted at or after t0, withheld", f"{seen.late_votes_withheld:,}"),
        ("Votes counted at or after t0, shown", f"{seen.late_votes_shown:,}"),
        ("Texts as of t0 or later, shown", f"{seen.late_texts:,}"),
    ]
    text = (
        "A post of before t0 can carry later knowledge in its vote counts or in an edited text. Strict mode withholds "
        "both; paper mode, like the paper, does not."
    )
    shown = seen.late_votes_shown + seen.late_texts
    if shown:
        return Card("late", "Late texts and votes", "warn", f"{shown:,} late values were shown", text, facts)
    return Card("late", "Late texts and votes", "good", "None was shown", text, facts)


def _prices(gathered: Gathered) -> Card:
    questions = gathered.given.questions
    ages = [age / 3600 for age in questions["price_age_s"].drop_nulls().to_list()]
    missing = int(questions["price_at_t0"].null_count())
    stale = sum(age > STALE_HOURS for age in ages)
    median = statistics.median(ages) if ages else None
    facts = [
        ("Questions with a price at t0", f"{questions.height - missing:,} of {questions.height:,}"),
        ("Median age of that price", "unknown" if median is None else f"{median:.1f} h"),
        (f"Older than {STALE_HOURS} h", f"{stale:,}"),
    ]
    text = "The market's price is the last one at or before t0, never an interpolation and never a later point."
    if missing or stale:
        return Card("prices", "Prices at t0", "warn", f"{missing:,} missing, {stale:,} stale", text, facts)
    return Card("prices", "Prices at t0", "good", "Every question has a fresh price", text, facts)


def _twin(gathered: Gathered) -> Card:
    title = "Outcome-blind twin"
    text = (
        "Choosing markets whose corpus supports the side that won favours retrieval. A twin set chosen by how much "
        "evidence there is, whatever it says, shows by how much."
    )
    if gathered.twin is None and gathered.given.eval_set_stats.get("selection", ...) is None:
        said = "Every market with a price is asked: none was chosen by its outcome or evidence, so there is no twin."
        return Card("twin", title, "good", "Nothing was selected", said)
    if gathered.twin is None:
        command = f"hindcast evalset twin {gathered.eval_set}"
        return Card("twin", title, "unknown", "Not measured", text, command=command)
    facts = [
        (
            f"{name_of(gathered, row['model'])} / {row['arm']}",
            f"Brier {_three(row['brier'])}, twin {_three(row['twin'])}",
        )
        for row in gathered.twin.iter_rows(named=True)
    ]
    return Card("twin", title, "good", "Measured beside this set", text, facts)


def _three(value: Any) -> str:
    return "\N{EN DASH}" if value is None else f"{value:.3f}"


def banners(gathered: Gathered) -> list[str]:
    """Return what must be said before any number: an invented world, and models without skill."""
    said = []
    if gathered.sample:
        said.append(
            "The sample world is invented: no post, person, price or market in it is real. It shows how a report "
            "reads, not how good a model is."
        )
    toys = [facts.name for facts in gathered.facts.values() if facts.no_skill]
    if toys:
        said.append(
            f"{', '.join(toys)} has no forecasting skill. Its forecasts prove that everything runs, and nothing else."
        )
    return said


def period(gathered: Gathered) -> str:
    """Return the span of t0 as dates."""
    t0 = gathered.given.questions["t0"]
    if not t0.len():
        return "no question"
    first, last = iso(int(t0.min()))[:10], iso(int(t0.max()))[:10]  # type: ignore[arg-type]
    return first if first == last else f"{first} to {last}"
