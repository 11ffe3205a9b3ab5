"""Tables 1, 5 and 6 of the paper, and scores within strata."""

from typing import Any, Final

import polars as pl

from hindcast_dagster.evalset.config import TWIN_SUFFIX
from hindcast_dagster.report.gather import Gathered
from hindcast_dagster.report.tables.fields import (
    DASH,
    Field,
    Table,
    by_family,
    grouped,
    metric,
    name_of,
    number,
    percent,
    signed,
)
from hindcast_dagster.report.terminal import best, unranked
from hindcast_dagster.report.theme import arm_name
from hindcast_dagster.scoring.inputs import MARKET
from hindcast_dagster.scoring.measures import SKILL_FLOOR
from hindcast_dagster.scoring.ranking import MIN_QUESTIONS

BINS: Final = ("strong", "weak", "none")
STRATA_ORDER: Final = ("short", "medium", "long", "after", "before", "unknown")


def headline(gathered: Gathered) -> Table:
    """Return table 1 of the paper: accuracy, accuracy by coverage bin, Brier; with what is missing in each cell."""
    bold = best(gathered.cells.to_dicts())
    bins = _bins(gathered)
    has_bins = bool(bins)
    skill = {name: metric(gathered, name) for name in ("brier_skill", "skill_questions", "market_brier")}
    twins = {} if gathered.twin is None else {(m, a): b for m, a, _, b in gathered.twin.iter_rows()}
    other = "Brier, chosen set" if gathered.eval_set.endswith(TWIN_SUFFIX) else "Brier, blind twin"
    rows = []
    for cell in by_family(gathered, gathered.cells).iter_rows(named=True):
        key = (cell["model"], cell["arm"])
        rows.append(
            (
                cell["model"],
                [
                    Field(name_of(gathered, cell["model"])),
                    Field(arm_name(cell["arm"])),
                    percent(cell["accuracy"], 1, cell["accuracy_sd"], best=(*key, "accuracy") in bold),
                    *([bins.get((*key, label), Field(DASH)) for label in BINS] if has_bins else []),
                    number(cell["brier"], 3, cell["brier_sd"], best=(*key, "brier") in bold),
                    *([number(twins.get(key))] if twins else []),
                    number(cell["brier_imputed"]),
                    number(cell["brier_index"], 1),
                    _skill(key, skill),
                    _size(cell),
                    _lost(cell),
                ],
            )
        )
    columns = ["Model", "Arm", "Accuracy %", *(["S", "W", "N"] if has_bins else []), "Brier"]
    columns += [*([other] if twins else []), "Brier, lost as ½"]
    return Table(
        title="Accuracy and Brier by model and arm",
        columns=[*columns, "Brier index", "Skill vs market", "n", "Lost"],
        groups=grouped(gathered, rows),
        note="± is the sample SD over runs; best arm of a model in bold, where its arms answered the same questions. "
        "S, W, N: accuracy where the run's own tally found strong, weak or no evidence; zero-shot stands in the bins "
        "of the paired retrieval run. Lost: forecasts without a probability (u unparsed, f failed, m missing); they "
        "are no forecasts and have no score. r: retried, read only after a further prompt. Brier, lost as ½: the "
        f"same with each lost forecast counted as one half. Skill is not stated below {MIN_QUESTIONS} questions, nor "
        f"where the market's Brier is below {SKILL_FLOOR}: it would divide by almost nothing.",
        texts=2,
        wide=True,
    )


def _skill(key: tuple[str, str], found: dict[str, dict[tuple[str, str], float]]) -> Field:
    """Return the skill against the market, or why there is none; the market has none against itself."""
    if key[1] == MARKET:
        return Field(DASH)
    if key in found["brier_skill"]:
        return signed(found["brier_skill"][key], 2)
    questions, market = found["skill_questions"].get(key, 0), found["market_brier"].get(key)
    if market is None:
        return Field(DASH)
    few = questions < MIN_QUESTIONS
    return Field(DASH, small=f"{questions:.0f} questions" if few else f"market {market:.4f}", kind="why")


def _size(cell: dict[str, Any]) -> Field:
    """Return n; its runs; and that the cell has no place in an order, where it has none."""
    small = f"{cell['runs']} runs" if cell["runs"] > 1 else ""
    if unranked(cell):
        return Field(f"{cell['n']:,}", small=f"{small}, not ranked".removeprefix(", "), kind="warn")
    return Field(f"{cell['n']:,}", small=small)


