"""Reading the tally that a model gives over numbered blocks: labels per side, and the evidence quality (paper, 4.1).

An unreadable tally leaves the forecast valid and its evidence quality unknown ("unbinned"); nothing is guessed.
"""

from collections.abc import Iterator, Sequence
from typing import Any, Final, NamedTuple, cast

from hindcast_dagster.evidence.labels import LABELS, Label, Quality, Tally, contrast, quality
from hindcast_dagster.llm.parse import Refusal, integer, one_of, single_object

QUALITIES: Final = ("strong", "weak", "none")
_ALSO: Final = {"irrelevant": "irrel", "contradicts": "contra", "contradictory": "contra", "none": "irrel"}

SCHEMA: Final[dict[str, Any]] = {
    "type": "object",
    "properties": {
        "labels": {
            "type": "array",
            "items": {
                "type": "object",
                "properties": {
                    "block": {"type": "integer"},
                    "yes": {"type": "string", "enum": list(LABELS)},
                    "no": {"type": "string", "enum": list(LABELS)},
                },
                "required": ["block", "yes", "no"],
                "additionalProperties": False,
            },
            "maxItems": 60,
        },
        "evidence_quality": {"type": "string", "enum": list(QUALITIES)},
    },
    "required": ["labels", "evidence_quality"],
    "additionalProperties": False,
}


class Labelled(NamedTuple):
    """The labels of one block."""

    key: str
    yes: Label | None
    no: Label | None


class Tallied(NamedTuple):
    """What a tally says. `quality` is the judge's word, or follows from the labels when it gave none."""

    yes: Tally
    no: Tally
    quality: Quality
    blocks: list[Labelled]
    conflict: str | None
    """How the reply disagrees with itself: recorded, not corrected."""

    @property
    def contrast(self) -> float:
        """Towards Yes, in (-1, 1)."""
        return contrast(self.yes, self.no)


def read_tally(reply: str, keys: Sequence[str]) -> Tallied | Refusal:
    """Return the tally over blocks 1.. with these document keys, or why the reply gives none."""
    found = single_object(reply, having=("labels", "evidence_quality"))
    if isinstance(found, Refusal):
        return found
    given = dict(_entries(found.get("labels")))
    blocks = [Labelled(key, *_labels(given.get(number))) for number, key in enumerate(keys, start=1)]
    said = one_of(found.get("evidence_quality"), QUALITIES)
    labelled = any(block.yes or block.no for block in blocks)
    if not labelled and said is None:
        return Refusal("no_object", "no label and no evidence quality")
    yes, no = Tally.of(block.yes for block in blocks), Tally.of(block.no for block in blocks)
    final = cast("Quality", said) if said else quality(yes, no)
    strangers = sorted(number for number in given if not 1 <= number <= len(keys))
    return Tallied(yes, no, final, blocks, _conflict(blocks, final, strangers, labelled=labelled))


def _entries(value: object) -> Iterator[tuple[int, dict[str, Any]]]:
    """Yield (block, labels) of an object by number or of a list of objects that name their block."""
    if isinstance(value, dict):
        pairs = [(number, entry) for number, entry in value.items()]
    elif isinstance(value, list):
        pairs = [(entry.get("block", entry.get("n")), entry) for entry in value if isinstance(entry, dict)]
    else:
        pairs = []
    for raw, entry in pairs:
        number = integer(raw, 0, 10_000)
        if number is not None and isinstance(entry, dict):
            yield number, entry


def _labels(entry: dict[str, Any] | None) -> tuple[Label | None, Label | None]:
    if entry is None:
        return None, None
    return _label(entry.get("yes", entry.get("Yes"))), _label(entry.get("no", entry.get("No")))


def _label(value: object) -> Label | None:
    word = value.strip().casefold() if isinstance(value, str) else ""
    return cast("Label | None", one_of(_ALSO.get(word, word), LABELS))


def _conflict(blocks: Sequence[Labelled], said: Quality, strangers: Sequence[int], *, labelled: bool) -> str | None:
    """Say what does not fit: a block for both sides, a quality that no label carries, a block that does not exist."""
    for_side = {"strong", "weak"}
    words = []
    if any(block.yes in for_side and block.no in for_side for block in blocks):
        words.append("both_sides")
    if labelled and said == "strong" and not any("strong" in {block.yes, block.no} for block in blocks):
        words.append("quality_without_strong")
    if labelled and said == "none" and any(for_side & {block.yes, block.no} for block in blocks):
        words.append("quality_none_with_evidence")
    if strangers:
        words.append("unknown_block")
    return "+".join(words) or None
