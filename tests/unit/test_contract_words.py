"""Every column of every table that Dagster shows is explained, and nothing is explained that does not exist."""

import pytest

from assets.columns import CONTRACTS, INDEXED
from assets.shell import column_schema
from hindcast_dagster.contracts import words
from hindcast_dagster.contracts.table import Contract
from hindcast_dagster.definitions import build_definitions
from hindcast_dagster.settings import load

SHOWN = list({contract.name: contract for contract in CONTRACTS.values()}.values())


@pytest.mark.parametrize("contract", SHOWN, ids=lambda contract: contract.name)
def test_every_column_is_explained(contract: Contract) -> None:
    assert [column.name for column in column_schema(contract).columns if not column.description] == []


def test_every_table_shows_its_columns_before_it_is_built() -> None:
    specs = {
        spec.key.to_user_string(): spec
        for spec in build_definitions(load(data_root="unused")).resolve_all_asset_specs()
    }  # fmt: skip
    shown = {name for name, spec in specs.items() if "dagster/column_schema" in spec.metadata}
    assert shown == set(CONTRACTS) | set(INDEXED)
    assert specs.keys() - shown == {"reddit_dumps", "report"}
    names = [column.name for column in specs["submission_index"].metadata["dagster/column_schema"].columns]
    assert "vector" in names
    assert "dump_sha256" not in names


def test_no_explanation_is_left_over() -> None:
    columns = {contract.name: set(contract.schema.names) for contract in SHOWN}
    for table, said in words._OWN.items():
        assert set(said) <= columns[table], table
    assert set(words._COMMON) <= set().union(*columns.values())
