"""The tables of a report as plain values: what stands in each field and how. The template only prints them."""

from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from typing import Any, Final

import polars as pl

from hindcast_dagster.report.gather import Gathered, NotMeasured
from hindcast_dagster.report.terminal import best
from hindcast_dagster.report.theme import arm_name
from hindcast_dagster.scoring.inputs import BASELINE

DASH: Final = "\N{EN DASH}"
MINUS: Final = "\N{MINUS SIGN}"
BINS: Final = ("strong", "weak", "none")


@dataclass(frozen=True)
class Field:
    """One field: its text, the smaller text behind it (an SD, a unit), and whether it is the best of its group."""

    text: str
    small: str = ""
    best: bool = False
    kind: str = ""
    """A class of the style sheet: gain, loss, warn."""


@dataclass(frozen=True)
class Group:
    """Rows under one heading (a model family); without a heading, just rows."""

    name: str
    rows: list[list[Field]]


@dataclass(frozen=True)
class Table:
    """A table: the first `texts` columns are words, the others numbers."""

    title: str
    columns: list[str]
    groups: list[Group]
    note: str = ""
    texts: int = 1
    wide: bool = field(default=False)

    @property
    def empty(self) -> bool:
        """No row at all."""
        return not any(group.rows for group in self.groups)


def number(value: float | None, digits: int = 3, sd: float | None = None, **more: Any) -> Field:
    """Return a number with a real minus sign; its SD stands small behind it."""
    if value is None:
        return Field(DASH, **more)
    small = f"±{sd:.{digits}f}" if sd is not None else ""
    return Field(f"{value:.{digits}f}".replace("-", MINUS), small=small, **more)


def percent(value: float | None, digits: int = 1, sd: float | None = None, **more: Any) -> Field:
    """Return a fraction as a percentage without its sign."""
    return number(None if value is None else 100 * value, digits, None if sd is None else 100 * sd, **more)


def signed(value: float | None, digits: int = 3, *, lower_is_better: bool = False) -> Field:
    """Return a change with its sign, coloured by whether it is a gain."""
    if value is None:
        return Field(DASH)
    text = f"{value:+.{digits}f}".replace("-", MINUS)
    if float(f"{value:.{digits}f}") == 0:
        return Field(f"{0:.{digits}f}")
    return Field(text, kind="gain" if (value < 0) == lower_is_better else "loss")


def count(value: int | None) -> Field:
    """Return a count with thousands separated."""
    return Field(DASH if value is None else f"{value:,}")


def name_of(gathered: Gathered, model: str) -> str:
    """Return a model as a person reads it."""
    return gathered.facts[model].name if model in gathered.facts else model


def grouped(gathered: Gathered, rows: Iterable[tuple[str, list[Field]]]) -> list[Group]:
    """Group rows (model, fields) by family, families in order of appearance, baselines last."""
    families: dict[str, list[list[Field]]] = {}
    for model, fields in rows:
        family = gathered.facts[model].family if model in gathered.facts else model
        families.setdefault(family, []).append(fields)
    order = sorted(families, key=lambda family: family == "Baselines")
    return [Group(family, families[family]) for family in order]


