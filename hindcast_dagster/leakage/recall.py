"""The outcome-recall probe: asks a model what happened, without archive and without forecast, to measure its memory.

"Act as if it is t0" does not make a model forget. A model that recalls the outcomes of questions rightly, more often
than wrongly, knows them; its forecasts on that set are no forecasts. One answer per question, and the excess of right
over wrong for the set.
"""

from collections import Counter
from collections.abc import Sequence
from typing import Any, Final

from hindcast_dagster.contracts.scores import RECALL
from hindcast_dagster.forecast.fields import NO_CRITERIA
from hindcast_dagster.forecast.money import entry_or_none
from hindcast_dagster.forecast.unasked import unasked
from hindcast_dagster.forecast.work import Progress
from hindcast_dagster.leakage.asking import Ask, Asking, Plan, left_out
from hindcast_dagster.llm.parse import Refusal, one_of, single_object
from hindcast_dagster.llm.protocol import ChatModel
from hindcast_dagster.prompts.loader import load as load_prompt
from hindcast_dagster.questions.load import frozen, load
from hindcast_dagster.questions.question import ResolvedQuestion
from hindcast_dagster.settings import Settings
from hindcast_dagster.storage.journal import Journal, identity_hash
from hindcast_dagster.storage.manifest import Manifest
from hindcast_dagster.storage.store import Store
from hindcast_dagster.storage.tables import publish_table

TABLE: Final = RECALL.name
PROMPT: Final = "outcome_recall"
ANSWERS: Final = ("Yes", "No", "unknown")
CODE_VERSION: Final = "1"


def build(
    store: Store,
    settings: Settings,
    *,
    model: str,
    eval_set: str,
    chat: ChatModel | None = None,
    max_cost: float | None = None,
    progress: Progress | None = None,
) -> Manifest:
    """Ask `model` for its memory of every question of an eval set and seal what it says. Answers are journaled.

    `stats`: right, wrong, unknown, and `score` = (right - wrong) / questions: 0 for a model that knows nothing or
    guesses, 1 for one that knows all. `max_cost` (US dollars) stops before it is exceeded; what was answered is sealed
    and `stats` says `stopped`. Raises `NotSealed` without the set, `UsageError` for an unknown model.
    """
    sealed = frozen(store, eval_set)
    resolved = load(store, eval_set)
    entry = entry_or_none(settings, model)
    asking = _asking(store, resolved, eval_set, model, chat or _open(settings, model))
    said = asking.replies(settings, close=chat is None, max_cost=max_cost, progress=progress)
    rows = [
        {
            "question_id": one.question.id,
            "recalled": answer,
            "right": None if answer == "unknown" else answer == one.outcome,
            "contamination": entry.contamination(one.question.t0) if entry else "no_cutoff",
        }
        for one, reply in zip(resolved, said, strict=True)
        if reply is not None
        for answer in [recalled(reply)]
    ]
    return publish_table(
        store.partition(TABLE, model, eval_set),
        RECALL.frame(rows),
        RECALL,
        code_version=CODE_VERSION,
        inputs=[sealed.as_input],
        stats=summary(rows) | left_out(said),
    )


def plan(store: Store, settings: Settings, *, model: str, eval_set: str) -> Plan:
    """Return what `build` would ask for, without asking (`--dry-run`). Same arguments, same errors."""
    return _asking(store, load(store, eval_set), eval_set, model, unasked(settings, model)).plan(settings)


def summary(rows: Sequence[dict[str, Any]]) -> dict[str, Any]:
    """Return right, wrong, unknown and the score over all rows."""
    counts = Counter(row["right"] for row in rows)
    right, wrong = counts[True], counts[False]
    score = (right - wrong) / len(rows) if rows else None
    return {"right": right, "wrong": wrong, "unknown": counts[None], "score": score}


def recalled(reply: str) -> str:
    """Return Yes, No or unknown: everything that is not one clear word is unknown."""
    found = single_object(reply, having=("remembered_outcome",))
    said = None if isinstance(found, Refusal) else one_of(found.get("remembered_outcome"), ANSWERS)
    return said or "unknown"


def _asking(store: Store, resolved: Sequence[ResolvedQuestion], eval_set: str, slug: str, model: ChatModel) -> Asking:
    asks = tuple(_ask(one, model) for one in resolved)
    return Asking("recall", slug, eval_set, model, asks, Journal(store, TABLE, slug, eval_set))


def _ask(asked: ResolvedQuestion, model: ChatModel) -> Ask:
    prompt, question = load_prompt(PROMPT), asked.question
    user = prompt.fill(question=question.text, criteria=question.criteria or NO_CRITERIA)
    known = {"prompt": user, "version": prompt.version, "model": model.slug, "revision": model.revision}
    return Ask(identity_hash(known | {"id": question.id}), user, {"question": question.id})


def _open(settings: Settings, model: str) -> ChatModel:
    from hindcast_dagster.llm.open import open_model

    return open_model(settings, model)
