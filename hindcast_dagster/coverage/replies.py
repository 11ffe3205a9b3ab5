"""Reads the replies of a judge model. Total functions: what cannot be read is None or absent, never a guess.

An unlabelled block stays unlabelled; a contrast outside [-1, 1] is no contrast and is not clamped.
"""

import math
import re
from collections.abc import Collection
from typing import Any, Final, NamedTuple

from hindcast_dagster.evidence.labels import LABELS, Label, Quality
from hindcast_dagster.llm.parse import Refusal, one_of, single_object, texts

_QUALITIES: Final = ("strong", "weak", "none")
_SIGNED: Final = re.compile(r"[+-]?(?:[0-9]\.?[0-9]{0,40}|\.[0-9]{1,40})")


class Verdict(NamedTuple):
    """The contrast towards Yes in [-1, 1] and the evidence quality; None: not told in a usable form."""

    contrast: float | None
    quality: Quality | None


def queries(reply: str, *, count: int) -> dict[str, list[str]] | None:
    """Return up to `count` queries per side, or None unless both sides have at least one."""
    found = single_object(reply, having=("yes", "no"))
    if isinstance(found, Refusal):
        return None
    sides = {side: texts(found.get(side), limit=count, max_characters=200) for side in ("yes", "no")}
    return sides if all(sides.values()) else None


def labels(reply: str, *, numbers: Collection[int]) -> dict[int, Label]:
    """Return the usable labels among those that were asked for."""
    found = single_object(reply)  # an object with the single key "labels" comes unwrapped
    given = None if isinstance(found, Refusal) else found.get("labels", found)
    if not isinstance(given, dict):
        return {}
    named = ((number, _label(given.get(str(number)))) for number in numbers)
    return {number: label for number, label in named if label is not None}


def verdict(reply: str) -> Verdict:
    """Return contrast and quality, each on its own: one may be usable without the other."""
    found = single_object(reply, having=("contrast", "evidence_quality"))
    if isinstance(found, Refusal):
        return Verdict(None, None)
    return Verdict(signed(found.get("contrast")), one_of(found.get("evidence_quality"), _QUALITIES))  # type: ignore[arg-type]


def signed(value: Any) -> float | None:
    """Return a number in [-1, 1], or a text that is exactly such a number, else None."""
    if isinstance(value, str) and _SIGNED.fullmatch(value.strip()):
        value = float(value)
    if not isinstance(value, int | float) or isinstance(value, bool) or not math.isfinite(value):
        return None
    return float(value) if -1 <= value <= 1 else None


def _label(value: object) -> Label | None:
    return one_of(value, LABELS)  # type: ignore[return-value]