def _lost(cell: dict[str, Any]) -> Field:
    """Return how many forecasts of a cell have no probability, by what became of them, and how many were retried."""
    lost = [f"{cell[name]:,} {name[0]}" for name in ("unparsed", "failed", "missing") if cell[name]]
    small = f"{cell['retried']:,} r" if cell["retried"] else ""
    return Field(", ".join(lost) or "0", small=small, kind="warn" if lost else "")


def _bins(gathered: Gathered) -> dict[tuple[str, str, str], Field]:
    strata = gathered.tables["strata"].filter(pl.col("by") == "evidence")
    return {
        (row["model"], row["arm"], row["stratum"]): percent(row["accuracy"], 1, row["accuracy_sd"])
        for row in strata.filter(pl.col("stratum").is_in(BINS)).iter_rows(named=True)
    }


def per_run(gathered: Gathered) -> Table:
    """Return table 5 of the paper: accuracy and Brier of every run."""
    runs = gathered.tables["runs"]
    numbers = sorted(runs["run"].unique().to_list())
    found = {(row["model"], row["arm"], row["run"]): row for row in runs.iter_rows(named=True)}
    rows = []
    for model, arm in by_family(gathered, runs.select("model", "arm").unique()).iter_rows():
        each = [found.get((model, arm, run), {"accuracy": None, "brier": None}) for run in numbers]
        fields = [part for row in each for part in (percent(row["accuracy"]), number(row["brier"]))]
        rows.append((model, [Field(name_of(gathered, model)), Field(arm_name(arm)), *fields]))
    columns = [column for run in numbers for column in (f"Acc {run}", f"Brier {run}")]
    return Table(
        "Every run",
        ["Model", "Arm", *columns],
        grouped(gathered, rows),
        note="Accuracy in %. A baseline has one run: it does not vary.",
        texts=2,
        wide=True,
        fold=True,
    )


def bin_sizes(gathered: Gathered) -> Table:
    """Return table 6 of the paper: mean size of the coverage bins over the runs of the arm that made them."""
    strata = gathered.tables["strata"].filter((pl.col("by") == "evidence") & (pl.col("arm") != "zero_shot"))
    sizes = {(row["model"], row["arm"], row["stratum"]): row["size"] for row in strata.iter_rows(named=True)}
    rows = []
    for model, arm in by_family(gathered, strata.select("model", "arm").unique()).iter_rows():
        values = [sizes.get((model, arm, label), 0.0) for label in (*BINS, "unbinned")]
        if sum(values[:3]):
            total = number(sum(values), 0)
            fields = [*(number(value, 0) for value in values), total]
            rows.append((model, [Field(name_of(gathered, model)), Field(arm_name(arm)), *fields]))
    return Table(
        "Coverage bins",
        ["Model", "Arm", "Strong", "Weak", "None", "Unbinned", "Total"],
        grouped(gathered, rows),
        note="Mean questions per run. The label comes from each run's own tally, so a question can change bins. "
        "Baselines keep no tally and stand in no bin.",
        texts=2,
        fold=True,
    )


def strata_table(gathered: Gathered, by: str, title: str) -> Table:
    """Return accuracy and Brier of every cell within the strata of one kind."""
    strata = gathered.tables["strata"].filter(pl.col("by") == by)
    sizes: dict[str, int] = {}
    if by in {"topic", "duration"}:
        sizes = dict(
            gathered.given.questions.group_by(by, maintain_order=True)
            .len()
            .sort("len", by, descending=[True, False])
            .iter_rows()
        )
    found = {(row["model"], row["arm"], row["stratum"]): row for row in strata.iter_rows(named=True)}
    names = [name for name in (sizes if by == "topic" else STRATA_ORDER) if name in set(strata["stratum"])]
    rows = [
        (
            model,
            [
                Field(name_of(gathered, model)),
                Field(arm_name(arm)),
                *(
                    number(found[model, arm, name]["brier"]) if (model, arm, name) in found else Field(DASH)
                    for name in names
                ),
            ],
        )
        for model, arm in by_family(gathered, strata.select("model", "arm").unique()).iter_rows()
    ]
    columns = [f"{name} ({sizes[name]})" if name in sizes else f"{name} cutoff" for name in names]
    return Table(title, ["Model", "Arm", *columns], grouped(gathered, rows), texts=2, wide=len(names) > 5, fold=True)  # noqa: PLR2004
