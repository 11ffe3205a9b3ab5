"""Runs the expectation suite of a contract with Great Expectations.

Great Expectations takes seconds to import and has no Polars engine, so it is imported inside and gets pandas.
"""

import os
import warnings
from typing import Any, NamedTuple

import polars as pl

from hindcast_dagster.contracts.table import Contract, Expectation


class Verdict(NamedTuple):
    """The result of one expectation."""

    name: str
    passed: bool
    detail: str


def run_suite(contract: Contract, frame: pl.DataFrame | pl.LazyFrame) -> list[Verdict]:
    """Hold `frame` against every expectation of `contract`; only the columns that one names are read."""
    if not contract.expectations:
        return []
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # third-party deprecations at import
        return _run(contract, frame)


def _run(contract: Contract, frame: pl.DataFrame | pl.LazyFrame) -> list[Verdict]:
    os.environ.setdefault("GX_ANALYTICS_ENABLED", "false")
    import great_expectations as gx
    from great_expectations import expectations as gxe

    context = gx.get_context(mode="ephemeral")
    context.variables.progress_bars = {"globally": False}
    asset = context.data_sources.add_pandas("frame").add_dataframe_asset(contract.name)
    batch = asset.add_batch_definition_whole_dataframe("whole").get_batch({"dataframe": _pandas(contract, frame)})
    suite = gx.ExpectationSuite(name=contract.schema_version)
    for expectation in contract.expectations:
        suite.add_expectation(getattr(gxe, expectation.name)(**expectation.arguments))
    result = batch.validate(suite)
    by_key = {(r.expectation_config.type, _named(r.expectation_config.kwargs)): r for r in result.results}
    return [_verdict(expectation, by_key) for expectation in contract.expectations]


def _pandas(contract: Contract, frame: pl.DataFrame | pl.LazyFrame) -> Any:
    """Only the columns that an expectation names: text columns need not be copied."""
    named = {
        name
        for expectation in contract.expectations
        for name in [expectation.arguments.get("column"), *expectation.arguments.get("column_list", [])]
        if name
    }
    return frame.lazy().select(name for name in contract.schema.names if name in named).collect().to_pandas()


def _named(arguments: Any) -> str:
    return str(arguments.get("column") or sorted(arguments.get("column_list", [])))


def _snake(name: str) -> str:
    return "".join(f"_{ch.lower()}" if ch.isupper() else ch for ch in name).lstrip("_")


def _verdict(expectation: Expectation, results: dict[tuple[str, str], Any]) -> Verdict:
    where = _named(expectation.arguments)
    found = results[(_snake(expectation.name), where)]
    detail = dict(found.result or {})
    rows, broken = detail.get("element_count", 0), detail.get("unexpected_count", 0)
    examples = ", ".join(map(str, detail.get("partial_unexpected_list", [])[:3]))
    said = f"broken in {broken:,} of {rows:,} rows" if broken else f"holds in all {rows:,} rows"
    said += f", for example {examples}" if examples else ""
    raised = (found.exception_info or {}).get("exception_message")
    return Verdict(name=sentence(expectation), passed=bool(found.success), detail=str(raised or said))


def sentence(expectation: Expectation) -> str:
    """Return an expectation as a person reads it; one that has no sentence here keeps its class name."""
    given = expectation.arguments
    column, columns = given.get("column", ""), ", ".join(given.get("column_list", []))
    low, high = given.get("min_value"), given.get("max_value")
    return {
        "ExpectColumnValuesToNotBeNull": f"{column} is never null",
        "ExpectColumnValuesToBeUnique": f"{column} is unique",
        "ExpectCompoundColumnsToBeUnique": f"{columns} are unique together",
        "ExpectColumnValuesToBeInSet": f"{column} is one of {', '.join(map(str, given.get('value_set', [])))}",
        "ExpectColumnValuesToBeBetween": f"{column} lies in [{low}, {high}]",
    }.get(expectation.name, f"{expectation.name}({_named(given)})")
