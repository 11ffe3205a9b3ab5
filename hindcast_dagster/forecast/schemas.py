"""JSON schemas of the agent's replies, for backends that can enforce one (setting `llm.structured`).

The parser does not trust them: it reads every reply the same way.
"""

from typing import Any, Final

_TEXT: Final = {"type": "string", "maxLength": 160}
_QUERY: Final = {
    "type": "object",
    "properties": {"query": _TEXT},
    "required": ["query"],
    "additionalProperties": False,
}

QUERIES: Final[dict[str, Any]] = {
    "type": "object",
    "properties": {"queries": {"type": "array", "items": _QUERY, "minItems": 1, "maxItems": 12}},
    "required": ["queries"],
    "additionalProperties": False,
}

REFLECTION: Final[dict[str, Any]] = {
    "type": "object",
    "properties": {
        "reflection": {"type": "string", "maxLength": 400},
        "confidence": {"type": "string", "pattern": "^(0\\.[0-9][0-9]|1\\.00)$"},
        "missing": {"type": "array", "items": _TEXT, "maxItems": 6},
        "queries": {"type": "array", "items": _QUERY, "maxItems": 8},
        "lookups": {
            "type": "array",
            "items": {
                "type": "object",
                "properties": {"tool": _TEXT, "arguments": {"type": "object"}},
                "required": ["tool", "arguments"],
            },
            "maxItems": 6,
        },
    },
    "required": ["reflection", "confidence", "missing", "queries"],
    "additionalProperties": False,
}
