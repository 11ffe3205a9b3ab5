"""JSON schemas as backends can enforce them. A schema only helps a model along: the reply is parsed all the same."""

from typing import Any, Final

PROBABILITY_PATTERN: Final = r"^(0\.[0-9]{2}|1\.00)$"
MAX_TEXT: Final = 240
MAX_ITEMS: Final = 8


def bounded(schema: dict[str, Any]) -> dict[str, Any]:
    """Return a schema that guided decoding can bring to an end.

    llama.cpp ignores the bounds of a `number`, and no backend bounds its digits, so a number in [0, 1] becomes a text
    of that form (which `parse.probability` reads); a text or list without a length would let a small model run into its
    token budget, so they get one.
    """
    return {key: _inner(value) if key == "items" else _properties(key, value) for key, value in _own(schema).items()}


def _properties(key: str, value: Any) -> Any:
    return {name: _inner(inner) for name, inner in value.items()} if key == "properties" else value


def _inner(schema: Any) -> Any:
    return bounded(schema) if isinstance(schema, dict) else schema


def _own(schema: dict[str, Any]) -> dict[str, Any]:
    kind = schema.get("type")
    if kind == "number" and schema.get("minimum") == 0 and schema.get("maximum") == 1:
        return {"type": "string", "pattern": PROBABILITY_PATTERN}
    if kind == "string" and not schema.keys() & {"enum", "const", "pattern", "maxLength"}:
        return {**schema, "maxLength": MAX_TEXT}
    if kind == "array" and "maxItems" not in schema:
        return {**schema, "maxItems": MAX_ITEMS}
    return schema
