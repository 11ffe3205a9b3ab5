"""Rules about the eval set itself: the price at t0, the texts, and t0 before the close. Recomputed, not read back.

What belongs here: holding a frozen question against the market rows and price series that its eval set pins. The price
rule is written down a second time here on purpose, and so is the sign of an added note.
"""

import re
from collections.abc import Iterable, Iterator
from typing import Any, Final

import polars as pl

from hindcast_dagster.contracts.markets import MARKETS, PRICES
from hindcast_dagster.contracts.table import Contract
from hindcast_dagster.leakage.violations import Kind, Violation
from hindcast_dagster.storage.manifest import Input
from hindcast_dagster.storage.store import Store
from hindcast_dagster.storage.tables import read_table

_STEP: Final = "eval_set"
_NOTE: Final = re.compile(
    r"^\W{0,6}(?:additional context\s*[:\-(]"
    r"|(?:update|edit|clarification)\w*\W[^\n]{0,40}?[0-9]{4}[-/][0-9]{2}[-/][0-9]{2}"
    r"|(?:update\W[^\n]{0,60})?\bresolved\s+(?:to|as)\s+\W?(?:yes|no)\b)",
    re.IGNORECASE | re.MULTILINE,
)
_CLOSE_ENOUGH: Final = 1e-9


def of_questions(questions: pl.DataFrame, markets: pl.DataFrame, prices: pl.DataFrame) -> Iterator[Violation]:
    """Yield the violations of an eval set. Sources other than Polymarket have no market row to be held against."""
    rows = {row["market_id"]: row for row in markets.iter_rows(named=True)}
    series = {str(key[0]): frame for key, frame in prices.partition_by("market_id", as_dict=True).items()}
    for question in questions.iter_rows(named=True):
        found = [*_life(question), *_notes(question)]
        if question["source"] == "polymarket":
            found += [*_texts(question, rows.get(question["id"])), *_price(question, series.get(question["id"]))]
        yield from (Violation(kind, question["id"], "", "", 0, _STEP, None, detail) for kind, detail in found)


def pinned_tables(store: Store, pins: Iterable[Input]) -> tuple[pl.DataFrame, pl.DataFrame]:
    """Return the pinned market rows and price points of an eval set."""
    pins = tuple(pins)
    return _concat(store, pins, MARKETS), _concat(store, pins, PRICES)


def _concat(store: Store, pins: tuple[Input, ...], contract: Contract) -> pl.DataFrame:
    parts = [store.partition(pin.table, *pin.key).at_version(pin.version) for pin in pins if pin.table == contract.name]
    return pl.concat([contract.empty(), *(read_table(part, contract) for part in parts)])


def _life(question: dict[str, Any]) -> Iterator[tuple[Kind, str]]:
    if question["t0"] >= question["close_at"]:
        yield "t0_after_close", f"t0 is {question['t0']}, the close {question['close_at']}."


def _notes(question: dict[str, Any]) -> Iterator[tuple[Kind, str]]:
    for name in ("text", "criteria"):
        if note := _NOTE.search(question[name]):
            yield "question_after_t0", f"Its {name} holds a note that was added later: {note.group()[:80]!r}."


def _texts(question: dict[str, Any], market: dict[str, Any] | None) -> Iterator[tuple[Kind, str]]:
    if market is None:
        yield "question_mismatch", "No pinned partition of markets holds it."
        return
    for name, own in (("text", "question"), ("criteria", "rules")):
        if question[name] == market[own]:
            continue
        addenda = market["addenda"].strip()
        if addenda and addenda in question[name]:
            yield "question_after_t0", f"Its {name} holds the market's addenda."
        else:
            yield "question_mismatch", f"Its {name} is not the market's {own}."


def _price(question: dict[str, Any], series: pl.DataFrame | None) -> Iterator[tuple[Kind, str]]:
    """Hold the price at t0 against the last point of the series that is not later than t0."""
    price, age, t0 = question["price_at_t0"], question["price_age_s"], question["t0"]
    if price is None:
        return
    if age is None or age < 0:
        yield "price_after_t0", f"Its age at t0 is {age!r} seconds."
        return
    points = dict(series.select("at", "price").iter_rows()) if series is not None else {}
    if abs(points.get(t0 - age, -1.0) - price) > _CLOSE_ENOUGH:
        later = any(at > t0 and abs(value - price) <= _CLOSE_ENOUGH for at, value in points.items())
        kind: Kind = "price_after_t0" if later else "price_mismatch"
        yield kind, f"{price} is not in the series {age} s before t0{', but after it' if later else ''}."
    elif any(t0 - age < at < t0 for at in points):
        yield "price_mismatch", f"The series has a later point before t0 than the one {age} s before it."
