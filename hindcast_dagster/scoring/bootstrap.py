"""Uncertainty of paired differences: a cluster bootstrap over questions, or over events as a robustness line.

scipy's bootstrap resamples rows; here a row's runs (and the legs of one event) depend on each other, so whole clusters
are drawn. One draw of cluster weights serves every comparison, which keeps them paired with each other and cheap: each
resample is one row of a matrix product. Two intervals come from the same resamples: percentile, and BCa, which corrects
for bias and skew (Efron 1987). `scipy.stats.bootstrap` computes the same BCa from the same resamples (a test).
"""

from typing import Final, NamedTuple

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float64]

RESAMPLES: Final = 10_000
SEED: Final = 20_260_131
LEVEL: Final = 0.95
CHUNK: Final = 1_000
"""Resamples drawn at a time: bounds the weight matrix to CHUNK x clusters."""
SAME: Final = 1e-12
"""Means closer than this are equal: they differ by the order of a sum."""
POWER_FACTOR: Final = 1.959964 + 0.841621
"""z(0.975) + z(0.80): a true difference of this many standard errors is found 4 times in 5 at the 5 % level."""


class Interval(NamedTuple):
    """A mean difference with its uncertainty. `p` is two-sided and never 0; `detectable` is None for one cluster.

    `low` and `high` are percentile bounds, `bca_low` and `bca_high` bias-corrected and accelerated ones; both are equal
    where every cluster has the same mean, for there is no skew to correct then.
    """

    difference: float
    low: float
    high: float
    bca_low: float
    bca_high: float
    p: float
    standard_error: float
    clusters: int

    @property
    def detectable(self) -> float | None:
        """The smallest true difference that this many clusters would find 4 times in 5."""
        return POWER_FACTOR * self.standard_error if self.clusters > 1 else None


def weights(clusters: int, *, resamples: int, rng: np.random.Generator) -> NDArray[np.float32]:
    """Return how often each cluster is drawn in each resample, shape (resamples, clusters); rows sum to `clusters`."""
    drawn = rng.integers(0, clusters, size=(resamples, clusters), dtype=np.int32)
    flat = drawn + np.arange(resamples, dtype=np.int64)[:, None] * clusters
    return np.bincount(flat.ravel(), minlength=resamples * clusters).reshape(resamples, clusters).astype(np.float32)


def resampled_means(sums: Floats, counts: Floats, *, resamples: int = RESAMPLES, seed: int = SEED) -> Floats:
    """Return the mean of every column in every resample, shape (resamples, columns); NaN where nothing was drawn.

    `sums` and `counts` have shape (clusters, columns): the total and the number of values of a cluster in a column.
    """
    rng = np.random.default_rng(seed)
    parts = []
    for start in range(0, resamples, CHUNK):
        drawn = weights(len(sums), resamples=min(CHUNK, resamples - start), rng=rng).astype(float)
        with np.errstate(invalid="ignore", divide="ignore"):
            parts.append((drawn @ sums) / (drawn @ counts))
    return np.concatenate(parts)


def intervals(sums: Floats, counts: Floats, *, resamples: int = RESAMPLES, seed: int = SEED) -> list[Interval]:
    """Return one interval per column: the mean over all values, with both kinds of bounds and p from whole clusters.

    p = 2 min(share of resamples <= 0, share >= 0), each with one added to both parts of the fraction, so that swapping
    the two sides mirrors the interval and leaves p alone. Columns without values must be left out by the caller.
    """
    means = resampled_means(sums, counts, resamples=resamples, seed=seed)
    observed = sums.sum(axis=0) / counts.sum(axis=0)
    return [
        _interval(float(observed[k]), np.sort(means[np.isfinite(means[:, k]), k]), _left_out(sums[:, k], counts[:, k]))
        for k in range(sums.shape[1])
    ]


def _left_out(sums: Floats, counts: Floats) -> Floats:
    """Return the mean without each cluster in turn (jackknife), for the clusters that hold values."""
    held = counts > 0
    if held.sum() < 2:  # noqa: PLR2004 - nothing is left
        return np.array([])
    return np.asarray((sums.sum() - sums[held]) / (counts.sum() - counts[held]))


def _interval(observed: float, means: Floats, left_out: Floats) -> Interval:
    """Return the interval of one column from its sorted resampled means."""
    tails = np.array([(1 - LEVEL) / 2, (1 + LEVEL) / 2])
    low, high = np.quantile(means, tails)
    bca_low, bca_high = np.quantile(means, _bca_levels(observed, means, left_out, tails))
    below, above = np.searchsorted(means, 0.0, side="right"), len(means) - np.searchsorted(means, 0.0, side="left")
    p = min(1.0, 2 * (int(min(below, above)) + 1) / (len(means) + 1))
    spread, clusters = float(means.std(ddof=1)), max(left_out.size, 1)
    return Interval(observed, float(low), float(high), float(bca_low), float(bca_high), p, spread, clusters)


def _bca_levels(observed: float, means: Floats, left_out: Floats, tails: Floats) -> Floats:
    """Return the levels at which BCa reads the sorted resamples; `tails` where there is no skew to see."""
    from scipy.special import ndtr, ndtri

    below, upto = (
        np.searchsorted(means, observed - SAME, side="left"),
        np.searchsorted(means, observed + SAME, side="right"),
    )
    share = (below + upto) / 2  # a resample that equals the observed mean counts half to either side
    if not left_out.size or np.ptp(left_out) <= SAME or not 0 < share < len(means):
        return tails
    deviations = left_out.mean() - left_out
    bias = ndtri(share / len(means))
    skew = float((deviations**3).sum() / (6 * (deviations**2).sum() ** 1.5))
    shifted = bias + ndtri(tails)
    return np.asarray(ndtr(bias + shifted / (1 - skew * shifted)))
