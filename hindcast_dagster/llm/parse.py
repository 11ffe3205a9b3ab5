"""Replies into values: objects in a text, and small total functions with full-match rules, shared by every caller.

What belongs here: reading. No function raises on a reply; what cannot be read is a `Refusal` or None, and the caller
asks again. Nothing is clamped, renormalised or guessed: only a named field of one complete object counts, never the
last number in a text.

The probability rule: a finite number in [0, 1] (a bool is not a number); or a text that is exactly such a number
(`.65`, `6.5e-1`) or a percentage that says so (`65%`, 0 to 100). Everything else (65, -0.2, "about .6", "0.65-0.75")
is refused.
"""

import math
import re
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Final, Literal, NamedTuple

from hindcast_dagster.llm.lenient import Malformed, Truncated, read_object
from hindcast_dagster.llm.reasoning import Split, split_thought

__all__ = [
    "ParsedForecast",
    "Refusal",
    "Scan",
    "Split",
    "ToolCall",
    "forecast_object",
    "integer",
    "one_of",
    "probability",
    "scan",
    "single_object",
    "split_thought",
    "texts",
    "tool_calls",
]

MAX_CHARACTERS: Final = 400_000
"""A reply is cut here before it is read; no budget of ours lets a model write that much."""
SUM_TOLERANCE: Final = 0.02
"""How far prob_yes + prob_no may be from 1 before it counts as a conflict (rounding of the model)."""

_DECIMAL: Final = re.compile(r"(?:[0-9]{1,20}\.?[0-9]{0,40}|\.[0-9]{1,40})(?:[eE][+-]?[0-9]{1,3})?")
_PERCENT: Final = re.compile(r"([0-9]{1,3}(?:\.[0-9]{1,40})?) ?%")
_INTEGER: Final = re.compile(r"-?[0-9]{1,18}")
_CHOICES: Final = {"yes": "Yes", "y": "Yes", "no": "No", "n": "No"}
_FIELDS: Final = frozenset({"prob_yes", "prob_no", "prob_yes_percent"})

Reason = Literal[
    "empty", "unfinished_thought", "no_object", "truncated", "several_objects", "no_probability", "bad_probability"
]


class Refusal(NamedTuple):
    """Why a reply gives no value, for the trace and the re-prompt."""

    reason: Reason
    detail: str


class Scan(NamedTuple):
    """The complete top-level objects of a text, in order."""

    objects: list[dict[str, Any]]
    repaired: bool
    """At least one was not valid JSON as it stood."""
    truncated: bool
    """The text ends inside an object."""


@dataclass(frozen=True, slots=True)
class ParsedForecast:
    """A forecast as the model gave it; `prob_yes` decides, the rest is recorded."""

    prob_yes: float
    prob_no: float | None
    """As given; None when it was not."""
    choice: str
    """Yes exactly when prob_yes > 0.5 (paper, section 4.2), whatever the model chose."""
    confidence: float | None
    reasoning: str
    conflict: str | None
    """`sum`, `choice` or `sum+choice`: how the fields disagree."""
    repaired: bool
    fields: dict[str, Any]
    """The whole object, for fields of a single arm."""


class ToolCall(NamedTuple):
    """A tool call that a model wrote as an object; `problem` is a sentence for the model when it cannot be made."""

    name: str
    arguments: dict[str, Any]
    problem: str | None


def probability(value: object) -> float | None:
    """Return a probability by the rule above, else None."""
    if isinstance(value, str):
        return _text_probability(value.strip())
    if isinstance(value, int | float) and not isinstance(value, bool) and 0 <= value <= 1:
        return float(value)
    return None


def _text_probability(text: str) -> float | None:
    percent = _PERCENT.fullmatch(text)
    if percent:
        return probability(float(percent.group(1)) / 100)
    return probability(float(text)) if _DECIMAL.fullmatch(text) else None


def integer(value: object, low: int, high: int) -> int | None:
    """Return a whole number in [low, high] (also `3.0` and `"3"`), else None."""
    if isinstance(value, str) and _INTEGER.fullmatch(value.strip()):
        value = int(value)
    if isinstance(value, float) and math.isfinite(value) and value.is_integer():
        value = int(value)
    good = isinstance(value, int) and not isinstance(value, bool) and low <= value <= high
    return int(value) if good else None  # type: ignore[call-overload]


def one_of(value: object, allowed: Sequence[str]) -> str | None:
    """Return the allowed word that `value` is, apart from case and outer space, else None."""
    word = value.strip().casefold() if isinstance(value, str) else None
    return next((known for known in allowed if known.casefold() == word), None)


def texts(value: object, *, limit: int, max_characters: int = 500) -> list[str]:
    """Return up to `limit` distinct non-empty texts of a list (or a single text), spaces collapsed, each cut."""
    items = [value] if isinstance(value, str) else value if isinstance(value, list) else []
    lines = (" ".join(item.split())[:max_characters] for item in items if isinstance(item, str))
    return list(dict.fromkeys(line for line in lines if line))[:limit]


def scan(text: str) -> Scan:
    """Return the complete top-level objects of a text: bare, in fences, in prose or in an array; never nested ones."""
    text = text[:MAX_CHARACTERS]
    objects: list[dict[str, Any]] = []
    repaired, at = False, text.find("{")
    while at >= 0:
        try:
            found = read_object(text, at)
        except Truncated:
            return Scan(objects, repaired, truncated=True)
        except Malformed:
            end = _matching_brace(text, at)
            if end is None:
                return Scan(objects, repaired, truncated=True)
        else:
            objects.append(found.value)
            repaired, end = repaired or found.repaired, found.end
        at = text.find("{", end)
    return Scan(objects, repaired, truncated=False)


