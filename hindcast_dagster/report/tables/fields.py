"""What a table of the report is made of: plain values that say what stands in each field and how.

The template only prints them.
"""

from collections.abc import Iterable
from dataclasses import dataclass, replace
from typing import Any, Final

import polars as pl

from hindcast_dagster.report.gather import Gathered

DASH: Final = "\N{EN DASH}"
MINUS: Final = "\N{MINUS SIGN}"


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
    wide: bool = False
    fold: bool = False
    """Shown closed: a reader who wants it opens it, and print opens all."""

    def slim(self) -> "Table":
        """Return the table without columns of numbers in which no row has a value."""
        rows = [row for group in self.groups for row in group.rows]
        kept = [
            k for k in range(len(self.columns)) if k < self.texts or any(row[k].text not in {DASH, ""} for row in rows)
        ]
        groups = [Group(group.name, [[row[k] for k in kept] for row in group.rows]) for group in self.groups]
        return replace(self, columns=[self.columns[k] for k in kept], groups=groups)

    @property
    def empty(self) -> bool:
        """No row at all."""
        return not any(group.rows for group in self.groups)


def number(value: float | None, digits: int = 3, sd: float | None = None, **more: Any) -> Field:
    """Return a number with a real minus sign; its SD stands small behind it."""
    if value is None:
        return Field(DASH, **more)
    small = f"±{sd:.{digits}f}" if sd is not None else ""
    return Field(f"{value:,.{digits}f}".replace("-", MINUS), small=small, **more)


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


def metric(gathered: Gathered, name: str) -> dict[tuple[str, str], float]:
    """Return one measure of the score tables by (model, arm)."""
    rows = gathered.tables["metrics"].filter(pl.col("metric") == name).select("model", "arm", "value").iter_rows()
    return {(model, arm): value for model, arm, value in rows}


def by_family(gathered: Gathered, frame: pl.DataFrame) -> pl.DataFrame:
    """Sort by family and model, zero-shot before what is built on it."""
    family = {slug: facts.family for slug, facts in gathered.facts.items()}
    return frame.sort(
        pl.col("model").replace_strict(family, default=pl.col("model"), return_dtype=pl.String),
        "model",
        pl.col("arm") != "zero_shot",
        "arm",
    )


def interval(low: float, high: float, digits: int) -> Field:
    """Return an interval."""
    return Field(f"{number(low, digits).text} … {number(high, digits).text}")
