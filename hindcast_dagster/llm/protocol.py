"""One async protocol for every language model: messages, decoding and a seed in; text and its economics out."""

from dataclasses import dataclass, fields
from typing import Any, Literal, NamedTuple, Protocol, runtime_checkable

Role = Literal["system", "user", "assistant"]


class Message(NamedTuple):
    """One turn of a conversation."""

    role: Role
    content: str


@dataclass(frozen=True, slots=True)
class Decoding:
    """Decoding settings, all sent explicitly and stored (paper, table 4): no server default may apply."""

    temperature: float
    max_tokens: int
    top_p: float = 1.0
    top_k: int = -1
    min_p: float = 0.0
    presence_penalty: float = 0.0
    frequency_penalty: float = 0.0
    repetition_penalty: float = 1.0
    seed: int = 0

    def as_dict(self) -> dict[str, Any]:
        """Return the settings as JSON values, for identities and traces."""
        return {name: getattr(self, name) for name in _SETTINGS}


_SETTINGS = tuple(field.name for field in fields(Decoding))


@dataclass(frozen=True, slots=True)
class Completion:
    """What came back from one call."""

    text: str
    """The reply without reasoning spans."""
    reasoning: str
    """What the model thought, from its own field or from <think> spans; "" when there was none."""
    finish_reason: Literal["stop", "length", "other"]
    unfinished_thought: bool
    """The reply ended inside a reasoning span: `text` is not an answer."""
    tokens_in: int
    tokens_out: int
    tokens_cached: int
    latency_s: float
    attempts: int
    model_revision: str | None


@runtime_checkable
class ChatModel(Protocol):
    """A model that can be called. Safe for many concurrent calls; limits its own concurrency."""

    @property
    def slug(self) -> str:
        """The roster slug: part of partition keys and identities."""
        ...

    @property
    def revision(self) -> str | None:
        """The pinned revision, or None when the backend cannot tell before a call."""
        ...

    @property
    def context_length(self) -> int:
        """Tokens that prompt and reply may take together."""
        ...

    def count_tokens(self, text: str) -> int:
        """Return the number of tokens of a text, or an upper estimate."""
        ...

    async def complete(
        self, messages: list[Message], *, decoding: Decoding, schema: dict[str, Any] | None = None
    ) -> Completion:
        """Return one completion.

        `schema` is a JSON schema that the backend may enforce; the caller parses the text all the same. Raises
        `Unreachable` when the wait budget is spent and `UsageError` for a request that the server refuses (400).
        """
        ...

    async def close(self) -> None:
        """Release connections or the engine."""
        ...
