"""A model that is named and never asked: what a dry run hands to an arm, so that no engine has to be there."""

from typing import Any, NoReturn

from hindcast_dagster.errors import UsageError
from hindcast_dagster.llm.open import entry_of
from hindcast_dagster.llm.protocol import ChatModel, Completion, Decoding, Message
from hindcast_dagster.settings import Settings


class Unasked:
    """The roster's facts about a model. Raises `UsageError` for an unknown slug."""

    def __init__(self, settings: Settings, slug: str) -> None:
        entry = entry_of(settings, slug)
        self.slug, self.context_length = entry.slug, entry.context_length
        self.revision = None if entry.backend == "server" else entry.revision

    def count_tokens(self, text: str) -> int:
        """Refuse."""
        self._refuse(text)

    async def complete(
        self, messages: list[Message], *, decoding: Decoding, schema: dict[str, Any] | None = None
    ) -> Completion:
        """Refuse."""
        self._refuse(messages, decoding, schema)

    async def close(self) -> None:
        """Nothing to release."""

    def _refuse(self, *given: object) -> NoReturn:
        del given
        raise UsageError(f"{self.slug} was only named for a dry run.")


def unasked(settings: Settings, slug: str) -> ChatModel:
    """Return the model as a `ChatModel`."""
    return Unasked(settings, slug)
