"""Sensors: thin wrappers that turn decisions into run requests.

A cursor moves only with what was emitted; a run key is made of content, so a repeated tick asks for nothing twice.
"""

import json
import time
from typing import Any

import dagster as dg

from assets.partitions import EVAL_SETS, MODELS
from hindcast_dagster.automation import decide
from hindcast_dagster.automation.jobs import COMMENT_MONTH, EVALUATE, JOBS, PREDICT, SUBMISSION_MONTH
from resources.llm import LlmResource
from resources.store import StorageRoot

_MONTH_JOB = {"submissions": SUBMISSION_MONTH, "comments": COMMENT_MONTH}


@dg.sensor(
    jobs=[JOBS[SUBMISSION_MONTH], JOBS[COMMENT_MONTH]],
    minimum_interval_seconds=60,
    description="A new or changed dump under dumps/ builds its month.",
)
def new_dumps(context: dg.SensorEvaluationContext, root: StorageRoot) -> dg.SensorResult | dg.SkipReason:
    """Request the month of every dump that has not been requested with this content."""
    seen: dict[str, str] = json.loads(context.cursor or "{}")
    settle = root.settings().automation.settle_s
    found = decide.new_dumps(root.store(), seen, now=time.time(), settle_s=settle)
    if not found:
        return dg.SkipReason("No dump is new or changed.")
    requests = [
        dg.RunRequest(
            job_name=_MONTH_JOB[new.dump.kind],
            partition_key=new.dump.month,
            run_key=f"{new.dump.kind}:{new.dump.month}:{new.fingerprint}",
            tags={"hindcast/dump": new.dump.path.name, "hindcast/reason": "changed" if new.changed else "new"},
        )
        for new in found
    ]
    cursor = seen | {f"{new.dump.kind}/{new.dump.month}": new.fingerprint for new in found}
    return dg.SensorResult(run_requests=requests, cursor=json.dumps(cursor, sort_keys=True))


@dg.sensor(minimum_interval_seconds=300, description="Roster models and sealed eval sets become partitions.")
def partitions(context: dg.SensorEvaluationContext, root: StorageRoot, llm: LlmResource) -> Any:
    """Register what is not registered yet; slugs were checked when the roster was read and the set was sealed."""
    models = [entry.slug for entry in llm.roster()]
    sets = [key[0] for key in root.store().sealed_keys("eval_set")]
    new_models = decide.unregistered(models, context.instance.get_dynamic_partitions(MODELS))
    new_sets = decide.unregistered(sets, context.instance.get_dynamic_partitions(EVAL_SETS))
    if not new_models and not new_sets:
        return dg.SkipReason("Every roster model and eval set is registered.")
    requests = [dg.DynamicPartitionsDefinition(name=MODELS).build_add_request(new_models)] if new_models else []
    requests += [dg.DynamicPartitionsDefinition(name=EVAL_SETS).build_add_request(new_sets)] if new_sets else []
    return dg.SensorResult(dynamic_partitions_requests=requests)


@dg.sensor(
    job_name=PREDICT,
    minimum_interval_seconds=300,
    description="Asks the chosen models about new vintages, only when the settings allow spending up to a limit.",
)
def predictions(context: dg.SensorEvaluationContext, root: StorageRoot) -> Any:
    """Request both arms of every model that a vintage lacks."""
    del context
    settings = root.settings()
    wanted = decide.wanted_predictions(root.store(), settings)
    if not wanted:
        return dg.SkipReason("No prediction is missing, or spending is not allowed (automation.spend, llm.max_cost).")
    return dg.SensorResult(
        run_requests=[
            dg.RunRequest(
                partition_key=dg.MultiPartitionKey({"model": each.model, "eval_set": each.eval_set}),
                run_key=f"{each.model}:{each.eval_set}",
            )
            for each in wanted
        ]
    )


@dg.sensor(job_name=EVALUATE, minimum_interval_seconds=60, description="New forecasts are scored, audited, reported.")
def scores(context: dg.SensorEvaluationContext, root: StorageRoot) -> Any:
    """Request an evaluation of every eval set whose forecasts changed."""
    seen: dict[str, str] = json.loads(context.cursor or "{}")
    states = decide.forecast_states(root.store())
    changed = {name: state for name, state in states.items() if seen.get(name) != state}
    if not changed:
        return dg.SkipReason("No eval set has new forecasts.")
    return dg.SensorResult(
        run_requests=[dg.RunRequest(partition_key=name, run_key=f"{name}:{state}") for name, state in changed.items()],
        cursor=json.dumps(seen | changed, sort_keys=True),
    )


def sensors() -> list[Any]:
    """Return every sensor. They are off until someone turns them on in the UI."""
    return [new_dumps, partitions, predictions, scores]
