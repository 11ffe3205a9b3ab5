"""Scores: each forecast against the outcome and the market, the cells of the score table, and the leak audit."""

from typing import Final

import pyarrow as pa

from hindcast_dagster.contracts.table import INSTANT, TEXT, Contract, column, not_null, one_of, unique, within

SCORED: Final = Contract(
    name="scored_forecasts",
    version=1,
    schema=pa.schema(
        [
            column("question_id", TEXT),
            column("event_id", TEXT, null=True),
            column("model", TEXT),
            column("arm", TEXT),
            column("run", pa.int64()),
            column("t0", INSTANT),
            column("topic", TEXT),
            column("duration", TEXT),
            column("outcome", pa.int64()),  # 1 Yes, 0 No
            column("prob_yes", pa.float64()),
            column("price_at_t0", pa.float64(), null=True),
            column("brier", pa.float64()),  # (p - y)^2
            column("correct", pa.bool_()),  # 1[p > 0.5] == y
            column("tie", pa.bool_()),  # p is exactly 0.5
            column("market_gap", pa.float64(), null=True),  # |p - q|
            column("evidence_quality", TEXT, null=True),
            column("beyond_cutoff", TEXT),  # after | before | unknown: t0 against the model's knowledge cutoff
        ]
    ),
    primary_key=("question_id", "model", "arm", "run"),
    order=("model", "arm", "run", "question_id"),
    expectations=(
        *not_null("question_id", "prob_yes"),
        unique("question_id", "model", "arm", "run"),
        within("prob_yes", 0, 1),
        within("brier", 0, 1),
    ),
)

CELLS: Final = Contract(
    name="score_tables",
    version=2,
    schema=pa.schema(
        [
            column("model", TEXT),
            column("arm", TEXT),
            column("runs", pa.int64()),
            column("expected", pa.int64()),  # forecasts that a complete cell holds: questions x runs
            column("n", pa.int64()),  # forecasts scored
            column("unparsed", pa.int64()),
            column("failed", pa.int64()),
            column("missing", pa.int64()),
            column("retried", pa.int64()),  # scored, but read only after a further prompt
            column("imputed", pa.int64()),  # forecasts that `brier_imputed` counts as one half
            column("questions", pa.int64()),  # distinct questions scored
            column("ranked", pa.bool_()),  # answered enough, and what the other ranked cells answered
            column("accuracy", pa.float64(), null=True),  # mean over runs, fraction; null when nothing was scored
            column("accuracy_sd", pa.float64(), null=True),  # sample SD over runs; null with one run
            column("brier", pa.float64(), null=True),
            column("brier_sd", pa.float64(), null=True),
            column("brier_imputed", pa.float64(), null=True),  # mean over runs, what is not there counted as one half
            column("brier_index", pa.float64(), null=True),  # 100 (1 - sqrt(mean Brier))
            column("log_score", pa.float64(), null=True),  # natural log, clipped
            column("market_gap", pa.float64(), null=True),
            column("ties", pa.int64()),
        ]
    ),
    primary_key=("model", "arm"),
    order=("model", "arm"),
    expectations=(
        *not_null("model", "arm", "n"),
        unique("model", "arm"),
        within("accuracy", 0, 1),
        within("brier", 0, 1),
    ),
)

AUDIT: Final = Contract(
    name="leak_audit",
    version=1,
    schema=pa.schema(
        [
            column(
                "kind", TEXT
            ),  # created_after_t0, text_after_t0, engagement_after_t0, price_after_t0, unknown_document, ...
            column("question_id", TEXT),
            column("model", TEXT),
            column("arm", TEXT),
            column("run", pa.int64()),
            column("step", TEXT),
            column("document", TEXT, null=True),
            column("detail", TEXT),
        ]
    ),
    primary_key=("kind", "question_id", "model", "arm", "run", "step", "document"),
    order=("question_id", "model", "arm", "run", "step", "kind", "document"),
    expectations=(
        *not_null("kind", "question_id", "detail"),
        unique("kind", "question_id", "model", "arm", "run", "step", "document"),
    ),
)

CONTROLS: Final = Contract(
    name="control_effects",
    version=2,
    schema=pa.schema(
        [
            column("kind", TEXT),  # unsealed | placebo | paper
            column("model", TEXT),
            column("topic", TEXT),  # "": all of them
            column("n", pa.int64()),  # pairs (question, run) that the arm and its control both answered
            column("accuracy", pa.float64()),  # of the arm, on the pairs
            column("accuracy_control", pa.float64()),
            column("brier", pa.float64()),
            column("brier_control", pa.float64()),
            column("documents", pa.float64()),  # distinct documents that a forecast saw, mean over the pairs
            column("documents_control", pa.float64()),
        ]
    ),
    primary_key=("kind", "model", "topic"),
    order=("kind", "model", "topic"),
    expectations=(
        *not_null("kind", "model", "n"),
        unique("kind", "model", "topic"),
        within("brier", 0, 1),
        within("brier_control", 0, 1),
    ),
)

SELECTION: Final = Contract(
    name="selection_effects",
    version=1,
    schema=pa.schema(
        [
            column("model", TEXT),
            column("arm", TEXT),
            column("effect", TEXT),  # early_close | decided_at_t0 | strong_at_close | strong_at_t0
            column("side", TEXT),  # with | without | all
            column("questions", pa.int64()),
            column("n", pa.int64()),  # forecasts
            column("accuracy", pa.float64()),
            column("brier", pa.float64()),
        ]
    ),
    primary_key=("model", "arm", "effect", "side"),
    order=("model", "arm", "effect", "side"),
    expectations=(
        *not_null("model", "arm", "n"),
        unique("model", "arm", "effect", "side"),
        within("accuracy", 0, 1),
        within("brier", 0, 1),
    ),
)

DETECTIVE: Final = Contract(
    name="leak_detective",
    version=1,
    schema=pa.schema(
        [
            column("kind", TEXT),  # document | rationale | planted_leak | planted_clean
            column("question_id", TEXT),
            column("item", TEXT),  # prefixed document id, forecast id, or id of the planted post
            column("verdict", TEXT),  # yes | no | unknown: does it hold knowledge from t0 or later
        ]
    ),
    primary_key=("kind", "question_id", "item"),
    order=("kind", "question_id", "item"),
    expectations=(
        *not_null("kind", "question_id", "item", "verdict"),
        one_of("verdict", ("yes", "no", "unknown")),
    ),
)

RECALL: Final = Contract(
    name="outcome_recall",
    version=1,
    schema=pa.schema(
        [
            column("question_id", TEXT),
            column("recalled", TEXT),  # Yes | No | unknown: what the model says that it remembers
            column("right", pa.bool_(), null=True),  # null: it recalls nothing
            column("contamination", TEXT),  # after_cutoff | before_cutoff | no_cutoff: t0 against the model's knowledge
        ]
    ),
    primary_key=("question_id",),
    order=("question_id",),
    expectations=(
        *not_null("question_id", "recalled"),
        unique("question_id"),
        one_of("recalled", ("Yes", "No", "unknown")),
    ),
)
