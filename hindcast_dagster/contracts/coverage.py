"""The coverage probe: per market both side tallies, the contrastive score and the evidence quality (paper, 4.1)."""

from typing import Final

import pyarrow as pa

from hindcast_dagster.contracts.forecasts import QUALITIES
from hindcast_dagster.contracts.table import INSTANT, TEXT, Contract, column, not_null, one_of, unique, within

_COUNTS: Final = ("strong", "weak", "irrel", "contra", "unlabelled")

COVERAGE: Final = Contract(
    name="coverage_probe",
    version=1,
    schema=pa.schema(
        [
            column("market_id", TEXT),
            column("as_of", TEXT),  # close | t0
            column("at", INSTANT),  # the cutoff that the probe searched under
            column("judge", TEXT),  # roster slug, or evidence_count
            column("judge_version", TEXT),
            *(column(f"yes_{name}", pa.int64()) for name in _COUNTS),
            *(column(f"no_{name}", pa.int64()) for name in _COUNTS),
            column("yes_score", pa.float64()),
            column("no_score", pa.float64()),
            column("contrast", pa.float64(), null=True),  # in [-1, 1], towards Yes; null: the judge gave none
            column("resolved_contrast", pa.float64(), null=True),  # turned towards the resolved side by code
            column("evidence_quality", TEXT, null=True),
            column("documents", pa.int64()),
        ]
    ),
    primary_key=("market_id", "as_of", "judge"),
    order=("market_id", "as_of", "judge"),
    expectations=(
        *not_null("market_id", "at"),
        unique("market_id", "as_of", "judge"),
        one_of("evidence_quality", QUALITIES),
        within("contrast", -1, 1),
    ),
)
