"""Metrics of probability forecasts of binary outcomes.

What belongs here: one function per number, on arrays of probabilities of Yes `p` in [0, 1] and outcomes `y` in {0, 1},
both of shape (n,). What does not: grouping into cells (`cells`) and uncertainty (`bootstrap`). Every function is
undefined on no forecasts and then returns None, never zero.
"""

from typing import Final, Literal, NamedTuple

import numpy as np
from numpy.typing import ArrayLike, NDArray

Form = Literal["equal_width", "equal_mass"]
Floats = NDArray[np.float64]

LOG_CLIP: Final = 1e-3
"""Logarithmic scores clip p to [LOG_CLIP, 1 - LOG_CLIP]: one 0 would make a mean infinite. Nothing else is clipped."""
BINS: Final = 10
HALF: Final = 0.5


class Bin(NamedTuple):
    """One bin of a reliability diagram: low <= p < high (the last bin also holds its upper edge)."""

    low: float
    high: float
    n: int
    mean_p: float
    share_yes: float


class Murphy(NamedTuple):
    """Brier = reliability - resolution + uncertainty + within, exactly.

    `within` is what binning hides: the variance of p inside bins minus twice its covariance with y there (Stephenson,
    Coelho and Jolliffe 2008). It is zero when every bin holds one value.
    """

    reliability: float
    resolution: float
    uncertainty: float
    within: float


def _pair(p: ArrayLike, y: ArrayLike) -> tuple[Floats, Floats]:
    probabilities, outcomes = np.asarray(p, dtype=float), np.asarray(y, dtype=float)
    if probabilities.shape != outcomes.shape or probabilities.ndim != 1:
        raise ValueError(f"p has shape {probabilities.shape} and y {outcomes.shape}; both must be (n,).")
    return probabilities, outcomes


def _mean(values: Floats) -> float | None:
    return float(values.mean()) if values.size else None


def accuracy(p: ArrayLike, y: ArrayLike) -> float | None:
    """Return the share with 1[p > 0.5] == y (paper, equation 1): exactly one half counts as No."""
    probabilities, outcomes = _pair(p, y)
    return _mean(((probabilities > HALF) == (outcomes == 1)).astype(float))


def ties(p: ArrayLike) -> int:
    """Return how many forecasts are exactly one half."""
    return int((np.asarray(p, dtype=float) == HALF).sum())


def brier(p: ArrayLike, y: ArrayLike) -> float | None:
    """Return the mean of (p - y)^2, in [0, 1], lower is better (paper, equation 1)."""
    probabilities, outcomes = _pair(p, y)
    return _mean((probabilities - outcomes) ** 2)


def brier_index(p: ArrayLike, y: ArrayLike) -> float | None:
    """Return 100 (1 - sqrt(mean Brier)): 100 is perfect, 50 is always one half (ForecastBench)."""
    mean = brier(p, y)
    return None if mean is None else index_of(mean)


def index_of(mean_brier: float) -> float:
    """Return the Brier index of a mean Brier score: the root is taken of the mean, not of each question."""
    return float(100 * (1 - np.sqrt(mean_brier)))


def log_score(p: ArrayLike, y: ArrayLike, *, clip: float = LOG_CLIP) -> float | None:
    """Return the mean natural logarithm of the probability given to what happened: at most 0, higher is better."""
    probabilities, outcomes = _pair(p, y)
    clipped = np.clip(probabilities, clip, 1 - clip)
    return _mean(np.log(np.where(outcomes == 1, clipped, 1 - clipped)))


def clipped_count(p: ArrayLike, *, clip: float = LOG_CLIP) -> int:
    """Return how many forecasts the clip of the logarithmic scores changes."""
    probabilities = np.asarray(p, dtype=float)
    return int(((probabilities < clip) | (probabilities > 1 - clip)).sum())


def baseline_score(p: ArrayLike, y: ArrayLike, *, clip: float = LOG_CLIP) -> float | None:
    """Return Metaculus' baseline score, 100 (log2 p_o + 1): 0 is always one half, 100 is perfect."""
    mean = log_score(p, y, clip=clip)
    return None if mean is None else float(100 * (mean / np.log(2) + 1))


def market_gap(p: ArrayLike, q: ArrayLike) -> float | None:
    """Return the mean |p - q| against the market's price q at t0 (paper, figure 2)."""
    probabilities, prices = _pair(p, q)
    return _mean(np.abs(probabilities - prices))


def brier_skill(p: ArrayLike, y: ArrayLike, reference: ArrayLike) -> float | None:
    """Return 1 - Brier(p) / Brier(reference), on the same questions: above 0 beats the reference."""
    mine, theirs = brier(p, y), brier(reference, y)
    return None if mine is None or theirs is None or theirs == 0 else 1 - mine / theirs


def sharpness(p: ArrayLike) -> float | None:
    """Return the variance of the forecasts: how far they leave their own mean, whatever happened."""
    probabilities = np.asarray(p, dtype=float)
    return float(probabilities.var()) if probabilities.size else None


def edges(p: ArrayLike, *, form: Form, bins: int = BINS) -> Floats:
    """Return the bin edges: even steps over [0, 1], or quantiles of p with equal ones merged (fewer bins then)."""
    if form == "equal_width":
        return np.linspace(0, 1, bins + 1)
    found = np.unique(np.quantile(np.asarray(p, dtype=float), np.linspace(0, 1, bins + 1)))
    return found if found.size > 1 else np.array([found[0], found[0]])


def reliability(p: ArrayLike, y: ArrayLike, *, form: Form = "equal_width", bins: int = BINS) -> list[Bin]:
    """Return the bins that hold forecasts, lowest first. Both forms use the same rule: low <= p < high."""
    probabilities, outcomes = _pair(p, y)
    if not probabilities.size:
        return []
    cuts = edges(probabilities, form=form, bins=bins)
    place = np.searchsorted(cuts[1:-1], probabilities, side="right")
    return [
        Bin(
            float(cuts[k]),
            float(cuts[k + 1]),
            int((place == k).sum()),
            float(probabilities[place == k].mean()),
            float(outcomes[place == k].mean()),
        )
        for k in range(len(cuts) - 1)
        if (place == k).any()
    ]


def ece(p: ArrayLike, y: ArrayLike, *, form: Form = "equal_width", bins: int = BINS) -> float | None:
    """Return the expected calibration error: the mean over bins of |share of Yes - mean p|, weighted by bin size."""
    found = reliability(p, y, form=form, bins=bins)
    total = sum(each.n for each in found)
    return sum(each.n * abs(each.share_yes - each.mean_p) for each in found) / total if total else None


def murphy(p: ArrayLike, y: ArrayLike, *, bins: int = BINS) -> Murphy | None:
    """Return the Murphy decomposition over equal-width bins; its parts add up to the Brier score exactly."""
    probabilities, outcomes = _pair(p, y)
    found = reliability(probabilities, outcomes, bins=bins)
    if not found:
        return None
    weight = np.array([each.n for each in found]) / probabilities.size
    mean_p, share = np.array([each.mean_p for each in found]), np.array([each.share_yes for each in found])
    base = float(outcomes.mean())
    rel, res = float(weight @ (mean_p - share) ** 2), float(weight @ (share - base) ** 2)
    unc = base * (1 - base)
    total = float(((probabilities - outcomes) ** 2).mean())
    return Murphy(reliability=rel, resolution=res, uncertainty=unc, within=total - (rel - res + unc))
