"""JSON schemas for judges whose backend can enforce them (setting `llm.structured`). Replies are read all the same."""

from collections.abc import Iterable
from typing import Any, Final

from hindcast_dagster.evidence.labels import LABELS

_QUERY_LENGTH: Final = 100
_SIGNED: Final = r"^(0|1|0\.[0-9]{1,2}|-0\.[0-9]{1,2}|-1)$"
"""A text, because not every backend keeps the bounds of a JSON number; `replies.signed` reads it."""

CONTRAST: Final[dict[str, Any]] = {
    "type": "object",
    "properties": {
        "contrast": {"type": "string", "pattern": _SIGNED},
        "evidence_quality": {"type": "string", "enum": ["strong", "weak", "none"]},
    },
    "required": ["contrast", "evidence_quality"],
    "additionalProperties": False,
}


def queries(count: int) -> dict[str, Any]:
    """Return the schema of `count` queries per side."""
    side = {
        "type": "array",
        "items": {"type": "string", "maxLength": _QUERY_LENGTH},
        "minItems": count,
        "maxItems": count,
    }
    return {
        "type": "object",
        "properties": {"yes": side, "no": side},
        "required": ["yes", "no"],
        "additionalProperties": False,
    }


def labels(numbers: Iterable[int]) -> dict[str, Any]:
    """Return the schema of one label for each block."""
    names = [str(number) for number in numbers]
    label = {"type": "string", "enum": list(LABELS)}
    inner = {
        "type": "object",
        "properties": dict.fromkeys(names, label),
        "required": names,
        "additionalProperties": False,
    }
    return {
        "type": "object",
        "properties": {"labels": inner},
        "required": ["labels"],
        "additionalProperties": False,
    }
