"""Calibration, value beyond the market, sums over events, and the lookback sweep (table 7 of the paper)."""

import polars as pl

from hindcast_dagster.report.gather import Gathered
from hindcast_dagster.report.tables.fields import (
    Field,
    Table,
    by_family,
    count,
    grouped,
    interval,
    metric,
    name_of,
    number,
    percent,
    signed,
)
from hindcast_dagster.report.theme import arm_name


def calibration(gathered: Gathered) -> Table:
    """Return calibration error in both forms, the Murphy parts and the logarithmic scores of every cell."""
    names = (
        "ece_equal_width",
        "ece_equal_mass",
        "murphy_reliability",
        "murphy_resolution",
        "murphy_uncertainty",
        "murphy_within",
    )
    values = {name: metric(gathered, name) for name in (*names, "sharpness", "baseline_score", "log_clipped")}
    rows = []
    for cell in by_family(gathered, gathered.cells.filter(pl.col("n") > 0)).iter_rows(named=True):
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
    columns = ["ECE, equal width", "ECE, equal mass", "Reliability", "Resolution", "Uncertainty", "Within", "Sharpness"]
    return Table(
        "Calibration",
        ["Model", "Arm", *columns, "Log score", "Baseline score", "Clipped", "Ties", "|p \N{MINUS SIGN} q|"],
        grouped(gathered, rows),
        note="Ten bins; Brier = reliability \N{MINUS SIGN} resolution + uncertainty + within bins. Log score: "
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
                interval(row["weight_low"], row["weight_high"], 2),
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


def event_sums(gathered: Gathered) -> Table:
    """Return how far the legs of an event add up to more or less than what happened."""
    frame = (
        gathered.tables["event_sums"]
        .group_by("model", "arm", maintain_order=True)
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
        for row in by_family(gathered, frame).iter_rows(named=True)
    ]
    return Table(
        "Sums over the legs of an event",
        ["Model", "Arm", "Events", "Legs", "Sum of p", "Sum of prices", "Resolved Yes"],
        grouped(gathered, rows),
        note="Means over events with several questions. Legs of an exclusive event cannot all come true.",
        texts=2,
        fold=True,
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
