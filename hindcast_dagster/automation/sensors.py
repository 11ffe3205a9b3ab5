"""Sensors: thin wrappers that turn decisions into run requests.

A cursor moves only with what was emitted; a run key is made of content, so a repeated tick asks for nothing twice.
A request for an eval set or a model registers its name with it, so a key that somebody deleted stops nothing.
"""

import json
import time
from collections.abc import Callable, Collection
from typing import Any, Final, NamedTuple

import dagster as dg

from assets.partitions import EVAL_SETS, MODELS
from hindcast_dagster import clock
from hindcast_dagster.automation import decide, spending
from hindcast_dagster.automation.jobs import (
    COMMENT_MONTH,
    EVALUATE,
    FREEZE,
    JOBS,
    PREDICT,
    SUBMISSION_MONTH,
    freeze,
)
from resources.llm import LlmResource
from resources.store import StorageRoot

_MONTH_JOB = {"submissions": SUBMISSION_MONTH, "comments": COMMENT_MONTH}


def new_dumps(context: dg.SensorEvaluationContext, root: StorageRoot) -> dg.SensorResult | dg.SkipReason:
    """Request the month of every dump that has not been requested with this content."""
    seen: dict[str, str] = json.loads(context.cursor or "{}")
    settings = root.settings()
    settle, window = settings.automation.settle_s, settings.window.months()
    found = decide.new_dumps(root.store(), seen, now=time.time(), settle_s=settle, window=window)
    if not found:
        return dg.SkipReason(f"No dump of {window[0]} to {window[1]} is new or changed.")
    requests = [
        dg.RunRequest(
            job_name=_MONTH_JOB[new.dump.kind],
            partition_key=new.dump.month,
            run_key=f"{new.dump.kind}:{new.dump.month}:{new.fingerprint}",
            tags=_dump_tags(new),
        )
        for new in found
    ]
    cursor = seen | {new.slot: new.fingerprint for new in found}
    return dg.SensorResult(run_requests=requests, cursor=json.dumps(cursor, sort_keys=True))


def _dump_tags(new: decide.NewDump) -> dict[str, str]:
    tags = {"hindcast/dump": new.dump.path.name, "hindcast/reason": "changed" if new.before else "new"}
    if new.before:
        tags["hindcast/note"] = f"built before from {new.before[:12]}, now {new.fingerprint[:12]}"
    return tags


def partitions(context: dg.SensorEvaluationContext, root: StorageRoot, llm: LlmResource) -> Any:
    """Register what is not registered yet; slugs were checked when the roster was read and the set was sealed."""
    roster = {entry.slug: entry.model_dump_json() for entry in llm.roster()}
    marks = {slug: decide.hashed([entry]) for slug, entry in roster.items()}
    seen: dict[str, str] = json.loads(context.cursor or "{}")
    changed = sorted(slug for slug, mark in marks.items() if seen.get(slug, mark) != mark)
    requests = _unknown(context, MODELS, list(marks)) + _unknown(
        context, EVAL_SETS, [key[0] for key in root.store().sealed_keys("eval_set")]
    )
    if not requests and not changed:
        return dg.SkipReason("Every roster model and eval set is registered.")
    for slug in changed:
        context.log.info("The roster entry of %s has changed; forecasts made with the old one stay as they are.", slug)
    return dg.SensorResult(dynamic_partitions_requests=requests, cursor=json.dumps(seen | marks, sort_keys=True))


def vintages(context: dg.SensorEvaluationContext, root: StorageRoot) -> Any:
    """Register the next vintage and freeze it."""
    found = decide.next_vintage(root.store(), root.settings())
    if found is None:
        return dg.SkipReason("automation.vintage_of is not set or not sealed, or too few markets have resolved since.")
    names = _unknown(context, EVAL_SETS, [found.name])
    return dg.SensorResult(run_requests=[freeze(found)], dynamic_partitions_requests=names)


