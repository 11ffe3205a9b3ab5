"""Rules about the eval set itself: the price at t0, the texts, and t0 before the close. Recomputed, not read back.

What belongs here: holding a frozen question against the market rows and price series that its eval set pins. The price
rule is written down a second time here on purpose, and so is the sign of an added note.
"""

import re
from collections.abc import Iterable, Iterator
from typing import Any, Final, NamedTuple

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


class Sources(NamedTuple):
    """What an eval set pins of its markets."""

    markets: pl.DataFrame
    prices: pl.DataFrame
    pinned: bool
    """False for an imported set: its texts and prices can only be held against themselves."""


def of_questions(questions: pl.DataFrame, sources: Sources) -> Iterator[Violation]:
    """Yield the violations of an eval set. What `unverified` counts is not held against a market."""
    rows = {row["market_id"]: row for row in sources.markets.iter_rows(named=True)}
    series = {str(key[0]): frame for key, frame in sources.prices.partition_by("market_id", as_dict=True).items()}
    for question in questions.iter_rows(named=True):
        found = [*_life(question), *_notes(question), *_age(question)]
        if _verifiable(question, sources):
            found += [*_texts(question, rows.get(question["id"])), *_price(question, series.get(question["id"]))]
        yield from (Violation(kind, question["id"], "", "", 0, _STEP, None, detail) for kind, detail in found)


def unverified(questions: pl.DataFrame, sources: Sources) -> int:
    """Return how many questions have no market here that their text and price could be held against."""
    return sum(not _verifiable(question, sources) for question in questions.iter_rows(named=True))


def _verifiable(question: dict[str, Any], sources: Sources) -> bool:
    return sources.pinned and question["source"] == "polymarket"


def sources(store: Store, pins: Iterable[Input]) -> Sources:
    """Return the market rows and price points that an eval set pins. Raises `NotSealed` when a version is gone."""
    pins = tuple(pins)
    pinned = any(pin.table == MARKETS.name for pin in pins)
    return Sources(_concat(store, pins, MARKETS), _concat(store, pins, PRICES), pinned)


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


def _age(question: dict[str, Any]) -> Iterator[tuple[Kind, str]]:
    age = question["price_age_s"]
    if question["price_at_t0"] is not None and (age is None or age < 0):
        yield "price_after_t0", f"Its age at t0 is {age!r} seconds."


def _texts(question: dict[str, Any], market: dict[str, Any] | None) -> Iterator[tuple[Kind, str]]:
    if market is None:
        yield "question_mismatch", "No pinned partition of markets holds it."
        return
    for name in ("outcome", "close_at"):
        if question[name] != market[name]:
            yield "question_mismatch", f"Its {name} is {question[name]!r}, the market's {market[name]!r}."
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
    if price is None or age is None or age < 0:
        return
    points = dict(series.select("at", "price").iter_rows()) if series is not None else {}
    if abs(points.get(t0 - age, -1.0) - price) > _CLOSE_ENOUGH:
        later = any(at > t0 and abs(value - price) <= _CLOSE_ENOUGH for at, value in points.items())
        kind: Kind = "price_after_t0" if later else "price_mismatch"
        yield kind, f"{price} is not in the series {age} s before t0{', but after it' if later else ''}."
    elif any(t0 - age < at < t0 for at in points):
        yield "price_mismatch", f"The series has a later point before t0 than the one {age} s before it."
