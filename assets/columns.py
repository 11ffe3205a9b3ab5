"""The columns of every table on the asset itself, so that the UI explains them before anything is built."""

from typing import Any, Final

import dagster as dg

from assets import shell
from hindcast_dagster.archive.table import LEFT_OUT, VECTOR
from hindcast_dagster.contracts.analysis import COMPARISONS
from hindcast_dagster.contracts.coverage import COVERAGE
from hindcast_dagster.contracts.documents import COMMENTS, SUBMISSIONS
from hindcast_dagster.contracts.forecasts import FORECASTS
from hindcast_dagster.contracts.markets import MARKETS, PRICES
from hindcast_dagster.contracts.questions import EVAL_SET
from hindcast_dagster.contracts.scores import AUDIT, CELLS, SCORED
from hindcast_dagster.contracts.table import Contract

_NAMED: Final = (SUBMISSIONS, COMMENTS, MARKETS, PRICES, COVERAGE, EVAL_SET, SCORED, CELLS, COMPARISONS, AUDIT)
_ARMS: Final = ("market_baseline", "zero_shot_forecasts", "retrieval_forecasts")
CONTRACTS: Final[dict[str, Contract]] = {contract.name: contract for contract in _NAMED}
CONTRACTS.update(dict.fromkeys(_ARMS, FORECASTS))
"""Asset -> the contract of its table; the report is none."""
INDEXED: Final = {"submission_index": SUBMISSIONS, "comment_index": COMMENTS}
"""A month of the archive has the columns of its corpus, but for those that are never shown, and the vectors."""
_VECTOR: Final = dg.TableColumn(VECTOR, "list<float>", description="The embedding of title and text, of unit length.")


def explained(asset: Any) -> Any:
    """Return an asset with the columns of its table; what is none, or a source, as it is."""
    return asset.map_asset_specs(_with_columns) if isinstance(asset, dg.AssetsDefinition) else asset


def _with_columns(spec: dg.AssetSpec) -> dg.AssetSpec:
    name = spec.key.to_user_string()
    if name in CONTRACTS:
        schema = shell.column_schema(CONTRACTS[name])
    elif name in INDEXED:
        found = shell.column_schema(INDEXED[name], without=LEFT_OUT).columns
        schema = dg.TableSchema(columns=[*found, _VECTOR] if name == "submission_index" else found)
    else:
        return spec
    return spec.merge_attributes(metadata={"dagster/column_schema": schema})
