"""The judge that is a language model: 5 queries per side, a label per returned block, one contrastive verdict (4.1).

Each hypothesis is weighed on what its own queries returned. A reply that cannot be read is asked for once more; after
that its blocks count as unlabelled and its verdict as missing.
"""

from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Final, TypeVar

from hindcast_dagster.archive.protocol import ArchiveView, Document
from hindcast_dagster.coverage import replies, schemas
from hindcast_dagster.coverage.blocks import packed, render
from hindcast_dagster.coverage.judge import Block, Finding, Searcher, documents
from hindcast_dagster.coverage.replies import Verdict
from hindcast_dagster.evidence.labels import Label, Tallies, Tally
from hindcast_dagster.llm.protocol import ChatModel, Decoding, Message
from hindcast_dagster.prompts.loader import Prompt, load
from hindcast_dagster.questions.question import Question
from hindcast_dagster.settings import Call, Coverage
from hindcast_dagster.storage.journal import identity_hash

PROMPTS: Final = ("coverage_system", "coverage_queries", "coverage_label", "coverage_contrast")
SIDES: Final = {"yes": "Yes", "no": "No"}
_MARGIN: Final = 128  # tokens for role headers and the error of an estimate
_MIN_ROOM: Final = 256
Read = TypeVar("Read")


class LlmJudge:
    """A judge on any chat model of the roster."""

    def __init__(self, model: ChatModel, settings: Coverage, *, structured: bool = False) -> None:
        self._model, self._settings, self._structured = model, settings, structured
        self._search = Searcher(settings.hits_per_query)

    @property
    def name(self) -> str:
        """The roster slug."""
        return self._model.slug

    @property
    def version(self) -> str:
        """Hash of prompt versions, decoding, settings and the model's revision."""
        prompts = [load(name).version for name in PROMPTS]
        settings = self._settings.model_dump(mode="json")
        used = {"structured": self._structured, "revision": self._model.revision}
        return identity_hash({"prompts": prompts, "settings": settings, **used})[:16]

    async def read(self, question: Question, view: ArchiveView) -> Finding:
        """See `Judge`."""
        reading = _Reading(self._model, self._settings, question, self._search, structured=self._structured)
        return await reading.finding(view)

    async def close(self) -> None:
        """Release the model."""
        await self._model.close()


