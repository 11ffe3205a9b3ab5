"""The quantised scan: its bound is never broken, and the ranking is exact, ties included."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import settings as profile
from hypothesis import strategies as st

from hindcast_dagster.archive import vectors
from hindcast_dagster.archive.nearest import Matrix
from hindcast_dagster.archive.vectors import Vectors32, facts, integer_product, quantise, write_vectors


def rows(seed: int, count: int, dimension: int, spread: float) -> np.ndarray:
    """Unit vectors; a large spread makes a few components dominate, the worst case of one scale a row."""
    rng = np.random.default_rng(seed)
    raw = rng.standard_normal((count, dimension)) * np.exp(spread * rng.standard_normal((count, dimension)))
    return (raw / np.linalg.norm(raw, axis=1, keepdims=True)).astype(np.float32)


SHAPES = st.tuples(
    st.integers(0, 10**6),
    st.sampled_from([1, 2, 31, 32, 33, 70]),
    st.sampled_from([1, 3, 32, 384, 1024]),
    st.floats(0, 4),
)


@given(SHAPES, st.integers(0, 10**6))
@profile(deadline=None, max_examples=30)
def test_the_bound_holds(shape, seed):
    seed_rows, count, dimension, spread = shape
    left, queries = rows(seed_rows, count, dimension, spread), rows(seed, 3, dimension, spread)
    coded, codes = quantise(queries), quantise(left)
    exact = left.astype(np.float64) @ queries.T.astype(np.float64)
    sums = integer_product(coded.codes, codes.codes)
    for column, query in enumerate(facts(coded, queries)):
        error = query.errors(codes.residuals, codes.lengths)
        assert (np.abs(query.scores(sums[column], codes) - exact[:, column]) <= error).all()


def test_the_integer_product_is_exact_at_its_extremes_here_or_is_not_used(monkeypatch):
    full = np.full((3, 4096), 127, dtype=np.int8)
    assert (integer_product(full[:1], -full) == -127 * 127 * 4096).all()
    mixed = np.random.default_rng(0).integers(-127, 128, (70_000, 64)).astype(np.int8)
    counts = (1, 2, vectors.FEW, vectors.FEW + 1, 40)
    meant = [integer_product(mixed[:count], mixed) for count in counts]
    assert [each.shape for each in meant] == [(count, 70_000) for count in counts]
    monkeypatch.setattr(vectors, "integer_product_is_exact", lambda _dimension: False)
    for count, each in zip(counts, meant, strict=True):
        assert (integer_product(mixed[:count], mixed) == each).all()


def test_a_broken_integer_product_is_noticed(monkeypatch):
    vectors.integer_product_is_exact.cache_clear()
    monkeypatch.setattr(vectors, "_int_mm", lambda *_: (_ for _ in ()).throw(RuntimeError("not here")))
    assert not vectors.integer_product_is_exact(48)
    vectors.integer_product_is_exact.cache_clear()


class Month:
    """A month of a matrix: some rows appear more than once, under other ids."""

    def __init__(self, folder, month: str, values: np.ndarray) -> None:
        folder.mkdir()
        write_vectors(folder, values)
        self.month, self.rows = month, len(values)
        self.vectors = Vectors32(folder, rows=len(values), dimension=values.shape[1])
        self.ids = np.array([f"{month}{row:05d}" for row in range(len(values))], dtype="S13")


@pytest.fixture(scope="module")
def months(tmp_path_factory):
    base = rows(1, 400, 48, 0.5)
    parts = {
        "2024-01": base,
        "2024-02": base[:0],
        "2024-03": np.concatenate([base[:50], base[:50]]),
        "2024-04": base[5:9],
    }
    folder = tmp_path_factory.mktemp("months")
    return [Month(folder / month, month, values) for month, values in parts.items()]


LEGAL = st.sampled_from([None, 0.0, 0.02, 0.5, 1.0])


@given(st.integers(0, 10**6), st.integers(1, 60), st.lists(LEGAL, min_size=4, max_size=4), st.booleans())
@profile(deadline=None, max_examples=80)
def test_the_ranking_is_exact_with_ties_and_masks(months, seed, k, shares, leave_out):
    rng = np.random.default_rng(seed)
    queries = np.concatenate([rows(seed, 2, 48, 0.5), months[0].vectors.exact[seed % 400][None]])
    legal = {
        month.month: None if part is None else rng.random(month.rows) < part
        for month, part in zip(months, shares, strict=True)
    }
    if leave_out:
        legal.pop("2024-03")
    found = Matrix(months).nearest(legal, queries, k=k)
    for query, hits in zip(queries, found, strict=True):
        every = [
            (1 - float(value), bytes(month.ids[row]))
            for month in months
            if month.month in legal and month.rows
            for row, value in enumerate(month.vectors.similarity(np.arange(month.rows), query))
            if legal[month.month] is None or legal[month.month][row]
        ]
        assert [(hit.distance, hit.id) for hit in hits] == sorted(every)[:k]
