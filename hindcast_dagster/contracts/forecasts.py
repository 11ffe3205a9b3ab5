"""Forecasts: one row per (question, model, arm, run), derived from the journal."""

from typing import Final

import pyarrow as pa

from hindcast_dagster.contracts.table import INSTANT, TEXT, Contract, column, not_null, one_of, unique, within

STATUSES: Final = ("ok", "unparsed", "failed")
QUALITIES: Final = ("strong", "weak", "none")

FORECASTS: Final = Contract(
    name="forecasts",
    version=1,
    schema=pa.schema(
        [
            column("forecast_id", TEXT),  # sha256 of the identity: the resume unit
            column("eval_set", TEXT),
            column("question_id", TEXT),
            column("t0", INSTANT),
            column("model", TEXT),  # roster slug; "none" for baselines
            column("model_revision", TEXT, null=True),
            column("arm", TEXT),
            column("arm_version", TEXT),  # prompt versions and settings of the arm, hashed
            column("archive_snapshot", TEXT, null=True),
            column("run", pa.int64()),  # 1..
            column("status", TEXT),
            column("prob_yes", pa.float64(), null=True),  # null unless status is ok
            column("choice", TEXT, null=True),  # Yes exactly when prob_yes > 0.5
            column("confidence", pa.float64(), null=True),
            column("conflict", TEXT, null=True),  # how the fields of the reply disagreed
            column("parse_step", TEXT, null=True),  # first | repair | compact | json_only
            column("stop_reason", TEXT, null=True),
            column("rounds", pa.int64(), null=True),
            column("prior_category", TEXT, null=True),
            column("prior_yes", pa.float64(), null=True),
            column("evidence_quality", TEXT, null=True),  # strong | weak | none; null: unbinned
            column("yes_score", pa.float64(), null=True),  # s_side = 2 strong + weak - contra
            column("no_score", pa.float64(), null=True),
            column("documents", pa.int64()),  # distinct documents that the model saw
            column("calls", pa.int64()),
            column("tokens_in", pa.int64()),
            column("tokens_out", pa.int64()),
            column("tokens_trimmed", pa.int64()),
            column("seconds", pa.float64()),  # model time, summed over calls
            column("cost", pa.float64(), null=True),  # US dollars; null: no price in the roster
        ]
    ),
    primary_key=("forecast_id",),
    order=("question_id", "model", "arm", "run"),
    expectations=(
        *not_null("forecast_id", "question_id", "t0", "status"),
        unique("question_id", "model", "arm", "run"),
        one_of("status", STATUSES),
        one_of("evidence_quality", QUALITIES),
        within("prob_yes", 0, 1),
    ),
)
