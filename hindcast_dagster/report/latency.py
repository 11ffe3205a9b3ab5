"""Retrieval latency (table 3 of the paper), as `benchmarks/retrieval.py` measured it on the machine that answers.

The benchmark writes `benchmarks/retrieval.json` under the data root; docs/archive.md describes it. A report shows it
as it is. A file that is not there, or that does not hold what it should, is not measured: no number of it is shown.
"""

import hashlib
from typing import Annotated, Final, NamedTuple

from pydantic import BaseModel, ConfigDict, Field, ValidationError, model_validator

from hindcast_dagster.report.absent import NotMeasured
from hindcast_dagster.storage.manifest import Input
from hindcast_dagster.storage.store import Store

FILE: Final = "retrieval.json"
WHAT: Final = "Retrieval latency"
COMMAND: Final = f"python benchmarks/retrieval.py --out DATA_ROOT/benchmarks/{FILE}"
PAPER: Final = ((3, 144, 155), (9, 392, 410), (15, 516, 555), (21, 710, 786), (25, 836, 944))
"""Admitted months, median and 95th percentile in ms, as table 3 of the paper prints them (one GPU, 18.3 M rows)."""

Positive = Annotated[float, Field(gt=0, allow_inf_nan=False)]


class Row(BaseModel):
    """Latency of one search, from the text of the query to the documents, with so many months admitted."""

    model_config = ConfigDict(frozen=True)

    partitions: int = Field(ge=1)
    median_ms: Positive
    p95_ms: Positive
    embedding_share: float = Field(ge=0, le=1, description="Part of the median that embedding the query takes.")
    queries: int = Field(ge=1)
    rows: int = Field(ge=0, description="Rows of the admitted months.")

    @model_validator(mode="after")
    def _ordered(self) -> "Row":
        if self.p95_ms < self.median_ms:
            raise ValueError("p95_ms is below median_ms")
        return self


class Host(BaseModel):
    """The machine, and the embedding model."""

    model_config = ConfigDict(frozen=True)

    cpus: int = Field(ge=1)
    processor: str
    load: float | None = Field(default=None, description="One-minute load average before the run.")
    memory_gib: float | None = None
    model: str
    dimension: int = Field(ge=1)


class Latency(BaseModel):
    """The benchmark's file, as far as a report shows it; it may hold more."""

    model_config = ConfigDict(frozen=True)

    table3: tuple[Row, ...] = Field(min_length=1)
    host: Host
    made_at: int = Field(gt=0)


class Measured(NamedTuple):
    """The file's content, and its identity."""

    latency: Latency
    source: Input


def read(store: Store) -> Measured | NotMeasured:
    """Return what the benchmark measured, or that it did not."""
    path = store.area("benchmarks", FILE)
    try:
        data = path.read_bytes()
    except FileNotFoundError:
        return NotMeasured(WHAT, COMMAND)
    try:
        found = Latency.model_validate_json(data)
    except ValidationError as error:
        first = error.errors()[0]
        where = ".".join(map(str, first["loc"])) or "the file"
        return NotMeasured(f"{WHAT} (benchmarks/{FILE} is not usable, {where}: {first['msg']})", COMMAND)
    return Measured(found, Input(table="benchmarks", key=("retrieval",), version=hashlib.sha256(data).hexdigest()))
