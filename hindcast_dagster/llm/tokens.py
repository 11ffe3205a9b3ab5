"""Token budgets: an estimate for servers that keep their tokenizer, the room that is left, and trimming to it.

What belongs here: making evidence fit. Criteria, schema and instructions are never trimmed: they are counted first and
evidence gets what remains. What was offered, shown and left out is returned, to be stored.
"""

import re
from collections.abc import Callable, Sequence
from typing import Final, NamedTuple

from hindcast_dagster.errors import UsageError
from hindcast_dagster.llm.protocol import ChatModel, Decoding

TURN_TOKENS: Final = 12
"""Tokens that a chat template puts around one turn; more than any template of the roster needs."""

Count = Callable[[str], int]

_PIECES: Final = re.compile(r"([A-Za-z]+)|([0-9])|([^\x00-\x7f]+)|[^\sA-Za-z0-9]|\n+")
_LETTERS_PER_TOKEN: Final = 4


class Trimmed(NamedTuple):
    """Evidence that fits."""

    text: str
    offered: int
    """Tokens of all that was there."""
    shown: int
    """Tokens of `text`."""
    kept: int
    """Blocks of which at least a part is shown, from the front."""

    @property
    def left_out(self) -> int:
        """Tokens that were trimmed."""
        return max(0, self.offered - self.shown)


def estimate(text: str) -> int:
    """Return an upper estimate of the tokens of a text: words by length, each digit and sign alone, others by bytes.

    On English prose it is a fifth above what the tokenizers of the roster give; on digits and other scripts it holds.
    """
    total = 0
    for letters, digit, other in _PIECES.findall(text):
        if letters:
            total += 1 + (len(letters) - 1) // _LETTERS_PER_TOKEN
        elif digit or not other:
            total += 1
        else:
            total += len(other.encode("utf-8", "replace"))
    return total


def room(model: ChatModel, decoding: Decoding, fixed: Sequence[str]) -> int:
    """Return the tokens left for evidence beside the `fixed` turns and the reply budget.

    Raises `UsageError` when even without evidence nothing fits: the model is too small for this prompt.
    """
    used = sum(model.count_tokens(text) + TURN_TOKENS for text in fixed) + decoding.max_tokens
    left = model.context_length - used - TURN_TOKENS
    if left < 0:
        raise UsageError(
            f"{model.slug} takes {model.context_length} tokens; prompt and reply budget alone need {used}: "
            "choose a model with a longer context."
        )
    return left


def trim(blocks: Sequence[str], *, budget: int, count: Count, joint: str = "\n\n") -> Trimmed:
    """Return as many blocks as fit into `budget` tokens, in order; the first that does not fit is cut at a line.

    Blocks come best first. `shown` is at most `budget`.
    """
    glue = count(joint)
    sizes = [count(block) for block in blocks]
    offered = sum(sizes) + glue * max(0, len(blocks) - 1)
    shown: list[str] = []
    used = 0
    for block, size in zip(blocks, sizes, strict=True):
        cost = size + (glue if shown else 0)
        if used + cost > budget:
            part = cut(block, budget=budget - used - (glue if shown else 0), count=count)
            shown += [part] if part else []
            break
        shown.append(block)
        used += cost
    text = joint.join(shown)
    return Trimmed(text, offered=offered, shown=min(count(text), budget) if shown else 0, kept=len(shown))


def cut(text: str, *, budget: int, count: Count) -> str:
    """Return the longest beginning of `text` with at most `budget` tokens, ended at a line, else at a word."""
    if budget <= 0:
        return ""
    low, high = 0, len(text)
    while low < high:
        middle = (low + high + 1) // 2
        low, high = (middle, high) if count(text[:middle]) <= budget else (low, middle - 1)
    if low == len(text):
        return text
    part = text[:low]
    line, word = part.rfind("\n"), max(part.rfind(" "), part.rfind("\n"))
    end = line if line > low // 2 else word
    return part[:end].rstrip() if end > 0 else ""
