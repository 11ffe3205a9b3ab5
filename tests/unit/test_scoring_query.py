"""SQL over sealed tables: one SELECT, the views, and nothing else on this machine."""

import math

import pytest

from hindcast_dagster.errors import InputRefused, NotReady, UsageError
from hindcast_dagster.scoring import build, query
from tests.score_world import noisy, question, seal_baselines, seal_forecasts, seal_questions


@pytest.fixture
def world(store, settings):
    rows = [question(n) for n in range(4)]
    seal_questions(store, rows)
    seal_baselines(store, rows)
    for model in ("toy-1b", "toy-2b"):
        seal_forecasts(store, noisy(rows, arm="zero_shot", lift=0.1, runs=2, model=model))
    build.build_scored(store, settings, eval_set="small")
    build.build_tables(store, settings, eval_set="small")
    return store


def test_every_table_is_a_view_with_its_keys_as_columns(world):
    names = {row[0] for row in query.run(world, "show tables").rows}
    assert {"eval_set", "zero_shot_forecasts", "scored_forecasts", "score_tables", "score_tables_runs"} <= names
    answer = query.run(world, "select key_1, key_2, count(*) n from zero_shot_forecasts group by all order by 1")
    assert answer.document() == {
        "columns": ["key_1", "key_2", "n"],
        "rows": [{"key_1": "toy-1b", "key_2": "small", "n": 8}, {"key_1": "toy-2b", "key_2": "small", "n": 8}],
        "truncated": False,
    }


def test_a_replaced_version_is_not_read(world, settings):
    seal_forecasts(world, noisy([question(0)], arm="zero_shot", lift=0.1, runs=1))
    answer = query.run(world, "select count(*) from zero_shot_forecasts where key_1 = 'toy-1b'")
    assert answer.rows == [(1,)]


def test_more_rows_than_asked_for_are_cut_and_said(world):
    answer = query.run(world, "select * from scored_forecasts", limit=3)
    assert (len(answer.rows), answer.truncated) == (3, True)


@pytest.mark.parametrize(
    "text",
    [
        "select * from read_text('/etc/passwd')",
        "select * from read_csv('/etc/passwd')",
        "select * from read_blob('/etc/hostname')",
        "select * from '/etc/passwd'",
        "select * from glob('/*')",
        "from read_parquet('https://example.org/x.parquet')",
        "copy (select 1) to '/tmp/hindcast-stolen.csv'",
        "attach '/tmp/hindcast.db'",
        "install httpfs",
        "load httpfs",
        "set enable_external_access = true",
        "reset lock_configuration",
        "pragma database_list",
        "create table t as select 1",
        "drop view score_tables",
        "delete from score_tables",
        "export database '/tmp/hindcast-dump'",
        "select 1; select 2",
        "",
        "selec 1",
        "select no_such_column from score_tables",
        "select * from secret_python_variable",
    ],
)
def test_what_is_no_select_over_the_views_is_refused(world, text):
    secret_python_variable = [1]  # DuckDB would read it from the caller's frame if it were allowed to
    with pytest.raises(UsageError):
        query.run(world, text)
    assert secret_python_variable


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("select no_such from score_tables", r'column "no_such" not found.*\(perhaps: "'),
        ("selec 1", r'syntax error at or near "selec"\.'),
        ("select 'abc", r"unterminated string literal, at `'abc`\."),
        ("select * from score_table", r"no sealed table score_table: perhaps score_tables.*show tables"),
        ("select * from qqq", r'no sealed table qqq; `hindcast sql "show tables"` lists them\.'),
        ("select model, count(*) from score_tables", r'"model" must appear in the GROUP BY clause'),
        ("select\n model,\n nope\nfrom score_tables", r"\(perhaps: .*\), at `nope` in line 3\."),
        ("select abs('x')", r"function call \"abs\(STRING_LITERAL\)\".*, at `abs\('x'\)`\."),
        ("select cast('x' as int)", r"[Cc]ould not convert string 'x' to INT32, at `cast\('x' as int\)`\."),
        (
            "select * from score_tables where arm = 3",
            r"Could not convert|could not convert|Cannot compare|cannot compare",
        ),
        ("select nofun(1)", r"nofun does not exist, at `nofun\(1\)`|nofun does not exist\."),
        ("select * from '/etc/passwd'", r"."),
    ],
)
def test_what_is_wrong_is_said_in_one_sentence_with_the_part_that_is(world, text, said):
    with pytest.raises(UsageError, match=said) as refused:
        query.run(world, text)
    message = str(refused.value)
    assert "\n" not in message
    assert "Error:" not in message
    assert "^" not in message
    assert message.endswith(".")
    assert len(message) < 300


def file_of(world, table, *key, name="data.parquet"):
    return world.partition(table, *key).require().path / name


def test_a_table_that_lost_a_file_is_named_and_the_others_answer(world):
    file_of(world, "zero_shot_forecasts", "toy-1b", "small").unlink()
    with pytest.raises(NotReady, match=r"zero_shot_forecasts toy-1b / small has lost its file data.parquet"):
        query.run(world, "select count(*) from zero_shot_forecasts")
    assert query.run(world, "select count(*) from eval_set").rows == [(4,)]


def test_a_table_with_a_changed_file_is_refused(world):
    path = file_of(world, "score_tables", "small", name="runs.parquet")
    path.write_bytes(path.read_bytes()[:-9])
    with pytest.raises(InputRefused, match="not what was sealed"):
        query.run(world, "select * from SCORE_TABLES_RUNS")


def test_a_select_cannot_read_a_table_s_neighbour_by_path(world):
    manifest = world.root / "tables" / "eval_set" / "small" / "manifest.json"
    with pytest.raises(UsageError):
        query.run(world, f"select * from read_text('{manifest}')")


def test_values_that_json_does_not_know_become_ones_that_it_does(world):
    answer = query.run(
        world,
        "select 'nan'::double, '-inf'::double, 1.5::decimal(4,2), date '2026-01-31', '\\xAA'::blob, [1, 'nan'::float]",
    )
    assert answer.rows == [(None, None, 1.5, "2026-01-31", "aa", [1.0, None])]
    assert not any(isinstance(value, float) and math.isnan(value) for value in answer.rows[0])


def test_an_empty_root_has_no_view_and_still_answers(store):
    assert query.run(store, "select 1 as one").rows == [(1,)]


def test_a_root_with_a_quote_in_its_path_is_read(tmp_path, settings):
    from hindcast_dagster.storage.store import open_store

    store = open_store(tmp_path / "it's here")
    seal_questions(store, [question(0)])
    assert query.run(store, "select count(*) from eval_set").rows == [(1,)]
