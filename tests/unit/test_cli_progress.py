"""What a command says while it works and when it ends: lines without a terminal, new and kept, t0 as a date."""

import io
import json
import time
from pathlib import Path
from typing import Any

import pytest
from rich.console import Console
from rich.table import Table
from rich.text import Text
from typer.testing import CliRunner, Result

from hindcast_dagster.cli import context as context_module
from hindcast_dagster.cli.context import Bar, Context, Lines
from hindcast_dagster.cli.main import app, run
from hindcast_dagster.llm import open as opening
from hindcast_dagster.storage.store import Store
from tests.forecast_world import Script, question, seal_eval_set


def test_without_a_terminal_a_line_comes_every_ten_seconds(monkeypatch: pytest.MonkeyPatch) -> None:
    now = 100.0
    monkeypatch.setattr(context_module.time, "monotonic", lambda: now)
    out = io.StringIO()
    lines = Lines(Console(file=out, highlight=False, width=60), "zero_shot qwen", 200)
    for second in range(31):
        now = 100.0 + second
        lines(second * 2, word="[0x1]")
    assert out.getvalue().splitlines() == [
        "zero_shot qwen: 20 of 200, 10 s, about 90 s left, [0x1]",
        "zero_shot qwen: 40 of 200, 20 s, about 80 s left, [0x1]",
        "zero_shot qwen: 60 of 200, 30 s, about 70 s left, [0x1]",
    ]
    assert lines.done == 60


def test_a_line_comes_while_nothing_moves_and_none_after_the_end(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(context_module, "LINE_S", 0.02)
    monkeypatch.setattr(context_module, "BEAT_S", 0.01)
    given, out = Context(), io.StringIO()
    given.__dict__["err"] = Console(file=out, highlight=False)
    with given.progress("retrieval slow", total=3):
        until = time.monotonic() + 10
        while not out.getvalue() and time.monotonic() < until:
            time.sleep(0.01)
    told = out.getvalue()
    assert told.startswith("retrieval slow: 0 of 3, 0 s\n")
    time.sleep(0.1)
    assert out.getvalue() == told


def test_help_texts_fill_the_window_whatever_the_lines_of_their_source() -> None:
    said = CliRunner().invoke(app, ["forget", "--help"], env={"COLUMNS": "200", "TERMINAL_WIDTH": "200"}).stdout
    assert "replies of models that may quote the documents" in said


def test_a_month_without_a_kept_subreddit_names_the_two_remedies(store: Store, tmp_path: Path) -> None:
    dump = tmp_path / "RC_2024-01.ndjson"
    dump.write_text(json.dumps({"id": "k1", "created_utc": 1_704_067_200, "subreddit": "knitting"}) + "\n")
    command = ["--data-root", str(store.root), "corpus", "build", "--month", "2024-01", "--kind", "comments"]
    said = CliRunner().invoke(app, [*command, "--dump", str(dump)], env={"COLUMNS": "300"}).output
    assert "--subreddits FILE" in said
    assert "--all-subreddits" in said
    assert "Warning" not in CliRunner().invoke(app, [*command, "--dump", str(dump), "--all-subreddits"]).output


def test_a_limit_of_the_settings_is_told_with_the_option_that_lifts_it(
    store: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("HINDCAST_FORECAST__QUESTION_LIMIT", "2")
    seal_eval_set(store, [question(number) for number in range(1, 5)])
    monkeypatch.setattr(opening, "open_model", lambda *_: Script(slug="qwen3-8b"))
    asks = ("--arm", "zero_shot", "--model", "qwen3-8b", "--eval-set", "small", "--runs", "1")
    assert "Only the first 2 questions are asked" in _run(store, "run", *asks).stdout
    assert "Only the first" not in _run(store, "run", *asks, "--limit", "4").stdout
    none = ("--arm", "tests.unit.test_forecast_run:Sync", "--eval-set", "small", "--runs", "1")
    assert "Only the first" not in (said := _run(store, "run", *none).stdout), "it holds for arms that ask a model"
    assert "4 forecasts (4 ok)" in said


def test_a_terminal_gets_a_bar_and_a_pipe_gets_lines() -> None:
    for terminal, kind in ((True, Bar), (False, Lines)):
        given = Context()
        given.__dict__["err"] = Console(file=io.StringIO(), force_terminal=terminal)
        with given.progress("work", total=2) as bar:
            assert type(bar) is kind
            bar(1)
        assert bar.done == 1


def test_a_run_says_what_is_new_and_what_was_there(store: Store) -> None:
    seal_eval_set(store, [question(number) for number in range(1, 5)])
    arm = ("--arm", "tests.unit.test_forecast_run:Sync", "--eval-set", "small", "--runs", "1")
    assert "4 forecasts (4 ok). 4 new, 0 kept." in _run(store, "run", *arm).stdout
    assert "4 forecasts (4 ok). 0 new, 4 kept." in _run(store, "run", *arm).stdout
    more: dict[str, Any] = json.loads(_run(store, "run", *arm[:-1], "2", as_json=True).stdout)
    assert (more["rows"], more["new"], more["kept"]) == (8, 4, 4)


def test_questions_show_t0_as_a_date_and_keep_seconds_for_programs(store: Store) -> None:
    seal_eval_set(store, [question(1)])
    assert "2025-03-01T00:00:00Z" in _run(store, "questions", "--eval-set", "small").stdout
    document = json.loads(_run(store, "questions", "--eval-set", "small", as_json=True).stdout)
    assert document["questions"][0]["t0"] == 1_740_787_200


def _run(store: Store, *arguments: str, as_json: bool = False) -> Result:
    given = ["--data-root", str(store.root), *(["--json"] if as_json else []), "forecast", *arguments]
    done = CliRunner().invoke(app, given, catch_exceptions=False)
    assert done.exit_code == 0, done.output
    return done


@pytest.mark.parametrize("name", ["[b]", "[/b]", "[red]x", "[link=http://x]y[/link]", ":smile:"])
def test_what_stands_in_brackets_is_printed_as_it_is(capsys: pytest.CaptureFixture[str], name: str) -> None:
    Context().emit({}, text=f"/data/{name}/report.html")
    assert capsys.readouterr().out == f"/data/{name}/report.html\n"
    Context().emit({"path": name})
    assert json.loads(capsys.readouterr().out) == {"path": name}


@pytest.mark.parametrize("hostile", ["\x1b[2J", "\x1b]0;title\x07", "\x9b31m", "\x08", "\u202e"])
def test_no_foreign_text_reaches_a_terminal_as_a_command(capsys: pytest.CaptureFixture[str], hostile: str) -> None:
    table = Table("a")
    table.add_row(Text(f"before{hostile}after"))
    for text in (f"before{hostile}after", table, Text(hostile)):
        Context().emit({}, text=text)
    Context().err.print(hostile)
    shown = capsys.readouterr()
    assert not set("\x1b\x07\x08\x9b\u202e") & set(shown.out + shown.err)
    with pytest.raises(SystemExit):
        run(["evalset", "show", "--data-root", f"s3://{hostile}", "x"])
    assert not set("\x1b\x07\x08\x9b\u202e") & set(capsys.readouterr().err)
