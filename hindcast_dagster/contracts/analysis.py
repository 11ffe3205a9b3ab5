"""The tables behind the report: runs, bins, strata, metrics, calibration, effects of retrieval, comparisons, blends."""

from typing import Final

import pyarrow as pa

from hindcast_dagster.contracts.table import TEXT, Contract, column, within

_NUMBER: Final = pa.float64()
_COUNT: Final = pa.int64()

RUNS: Final = Contract(
    name="score_runs",  # the paper's table 5
    version=1,
    schema=pa.schema(
        [
            column("model", TEXT),
            column("arm", TEXT),
            column("run", _COUNT),
            column("n", _COUNT),
            column("unparsed", _COUNT),
            column("failed", _COUNT),
            column("repaired", _COUNT),  # parsed only after a repair or a second prompt
            column("accuracy", _NUMBER, null=True),
            column("brier", _NUMBER, null=True),
            column("brier_imputed", _NUMBER, null=True),  # every forecast that is not there counts as one half
        ]
    ),
    primary_key=("model", "arm", "run"),
    order=("model", "arm", "run"),
    expectations=(within("accuracy", 0, 1), within("brier", 0, 1)),
)

STRATA: Final = Contract(
    name="score_strata",  # S/W/N of table 1 and the sizes of table 6, topics, durations, clean subset
    version=1,
    schema=pa.schema(
        [
            column("model", TEXT),
            column("arm", TEXT),
            column("by", TEXT),  # evidence | topic | duration | beyond_cutoff
            column("stratum", TEXT),
            column("runs", _COUNT),  # runs in which the stratum is not empty
            column("n", _COUNT),
            column("size", _NUMBER),  # mean forecasts per run of the cell, empty runs included
            column("accuracy", _NUMBER),
            column("accuracy_sd", _NUMBER, null=True),
            column("brier", _NUMBER),
            column("brier_sd", _NUMBER, null=True),
        ]
    ),
    primary_key=("model", "arm", "by", "stratum"),
    order=("model", "arm", "by", "stratum"),
    expectations=(within("accuracy", 0, 1), within("brier", 0, 1)),
)

METRICS: Final = Contract(
    name="score_metrics",
    version=1,
    schema=pa.schema(
        [
            column("model", TEXT),
            column("arm", TEXT),
            column("n", _COUNT),
            column("metric", TEXT),
            column("value", _NUMBER),
        ]
    ),
    primary_key=("model", "arm", "metric"),
    order=("model", "arm", "metric"),
)

CALIBRATION: Final = Contract(
    name="score_calibration",
    version=1,
    schema=pa.schema(
        [
            column("model", TEXT),
            column("arm", TEXT),
            column("form", TEXT),  # equal_width | equal_mass
            column("bin", _COUNT),
            column("low", _NUMBER),
            column("high", _NUMBER),
            column("n", _COUNT),
            column("mean_p", _NUMBER),
            column("share_yes", _NUMBER),
        ]
    ),
    primary_key=("model", "arm", "form", "bin"),
    order=("model", "arm", "form", "bin"),
    expectations=(within("mean_p", 0, 1), within("share_yes", 0, 1)),
)

EFFECTS: Final = Contract(
    name="score_effects",  # section 7: what an arm changes against zero-shot, run i against run i
    version=1,
    schema=pa.schema(
        [
            column("arm", TEXT),
            column("by", TEXT),  # model | topic | duration | stop_reason | all
            column("group", TEXT),
            column("markets", _COUNT),
            column("pairs", _COUNT),
            column("recoveries", _COUNT),  # the arm is right, zero-shot wrong
            column("regressions", _COUNT),
            column("net", _COUNT),
            column("accuracy_change", _NUMBER),  # fraction; net = pairs x accuracy_change
            column("brier_change", _NUMBER),
            column("wrong_margin", _NUMBER, null=True),  # mean |p - 0.5| of the arm on its wrong calls
            column("wrong_margin_zero_shot", _NUMBER, null=True),
            column("disagree", pa.bool_()),  # accuracy and Brier move in opposite directions
            column("prior_brier", _NUMBER, null=True),  # Brier of the step-1 prior, where the arm states one
            column("adjustment", _NUMBER, null=True),  # Brier after minus before the adjustment, on the same pairs
            column("evidence_tokens", _NUMBER, null=True),  # mean prompt tokens of the arm beyond zero-shot
            column("trimmed_share", _NUMBER, null=True),  # share of forecasts whose evidence was cut to fit
        ]
    ),
    primary_key=("arm", "by", "group"),
    order=("arm", "by", "group"),
)

BLEND: Final = Contract(
    name="score_blend",  # value beyond the market: y on logit p and logit q
    version=1,
    schema=pa.schema(
        [
            column("model", TEXT),
            column("arm", TEXT),
            column("questions", _COUNT),
            column("events", _COUNT),
            column("weight", _NUMBER),  # coefficient of logit p
            column("weight_low", _NUMBER),
            column("weight_high", _NUMBER),
            column("market_weight", _NUMBER),
            column("brier_blend", _NUMBER),  # cross-validated, folds hold whole events
            column("brier_market", _NUMBER),  # recalibrated price alone, the same folds
            column("brier_price", _NUMBER),  # the price as it stood
        ]
    ),
    primary_key=("model", "arm"),
    order=("model", "arm"),
)

EVENT_SUMS: Final = Contract(
    name="score_event_sums",  # several legs of one event: what a forecaster gives them together
    version=1,
    schema=pa.schema(
        [
            column("event_id", TEXT),
            column("model", TEXT),
            column("arm", TEXT),
            column("legs", _COUNT),
            column("sum_p", _NUMBER),  # mean over runs
            column("sum_price", _NUMBER, null=True),
            column("resolved_yes", _COUNT),
        ]
    ),
    primary_key=("event_id", "model", "arm"),
    order=("event_id", "model", "arm"),
)

COMPARISONS: Final = Contract(
    name="comparisons",
    version=2,
    schema=pa.schema(
        [
            column("family", TEXT),  # retrieval | market | chosen: Holm's correction works within one
            column("a", TEXT),  # model/arm
            column("b", TEXT),
            column("metric", TEXT),  # brier | accuracy
            column("cluster", TEXT),  # question | event
            column("missing", TEXT),  # intersection | half: what a forecast that is not there counts as
            column("pairs", _COUNT),
            column("clusters", _COUNT),
            column("value_a", _NUMBER),
            column("value_b", _NUMBER),
            column("difference", _NUMBER),  # a - b
            column("low", _NUMBER),  # 95 % percentile interval
            column("high", _NUMBER),
            column("bca_low", _NUMBER),  # 95 % bias-corrected and accelerated interval of the same resamples
            column("bca_high", _NUMBER),
            column("p", _NUMBER),  # two-sided, never 0
            column("p_holm", _NUMBER),
            column("detectable", _NUMBER, null=True),  # smallest true difference found 4 times in 5 at this n
            column("resamples", _COUNT),
            column("seed", _COUNT),
        ]
    ),
    primary_key=("family", "a", "b", "metric", "cluster", "missing"),
    order=("family", "a", "b", "metric", "cluster", "missing"),
    expectations=(within("p", 0, 1), within("p_holm", 0, 1)),
)