class _Reading:
    """One question being read: its calls, their cost and their replies."""

    def __init__(
        self, model: ChatModel, settings: Coverage, question: Question, searcher: Searcher, *, structured: bool
    ) -> None:
        self._model, self._settings, self._question, self._structured = model, settings, question, structured
        self._searcher = searcher
        self._economics: Counter[str] = Counter()
        self._replies: list[str] = []

    async def finding(self, view: ArchiveView) -> Finding:
        asked = await self._queries()
        if asked is None:
            return self._finding(Tallies(Tally(), Tally()), Verdict(None, None), {}, ())
        posts = await self._search(view, asked)
        labels = {side: await self._labels(SIDES[side], found) for side, found in posts.items()}
        tallies = Tallies(*(Tally.of(labels[side].get(post.key) for post in posts[side]) for side in SIDES))
        # An archive that returned nothing needs no model to say so.
        verdict = await self._verdict(tallies) if any(side.total for side in tallies) else Verdict(0.0, "none")
        return self._finding(tallies, verdict, asked, _blocks(posts, labels))

    def _finding(
        self, tallies: Tallies, verdict: Verdict, asked: dict[str, list[str]], blocks: tuple[Block, ...]
    ) -> Finding:
        economics = dict(sorted(self._economics.items()))
        return Finding(tallies, *verdict, asked, blocks, economics, tuple(self._replies))

    async def _queries(self) -> dict[str, list[str]] | None:
        count = self._settings.queries_per_side
        user = load("coverage_queries").fill(
            question=self._question.text,
            criteria=self._question.criteria,
            cutoff_date=self._question.t0.date,
            trusted={"count": str(count)},
        )
        return await self._ask(
            self._settings.queries,
            user,
            schema=schemas.queries(count),
            read=lambda reply: replies.queries(reply, count=count),
            good=bool,
        )

    async def _search(self, view: ArchiveView, asked: Mapping[str, Sequence[str]]) -> dict[str, list[Document]]:
        """Search for both sides in one batch; a post may come back for both and is then weighed for both."""
        texts = [text for side in SIDES for text in asked[side]]
        answers = await self._searcher(view, texts)
        first = len(asked["yes"])
        return {"yes": documents(answers[:first]), "no": documents(answers[first:])}

    async def _labels(self, side: str, posts: Sequence[Document]) -> dict[str, Label]:
        """Return post key -> label for one side; a post without a usable label after a second call is absent."""
        template = load("coverage_label")
        blocks = [
            (number, render(number, post, characters=self._settings.block_chars))
            for number, post in enumerate(posts, start=1)
        ]
        batches = packed(
            blocks, most=self._settings.blocks_per_call, room=self._room(template), count=self._model.count_tokens
        )
        found: dict[int, Label] = {}
        for batch in batches:
            found |= await self._label_batch(template, side, dict(batch))
            if missing := {number: block for number, block in batch if number not in found}:
                found |= await self._label_batch(template, side, missing, seed=1)
        return {posts[number - 1].key: label for number, label in found.items()}

    async def _label_batch(
        self, template: Prompt, side: str, batch: Mapping[int, str], *, seed: int = 0
    ) -> dict[int, Label]:
        numbers = [str(number) for number in batch]
        user = template.fill(
            question=self._question.text,
            criteria=self._question.criteria,
            trusted={
                "side": side,
                "blocks": "\n".join(batch.values()),
                "numbers": ", ".join(numbers),
                "first": numbers[0],
            },
        )
        reply = await self._call(self._settings.label, user, seed=seed, schema=schemas.labels(batch))
        return replies.labels(reply, numbers=batch)

    async def _verdict(self, tallies: Tallies) -> Verdict:
        lines = [_told(SIDES[side], tally) for side, tally in tallies._asdict().items()]
        user = load("coverage_contrast").fill(
            question=self._question.text, criteria=self._question.criteria, trusted={"tallies": "\n".join(lines)}
        )
        return await self._ask(
            self._settings.contrast,
            user,
            schema=schemas.CONTRAST,
            read=replies.verdict,
            good=lambda found: None not in found,
        )

    async def _ask(
        self,
        call: Call,
        user: str,
        *,
        schema: dict[str, Any],
        read: Callable[[str], Read],
        good: Callable[[Read], bool],
    ) -> Read:
        """Call and read; when the reply is not good ask once more, and take that one if it is."""
        first = read(await self._call(call, user, schema=schema))
        if good(first):
            return first
        second = read(await self._call(call, user, schema=schema, seed=1))
        return second if good(second) else first

    async def _call(self, call: Call, user: str, *, schema: dict[str, Any], seed: int = 0) -> str:
        messages = [Message("system", load("coverage_system").text), Message("user", user)]
        decoding = Decoding(temperature=call.temperature, max_tokens=call.max_tokens, seed=seed)
        completion = await self._model.complete(
            messages, decoding=decoding, schema=schema if self._structured else None
        )
        self._economics.update(calls=1, tokens_in=completion.tokens_in, tokens_out=completion.tokens_out)
        text = "" if completion.unfinished_thought else completion.text
        self._replies.append(text)
        return text

    def _room(self, template: Prompt) -> int:
        """Return the tokens that blocks may take in one call."""
        fixed = (load("coverage_system").text, template.text, self._question.text, self._question.criteria)
        used = sum(self._model.count_tokens(text) for text in fixed) + self._settings.label.max_tokens + _MARGIN
        return max(self._model.context_length - used, _MIN_ROOM)


def _told(side: str, tally: Tally) -> str:
    counts = ", ".join(f"{count} {name}" for name, count in tally.as_dict().items())
    return f"{side}: {counts}; score {tally.score}"


def _blocks(posts: Mapping[str, Sequence[Document]], labels: Mapping[str, Mapping[str, Label]]) -> tuple[Block, ...]:
    every = {post.key: post for side in SIDES for post in posts[side]}
    return tuple(
        Block(key, post.created_at, labels["yes"].get(key), labels["no"].get(key)) for key, post in every.items()
    )
