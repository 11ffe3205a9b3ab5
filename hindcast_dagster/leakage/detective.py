"""The leak detective: a second model re-reads what forecasters saw and wrote, and looks for knowledge of after t0.

The audit proves dates; the detective reads. It finds what dates cannot show: a post whose clock is right and whose text
is not, or a rationale that remembers (BLF, B.3). Its own reliability is measured beside it, on planted passages that
tell an outcome and on such that do not. What it does not answer clearly is `unknown`, never clean.
"""

import hashlib
from collections.abc import Iterable, Iterator, Sequence
from typing import Any, Final, Literal, NamedTuple

from hindcast_dagster.contracts.scores import DETECTIVE
from hindcast_dagster.errors import NotReady, UsageError
from hindcast_dagster.forecast.records import NO_MODEL, traces
from hindcast_dagster.forecast.unasked import unasked
from hindcast_dagster.forecast.work import Progress
from hindcast_dagster.leakage.asking import Ask, Asking, Plan, left_out
from hindcast_dagster.leakage.canaries import canaries
from hindcast_dagster.leakage.corpus import texts
from hindcast_dagster.llm.parse import Refusal, one_of, single_object
from hindcast_dagster.llm.protocol import ChatModel
from hindcast_dagster.prompts.loader import load as load_prompt
from hindcast_dagster.questions.load import frozen, load
from hindcast_dagster.questions.question import Question, ResolvedQuestion
from hindcast_dagster.settings import Settings
from hindcast_dagster.storage.journal import Journal, identity_hash
from hindcast_dagster.storage.manifest import Input, Manifest
from hindcast_dagster.storage.store import Store
from hindcast_dagster.storage.tables import publish_table

Kind = Literal["document", "rationale", "planted_leak", "planted_clean"]
VERDICTS: Final = ("yes", "no", "unknown")
TABLE: Final = DETECTIVE.name
CODE_VERSION: Final = "1"
PROMPT: Final = "leak_detective"
LIMIT: Final = 500
CHARACTERS: Final = 3_000  # of one passage: what it tells, it tells early


class Passage(NamedTuple):
    """One thing to read."""

    kind: Kind
    question: Question
    item: str
    text: str


def build(
    store: Store,
    settings: Settings,
    *,
    model: str,
    eval_set: str,
    limit: int = LIMIT,
    chat: ChatModel | None = None,
    max_cost: float | None = None,
    progress: Progress | None = None,
) -> Manifest:
    """Read up to `limit` documents and `limit` rationales of an eval set, and planted passages; seal every verdict.

    `model` must be none of those that forecast the set (`UsageError`): a model does not catch what it shares. Raises
    `NotReady` when no model has forecast the set. Verdicts are journaled and never asked again. `max_cost` (US dollars)
    stops before it is exceeded; what was read is sealed and the manifest says `stopped`.
    """
    passages = _passages(store, model=model, eval_set=eval_set, limit=limit)
    asking = _asking(store, passages, eval_set, model, chat or _open(settings, model))
    said = asking.replies(settings, close=chat is None, max_cost=max_cost, progress=progress)
    return _publish(store, (model, eval_set), passages, said, frozen(store, eval_set).as_input)


def plan(store: Store, settings: Settings, *, model: str, eval_set: str, limit: int = LIMIT) -> Plan:
    """Return what `build` would ask for, without asking (`--dry-run`). Same arguments, same errors."""
    passages = _passages(store, model=model, eval_set=eval_set, limit=limit)
    return _asking(store, passages, eval_set, model, unasked(settings, model)).plan(settings)


def _passages(store: Store, *, model: str, eval_set: str, limit: int) -> list[Passage]:
    sealed = frozen(store, eval_set)
    resolved = load(store, eval_set)
    records = [record for record in traces(store, eval_set) if record.model != NO_MODEL]
    if not records:
        raise NotReady(f"No model has forecast {eval_set}: run `hindcast forecast run --eval-set {eval_set}` first.")
    if model in {record.model for record in records}:
        raise UsageError(
            f"{model} has forecast {eval_set} itself: name another model, it does not catch what it shares."
        )
    by_id = {one.question.id: one.question for one in resolved}
    seen = _sample(
        {(record.question_id, key) for record in records for key in record.forecast.trace.documents()}, limit
    )
    written = {(record.question_id, record.forecast_id): record.forecast.rationale for record in records}
    return [
        *_documents(store, seen, by_id, sealed.manifest.pins),
        *(
            Passage("rationale", by_id[question], item, written[question, item])
            for question, item in _sample(written, limit)
            if question in by_id and written[question, item].strip()
        ),
        *planted(resolved),
    ]


