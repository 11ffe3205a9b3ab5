"""From replies to one forecast: the four-step fallback of the paper (appendix B.3).

Parse the reply; else ask the model to repair it; else ask again compactly; else ask for bare JSON. A reply that never
becomes a probability leaves the forecast `unparsed`, with its text: it is not 0.5, and it is not wrong.
"""

import re
from dataclasses import dataclass
from typing import Any, Final, NamedTuple

from hindcast_dagster.forecast import tracing
from hindcast_dagster.forecast.calls import MARGIN, MIN_REPLY, Caller
from hindcast_dagster.forecast.fields import fields
from hindcast_dagster.forecast.forecaster import Forecast
from hindcast_dagster.llm.parse import ParsedForecast, Refusal, forecast_object, integer, one_of, probability
from hindcast_dagster.llm.protocol import Completion
from hindcast_dagster.llm.tokens import cut
from hindcast_dagster.prompts.loader import content, load
from hindcast_dagster.questions.question import Question

PROMPTS: Final = ("forecast_schema", "retry_repair", "retry_compact", "retry_json_only")
STEPS: Final = ("first", "repair", "compact", "json_only")

SCHEMA: Final[dict[str, Any]] = {
    "type": "object",
    "properties": {
        "choice": {"type": "string", "enum": ["Yes", "No"]},
        # A text with a pattern: servers ignore the bounds of a JSON number, and the parser reads both.
        "prob_yes": {"type": "string", "pattern": "^(0\\.[0-9][0-9]|1\\.00)$"},
        "confidence": {"type": "string", "pattern": "^(0\\.[0-9][0-9]|1\\.00)$"},
        "reasoning": {"type": "string", "maxLength": 600},
    },
    "required": ["choice", "prob_yes", "confidence", "reasoning"],
    "additionalProperties": False,
}

CATEGORIES: Final = ("narrow_range", "underdog", "uncertain", "favorite", "broadly_likely")
"""The five prior categories of the forecast prompt, in its order (paper, B.2)."""

_PRIOR: Final = re.compile(
    r"prior\b.{0,20}?P\s*\(\s*Yes\s*\)\s*(?:=|:|is|of)\s*(?P<p>(?>[0-9]{1,3}(?:\.[0-9]+)?|\.[0-9]+)(?:\s?%)?)"
    r"(?!\s*(?:-|\u2013|to\b|[0-9%]))(?:[^;]{0,20}?category\s*(?P<category>[1-5])\b)?",
    re.IGNORECASE,
)
"""The sentence that the forecast prompt asks for; a range is no prior."""
_KEPT: Final = 20_000  # characters of an unparsed reply that are kept


class Prior(NamedTuple):
    """The prior that a reply states, as far as it does."""

    category: str | None
    yes: float | None


@dataclass(frozen=True, slots=True)
class Reading:
    """What the steps gave: a parsed reply and the step, or None and every refusal."""

    parsed: ParsedForecast | None
    step: str | None
    reply: str
    refusals: tuple[str, ...]


async def read_forecast(
    caller: Caller, kind: str, *, question: Question, system: str, user: str, run: int, background: str = ""
) -> Reading:
    """Make the forecast call and, where its reply gives no probability, up to three more. `background` is evidence."""
    schema = load("forecast_schema").text
    refusals: list[str] = []
    reply = ""
    for step in STEPS:
        prompt = user if step == "first" else _retry(caller, step, question, schema, reply=reply, background=background)
        call = kind if step == "first" else step
        done = await caller.ask(call, system=system if step == "first" else None, user=prompt, run=run, schema=SCHEMA)
        found = parsed(done)
        refusal = found if isinstance(found, Refusal) else None
        detail = {"refusal": refusal.reason, "detail": refusal.detail} if refusal else {"refusal": None}
        tracing.note("forecast", kind="parse", step=step, **detail)
        if isinstance(found, ParsedForecast):
            return Reading(found, step, done.text, tuple(refusals))
        refusals.append(f"{step}: {found.reason}")
        reply = done.text or reply
    return Reading(None, None, reply, tuple(refusals))


def parsed(completion: Completion) -> ParsedForecast | Refusal:
    """Return the forecast that a completion gives, or why it gives none."""
    if completion.unfinished_thought:
        return Refusal("unfinished_thought", "the reply ends inside a reasoning span")
    return forecast_object(completion.text)


def forecast_of(reading: Reading, *, extra: dict[str, Any] | None = None, **values: Any) -> Forecast:
    """Return the Forecast of a reading; `values` are fields of the arm."""
    more = dict(extra or {}) | ({"refusals": list(reading.refusals)} if reading.refusals else {})
    found = reading.parsed
    if found is None:
        return Forecast(prob_yes=None, status="unparsed", extra=more | {"reply": reading.reply[:_KEPT]}, **values)
    prior = prior_of(found)
    return Forecast(
        prob_yes=found.prob_yes,
        confidence=found.confidence,
        rationale=found.reasoning,
        conflict=found.conflict,
        parse_step=reading.step,
        prior_category=prior.category,
        prior_yes=prior.yes,
        extra=more | {"prob_no": found.prob_no, "repaired": found.repaired},
        **values,
    )


def prior_of(found: ParsedForecast) -> Prior:
    """Return the prior that the reasoning states ("Prior P(Yes) = 0.30, category 2"), else what fields give."""
    said = _PRIOR.search(found.reasoning)
    category, value = (said["category"], said["p"].replace(" ", "")) if said else (None, None)
    number = integer(category if category is not None else found.fields.get("prior_category"), 1, len(CATEGORIES))
    named = CATEGORIES[number - 1] if number else one_of(found.fields.get("prior_category"), CATEGORIES)
    return Prior(named, probability(value if value is not None else found.fields.get("prior_yes")))


def _retry(caller: Caller, step: str, question: Question, schema: str, *, reply: str, background: str) -> str:
    known = fields(question)
    if step == "repair":
        room = caller.model.context_length - MARGIN - MIN_REPLY - caller.model.count_tokens(schema) - 200
        return load("retry_repair").fill(
            trusted={"schema": schema}, reply=cut(reply, budget=room, count=caller.model.count_tokens)
        )
    if step == "compact":
        return load("retry_compact").fill(trusted={"schema": schema, "background": background}, **known)
    return load("retry_json_only").fill(question=known["question"], cutoff_date=known["cutoff_date"])


def quoted(heading: str, tag: str, text: str) -> str:
    """Return text as a quoted block for `background`, neutralised; "" for an empty text."""
    return f"{heading}\n<{tag}>\n{content(text)}\n</{tag}>\n" if text else ""
