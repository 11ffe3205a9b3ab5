"""The vectors of one month beside its table: float32 for exact distances, int8 codes that bound them.

A row x of unit length is stored as codes c and a scale s, x ~ s c, with its residual |x - s c| rounded up. For any
query q ~ t e (the same quantisation) Cauchy-Schwarz gives

    |x.q - s t (c.e)|  <=  |x - s c| |q|  +  |s c| |q - t e|

so a scan over a quarter of the bytes tells which rows can still be among the nearest, and only those are computed
exactly. The bound is proved, not tuned: the result is the exact top k.
"""

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
FEW: Final = 8  # queries up to which reading the rows as they lie is faster
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
        """Return `similarity` of some rows with one query."""
        return similarity(self.exact[rows], query)


def similarity(rows: "Vectors", query: "Vectors") -> "NDArray[np.float64]":
    """Return the exact dot products of rows with one query, in float64.

    Every row is summed by itself, so its value does not depend on which other rows are asked for.
    """
    import numpy as np

    result: NDArray[np.float64] = np.einsum("ij,j->i", rows.astype(np.float64), query.astype(np.float64))
    return result


class Query(NamedTuple):
    """What the bound needs of one query: the scale and residual of its codes, and its length."""

    scale: float
    residual: float
    length: float

    def scores(self, sums: "NDArray[Any]", rows: Quantised) -> "NDArray[np.float32]":
        """Return the approximate similarity of rows, of their integer products with the query."""
        import numpy as np

        found: NDArray[np.float32] = np.multiply(sums, rows.scales, dtype=np.float32)
        found *= np.float32(self.scale)
        return found

    def errors(self, residuals: "NDArray[np.float32]", lengths: "NDArray[np.float32]") -> "NDArray[np.float32]":
        """Return the proved error of the scores of rows with these residuals and lengths: |score - exact| <= error."""
        import numpy as np

        error: NDArray[np.float32] = residuals * np.float32(self.length)
        error += lengths * np.float32(self.residual)
        error += np.float32(SLACK)
        return error


def facts(coded: Quantised, queries: "Vectors") -> list[Query]:
    """Return the facts of each query; `coded` is `quantise(queries)`."""
    import numpy as np

    lengths = np.linalg.norm(queries.astype(np.float64), axis=1)
    return [Query(*map(float, each)) for each in zip(coded.scales, coded.residuals, lengths, strict=True)]


def integer_product(queries: "NDArray[np.int8]", rows: "NDArray[np.int8]") -> "NDArray[Any]":
    """Return queries @ rows.T; the sums are exact integers.

    Few queries are multiplied from the right: the rows are then read as they lie, at the speed of the memory. Many are
    multiplied from the left: their product would have to be turned over.
    """
    import numpy as np

    if min(rows.shape) >= SMALLEST and integer_product_is_exact(rows.shape[1]):
        if len(queries) > FEW:
            return _int_mm(queries, rows)
        two = queries if len(queries) > 1 else np.concatenate([queries, queries])  # one column has no clear layout
        return _int_mm(rows, two).T[: len(queries)]
    left = queries.astype(np.float64)  # exact: integers below 2^53
    blocks = [rows[start : start + BLOCK].astype(np.float64) for start in range(0, max(len(rows), 1), BLOCK)]
    return np.concatenate([left @ block.T for block in blocks], axis=1)


def _int_mm(left: "NDArray[np.int8]", right: "NDArray[np.int8]") -> "NDArray[np.int32]":
    """Return left @ right.T in int32; torch keeps its only such product under a private name."""
    import torch

    found: NDArray[np.int32] = torch._int_mm(torch.from_numpy(left), torch.from_numpy(right).T).numpy()  # noqa: SLF001
    return found


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
        left = {count: _int_mm(rows[:count], rows) for count in (FEW + 1, 16, SMALLEST, 2 * SMALLEST + 1)}
        right = {count: _int_mm(rows, rows[:count]).T for count in range(2, FEW + 1)}
    except (AttributeError, RuntimeError):
        return False
    return all((each == meant[:count]).all() for count, each in (left | right).items())