def headline(gathered: Gathered) -> Table:
    """Return table 1 of the paper: accuracy, accuracy by coverage bin, Brier; with what is missing in each cell."""
    bold = best(gathered.cells.to_dicts())
    bins = _bins(gathered)
    has_bins = bool(bins)
    per_run = _per_cell(gathered.tables["runs"], pl.col("repaired").sum(), pl.col("brier_imputed").mean())
    skill = _metric(gathered, "brier_skill")
    rows = []
    for cell in _by_family(gathered, gathered.cells).iter_rows(named=True):
        key = (cell["model"], cell["arm"])
        more = per_run.get(key, {"repaired": 0, "brier_imputed": None})
        rows.append(
            (
                cell["model"],
                [
                    Field(name_of(gathered, cell["model"])),
                    Field(arm_name(cell["arm"])),
                    percent(cell["accuracy"], 1, cell["accuracy_sd"], best=(*key, "accuracy") in bold),
                    *([bins.get((*key, label), Field(DASH)) for label in BINS] if has_bins else []),
                    number(cell["brier"], 3, cell["brier_sd"], best=(*key, "brier") in bold),
                    number(more["brier_imputed"]),
                    number(cell["brier_index"], 1),
                    signed(skill.get(key), 2),
                    Field(f"{cell['n']:,}", small=f"{cell['runs']} runs" if cell["runs"] > 1 else ""),
                    _lost(cell, more["repaired"]),
                ],
            )
        )
    columns = ["Model", "Arm", "Accuracy %", *(["S", "W", "N"] if has_bins else []), "Brier", "Brier, lost as ½"]
    return Table(
        title="Scores",
        columns=[*columns, "Brier index", "Skill vs market", "n", "Lost"],
        groups=grouped(gathered, rows),
        note="± is the sample SD over runs; best arm of a model in bold. S, W, N: accuracy where the run's own tally "
        "found strong, weak or no evidence; zero-shot stands in the bins of the paired retrieval run. Lost: forecasts "
        "without a probability (unparsed, failed, missing; r: read only after a repair); they are no forecasts and "
        "have no score. Brier, lost as ½: the same with each of them counted as one half.",
        texts=2,
        wide=True,
    )


def _lost(cell: dict[str, Any], repaired: int) -> Field:
    parts = [f"{cell[name]} {name}" for name in ("unparsed", "failed", "missing") if cell[name]]
    small = f"{repaired} r" if repaired else ""
    return Field(", ".join(parts) or "0", small=small, kind="warn" if parts else "")


def _bins(gathered: Gathered) -> dict[tuple[str, str, str], Field]:
    strata = gathered.tables["strata"].filter(pl.col("by") == "evidence")
    return {
        (row["model"], row["arm"], row["stratum"]): percent(row["accuracy"], 1, row["accuracy_sd"])
        for row in strata.filter(pl.col("stratum").is_in(BINS)).iter_rows(named=True)
    }


def _per_cell(frame: pl.DataFrame, *values: pl.Expr) -> dict[tuple[str, str], dict[str, Any]]:
    rows = frame.group_by("model", "arm").agg(*values).iter_rows(named=True)
    return {(row["model"], row["arm"]): row for row in rows}


def _metric(gathered: Gathered, name: str) -> dict[tuple[str, str], float]:
    rows = gathered.tables["metrics"].filter(pl.col("metric") == name).select("model", "arm", "value").iter_rows()
    return {(model, arm): value for model, arm, value in rows}


def _by_family(gathered: Gathered, frame: pl.DataFrame) -> pl.DataFrame:
    """Sort by family and model, zero-shot before what is built on it."""
    family = {slug: facts.family for slug, facts in gathered.facts.items()}
    return frame.sort(
        pl.col("model").replace_strict(family, default=pl.col("model"), return_dtype=pl.String),
        "model",
        pl.col("arm") != "zero_shot",
        "arm",
    )


def per_run(gathered: Gathered) -> Table:
    """Return table 5 of the paper: accuracy and Brier of every run."""
    runs = gathered.tables["runs"].filter(pl.col("model") != BASELINE)
    numbers = sorted(runs["run"].unique().to_list())
    found = {(row["model"], row["arm"], row["run"]): row for row in runs.iter_rows(named=True)}
    rows = []
    for model, arm in _by_family(gathered, runs.select("model", "arm").unique()).iter_rows():
        each = [found.get((model, arm, run), {"accuracy": None, "brier": None}) for run in numbers]
        fields = [part for row in each for part in (percent(row["accuracy"]), number(row["brier"]))]
        rows.append((model, [Field(name_of(gathered, model)), Field(arm_name(arm)), *fields]))
    columns = [column for run in numbers for column in (f"Acc {run}", f"Brier {run}")]
    return Table("Every run", ["Model", "Arm", *columns], grouped(gathered, rows), texts=2, wide=True)


