"""Sealing `<arm>_forecasts`: the partition that follows from the journal."""

from typing import Final

from hindcast_dagster.contracts.forecasts import FORECASTS
from hindcast_dagster.forecast import rows
from hindcast_dagster.forecast.contamination import Contamination
from hindcast_dagster.forecast.job import Job
from hindcast_dagster.forecast.records import SUFFIX, TraceRecord
from hindcast_dagster.storage.manifest import Input, Manifest
from hindcast_dagster.storage.store import Store
from hindcast_dagster.storage.tables import publish_table

CODE_VERSION: Final = "1"


def seal(store: Store, job: Job, eval_input: Input, contamination: Contamination, *, stopped: bool) -> Manifest:
    """Seal what the journal holds of the job's identity, also runs and questions that this call did not ask for."""
    found = [record for record in job.done.values() if record.question_id in job.every]
    stats = rows.counts(found) | {
        "arm": job.arm.arm,
        "arm_version": job.arm.version,
        "arm_settings": getattr(job.arm, "settings", None),
        "runs": max([job.runs, *(record.run for record in found)]),
        "questions": len({record.question_id for record in found}),
        "missing": len(job.pending()),
        "stopped": stopped,
        "contamination": contamination.as_dict(),
    }
    return publish_table(
        store.partition(job.arm.arm + SUFFIX, job.model, job.eval_set),
        FORECASTS.frame([rows.row(record) for record in sorted(found, key=_order)]),
        FORECASTS,
        code_version=CODE_VERSION,
        inputs=[eval_input],
        checks=rows.checks(found),
        stats=stats,
    )


def _order(record: TraceRecord) -> tuple[str, int]:
    return record.question_id, record.run
