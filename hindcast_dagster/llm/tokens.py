"""Token budgets: an estimate for servers that keep their tokenizer to themselves, and cutting a text to a budget.

What belongs here: counting and cutting. What does not: what may be cut. Evidence is trimmed where it is rendered
(`forecast.blocks`); criteria, schema and instructions never are.
"""

import re
from collections.abc import Callable
from typing import Final

CHARACTERS_PER_TOKEN: Final = 3.5
"""What a plan reckons with for prose that is not written yet; a text that is there is counted by `estimate`."""
TURN_TOKENS: Final = 12
"""Tokens that a chat template puts around one turn; more than any template of the roster needs."""

Count = Callable[[str], int]

_PIECES: Final = re.compile(rb"[A-Za-z]{1,4}|[^\sA-Za-z\x1c-\x1f\x80-\xff]|\n+")
"""One token each: four letters of a word, a digit, a sign, line ends in a row."""
_ASCII: Final = bytes(range(128))


def estimate(text: str) -> int:
    """Return an upper estimate of the tokens of a text: words by length, each digit and sign alone, others by bytes.

    On English prose it is a fifth above what the tokenizers of the roster give; on digits and other scripts it holds.
    """
    data = text.encode("utf-8", "replace")  # one pass in C: an agent counts every document that it reads
    return len(_PIECES.findall(data)) + len(data.translate(None, _ASCII))


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
