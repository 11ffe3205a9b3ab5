"""Section 7 of the paper: what an arm changes; and the paired comparisons."""

from collections.abc import Callable
from typing import Any, Final

import polars as pl

from hindcast_dagster.report.absent import NotMeasured
from hindcast_dagster.report.gather import Gathered
from hindcast_dagster.report.tables.fields import (
    DASH,
    Field,
    Group,
    Table,
    count,
    interval,
    name_of,
    number,
    percent,
    signed,
)
from hindcast_dagster.report.theme import arm_name
from hindcast_dagster.scoring.ranking import MIN_QUESTIONS

EFFECTS_NOTE: Final = (
    "Run i of the arm against run i of zero-shot on the same question. Sure when wrong: mean |p \N{MINUS SIGN} 0.5| of "
    "wrong calls. Adjustment: what the evidence step added to the Brier of the stated prior. Evidence tokens: "
    "prompt tokens beyond zero-shot's. Cut: share of forecasts whose evidence was shortened to fit. Disagree: accuracy "
    "and Brier tell different stories."
)


def effects(gathered: Gathered, by: str, title: str) -> Table:
    """Return section 7 of the paper for one grouping: recoveries, regressions, net, and what they did to the scores."""
    frame = gathered.tables["effects"].filter(pl.col("by") == by)
    frame = frame.sort("arm", "net", descending=[False, True])
    label: Callable[[str], str] = (lambda text: name_of(gathered, text)) if by == "model" else _spaced
    rows = [
        [
            Field(label(row["group"])),
            Field(arm_name(row["arm"])),
            count(row["pairs"]),
            count(row["recoveries"]),
            count(row["regressions"]),
            signed(row["net"], 0),
            signed(100 * row["accuracy_change"], 1),
            signed(row["brier_change"], 3, lower_is_better=True),
            number(row["wrong_margin_zero_shot"], 2),
            number(row["wrong_margin"], 2),
            number(row["prior_brier"]),
            signed(row["adjustment"], 3, lower_is_better=True),
            number(row["evidence_tokens"], 0),
            percent(row["trimmed_share"], 0),
            Field("yes", kind="warn") if row["disagree"] else Field(""),
        ]
        for row in frame.iter_rows(named=True)
    ]
    columns = [
        "Recovered",
        "Regressed",
        "Net",
        "Δ accuracy",
        "Δ Brier",
        "Sure when wrong, zero-shot",
        "Sure when wrong",
    ]
    return Table(
        title,
        ["", "Arm", "Pairs", *columns, "Prior's Brier", "Adjustment", "Evidence tokens", "Cut %", "Disagree"],
        [Group("", rows)],
        note=EFFECTS_NOTE if by == "model" else "",
        texts=2,
        wide=True,
        fold=by == "stop_reason",
    )


def _spaced(text: str) -> str:
    return text.replace("_", " ")


def comparisons(gathered: Gathered, family: str, title: str) -> Table:
    """Return the paired comparisons of Brier of a family, by question; by event and imputed beside."""
    if isinstance(gathered.comparisons, NotMeasured):
        return Table(title, [], [])
    frame = gathered.comparisons.filter((pl.col("family") == family) & (pl.col("metric") == "brier"))
    lines = {(row["a"], row["cluster"], row["missing"]): row for row in frame.iter_rows(named=True)}
    rows = [
        _comparison(gathered, row, lines[name, "event", "intersection"], lines[name, "question", "half"])
        for (name, cluster, missing), row in sorted(lines.items(), key=_place)
        if (cluster, missing) == ("question", "intersection")
    ]
    columns = ["Pairs", "Questions", "Δ Brier", "95 % interval", "The same, BCa", "p", "p, Holm"]
    return Table(
        title,
        ["Model", "Arm", *columns, "Interval by event", "Δ, lost as ½", "Detectable"],
        [Group("", rows)],
        note="Below zero is better. Percentile intervals of 10,000 seeded resamples of whole questions, or of whole "
        "events; BCa corrects them for bias and skew; runs of a question stay together. Pairs: both answered. Δ, lost "
        "as ½: a forecast that is not there counts as one half. Nothing is tested below "
        f"{MIN_QUESTIONS} questions. Holm over the rows of this table. Detectable: the "
        "smallest true difference that this many questions would find 4 times in 5.",
        texts=2,
        wide=True,
    )


def _place(line: tuple[Any, dict[str, Any]]) -> tuple[bool, float]:
    """Return where a comparison stands: the largest gain first, what stands on few questions last."""
    return line[1]["clusters"] < MIN_QUESTIONS, line[1]["difference"]


def _comparison(gathered: Gathered, row: dict[str, Any], event: dict[str, Any], half: dict[str, Any]) -> list[Field]:
    model, _, arm = row["a"].rpartition("/")
    few = row["clusters"] < MIN_QUESTIONS
    difference = signed(row["difference"], 3, lower_is_better=True)
    tested = [
        interval(row["low"], row["high"], 3),
        interval(row["bca_low"], row["bca_high"], 3),
        Field(_p(row["p"])),
        Field(_p(row["p_holm"]), kind="strong" if row["p_holm"] < 0.05 else ""),  # noqa: PLR2004
        interval(event["low"], event["high"], 3),
    ]
    return [
        Field(name_of(gathered, model)),
        Field(arm_name(arm)),
        count(row["pairs"]),
        Field(f"{row['clusters']:,}", small="too few" if few else "", kind="warn" if few else ""),
        Field(difference.text) if few else difference,
        *([Field(DASH)] * len(tested) if few else tested),
        signed(half["difference"], 3, lower_is_better=True),
        Field(DASH) if few else number(row["detectable"]),
    ]


def _p(value: float) -> str:
    return "< .001" if value < 0.001 else f"{value:.3f}".replace("0.", ".", 1)  # noqa: PLR2004 - printing only