def planted(resolved: Sequence[ResolvedQuestion]) -> list[Passage]:
    """Return one passage per question that tells its outcome, and one that does not: the detective's own exam."""
    found = []
    for one in resolved:
        question = one.question
        pair = canaries(t0=question.t0, question=question.text, outcome=one.outcome, subreddit="planted")
        told = {canary.kind: canary for canary in pair if canary.doc_type == "submission"}
        found += [
            Passage("planted_leak", question, told["after"].key, told["after"].record["selftext"]),
            Passage("planted_clean", question, told["control"].key, told["control"].record["selftext"]),
        ]
    return found


def verdict(reply: str) -> str:
    """Return yes, no or unknown: everything that is not one clear word is unknown."""
    found = single_object(reply, having=("later_knowledge",))
    said = None if isinstance(found, Refusal) else one_of(found.get("later_knowledge"), VERDICTS)
    return said or "unknown"


def _documents(
    store: Store, seen: Iterable[tuple[str, str]], by_id: dict[str, Question], pins: Iterable[Input]
) -> Iterator[Passage]:
    pairs = [(question, key) for question, key in seen if question in by_id]
    found = texts(store, {key for _, key in pairs}, pins=pins)
    yield from (Passage("document", by_id[question], key, found[key]) for question, key in pairs if key in found)


def _sample(items: Iterable[tuple[str, str]], limit: int) -> list[tuple[str, str]]:
    """Return up to `limit` items, the same ones whatever else is there."""
    return sorted(items, key=lambda item: hashlib.sha256(":".join(item).encode()).hexdigest())[:limit]


def _asking(store: Store, passages: Sequence[Passage], eval_set: str, slug: str, model: ChatModel) -> Asking:
    asks = tuple(_ask(passage, model) for passage in passages)
    return Asking("detective", slug, eval_set, model, asks, Journal(store, TABLE, slug, eval_set))


def _ask(passage: Passage, model: ChatModel) -> Ask:
    prompt = load_prompt(PROMPT)
    user = prompt.fill(
        question=passage.question.text, cutoff_date=passage.question.t0.iso, passage=passage.text[:CHARACTERS]
    )
    known = {"prompt": user, "version": prompt.version, "model": model.slug, "revision": model.revision}
    kept = {"kind": passage.kind, "item": passage.item, "question": passage.question.id}
    return Ask(identity_hash(known), user, kept)


def _open(settings: Settings, model: str) -> ChatModel:
    from hindcast_dagster.llm.open import open_model

    return open_model(settings, model)


def _publish(
    store: Store, key: tuple[str, str], passages: Sequence[Passage], said: list[str | None], eval_input: Input
) -> Manifest:
    rows = [
        {"kind": one.kind, "question_id": one.question.id, "item": one.item, "verdict": verdict(reply)}
        for one, reply in zip(passages, said, strict=True)
        if reply is not None
    ]
    return publish_table(
        store.partition(TABLE, *key),
        DETECTIVE.frame(rows),
        DETECTIVE,
        code_version=CODE_VERSION,
        inputs=[eval_input],
        stats=summary(rows) | left_out(said),
    )


def summary(rows: Sequence[dict[str, Any]]) -> dict[str, Any]:
    """Return the flagged shares with a 95 % interval, and precision and recall on what was planted."""
    said = {kind: [row["verdict"] for row in rows if row["kind"] == kind] for kind in ("document", "rationale")}
    leaks = [row["verdict"] == "yes" for row in rows if row["kind"] == "planted_leak"]
    clean = [row["verdict"] == "yes" for row in rows if row["kind"] == "planted_clean"]
    exam = {
        "n": len(leaks) + len(clean),
        **_proportion("recall", sum(leaks), len(leaks)),
        **_proportion("precision", sum(leaks), sum(leaks) + sum(clean)),
    }
    return {"documents": _share(said["document"]), "rationales": _share(said["rationale"]), "planted": exam}


def _proportion(name: str, count: int, of: int) -> dict[str, float | None]:
    """Return a share and its 95 % Wilson interval, all None of nothing: `name`, `name`_low, `name`_high."""
    from statsmodels.stats.proportion import proportion_confint

    if not of:
        return {name: None, f"{name}_low": None, f"{name}_high": None}
    low, high = proportion_confint(count, of, method="wilson")
    return {name: count / of, f"{name}_low": float(low), f"{name}_high": float(high)}


def _share(verdicts: Sequence[str]) -> dict[str, Any]:
    """Return counts, the share of yes and its Wilson interval; unknown counts as not read, in neither number."""
    counts = {name: verdicts.count(name) for name in VERDICTS}
    found = _proportion("share", counts["yes"], counts["yes"] + counts["no"])
    return counts | {"share": found["share"], "low": found["share_low"], "high": found["share_high"]}