def bin_sizes(gathered: Gathered) -> Table:
    """Return table 6 of the paper: mean size of the coverage bins over the runs of the arm that made them."""
    strata = gathered.tables["strata"].filter((pl.col("by") == "evidence") & (pl.col("arm") != "zero_shot"))
    sizes = {(row["model"], row["arm"], row["stratum"]): row["size"] for row in strata.iter_rows(named=True)}
    rows = []
    for model, arm in _by_family(gathered, strata.select("model", "arm").unique()).iter_rows():
        values = [sizes.get((model, arm, label), 0.0) for label in (*BINS, "unbinned")]
        if sum(values[:3]):
            total = number(sum(values), 0)
            fields = [*(number(value, 0) for value in values), total]
            rows.append((model, [Field(name_of(gathered, model)), Field(arm_name(arm)), *fields]))
    return Table(
        "Coverage bins",
        ["Model", "Arm", "Strong", "Weak", "None", "Unbinned", "Total"],
        grouped(gathered, rows),
        note="Mean questions per run. The label comes from each run's own tally, so a question can change bins.",
        texts=2,
    )


def strata_table(gathered: Gathered, by: str, title: str) -> Table:
    """Return accuracy and Brier of every cell within the strata of one kind."""
    strata = gathered.tables["strata"].filter(pl.col("by") == by)
    if by == "duration":
        order = ["short", "medium", "long"]
        strata = strata.sort(pl.col("stratum").replace_strict({n: k for k, n in enumerate(order)}, default=9))
    names = strata["stratum"].unique(maintain_order=True).to_list()
    found = {(row["model"], row["arm"], row["stratum"]): row for row in strata.iter_rows(named=True)}
    rows = []
    for model, arm in _by_family(gathered, strata.select("model", "arm").unique()).iter_rows():
        fields = []
        for name in names:
            row = found.get((model, arm, name))
            fields.append(number(row["brier"], 3, row["brier_sd"]) if row else Field(DASH))
        rows.append((model, [Field(name_of(gathered, model)), Field(arm_name(arm)), *fields]))
    sizes = dict(gathered.given.questions.group_by(by).len().iter_rows()) if by in {"topic", "duration"} else {}
    columns = [f"{name} ({sizes[name]})" if name in sizes else name for name in names]
    return Table(title, ["Model", "Arm", *columns], grouped(gathered, rows), texts=2, wide=len(names) > 5)  # noqa: PLR2004


