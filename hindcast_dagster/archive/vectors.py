"""The vectors of one month beside its table: float32 for exact distances, int8 codes that bound them.

A row x of unit length is stored as codes c and a scale s, x ~ s c, with its residual |x - s c| rounded up. For any
query q ~ t e (the same quantisation) Cauchy-Schwarz gives

    |x.q - s t (c.e)|  <=  |x - s c| |q|  +  |s c| |q - t e|

so a scan over a quarter of the bytes tells which rows can still be among the nearest, and only those are computed
exactly. The bound is proved, not tuned: the result is the exact top k.
"""

from collections.abc import Iterator
from functools import cache, cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, NamedTuple

from hindcast_dagster.errors import InputRefused

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    from hindcast_dagster.archive.embedding import Vectors

FOLDER: Final = "vectors"
LEVELS: Final = 127
SLACK: Final = 1e-6  # float32 rounding of scale * sum, far above the 2^-24 relative error of values up to 1
BLOCK: Final = 65_536
SMALLEST: Final = 32  # rows and dimensions below which the int8 product is not used


class Quantised(NamedTuple):
    """Codes (n, d) int8, scales (n,) float32, residuals (n,) and lengths (n,) float32, both upper bounds."""

    codes: "NDArray[np.int8]"
    scales: "NDArray[np.float32]"
    residuals: "NDArray[np.float32]"
    lengths: "NDArray[np.float32]"

    def rows(self, part: slice) -> "Quantised":
        """Return a run of rows, without copying."""
        return Quantised(self.codes[part], self.scales[part], self.residuals[part], self.lengths[part])


def quantise(vectors: "Vectors") -> Quantised:
    """Quantise rows to int8 with one scale each."""
    import numpy as np

    scales = (np.abs(vectors).max(axis=1, initial=0) / LEVELS).astype(np.float32)
    safe = np.where(scales > 0, scales, 1)[:, None]
    codes = np.rint(vectors / safe).astype(np.int8)
    meant = codes.astype(np.float64) * scales[:, None]
    residuals = np.linalg.norm(vectors - meant, axis=1)
    lengths = np.linalg.norm(meant, axis=1)
    above = np.float32(np.inf)
    return Quantised(
        codes=codes,
        scales=scales,
        residuals=np.nextafter(residuals.astype(np.float32), above),
        lengths=np.nextafter(lengths.astype(np.float32), above),
    )


def write_vectors(path: Path, vectors: "Vectors") -> None:
    """Write the vectors of a month, in the order of its rows, and their codes below `path`."""
    import numpy as np

    folder = path / FOLDER
    folder.mkdir()
    np.save(folder / "float32.npy", vectors, allow_pickle=False)
    blocks = [quantise(vectors[start : start + BLOCK]) for start in range(0, max(len(vectors), 1), BLOCK)]
    for name in Quantised._fields:
        np.save(folder / f"{name}.npy", np.concatenate([getattr(block, name) for block in blocks]), allow_pickle=False)


class Vectors32:
    """The vectors of one sealed month, memory-mapped: the page cache is shared by all processes that read them."""

    def __init__(self, path: Path, *, rows: int, dimension: int) -> None:
        self._folder, self.rows, self.dimension = path / FOLDER, rows, dimension

    def _map(self, name: str, shape: tuple[int, ...]) -> "NDArray[Any]":
        import numpy as np

        try:
            # "c": torch wants a writable array; the mapping is private and nothing is ever written
            found: NDArray[Any] = np.load(self._folder / f"{name}.npy", mmap_mode="c" if self.rows else None)
        except (OSError, ValueError) as error:
            raise InputRefused(f"{self._folder}/{name}.npy cannot be read ({error}): rebuild that month.") from error
        if found.shape != shape:
            raise InputRefused(f"{self._folder}/{name}.npy has shape {found.shape}, not {shape}: rebuild that month.")
        return found.view(np.ndarray)

    @cached_property
    def exact(self) -> "Vectors":
        """(rows, dimension) float32."""
        return self._map("float32", (self.rows, self.dimension))

    @property
    def quantised(self) -> Quantised:
        """The codes and their bounds, mapped anew at each call: a search copies them once and lets go of the map."""
        shapes = ((self.rows, self.dimension), (self.rows,), (self.rows,), (self.rows,))
        return Quantised(*(self._map(name, shape) for name, shape in zip(Quantised._fields, shapes, strict=True)))

    def similarity(self, rows: "NDArray[np.integer[Any]]", query: "Vectors") -> "NDArray[np.float64]":
        """Return the exact dot products of some rows with one query, in float64.

        Every row is summed by itself, so the value does not depend on which other rows are asked for.
        """
        import numpy as np

        left, right = self.exact[rows].astype(np.float64), query.astype(np.float64)
        result: NDArray[np.float64] = np.einsum("ij,j->i", left, right)
        return result


def bounded(
    sums: "NDArray[Any]", rows: Quantised, coded: Quantised, queries: "Vectors"
) -> "Iterator[tuple[NDArray[np.float32], NDArray[np.float32]]]":
    """Yield for each query the scores of all rows and their proved error: |score - exact| <= error.

    `coded` is `quantise(queries)` and `sums` their integer product with the rows.
    """
    import numpy as np

    lengths = np.linalg.norm(queries.astype(np.float64), axis=1)
    for index, length in enumerate(lengths):
        score = sums[index].astype(np.float32)
        score *= rows.scales
        score *= coded.scales[index]
        error = rows.residuals * np.float32(length)
        error += rows.lengths * coded.residuals[index]
        error += np.float32(SLACK)
        yield score, error


def integer_product(queries: "NDArray[np.int8]", rows: "NDArray[np.int8]") -> "NDArray[Any]":
    """Return queries @ rows.T; the sums are exact integers."""
    import numpy as np

    if min(rows.shape) >= SMALLEST and integer_product_is_exact(rows.shape[1]):
        found: NDArray[Any] = _int_mm(queries, rows).numpy()
        return found
    left = queries.astype(np.float64)  # exact: integers below 2^53
    blocks = [rows[start : start + BLOCK].astype(np.float64) for start in range(0, max(len(rows), 1), BLOCK)]
    return np.concatenate([left @ block.T for block in blocks], axis=1)


def _int_mm(queries: "NDArray[np.int8]", rows: "NDArray[np.int8]") -> Any:
    """Multiply int8 matrices into int32; torch keeps its only such product under a private name."""
    import torch

    return torch._int_mm(torch.from_numpy(queries), torch.from_numpy(rows).T)  # noqa: SLF001


@cache
def integer_product_is_exact(dimension: int) -> bool:
    """Return whether this machine's int8 product is right, at its extremes and for the batch sizes that are used.

    Some machines saturate 16-bit sums, and torch misreads the layout of degenerate shapes.
    """
    import numpy as np

    rows = np.random.default_rng(0).integers(-LEVELS, LEVELS + 1, (4 * SMALLEST + 1, dimension)).astype(np.int8)
    rows[:2] = LEVELS
    rows[2] = -LEVELS
    meant = rows.astype(np.int64) @ rows.astype(np.int64).T
    try:
        found = {count: _int_mm(rows[:count], rows).numpy() for count in (1, 2, 3, 16, SMALLEST, 2 * SMALLEST + 1)}
    except (AttributeError, RuntimeError):
        return False
    return all((each == meant[:count]).all() for count, each in found.items())
