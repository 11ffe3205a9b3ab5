"""What a leak would have bought, what strict mode costs, what the choice of markets does: tables of the controls."""

from typing import Any, Final

import polars as pl

from hindcast_dagster.report.gather import Gathered
from hindcast_dagster.report.tables.fields import Field, Group, Table, count, interval, name_of, number, percent, signed
from hindcast_dagster.report.theme import arm_name

EFFECTS: Final = {
    "early_close": "Closed early",
    "decided_at_t0": "Decided at t0",
    "strong_at_close": "Probe strong at the close",
    "strong_at_t0": "Probe strong at t0",
}
NO_INTERVAL: Final = Field("")


def inflation(gathered: Gathered) -> Table:
    """Return what reading on after the close would have bought, by model and by topic."""
    return _control(
        gathered,
        "unsealed",
        "Leak inflation: the same agent, allowed to read until after the close",
        "Without a cutoff these gains would have looked like skill. Never ranked.",
    )


def placebo(gathered: Gathered) -> Table:
    """Return what another market's evidence does."""
    return _control(
        gathered,
        "placebo",
        "Placebo: another market's evidence",
        "What of retrieval's effect another market's evidence has too is prompt, not information.",
    )


def paper(gathered: Gathered) -> Table:
    """Return what paper mode shows beyond strict mode, in documents and in Brier."""
    late = gathered.leaks.late
    said = "; ".join(
        f"{name_of(gathered, model)} was shown {found['texts']:,} documents with a text and {found['votes']:,} with "
        "votes of after t0"
        for model, found in sorted(late.items())
    )
    return _control(
        gathered,
        "paper",
        "Paper mode against strict mode",
        f"The same agent, shown the late texts and votes that strict mode keeps back. {said}.".replace(" .", ""),
    )


def _control(gathered: Gathered, kind: str, title: str, note: str) -> Table:
    frame = gathered.leaks.effects.filter(pl.col("kind") == kind).sort("model", "topic")
    rows = [_pair(gathered, row) for row in frame.iter_rows(named=True)]
    columns = ["Pairs", "Accuracy", "Control's", "Δ accuracy", "Brier", "Control's Brier", "Δ Brier"]
    documents = ["Documents", "Control's documents"]
    return Table(title, ["Model", "Topic", *columns, *documents], [Group("", rows)], note=note, texts=2, wide=True)


def _pair(gathered: Gathered, row: dict[str, Any]) -> list[Field]:
    return [
        Field(name_of(gathered, row["model"])),
        Field(row["topic"] or "all"),
        count(row["n"]),
        percent(row["accuracy"]),
        percent(row["accuracy_control"]),
        signed(100 * (row["accuracy_control"] - row["accuracy"]), 1),
        number(row["brier"]),
        number(row["brier_control"]),
        signed(row["brier_control"] - row["brier"], 3, lower_is_better=True),
        number(row["documents"], 1),
        number(row["documents_control"], 1),
    ]


def selection(gathered: Gathered) -> Table:
    """Return every cell with and without the markets that show a selection effect; the blind twin beside it."""
    frame = gathered.leaks.selection
    sides = {(row["effect"], row["model"], row["arm"], row["side"]): row for row in frame.iter_rows(named=True)}
    groups = []
    for effect, title in EFFECTS.items():
        cells = sorted({key[1:3] for key in sides if key[0] == effect})
        rows = [_sides(gathered, model, arm, sides, effect) for model, arm in cells]
        groups += [Group(title, rows)] if rows else []
    columns = [
        "Questions with",
        "Brier with",
        "Accuracy with",
        "Questions without",
        "Brier without",
        "Accuracy without",
    ]
    return Table(
        "With and without the markets that the choice may favour",
        ["Model", "Arm", *columns],
        groups,
        note="A set is chosen knowing what happened. Closed early: such markets resolve Yes more often. Decided: the "
        "price at t0 was at most 0.02 or at least 0.98. Strong: the probe found much evidence.",
        texts=2,
        wide=True,
        fold=True,
    )


def _sides(
    gathered: Gathered, model: str, arm: str, sides: dict[tuple[str, str, str, str], dict[str, Any]], effect: str
) -> list[Field]:
    fields = [Field(name_of(gathered, model)), Field(arm_name(arm))]
    for side in ("with", "without"):
        row = sides.get((effect, model, arm, side), {"questions": 0, "brier": None, "accuracy": None})
        fields += [count(row["questions"]), number(row["brier"]), percent(row["accuracy"])]
    return fields


def detectives(gathered: Gathered) -> Table:
    """Return what each leak detective flagged, and how it did at its own exam."""
    rows = [_detective(gathered, each) for each in gathered.leaks.detectives]
    columns = ["Documents read", "Unclear", "Flagged %", "95 % interval"]
    columns += ["Rationales read", "Rationales unclear", "Rationales flagged %"]
    exam = ["Recall, planted", "Its interval", "Precision, planted", "Interval of precision"]
    return Table(
        "Leak detective: a second model re-reads",
        ["Model", *columns, *exam],
        [Group("", rows)],
        note="Flagged: the model says that a passage knows something of after t0. Recall and precision are on planted "
        "passages, plain ones: an upper bound. Unclear: not answered clearly; in no share, and never clean.",
        texts=1,
        wide=True,
    )


def _detective(gathered: Gathered, found: dict[str, Any]) -> list[Field]:
    documents, rationales, exam = found["documents"], found["rationales"], found["planted"]
    return [
        Field(name_of(gathered, found["model"])),
        count(documents["yes"] + documents["no"]),
        count(documents["unknown"]),
        percent(documents["share"]),
        _interval(documents, "low", "high"),
        count(rationales["yes"] + rationales["no"]),
        count(rationales["unknown"]),
        percent(rationales["share"]),
        number(exam["recall"], 2),
        _interval(exam, "recall_low", "recall_high"),
        number(exam["precision"], 2),
        _interval(exam, "precision_low", "precision_high"),
    ]


def _interval(found: dict[str, Any], low: str, high: str) -> Field:
    return NO_INTERVAL if found.get(low) is None else interval(found[low], found[high], 2)


def recalls(gathered: Gathered) -> Table:
    """Return what models remember of the set: asked what happened, without archive and forecast."""
    rows = [
        [
            Field(name_of(gathered, each["model"])),
            count(each["questions"]),
            *(count(each[name]) for name in ("right", "wrong", "unknown")),
            number(each["score"], 2),
        ]
        for each in gathered.leaks.recalls
    ]
    return Table(
        "Memory: asked what happened",
        ["Model", "Questions", "Right", "Wrong", "Unknown", "Score"],
        [Group("", rows)],
        note="(right \N{MINUS SIGN} wrong) / questions: about 0 for a model that knows nothing, 1 for one that "
        "remembers everything.",
    )
