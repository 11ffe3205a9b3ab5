"""Value beyond the market: what a forecast tells that the price at t0 does not.

A logistic regression of the outcome on logit p and logit q. Folds hold whole events, so that no leg of an event is
predicted from another; the interval of the weight is clustered by event (statsmodels).
"""

import warnings
from typing import Any, Final

import numpy as np
import polars as pl

from hindcast_dagster.contracts.analysis import BLEND
from hindcast_dagster.scoring.bootstrap import Floats
from hindcast_dagster.scoring.inputs import MARKET
from hindcast_dagster.scoring.metrics import LOG_CLIP
from hindcast_dagster.scoring.pairs import Cell, rows_of

FOLDS: Final = 5
MIN_EVENTS: Final = 20
"""Fewer events than this carry no regression worth printing; nor do fewer than MIN_EACH of one outcome."""
MIN_EACH: Final = 5
RIDGE: Final = 1.0
"""Inverse penalty (sklearn's C) of the cross-validated fits: separable folds stay finite."""


def blends(scored: pl.DataFrame) -> pl.DataFrame:
    """Return the blend of every cell with enough priced questions (contract BLEND)."""
    cells = scored.filter(pl.col("arm") != MARKET).select("model", "arm").unique().sort("model", "arm").iter_rows()
    found = (_blend(Cell(model, arm), rows_of(scored, Cell(model, arm))) for model, arm in cells)
    return BLEND.frame([row for row in found if row is not None])


def _blend(cell: Cell, part: pl.DataFrame) -> dict[str, Any] | None:
    """Blend the mean over runs: one row per question, so that runs do not pose as evidence."""
    rows = (
        part.filter(pl.col("price_at_t0").is_not_null())
        .group_by("question_id", maintain_order=True)
        .agg(
            pl.col("prob_yes").mean(),
            pl.col("price_at_t0").first(),
            pl.col("outcome").first(),
            pl.coalesce("event_id", "question_id").first().alias("event"),
        )
        .sort("question_id")
    )
    y = rows["outcome"].to_numpy().astype(float)
    events = rows["event"].rank("dense").to_numpy().astype(int) if rows.height else np.array([], dtype=int)
    logit_p, logit_q = _logit(rows["prob_yes"].to_numpy()), _logit(rows["price_at_t0"].to_numpy())
    if np.unique(events).size < MIN_EVENTS or min(y.sum(), (1 - y).sum()) < MIN_EACH or np.ptp(logit_p) == 0:
        return None
    fitted = _weights(np.column_stack([logit_p, logit_q]), y, events)
    if fitted is None:
        return None
    return {
        "model": cell.model,
        "arm": cell.arm,
        "questions": rows.height,
        "events": int(np.unique(events).size),
        **fitted,
        "brier_blend": _held_out(np.column_stack([logit_p, logit_q]), y, events),
        "brier_market": _held_out(logit_q[:, None], y, events),
        "brier_price": float(((rows["price_at_t0"].to_numpy() - y) ** 2).mean()),
    }


def _logit(p: Floats) -> Floats:
    clipped = np.clip(p, LOG_CLIP, 1 - LOG_CLIP)
    return np.asarray(np.log(clipped / (1 - clipped)))


def _weights(x: Floats, y: Floats, events: Any) -> dict[str, float] | None:
    """Fit without a penalty, errors clustered by event; None where the data separate and no finite fit exists."""
    import statsmodels.api as sm
    from statsmodels.tools.sm_exceptions import PerfectSeparationError

    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # separation and convergence are looked at below
        try:
            fit = sm.Logit(y, sm.add_constant(x)).fit(disp=0, cov_type="cluster", cov_kwds={"groups": events})
        except (PerfectSeparationError, np.linalg.LinAlgError):
            return None
    low, high = fit.conf_int()[1]
    if not fit.mle_retvals["converged"] or not np.isfinite([low, high]).all():
        return None
    return {
        "weight": float(fit.params[1]),
        "weight_low": float(low),
        "weight_high": float(high),
        "market_weight": float(fit.params[2]),
    }


def _held_out(x: Floats, y: Floats, events: Any) -> float:
    """Return the Brier of predictions for events that the fit has not seen."""
    from sklearn.linear_model import LogisticRegression
    from sklearn.model_selection import GroupKFold, cross_val_predict

    model = LogisticRegression(C=RIDGE)
    folds = GroupKFold(n_splits=FOLDS)
    predicted = cross_val_predict(model, x, y, groups=events, cv=folds, method="predict_proba")[:, 1]
    return float(((predicted - y) ** 2).mean())
