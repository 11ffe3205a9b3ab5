"""One kind of call after the other: decoding by kind, prompt and reply fitted into the model's context.

What belongs here: what every built-in arm does around `ChatModel.complete`. What does not: prompts and parsing.
"""

import hashlib
import json
from collections.abc import Sequence
from typing import Any, Final, NamedTuple

from hindcast_dagster.errors import UsageError
from hindcast_dagster.forecast.tracing import named
from hindcast_dagster.llm.protocol import ChatModel, Completion, Decoding, Message
from hindcast_dagster.llm.tokens import TURN_TOKENS
from hindcast_dagster.prompts.loader import load
from hindcast_dagster.settings import Decoding as DecodingSettings

MARGIN: Final = 3 * TURN_TOKENS
"""Tokens of the chat template around system, user and reply."""
MIN_REPLY: Final = 160
"""Below this a reply cannot hold the JSON object that is asked for."""


class Room(NamedTuple):
    """How a context is shared out, in tokens."""

    evidence: int
    reply: int


class Caller:
    """Makes the calls of one arm on one model."""

    def __init__(self, model: ChatModel, decoding: DecodingSettings, *, structured: bool) -> None:
        self.model, self.decoding, self.structured = model, decoding, structured

    async def ask(
        self, kind: str, *, user: str, run: int, system: str | None = None, schema: dict[str, Any] | None = None
    ) -> Completion:
        """Make one call of a kind (a field of `settings.decoding`). `run` is the seed; nothing else differs by run.

        The reply budget shrinks when the prompt leaves less room; the prompt is never cut here. Raises `UsageError`
        when it leaves none.
        """
        messages = [Message("system", system)] if system else []
        messages.append(Message("user", user))
        wanted = getattr(self.decoding, kind)
        used = self._size([message.content for message in messages], enough=wanted.max_tokens)
        room = self.model.context_length - used - MARGIN
        if room < MIN_REPLY:
            raise UsageError(
                f"The prompt of the {kind} call takes {used} tokens and leaves no room for a reply in the "
                f"{self.model.context_length} tokens of {self.model.slug}: use a model with a longer context."
            )
        decoding = Decoding(
            temperature=wanted.temperature,
            max_tokens=min(wanted.max_tokens, room),
            top_p=self.decoding.top_p,
            seed=run,
        )
        with named(kind):
            return await self.model.complete(messages, decoding=decoding, schema=schema if self.structured else None)

    def room(self, kind: str, *prompt: str, wanted: int) -> Room:
        """Return how many tokens evidence and reply may take beside the fixed parts of a prompt.

        Evidence gets at most `wanted`. In a short context the reply keeps at least a third of what is left.
        """
        most = getattr(self.decoding, kind).max_tokens
        left = self.model.context_length - self._size(prompt, enough=most + wanted) - MARGIN
        reply = min(most, max(left - wanted, left // 3, MIN_REPLY))
        return Room(evidence=max(0, min(wanted, left - reply)), reply=reply)

    def _size(self, texts: Sequence[str], *, enough: int) -> int:
        """Return the tokens of a prompt, or its bytes where even so many tokens leave `enough`: counting costs time.

        A token is at least one byte in every tokenizer of the roster.
        """
        size = sum(len(text.encode(errors="surrogatepass")) for text in texts)
        if self.model.context_length - MARGIN - size >= enough:
            return size
        return sum(self.model.count_tokens(text) for text in texts)


def version_of(arm: str, *, prompts: tuple[str, ...], settings: dict[str, Any]) -> str:
    """Return the version of a built-in arm: a hash over prompt versions and settings that shape it."""
    parts = {"prompts": [load(name).version for name in prompts], "settings": settings}
    digest = hashlib.sha256(json.dumps(parts, sort_keys=True).encode()).hexdigest()
    return f"{arm}-{digest[:16]}"
