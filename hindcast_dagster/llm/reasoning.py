"""Reasoning spans: what a model thought is kept for the trace and never parsed as its answer.

What belongs here: telling thought from answer in one reply. A tag inside a string of a complete JSON object is text,
not a tag. A closing tag without an opening one ends a thought that began in the prompt (as R1-Distill's template does).
"""

import re
from typing import Final, NamedTuple

from hindcast_dagster.llm.lenient import Malformed, Truncated, read_object

_TAG: Final = re.compile(r"<\s*(/?)\s*(?:think|thinking|thought|reasoning)\s*>|\[(/?)THINK\]", re.IGNORECASE)
_STOP: Final = re.compile(r"\{|" + _TAG.pattern, re.IGNORECASE)
_MAX_FAILED: Final = 64
"""Braces that open no object and are still tried: each try may read to the end of the reply."""


class Split(NamedTuple):
    """A reply in two parts."""

    answer: str
    reasoning: str
    unfinished: bool
    """The reply ends inside a thought: `answer` is not an answer."""


def split_thought(reply: str, *, opened: bool = False) -> Split:
    """Separate answer and thought of one reply; `opened` says that the prompt already opened the thought.

    Total: any text gives a result. With `opened`, a reply without a closing tag is all thought, unless it is nothing
    but one object: that is what guided decoding makes such a model write.
    """
    if opened and not any(_is_closing(tag) for tag in _TAG.finditer(reply)):
        alone = _is_object(reply)
        return Split(reply.strip() if alone else "", "" if alone else reply.strip(), unfinished=not alone)
    answer: list[str] = []
    thought: list[str] = []
    at, thinking, failed = 0, opened, 0
    while stop := (_TAG if thinking else _STOP).search(reply, at):
        piece = reply[at : stop.start()]
        if stop.group() == "{":
            end, failed = _object_end(reply, stop.start(), failed)
            answer.append(reply[at:end])
            at = end
            continue
        (thought if thinking else answer).append(piece)
        if _is_closing(stop) and not thinking:  # everything so far was a thought without an opening tag
            thought += answer
            answer = []
        at, thinking = stop.end(), not _is_closing(stop)
    (thought if thinking else answer).append(reply[at:])
    return Split("".join(answer).strip(), "".join(thought).strip(), unfinished=thinking)


def _is_object(reply: str) -> bool:
    text = reply.strip()
    try:
        return text.startswith("{") and read_object(text, 0).end == len(text)
    except Malformed:
        return False


def _is_closing(tag: re.Match[str]) -> bool:
    return "/" in tag.group()


def _object_end(reply: str, start: int, failed: int) -> tuple[int, int]:
    """Return the end of a complete object at `start`, else the next character; and the count of failed tries."""
    if failed < _MAX_FAILED:
        try:
            return read_object(reply, start).end, failed
        except Malformed as problem:
            failed += 16 if isinstance(problem, Truncated) else 1  # a truncated try has read the whole rest
    return start + 1, failed
