"""What a table contract is, and how a frame is held against it.

A contract is checked at every edge: before a partition is sealed and after it is read. Expectations are plain data
here; `suites` turns them into a Great Expectations suite.
"""

from dataclasses import dataclass, field
from functools import cache
from typing import Any, Final

import polars as pl
import pyarrow as pa

from hindcast_dagster.errors import InputRefused


class ContractBroken(InputRefused):
    """A frame does not keep the contract of its table; the text names the table, the rule and an example."""


@dataclass(frozen=True, slots=True)
class Expectation:
    """One expectation of Great Expectations by class name, with its arguments."""

    name: str
    arguments: dict[str, Any] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Contract:
    """The contract of one table.

    `schema` is exact: names, order, types and nullability. `primary_key` identifies a row; `order` is the sort order of
    the rows. `version` rises whenever the meaning of a column changes.
    """

    name: str
    version: int
    schema: pa.Schema
    primary_key: tuple[str, ...]
    order: tuple[str, ...]
    expectations: tuple[Expectation, ...] = ()

    @property
    def schema_version(self) -> str:
        """Name and version as manifests record them."""
        return f"{self.name}/{self.version}"

    @property
    def polars(self) -> pl.Schema:
        """The schema as Polars types."""
        return _polars(self.schema)

    def empty(self) -> pl.DataFrame:
        """Return a frame without rows and with the full schema."""
        return pl.DataFrame(schema=self.polars)

    def frame(self, rows: list[dict[str, Any]]) -> pl.DataFrame:
        """Build a frame from dictionaries, sorted and checked. Raises `ContractBroken`."""
        for row in rows:
            if unknown := set(row) - set(self.schema.names):
                raise ContractBroken(f"Table {self.name} has no column {min(unknown)!r}.")
        try:
            built = pl.DataFrame(rows, schema=self.polars, orient="row")
        except (TypeError, pl.exceptions.PolarsError) as error:
            raise ContractBroken(f"Rows do not fit table {self.name}: {error}.") from error
        return self.check(built.sort(self.order))

    def check(self, frame: pl.DataFrame) -> pl.DataFrame:
        """Return `frame` if it keeps the contract: schema, nulls, unique key, order. Else `ContractBroken`."""
        self._check_schema(frame)
        nulls = frame.null_count().row(0) if frame.width else ()
        for column, count in zip(self.schema, nulls, strict=True):
            if count and not column.nullable:
                raise ContractBroken(f"Table {self.name}: column {column.name} has {count} nulls and allows none.")
        if frame.height > 1:  # a single row, as of a forecast that was just made, repeats no key and is in order
            self._check_rows(frame)
        self._check_expectations(frame)
        return frame

    def _check_rows(self, frame: pl.DataFrame) -> None:
        keys = frame.select(self.primary_key)
        if duplicated := frame.height - keys.n_unique():
            example = keys.filter(keys.is_duplicated()).row(0)
            raise ContractBroken(f"Table {self.name}: {duplicated} rows repeat a key, for example {example}.")
        order = frame.select(self.order)
        if not order.equals(order.sort(self.order)):
            raise ContractBroken(f"Table {self.name} is not sorted by {', '.join(self.order)}.")

    def _check_expectations(self, frame: pl.DataFrame) -> None:
        """Hold the frame against the expectations about single values, as Great Expectations does in the asset check.

        They are cheap here, so nothing that breaks one is ever sealed. Nulls and keys have been looked at before.
        """
        asked = [
            (each, wrong) for each in self.expectations if (wrong := _outside(each.name, each.arguments)) is not None
        ]
        if not asked:
            return
        broken = frame.select(wrong.any().alias(str(n)) for n, (_, wrong) in enumerate(asked)).row(0)
        for (expectation, wrong), found in zip(asked, broken, strict=True):
            if found:
                name, given = expectation.name, expectation.arguments
                rows = frame.filter(wrong)
                values = rows[given["column"]].unique().sort().head(3).to_list()
                said = f"{given['column']} are not {_meant(name, given)}, for example {values}"
                raise ContractBroken(f"Table {self.name}: {rows.height} values of {said}.")

    def _check_schema(self, frame: pl.DataFrame) -> None:
        wanted, found = self.polars, frame.schema
        if dict(wanted) == dict(found) and list(wanted) == list(found):
            return
        missing = [name for name in wanted if name not in found]
        extra = [name for name in found if name not in wanted]
        typed = [f"{n} is {found[n]}, not {wanted[n]}" for n in wanted if n in found and found[n] != wanted[n]]
        said = [f"missing {missing}"] * bool(missing) + [f"unknown {extra}"] * bool(extra) + typed or [
            "columns out of order"
        ]
        raise ContractBroken(f"Table {self.name} (version {self.version}): {'; '.join(said)}.")


@cache
def _polars(schema: pa.Schema) -> pl.Schema:
    empty = pl.from_arrow(schema.empty_table())
    assert isinstance(empty, pl.DataFrame)
    return empty.schema


def _outside(name: str, given: dict[str, Any]) -> pl.Expr | None:
    """Return what is true of a value that breaks an expectation; None for expectations of another kind."""
    if name == "ExpectColumnValuesToBeBetween":
        column, low, high = pl.col(given["column"]), given["min_value"], given["max_value"]
        below = pl.lit(value=False) if low is None else column < low
        above = pl.lit(value=False) if high is None else column > high  # NaN is above everything
        return below | above
    if name == "ExpectColumnValuesToBeInSet":
        return ~pl.col(given["column"]).is_in(given["value_set"])
    return None


def _meant(name: str, given: dict[str, Any]) -> str:
    if name == "ExpectColumnValuesToBeBetween":
        return f"in [{given['min_value']}, {given['max_value']}]"
    return f"one of {', '.join(map(str, given['value_set']))}"


TEXT: Final = pa.string()
INSTANT: Final = pa.int64()  # epoch seconds UTC; timestamps with a zone have shifted predicates in LanceDB


def column(name: str, kind: pa.DataType, *, null: bool = False) -> pa.Field:
    """Return a column; `null` says whether it may be missing."""
    return pa.field(name, kind, nullable=null)


def not_null(*names: str) -> tuple[Expectation, ...]:
    """Expect no nulls in each column."""
    return tuple(Expectation("ExpectColumnValuesToNotBeNull", {"column": name}) for name in names)


def within(name: str, low: float | None, high: float | None) -> Expectation:
    """Expect values of a column in [low, high]; nulls are ignored."""
    return Expectation("ExpectColumnValuesToBeBetween", {"column": name, "min_value": low, "max_value": high})


def one_of(name: str, values: tuple[str, ...]) -> Expectation:
    """Expect values of a column from a closed vocabulary; nulls are ignored."""
    return Expectation("ExpectColumnValuesToBeInSet", {"column": name, "value_set": list(values)})


def unique(*names: str) -> Expectation:
    """Expect the combination of columns to be unique."""
    if len(names) == 1:
        return Expectation("ExpectColumnValuesToBeUnique", {"column": names[0]})
    return Expectation("ExpectCompoundColumnsToBeUnique", {"column_list": list(names)})
