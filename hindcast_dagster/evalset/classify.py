"""Topics by a language model, only when asked for: for the questions whose tags told none.

What belongs here: one call per question, its reply held against the closed list of topics. A finished call is one file
of the journal and is never paid for again; a reply that names no topic leaves the question with Other.
"""

import asyncio
from collections.abc import Sequence
from typing import Any, Final, NamedTuple

import polars as pl

from hindcast_dagster.contracts.questions import TOPICS
from hindcast_dagster.llm.open import open_model
from hindcast_dagster.llm.parse import Refusal, one_of, single_object
from hindcast_dagster.llm.protocol import ChatModel, Decoding, Message
from hindcast_dagster.prompts.loader import load
from hindcast_dagster.settings import Settings
from hindcast_dagster.storage.journal import Journal, identity_hash
from hindcast_dagster.storage.store import Store

OTHER: Final = "Other"
FLAG: Final = "topic_by_model"
JOURNAL: Final = "topics"
DECODING: Final = Decoding(temperature=0.0, max_tokens=2048)


class Classified(NamedTuple):
    """The frame with its topics, and how many questions were asked and answered."""

    frame: pl.DataFrame
    asked: int
    answered: int


def classified(
    store: Store, settings: Settings, frame: pl.DataFrame, *, slug: str, model: ChatModel | None = None
) -> Classified:
    """Return `frame` (contract EVAL_SET) with a topic for the questions that have none, flagged `topic_by_model`.

    `slug` names the model of the roster; `model` stands in for it. Raises what opening and calling it raise.
    """
    texts = frame.filter(pl.col("topic") == OTHER).sort("id")["text"].unique(maintain_order=True).to_list()
    journal = Journal(store, JOURNAL, slug)
    topics = asyncio.run(_sort(texts, journal, model or open_model(settings, slug), settings.llm.concurrency))
    answers = {text: topic for text, topic in topics.items() if topic is not None}
    found = pl.col("text").replace_strict(answers, default=None, return_dtype=pl.String)
    taken = (pl.col("topic") == OTHER) & found.is_not_null()
    changed = frame.with_columns(
        topic=pl.when(taken).then(found).otherwise("topic"),
        flags=pl.when(taken).then(pl.concat_list("flags", pl.lit(FLAG))).otherwise("flags"),
    )
    return Classified(changed.select(frame.columns), len(texts), len(answers))


async def _sort(texts: Sequence[str], journal: Journal, model: ChatModel, concurrency: int) -> dict[str, str | None]:
    gate = asyncio.Semaphore(concurrency)

    async def one(text: str) -> str | None:
        async with gate:
            return await _topic(text, journal, model)

    try:
        return dict(zip(texts, await asyncio.gather(*(one(text) for text in texts)), strict=True))
    finally:
        await model.close()


async def _topic(text: str, journal: Journal, model: ChatModel) -> str | None:
    template = load("topic")
    unit = identity_hash(
        {"text": text, "model": model.slug, "revision": model.revision, "prompt": template.version}
        | {"decoding": DECODING.as_dict()}
    )
    record = journal.read(unit)
    if record is None:
        message = template.fill(question=text, trusted={"topics": ", ".join(TOPICS)})
        reply = await model.complete([Message("user", message)], decoding=DECODING)
        record = {"question": text, "reply": reply.text, "tokens_in": reply.tokens_in, "tokens_out": reply.tokens_out}
        journal.write(unit, record)
    return read_topic(record.get("reply"))


def read_topic(reply: Any) -> str | None:
    """Return the topic that a reply names, or None. A word that is not on the list is no topic."""
    found = single_object(reply, having=("topic",)) if isinstance(reply, str) else None
    return None if found is None or isinstance(found, Refusal) else one_of(found.get("topic"), TOPICS)
