"""The expectation suites say in words what was held against a table and which rows broke it."""

import polars as pl
import pyarrow as pa

from hindcast_dagster.contracts.suites import run_suite, sentence
from hindcast_dagster.contracts.table import Contract, Expectation, column, not_null, one_of, unique, within
from hindcast_dagster.contracts.words import describe

CONTRACT = Contract(
    name="toy",
    version=1,
    schema=pa.schema([column("id", pa.string(), null=True), column("side", pa.string()), column("p", pa.float64())]),
    primary_key=("id",),
    order=("id",),
    expectations=(
        *not_null("id"),
        unique("id"),
        unique("id", "side"),
        one_of("side", ("Yes", "No")),
        within("p", 0, 1),
    ),
)


def test_a_sound_table_passes_and_each_line_reads_as_a_sentence() -> None:
    verdicts = run_suite(CONTRACT, pl.DataFrame({"id": ["a", "b"], "side": ["Yes", "No"], "p": [0.0, 1.0]}))
    assert [(verdict.name, verdict.passed, verdict.detail) for verdict in verdicts] == [
        ("id is never null", True, "holds in all 2 rows"),
        ("id is unique", True, "holds in all 2 rows"),
        ("id, side are unique together", True, "holds in all 2 rows"),
        ("side is one of Yes, No", True, "holds in all 2 rows"),
        ("p lies in [0, 1]", True, "holds in all 2 rows"),
    ]


def test_rows_that_break_it_are_counted_and_shown() -> None:
    frame = pl.DataFrame({"id": ["a", "a", None], "side": ["Yes", "Yes", "Maybe"], "p": [0.5, 1.5, 0.5]})
    verdicts = {verdict.name: verdict for verdict in run_suite(CONTRACT, frame)}
    assert not any(verdict.passed for verdict in verdicts.values())
    assert verdicts["id is never null"].detail.startswith("broken in 1 of 3 rows")
    assert verdicts["side is one of Yes, No"].detail == "broken in 1 of 3 rows, for example Maybe"
    assert verdicts["p lies in [0, 1]"].detail == "broken in 1 of 3 rows, for example 1.5"
    assert verdicts["id is unique"].detail == "broken in 2 of 3 rows, for example a, a"


def test_an_expectation_without_a_sentence_keeps_its_name() -> None:
    assert sentence(Expectation("ExpectSomething", {"column": "id"})) == "ExpectSomething(id)"


def test_a_column_that_nobody_explained_has_no_words() -> None:
    assert describe("toy", "nothing") == ""