def predictions(context: dg.SensorEvaluationContext, root: StorageRoot) -> Any:
    """Request both arms of every model that a vintage lacks; what is left of the week's ceiling is split among them."""
    settings = root.settings()
    if not spending.allowed(settings):
        return dg.SkipReason("Spending is not allowed: automation.spend, max_cost, models and vintage_of say what is.")
    promised = {slot: spending.Promise(*each) for slot, each in json.loads(context.cursor or "{}").items()}
    now = clock.now()
    wanted = spending.wanted(root.store(), settings, promised, now=now)
    if not wanted:
        without = ", ".join(spending.unpriced(settings))
        return dg.SkipReason(
            "No prediction is missing, or the week's money is promised."
            + (f" Without a price in the roster, so not asked: {without}." if without else "")
        )
    requests = [
        dg.RunRequest(
            partition_key=dg.MultiPartitionKey({"model": each.model, "eval_set": each.eval_set}),
            run_key=each.run_key,
            run_config={
                "ops": {arm: {"config": {"max_cost": each.usd * part}} for arm, part in spending.SHARES.items()}
            },
            tags={"hindcast/max-cost": f"{each.usd:.4f}"},
        )
        for each in wanted
    ]
    names = _unknown(context, MODELS, {each.model for each in wanted})
    names += _unknown(context, EVAL_SETS, {each.eval_set for each in wanted})
    cursor = promised | {each.slot: spending.Promise(now, each.usd) for each in wanted}
    return dg.SensorResult(
        run_requests=requests, dynamic_partitions_requests=names, cursor=json.dumps(cursor, sort_keys=True)
    )


def scores(context: dg.SensorEvaluationContext, root: StorageRoot) -> Any:
    """Request an evaluation of every eval set whose forecasts changed."""
    seen: dict[str, str] = json.loads(context.cursor or "{}")
    states = decide.evaluation_states(root.store(), root.settings())
    changed = {name: state for name, state in states.items() if seen.get(name) != state}
    if not changed:
        return dg.SkipReason("No eval set has new forecasts.")
    return dg.SensorResult(
        run_requests=[dg.RunRequest(partition_key=name, run_key=f"{name}:{state}") for name, state in changed.items()],
        dynamic_partitions_requests=_unknown(context, EVAL_SETS, changed),
        cursor=json.dumps(seen | changed, sort_keys=True),
    )


def _unknown(context: dg.SensorEvaluationContext, dimension: str, names: Collection[str]) -> list[Any]:
    """Return the request that registers those names that are not partitions yet; none if all are."""
    new = decide.unregistered(names, context.instance.get_dynamic_partitions(dimension))
    return [dg.DynamicPartitionsDefinition(name=dimension).build_add_request(new)] if new else []


class _Kind(NamedTuple):
    look: Callable[..., Any]
    description: str
    job: str | tuple[str, ...] = ()


_KINDS: Final = (
    _Kind(
        new_dumps,
        "A new dump under dumps/ builds its month; a changed one builds it again, with a note.",
        (SUBMISSION_MONTH, COMMENT_MONTH),
    ),
    _Kind(partitions, "Roster models and sealed eval sets become partitions."),
    _Kind(
        vintages,
        "Newly resolved markets become the next vintage of automation.vintage_of, from vintage_min on.",
        FREEZE,
    ),
    _Kind(
        predictions,
        "Asks automation.models about vintages, when automation.spend allows it, within automation.max_cost.",
        PREDICT,
    ),
    _Kind(
        scores,
        "New forecasts, and every new vintage with its baselines, are scored, audited and reported.",
        EVALUATE,
    ),
)


def sensors(every_s: int) -> list[dg.SensorDefinition]:
    """Return every sensor, looking every `every_s` seconds. They are off until someone turns them on in the UI."""
    made = []
    for kind in _KINDS:
        options: dict[str, Any] = {"minimum_interval_seconds": every_s, "description": kind.description}
        if isinstance(kind.job, str):
            options["job_name"] = kind.job
        elif kind.job:
            options["jobs"] = [JOBS[name] for name in kind.job]
        made.append(dg.sensor(**options)(kind.look))
    return made
