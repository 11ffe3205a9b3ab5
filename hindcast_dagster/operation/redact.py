"""Journals of paid work after a take-down: the texts of a unit that saw a forgotten document go, its numbers stay.

What belongs here: which records have seen a forgotten document, and what is left of them. An id and its instants stay
in the trace, because the leak audit holds them against t0; a probability stays, because it was made and scored.
"""

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Final, NamedTuple

from hindcast_dagster.errors import InputRefused
from hindcast_dagster.forecast.records import released
from hindcast_dagster.leakage.detective import verdict
from hindcast_dagster.storage.files import write_atomic
from hindcast_dagster.storage.forgotten import Forgotten
from hindcast_dagster.storage.store import Store

MARK: Final = "forgotten"
"""Key of a record that has lost its texts: how many of the documents that it saw are forgotten."""


class Unit(NamedTuple):
    """A journal file that has seen forgotten documents."""

    path: Path
    record: dict[str, Any]
    documents: int

    @property
    def eval_set(self) -> str | None:
        """The eval set of a forecast; None for other work."""
        return self.record.get("eval_set")

    @property
    def clean(self) -> bool:
        """Its texts are gone already."""
        return self.record.get(MARK) == self.documents


def units(store: Store, record: Forgotten) -> Iterator[Unit]:
    """Yield every unit of every journal (superseded and unsealed ones too) that has seen a forgotten document.

    A detective's note on a rationale counts when the forecast that wrote it does.
    """
    root = store.area("journal")
    forecasts: set[str] = set()
    notes: list[tuple[Path, dict[str, Any]]] = []
    for path in sorted(root.rglob("*.json")) if root.is_dir() else ():
        values = _read(path)
        if "item" in values:
            notes.append((path, values))
        elif count := len({key for key in _seen(values) if key in record}):
            forecasts.add(path.stem)
            yield Unit(path, values, count)
    for path, values in notes:
        if values["item"] in forecasts or values["item"] in record:
            yield Unit(path, values, 1)


def redact(unit: Unit) -> None:
    """Take the texts out of a unit, atomically."""
    left = {**_left(unit.record), MARK: unit.documents}
    write_atomic(unit.path, json.dumps(left, sort_keys=True, ensure_ascii=False).encode())


def _read(path: Path) -> dict[str, Any]:
    try:
        values = json.loads(path.read_bytes())
    except ValueError as error:
        raise InputRefused(f"{path} is not JSON ({error}): delete it and run the same command again.") from error
    return values if isinstance(values, dict) else {}


def _seen(values: dict[str, Any]) -> Iterator[str]:
    """Yield the id of every document that a forecast saw or a probe read."""
    for step in values.get("steps", []):
        yield from (seen[0] for seen in step["seen"])
    for block in values.get("finding", {}).get("blocks", []):
        yield block[0]


def _left(values: dict[str, Any]) -> dict[str, Any]:
    if "steps" in values:
        steps = [{**step, "detail": released(step["detail"])} for step in values["steps"]]
        made = {**values["forecast"], "rationale": "", "extra": numbers(values["forecast"].get("extra", {}))}
        return {**values, "steps": steps, "forecast": made}
    if "finding" in values:
        return {**values, "finding": {**values["finding"], "replies": []}}
    return {**values, "reply": json.dumps({"later_knowledge": verdict(str(values.get("reply", "")))})}


def numbers(value: Any) -> Any:
    """Return a JSON value without its texts: containers keep what holds a number or a truth value."""
    if isinstance(value, dict):
        kept = {key: numbers(each) for key, each in value.items()}
        return {key: each for key, each in kept.items() if each is not None}
    if isinstance(value, list):
        return [each for each in map(numbers, value) if each is not None]
    return value if isinstance(value, bool | int | float) else None
