"""Conversations in the form that a chat template takes: at most one system turn, then user and assistant in turn.

Some templates have no system role (Gemma), and many refuse two turns of one role in a row. Folding keeps the same text
for every model: turns are joined by a blank line, never dropped.
"""

from collections.abc import Iterable
from typing import Final

from hindcast_dagster.errors import UsageError
from hindcast_dagster.llm.protocol import Message

JOINT: Final = "\n\n"


def folded(messages: Iterable[Message], *, system_role: bool) -> list[Message]:
    """Return the turns with neighbours of one role merged and system text where the template takes it.

    Leading system turns become one; without a system role it opens the first user turn. A later system turn becomes a
    user turn. Raises `UsageError` when there is no user turn.
    """
    given = list(messages)
    leading = next((place for place, message in enumerate(given) if message.role != "system"), len(given))
    head = JOINT.join(message.content for message in given[:leading])
    rest = [
        Message("user" if message.role == "system" else message.role, message.content) for message in given[leading:]
    ]
    if not any(message.role == "user" for message in rest):
        raise UsageError("A conversation needs a user turn.")
    if head:
        rest.insert(0, Message("system" if system_role else "user", head))
    return _merged(rest)


def _merged(messages: list[Message]) -> list[Message]:
    turns: list[Message] = []
    for message in messages:
        if turns and turns[-1].role == message.role:
            turns[-1] = Message(message.role, turns[-1].content + JOINT + message.content)
        else:
            turns.append(message)
    return turns