def effects(gathered: Gathered, by: str, title: str) -> Table:
    """Return section 7 of the paper for one grouping: recoveries, regressions, net, and what they did to the scores."""
    frame = gathered.tables["effects"].filter(pl.col("by") == by)
    frame = frame.sort("arm", "net", descending=[False, True])
    label: Callable[[str], str] = (lambda text: name_of(gathered, text)) if by == "model" else str
    rows = [
        [
            Field(label(row["group"]), kind=""),
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
        note="Run i of the arm against run i of zero-shot on the same question. Sure when wrong: mean "
        "|p \N{MINUS SIGN} 0.5| of wrong calls. Adjustment: what the evidence step added to the Brier of the arm's "
        "own stated prior. "
        "Disagree: accuracy and Brier moved in opposite directions.",
        texts=2,
        wide=True,
    )


def comparisons(gathered: Gathered, family: str, title: str) -> Table:
    """Return the paired comparisons of a family: question clusters, with the event line below each."""
    if isinstance(gathered.comparisons, NotMeasured):
        return Table(title, [], [])
    frame = gathered.comparisons.filter((pl.col("family") == family) & (pl.col("metric") == "brier"))
    rows = []
    for row in frame.sort("a", "missing", "cluster", descending=[False, True, True]).iter_rows(named=True):
        first = row["cluster"] == "question" and row["missing"] == "intersection"
        model, _, arm = row["a"].rpartition("/")
        how = f"by {row['cluster']}, {'both answered' if row['missing'] == 'intersection' else 'lost as ½'}"
        rows.append(
            [
                Field(f"{name_of(gathered, model)}, {arm_name(arm).lower()}" if first else ""),
                Field(how),
                count(row["pairs"]),
                count(row["clusters"]),
                signed(row["difference"], 3, lower_is_better=True),
                Field(f"{number(row['low']).text} … {number(row['high']).text}"),
                Field(_p(row["p"])),
                Field(_p(row["p_holm"]), kind="strong" if row["p_holm"] < 0.05 else ""),  # noqa: PLR2004
                number(row["detectable"]),
            ]
        )
    return Table(
        title,
        ["", "Clusters", "Pairs", "n", "Δ Brier", "95 % interval", "p", "p, Holm", "Detectable"],
        [Group("", rows)],
        note="Below zero is better. Percentile interval of 10,000 seeded resamples of whole questions, or of whole "
        "events; runs of a question stay together. Holm over the rows of this table that are measured the same way. "
        "Detectable: the smallest true difference that this many clusters would find 4 times in 5.",
        texts=2,
        wide=True,
    )


def _p(value: float) -> str:
    return "< .001" if value < 0.001 else f"{value:.3f}".replace("0.", ".", 1)  # noqa: PLR2004 - printing only


def calibration(gathered: Gathered) -> Table:
    """Return calibration error in both forms, the Murphy parts and the logarithmic scores of every cell."""
    names = ("ece_equal_width", "ece_equal_mass", "murphy_reliability", "murphy_resolution", "murphy_uncertainty")
    values = {name: _metric(gathered, name) for name in (*names, "sharpness", "baseline_score", "log_clipped")}
    rows = []
    for cell in _by_family(gathered, gathered.cells.filter(pl.col("n") > 0)).iter_rows(named=True):
        key = (cell["model"], cell["arm"])
        fields = [number(values[name].get(key)) for name in (*names, "sharpness")]
        rows.append(
            (
                cell["model"],
                [
                    Field(name_of(gathered, cell["model"])),
                    Field(arm_name(cell["arm"])),
                    *fields,
                    number(cell["log_score"]),
                    number(values["baseline_score"].get(key), 1),
                    count(int(values["log_clipped"].get(key, 0))),
                    count(cell["ties"]),
                    number(cell["market_gap"]),
                ],
            )
        )
    columns = ["ECE, equal width", "ECE, equal mass", "Reliability", "Resolution", "Uncertainty", "Sharpness"]
    return Table(
        "Calibration",
        ["Model", "Arm", *columns, "Log score", "Baseline score", "Clipped", "Ties", "|p \N{MINUS SIGN} q|"],
        grouped(gathered, rows),
        note="Ten bins. Brier = reliability \N{MINUS SIGN} resolution + uncertainty + a within-bin rest. Log score: "
        "natural, clipped at 0.001 (Clipped counts such forecasts). Baseline score: 100 (log2 p + 1), always one half "
        "scores 0. Ties: forecasts of exactly one half, which count as No.",
        texts=2,
        wide=True,
    )


def blend(gathered: Gathered) -> Table:
    """Return what forecasts add to the market's price."""
    rows = [
        (
            row["model"],
            [
                Field(name_of(gathered, row["model"])),
                Field(arm_name(row["arm"])),
                count(row["questions"]),
                count(row["events"]),
                number(row["weight"], 2),
                Field(f"{number(row['weight_low'], 2).text} … {number(row['weight_high'], 2).text}"),
                number(row["market_weight"], 2),
                number(row["brier_blend"], 4),
                number(row["brier_market"], 4),
                number(row["brier_price"], 4),
            ],
        )
        for row in gathered.tables["blend"].iter_rows(named=True)
    ]
    briers = ("Brier, blend", "Brier, price refitted", "Brier, price")
    return Table(
        "Value beyond the market",
        ["Model", "Arm", "Questions", "Events", "Weight of p", "95 % interval", "Weight of q", *briers],
        grouped(gathered, rows),
        note="Logistic regression of the outcome on logit p (mean over runs) and logit q, errors clustered by event; "
        "Brier of predictions for events left out of the fit (5 folds). An interval of the weight that holds 0: the "
        "forecast adds nothing that the price did not know.",
        texts=2,
        wide=True,
    )


def economy(gathered: Gathered) -> Table:
    """Return what one forecast of each cell costs."""
    names = ("tokens_in", "tokens_out", "calls", "documents", "seconds", "cost")
    values = {name: _metric(gathered, name) for name in (*names, "trimmed_share")}
    rows = []
    for cell in _by_family(gathered, gathered.cells.filter(pl.col("model") != BASELINE)).iter_rows(named=True):
        key = (cell["model"], cell["arm"])
        if key in values["calls"]:
            digits = (0, 0, 1, 1, 1, 4)
            fields = [number(values[name].get(key), places) for name, places in zip(names, digits, strict=True)]
            cut = percent(values["trimmed_share"].get(key), 0)
            model, arm = Field(name_of(gathered, key[0])), Field(arm_name(key[1]))
            rows.append((key[0], [model, arm, number(cell["brier"]), *fields, cut]))
    columns = ["Tokens in", "Tokens out", "Calls", "Documents", "Seconds", "US $", "Cut %"]
    return Table(
        "Cost of a forecast",
        ["Model", "Arm", "Brier", *columns],
        grouped(gathered, rows),
        note="Means per forecast, failed ones included. US $ only where the roster has a price. Cut: share of "
        "forecasts whose evidence had to be shortened to fit the context.",
        texts=2,
        wide=True,
    )


def event_sums(gathered: Gathered) -> Table:
    """Return how far the legs of an event add up to more or less than what happened."""
    frame = (
        gathered.tables["event_sums"]
        .group_by("model", "arm")
        .agg(
            pl.len().alias("events"),
            pl.col("legs").mean(),
            pl.col("sum_p").mean(),
            pl.col("sum_price").mean(),
            pl.col("resolved_yes").mean(),
        )
    )
    rows = [
        (
            row["model"],
            [
                Field(name_of(gathered, row["model"])),
                Field(arm_name(row["arm"])),
                count(row["events"]),
                number(row["legs"], 1),
                number(row["sum_p"], 2),
                number(row["sum_price"], 2),
                number(row["resolved_yes"], 2),
            ],
        )
        for row in _by_family(gathered, frame).iter_rows(named=True)
    ]
    return Table(
        "Sums over the legs of an event",
        ["Model", "Arm", "Events", "Legs", "Sum of p", "Sum of prices", "Resolved Yes"],
        grouped(gathered, rows),
        note="Means over events with several questions. Legs of an exclusive event cannot all come true.",
        texts=2,
    )


def sweep(gathered: Gathered) -> Table:
    """Return table 7 of the paper, with calibration error and skill at each fraction."""
    rows = [
        (
            row["model"],
            [
                Field(name_of(gathered, row["model"])),
                Field(arm_name(row["arm"])),
                percent(row["fraction"], 0),
                percent(row["accuracy"], 1, row["accuracy_sd"]),
                number(row["brier"], 3, row["brier_sd"]),
                number(row["ece"]),
                signed(row["brier_skill"], 2),
            ],
        )
        for row in gathered.sweep.iter_rows(named=True)
    ]
    return Table(
        "Lookback sweep",
        ["Model", "Arm", "t0 at %", "Accuracy %", "Brier", "ECE", "Skill vs market"],
        grouped(gathered, rows),
        note="One eval set per fraction of a market's life, over the same markets.",
        texts=2,
    )
