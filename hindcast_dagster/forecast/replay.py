"""Replaying a forecast from its trace: the same arm over the same archive, with the recorded replies for a model.

A replay rebuilds every prompt. When the hash of one differs from what was recorded, the model saw something else then
than the archive gives now, and the replay says so. It is how an audit proves what a prompt held without storing posts.
"""

import asyncio
from collections.abc import Iterator
from dataclasses import fields as dataclass_fields
from typing import Any, Final, NamedTuple

from hindcast_dagster.archive.protocol import Archive, ArchiveView
from hindcast_dagster.errors import HindcastError, InputRefused
from hindcast_dagster.forecast import arms
from hindcast_dagster.forecast.forecaster import Forecast, Step, Trace
from hindcast_dagster.forecast.nowhere import Nowhere
from hindcast_dagster.forecast.pinned import pinned_archive
from hindcast_dagster.forecast.records import TraceRecord, find
from hindcast_dagster.forecast.tracing import TracedModel, TracedView, messages_hash, recording
from hindcast_dagster.llm.open import open_model
from hindcast_dagster.llm.protocol import ChatModel, Completion, Decoding, Message
from hindcast_dagster.questions.question import Question
from hindcast_dagster.settings import Settings
from hindcast_dagster.storage.store import Store

_VOLATILE: Final = frozenset({"latency_s", "attempts"})
"""What two equal forecasts may differ in."""


class Diverged(HindcastError):
    """A replay asked for something that the recorded forecast did not: prompt, order of calls or decoding."""

    exit_code = InputRefused.exit_code


class RecordedModel:
    """Answers with the replies of a trace, in order, after comparing the prompt's hash. `sizer` only counts tokens."""

    def __init__(self, record: TraceRecord, sizer: ChatModel) -> None:
        self._calls: Iterator[Step] = (step for step in record.steps if step.kind == "call")
        self._sizer = sizer
        self.slug, self.revision = record.model, record.identity.model_revision

    @property
    def context_length(self) -> int:
        """See `ChatModel`."""
        return self._sizer.context_length

    def count_tokens(self, text: str) -> int:
        """See `ChatModel`."""
        return self._sizer.count_tokens(text)

    async def complete(
        self, messages: list[Message], *, decoding: Decoding, schema: dict[str, Any] | None = None
    ) -> Completion:
        """Return the recorded reply. Raises `Diverged`."""
        del schema
        step = next(self._calls, None)
        if step is None:
            raise Diverged("The replay makes a call that the recorded forecast did not make.")
        known = step.detail
        if known["messages_sha256"] != messages_hash(messages) or known["decoding"] != decoding.as_dict():
            raise Diverged(f"The {step.name} call of the replay has another prompt or decoding than the recorded one.")
        if "error" in known:
            raise Diverged(f"The recorded {step.name} call failed: {known['error']}")
        if "reply" not in known:
            raise Diverged(f"The {step.name} reply is gone: a document that it may quote was forgotten (take-down).")
        return Completion(
            text=known["reply"],
            **{name: known[name] for name in _COMPLETION},
        )

    async def close(self) -> None:
        """Nothing to release."""


_COMPLETION: Final = tuple(field.name for field in dataclass_fields(Completion) if field.name != "text")


class Replay(NamedTuple):
    """A replayed forecast, and where it first differs from the recorded one ("" when it is the same)."""

    forecast: Forecast
    difference: str


async def replay(
    record: TraceRecord,
    *,
    question: Question,
    view: ArchiveView,
    settings: Settings,
    sizer: ChatModel | None,
    arm: str = "",
) -> Replay:
    """Make the forecast again without the model. Raises `Diverged` when a prompt differs.

    `view` stands at the question's t0 in the pinned archive; `arm` names how the arm is found when it is a custom one
    (`module:Class`). The settings must be those of the run: another version of the arm is refused.
    """
    model = TracedModel(RecordedModel(record, sizer)) if sizer is not None else None
    made = arms.make(arms.factory(arm or record.arm), model=model, settings=settings, name=record.arm)
    if made.version != record.identity.arm_version:
        raise Diverged(f"The arm is now {made.version}; the forecast was made by {record.identity.arm_version}.")
    trace = Trace()
    with recording(trace):
        result = made.forecast(question, TracedView(view, trace), run=record.run)
        forecast = result if isinstance(result, Forecast) else await result
    trace.steps.extend(forecast.trace.steps)
    forecast.trace = trace
    return Replay(forecast, difference(record.forecast, forecast))


def of_stored(
    store: Store, settings: Settings, *, arm: str, model: str, eval_set: str, question: Question, run: int,
    name: str | None = None, chat: ChatModel | None = None, archive: Archive | None = None,
) -> Replay:  # fmt: skip
    """Replay a journaled forecast over the archive that its eval set pins. Raises `NotReady` and `Diverged`.

    The model is opened to count tokens and never called; an arm that made no call needs none.
    """
    made_by = arms.factory(arm)
    sizer = chat if chat is not None else open_model(settings, model) if arms.takes_model(made_by) else None
    own = name or (arm if ":" not in arm else arms.make(made_by, model=sizer, settings=settings).arm)
    record = find(store, arm=own, model=model, eval_set=eval_set, question_id=question.id, run=run)
    if record.identity.archive_snapshot is None:
        view: ArchiveView = Nowhere(question.t0)
    else:
        view = (archive or _pinned(store, settings, eval_set)).at(question.t0)
    return asyncio.run(replay(record, question=question, view=view, settings=settings, sizer=sizer, arm=arm))


def _pinned(store: Store, settings: Settings, eval_set: str) -> Archive:
    pins = store.partition("eval_set", eval_set).require().manifest.pins
    return pinned_archive(store, settings, eval_set=eval_set, pins=pins)


def difference(one: Forecast, other: Forecast) -> str:
    """Return where two forecasts first differ, apart from times: "" when they are the same."""
    for field in dataclass_fields(Forecast):
        left, right = getattr(one, field.name), getattr(other, field.name)
        if field.name != "trace" and left != right:
            return f"{field.name}: {left!r} and {right!r}"
    steps = zip(one.trace.steps, other.trace.steps, strict=False)
    for number, (left, right) in enumerate(steps, start=1):
        if _stable(left) != _stable(right):
            return f"step {number} ({left.kind} {left.name})"
    counts = len(one.trace.steps), len(other.trace.steps)
    return "" if counts[0] == counts[1] else f"{counts[0]} and {counts[1]} steps"


def _stable(step: Step) -> tuple[Any, ...]:
    detail = {name: value for name, value in step.detail.items() if name not in _VOLATILE}
    return step.kind, step.name, detail, step.seen
