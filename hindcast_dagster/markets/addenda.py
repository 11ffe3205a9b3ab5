"""Rules text: splits off what was added after launch, because it may state the outcome.

What belongs here: where the rules end and the notes begin. Polymarket appends "Additional context" and dated updates to
a market's description; everything from the first such note on is addenda and is never shown to a forecaster. The rule
would rather cut a harmless note than let one through; a plain "Note:" from launch day stays.
"""

import re
from typing import Final, NamedTuple

_MONTH: Final = r"(?:jan|feb|mar|apr|may|jun|jul|aug|sep|oct|nov|dec)[a-z]*\.?"
_DAY: Final = r"[0-9]{1,2}(?:st|nd|rd|th)?"
_YEAR: Final = r"(?:,?\s+[0-9]{4})?"
_DATE: Final = (
    r"(?:[0-9]{4}[-/.][0-9]{1,2}[-/.][0-9]{1,2}|[0-9]{1,2}[-/.][0-9]{1,2}(?:[-/.][0-9]{2,4})?"
    rf"|{_MONTH}\s+{_DAY}{_YEAR}|{_DAY}\s+{_MONTH}{_YEAR})"
)
_DASH: Final = r"[-\u2013\u2014]"
_QUOTE: Final = r"[\"'\u201c\u201d\u2019]"
_WORDS: Final = (
    r"(?:upd(?:ate[ds]?)?|edit(?:ed|s)?|clarifications?|corrections?|amendments?|addend(?:um|a)"
    r"|resolution\s+(?:note|update))"
)
_NOTES: Final = (
    # "Additional context", the heading that Polymarket itself uses, but not "additional information may be found at".
    r"additional\s+(?:context|clarification|information)\b(?!\s+(?:may|will|can|is|from))",
    # A word for a change with a colon, a dash or a bracket behind it, or with a date.
    rf"{_WORDS}\b[^\n:]{{0,60}}?(?::|\s{_DASH}\s|[)\]])",
    rf"{_WORDS}\b[^\n]{{0,20}}?{_DATE}",
    # A note with a date before its colon; without one it stood there at launch.
    rf"note\b[^\n:]{{0,30}}?\(?{_DATE}[^\n:]{{0,20}}:",
    # A note of somebody who writes none at launch, and what says itself that it was added.
    r"(?:(?:moderator|admin|post-resolution)(?:'s)?\s+(?:note|comment)|ruling)\b[^\n:]{0,30}?:",
    rf"added\b[^\n:]{{0,10}}?{_DATE}",
    # A line that opens with a date.
    rf"\(?\[?{_DATE}[^\n:\u2013\u2014]{{0,20}}(?::\s|\s{_DASH}\s|\]|\))",
    # A word on the outcome itself.
    (
        r"(?:(?:(?:this|the)\s+)?market\s+(?:has\s+(?:been\s+)?|was\s+)?)?"
        rf"(?:resolved|settled)\s*(?:to|as|at|:|{_DASH})?\s*{_QUOTE}?(?:yes|no)\b"
    ),
    r"(?:final|winning)\s+(?:outcome|resolution|result)\s*(?::|is\b|was\b)",
    rf"proposed\s+(?:outcome|resolution|result)\s*(?::|{_DASH}|is\b|was\b)",
    rf"(?:outcome|result)\s*:\s*{_QUOTE}?(?:yes|no)\b",
    rf"(?:outcome|result|resolution|winner)\s*(?::|{_DASH})\s*{_QUOTE}?(?:yes|no)\b(?!{_QUOTE}?\s+(?:if|when|unless)\b)",
)
_NOTE: Final = re.compile(
    r"(?:\A|\n|(?<=[.!?:;\"'\u201d\u2019)\]])[ \t]++)"  # the start of a line or of a sentence
    r"[\W_]{0,6}"  # markdown, brackets, bullets before a note
    rf"(?:{'|'.join(_NOTES)})",
    re.IGNORECASE,
)
_STATE: Final = r"(?:this\s+market\s+(?:has\s+(?:been\s+)?|was\s+|is\s+)?)?(?:resolved|settled|closed)\b"
_SIDE: Final = rf"\s*(?:to|as|:|{_DASH})?\s*{_QUOTE}?(?:yes|no)\b{_QUOTE}?"
_BRACKETS: Final = re.compile(
    r"[(\[](?:[^)\]]{0,40}\b)?(?:resolved|resolution|closed|settled|ended|outcome|updated?)\b[^)\]]{0,80}[)\]]",
    re.IGNORECASE,
)
_GAP: Final = r"[|:\-\u2013\u2014]"
_EDGES: Final = re.compile(
    # Before the question: "RESOLVED YES: Will ...".
    rf"\A\W{{0,3}}{_STATE}(?:{_SIDE})?\s*(?:[|:]|{_DASH}\s)\s*"
    # Behind it: "...? Resolved to Yes", "... - settled". A question may itself ask whether something is "settled?".
    rf"|(?:(?<=[?.!])(?:\s|\*|{_GAP})*+|(?<!\s)\s++{_GAP}++\s*+){_STATE}(?:{_SIDE}[^\n?]{{0,80}})?[\s.!]*\Z",
    re.IGNORECASE,
)


class Split(NamedTuple):
    """A text in two parts."""

    kept: str
    """What stood at launch: may be shown."""
    addenda: str
    """What came later, or may have: never shown."""


def split_rules(description: str) -> Split:
    """Split a market's description at its first note. Both parts come without outer space."""
    text = description.replace("\r\n", "\n").replace("\r", "\n")
    found = _NOTE.search(text)
    if found is None:
        return Split(text.strip(), "")
    return Split(text[: found.start()].strip(), text[found.start() :].strip())


def split_title(question: str) -> Split:
    """Take a word on the outcome, such as "(resolved)" or "RESOLVED YES:", out of a question."""
    kept, notes = question, list[str]()
    for remark in (_BRACKETS, _EDGES):
        notes += (found.group().strip() for found in remark.finditer(kept))
        kept = remark.sub("", kept).replace("  ", " ").strip() if notes else kept.strip()
    return Split(kept, "\n".join(notes))
