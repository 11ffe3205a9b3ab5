"""Untrusted text into prompt text: content is data and cannot speak as the system, the model or our own wrappers.

What belongs here: making chat control tokens, reasoning and tool tags, and forged wrapper tags inert, and taking out
characters that hide instructions. Everything else in a text stays as it is. What does not: deciding what is shown.

The opening character of a token is replaced by a look-alike that no tokenizer folds back under NFKC (a fullwidth one
would be).
"""

import re
from typing import Final

ANGLE: Final = "\u2039"
BRACKET: Final = "\u27e6"

_CONTROL: Final = (  # tags of chat templates, reasoning and tool use, over the model families of the roster and beyond
    "s bos eos pad unk sep cls mask start_of_turn end_of_turn start_of_image end_of_image start_of_text end_of_text "
    "start_function_call end_function_call im_start im_end eot eom think thinking thought reasoning reflection answer "
    "final tool tools tool_call tool_calls tool_response tool_result function function_call function_results "
    "parameter invoke system user assistant human developer instruction instructions"
)

_WRAPPERS: Final = (  # what prompts put around data
    "archive author comment comments content context criteria data document documents evidence example message "
    "messages note options post posts prompt question quote report result results rules schema search_results source "
    "submission thread title"
)

_RESERVED: Final = frozenset(f"{_CONTROL} {_WRAPPERS}".split())
_BRACKETED: Final = "INST|SYSTEM_PROMPT|AVAILABLE_TOOLS|TOOL_CALLS|TOOL_RESULTS|TOOL_CONTENT|THINK|IMG|SUFFIX|PREFIX"

# Zero-width and word joiners, bidirectional overrides, variation tags, and controls other than tab and newline.
# U+200C and U+200D stay: Persian and emoji need them.
_HIDDEN: Final = re.compile(
    "[\u0000-\u0008\u000b-\u001f\u007f-\u009f\u200b\u200e\u200f\u202a-\u202e\u2060-\u2069\ufeff\U000e0000-\U000e007f]"
)
_LINE_ENDS: Final = re.compile("\r\n?|\u2028|\u2029|\u0085")
_SUSPECT: Final = re.compile("[^\t\n -~]|[<[]")
"""Every pattern here begins with one of these; most posts hold none and are done after one look."""
_LESS: Final = "[<\uff1c]"
_BAR: Final = "[|\uff5c\u2502\u2758]"
_TOKENS: Final = re.compile(rf"{_LESS}(?=\s*{_BAR})|{_LESS}(?=<\s*/?\s*SYS\s*>)|{_LESS}(?=/?SYS\s*>)", re.IGNORECASE)
_SQUARE: Final = re.compile(rf"[\[\uff3b](?=\s*/?\s*(?:{_BRACKETED})\s*[\]\uff3d])", re.IGNORECASE)


def tag_pattern(names: frozenset[str]) -> re.Pattern[str]:
    """Return the pattern of the `<` that opens a tag with one of these names, closing and unfinished ones included."""
    words = "|".join(sorted(map(re.escape, names), key=len, reverse=True))
    return re.compile(rf"{_LESS}(?=\s*/?\s*(?:{words})(?:[\s>/=\uff1e]|\Z))", re.IGNORECASE)


_TAGS: Final = tag_pattern(_RESERVED)


def neutralise(text: str, *, tags: re.Pattern[str] = _TAGS) -> str:
    """Return `text` with every control token and reserved tag made inert; idempotent.

    Lone surrogates (which JSON can carry) become `?`, so that the result always encodes as UTF-8.
    """
    if _SUSPECT.search(text) is None:
        return text
    text = text.encode("utf-8", "replace").decode("utf-8")
    text = _HIDDEN.sub("", _LINE_ENDS.sub("\n", text))
    for pattern, inert in ((_TOKENS, ANGLE), (tags, ANGLE), (_SQUARE, BRACKET)):
        text = pattern.sub(inert, text)
    return text


def reserved(template_tags: frozenset[str]) -> re.Pattern[str]:
    """Return the tags that content may not forge: those known here and those that the templates themselves use."""
    return tag_pattern(_RESERVED | template_tags)