def _matching_brace(text: str, start: int) -> int | None:
    """Return the place after the brace that closes the one at `start`: what is inside is not read on its own."""
    depth = 0
    for found in re.compile(r'"(?:[^"\\]|\\.)*"|[{}]', re.DOTALL).finditer(text, start):
        depth += {"{": 1, "}": -1}.get(found.group(), 0)
        if depth == 0:
            return found.end()
    return None


def single_object(reply: str, *, having: Sequence[str] = ()) -> dict[str, Any] | Refusal:
    """Return the one object of a reply that has at least one of the keys `having` (all count when it is empty).

    Thought is removed first; an object with a single key that holds an object is unwrapped; equal repeats count once;
    two different ones are refused, because nothing says which is meant.
    """
    found = _candidates(reply, frozenset(having))
    return found if isinstance(found, Refusal) else found.objects[0]


def _candidates(reply: str, keys: frozenset[str]) -> Scan | Refusal:
    split = split_thought(reply[:MAX_CHARACTERS])
    if split.unfinished:
        return Refusal("unfinished_thought", "the reply ends inside a reasoning span")
    if not split.answer:
        return Refusal("empty", "the reply is empty")
    found = scan(split.answer)
    unwrapped = [_unwrapped(item) for item in found.objects]
    distinct: list[dict[str, Any]] = []
    for item in unwrapped:
        if (not keys or keys & item.keys()) and item not in distinct:
            distinct.append(item)
    if len(distinct) > 1:
        return Refusal("several_objects", f"{len(distinct)} different objects answer the question")
    if found.truncated:
        return Refusal("truncated", "the reply ends inside an object")
    if not distinct:
        return Refusal("no_object", f"{len(unwrapped)} objects, none with {' or '.join(sorted(keys)) or 'a value'}")
    return Scan(distinct, found.repaired, found.truncated)


def _unwrapped(item: dict[str, Any]) -> dict[str, Any]:
    inner = next(iter(item.values())) if len(item) == 1 else None
    return inner if isinstance(inner, dict) else item


def forecast_object(text: str) -> ParsedForecast | Refusal:
    """Return the forecast that a reply gives (paper, B.1), or why it gives none.

    `prob_yes` is kept as given; `prob_no` alone gives 1 - prob_no; `prob_yes_percent` is a whole percentage, for
    servers that ignore the bounds of a JSON number. A probability field that breaks the rule refuses the object.
    """
    found = _candidates(text, _FIELDS)
    if isinstance(found, Refusal):
        return found
    fields = found.objects[0]
    given = {name: fields[name] for name in sorted(_FIELDS & fields.keys()) if fields[name] is not None}
    read = {name: _field_probability(name, value) for name, value in given.items()}
    bad = next((name for name, value in read.items() if value is None), None)
    if bad:
        return Refusal("bad_probability", f"{bad} is {str(given[bad])[:60]!r}, which is not a probability")
    yes = read.get("prob_yes", read.get("prob_yes_percent"))
    no = read.get("prob_no")
    if yes is None and no is None:
        return Refusal("no_probability", "prob_yes and prob_no are both missing")
    return _parsed(fields, yes=(1 - no) if yes is None and no is not None else yes or 0.0, no=no, scan=found)


def _field_probability(name: str, value: object) -> float | None:
    if name != "prob_yes_percent":
        return probability(value)
    percent = integer(value, 0, 100)
    return None if percent is None else percent / 100


def _parsed(fields: dict[str, Any], *, yes: float, no: float | None, scan: Scan) -> ParsedForecast:
    choice = "Yes" if yes > 0.5 else "No"  # noqa: PLR2004 - paper, section 4.2
    stated = fields.get("choice")
    off_sum = no is not None and round(abs(yes + no - 1), 9) > SUM_TOLERANCE
    off_choice = stated is not None and _CHOICES.get(str(stated).strip().casefold()) != choice
    reasoning = fields.get("reasoning")
    return ParsedForecast(
        prob_yes=yes,
        prob_no=no,
        choice=choice,
        confidence=probability(fields.get("confidence")),
        reasoning=reasoning if isinstance(reasoning, str) else "",
        conflict="+".join(word for word, off in (("sum", off_sum), ("choice", off_choice)) if off) or None,
        repaired=scan.repaired,
        fields=fields,
    )


def tool_calls(reply: str, *, limit: int = 8) -> list[ToolCall]:
    """Return the tool calls of a reply: objects with `tool` or `name`, and `arguments` (an object, or one as text).

    Calls inside a thought are ignored. A call that cannot be made carries its problem, to be told to the model.
    """
    split = split_thought(reply[:MAX_CHARACTERS])
    if split.unfinished:
        return []
    named = (item for item in scan(split.answer).objects if isinstance(item.get("tool", item.get("name")), str))
    return [_tool_call(item) for item in named][:limit]


def _tool_call(item: dict[str, Any]) -> ToolCall:
    name = str(item.get("tool", item.get("name"))).strip()
    given = item.get("arguments", item.get("args", {}))
    if isinstance(given, str):
        inner = scan(given)
        given = inner.objects[0] if len(inner.objects) == 1 and not inner.truncated else given
    if isinstance(given, dict):
        return ToolCall(name, given, None)
    return ToolCall(name, {}, f"arguments must be one JSON object, found {type(given).__name__}")
