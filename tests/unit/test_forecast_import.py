"""Forecasts made elsewhere, and the commands that run, import and show."""

import json
from pathlib import Path
from typing import Any

import pytest

from hindcast_dagster.cli import main
from hindcast_dagster.errors import InputRefused, UsageError
from hindcast_dagster.forecast import importing, records
from hindcast_dagster.storage.store import Store
from tests.forecast_world import question, seal_eval_set

Q1, Q2 = question(1).id, question(2).id


@pytest.fixture
def ready(store: Store) -> Store:
    seal_eval_set(store, [question(1), question(2)])
    return store


def write(path: Path, text: str) -> Path:
    path.write_text(text, encoding="utf-8")
    return path


def hindcast(store: Store, *arguments: str, capsys: Any) -> tuple[int, Any]:
    with pytest.raises(SystemExit) as ended:
        main.run([*arguments, "--data-root", str(store.root), "--json"])
    return int(ended.value.code or 0), json.loads(capsys.readouterr().out)


def test_a_csv_becomes_forecasts_of_the_same_contract(ready: Store, tmp_path: Path) -> None:
    path = write(tmp_path / "mine.csv", f"\ufeffQuestion,probability,run\n{Q1},0.65,1\n{Q1},65%,2\n{Q2},.1,1\n")
    manifest = importing.build(ready, path=path, eval_set="small", arm="mine", model="mymodel")
    table = records.all_forecasts(ready, "small")
    assert manifest.table == "mine_forecasts"
    assert table.select("question_id", "run", "prob_yes").rows() == [(Q1, 1, 0.65), (Q1, 2, 0.65), (Q2, 1, 0.1)]
    assert manifest.stats["missing"] == 1
    record = next(records.traces(ready, "small"))
    assert record.steps[0].detail["file"] == "mine.csv"


def test_the_same_file_again_changes_nothing_and_other_numbers_are_refused(ready: Store, tmp_path: Path) -> None:
    path = write(tmp_path / "a.csv", f"question,run,probability\n{Q1},1,0.6\n")
    first = importing.build(ready, path=path, eval_set="small")
    assert importing.build(ready, path=path, eval_set="small").without_time() == first.without_time()
    other = write(tmp_path / "b.csv", f"question,run,probability\n{Q1},1,0.7\n")
    with pytest.raises(InputRefused, match="overwrite"):
        importing.build(ready, path=other, eval_set="small")
    importing.build(ready, path=other, eval_set="small", overwrite=True)
    assert records.all_forecasts(ready, "small")["prob_yes"].to_list() == [0.7]


@pytest.mark.parametrize(
    ("text", "word"),
    [
        ("", "found none"),
        ("question,run\n", "must have the columns"),
        ("question,run,probability\n", "no forecast"),
        (f"question,run,probability\n{Q1},1,65\n", "line 2: probability '65'"),
        (f"question,run,probability\n{Q1},1,nan\n", "line 2: probability 'nan'"),
        (f"question,run,probability\n{Q1},1,\n", "line 2: probability ''"),
        (f"question,run,probability\n{Q1},0,0.5\n", "line 2: run '0'"),
        (f"question,run,probability\n{Q1},1,0.5\n{Q1},1,0.5\n", "line 3: .* twice"),
        ("question,run,probability\n0xnobody,1,0.5\n", "not in the eval set"),
        (f"question,run,probability\n{Q1},1,0.5,9\n", "more fields"),
        (f'question,run,probability\n"{Q1},1,0.5\n', "not a CSV"),
    ],
)
def test_a_bad_file_is_refused_whole_and_the_line_is_named(ready: Store, tmp_path: Path, text: str, word: str) -> None:
    with pytest.raises(InputRefused, match=word):
        importing.build(ready, path=write(tmp_path / "x.csv", text), eval_set="small")
    assert records.all_forecasts(ready, "small").height == 0


def test_bytes_that_are_no_text_and_missing_files_are_named(ready: Store, tmp_path: Path) -> None:
    (tmp_path / "x.csv").write_bytes(b"\xff\xfe\x00question")
    with pytest.raises(InputRefused, match="UTF-8"):
        importing.build(ready, path=tmp_path / "x.csv", eval_set="small")
    with pytest.raises(UsageError, match="cannot be read"):
        importing.build(ready, path=tmp_path / "nothing.csv", eval_set="small")
    with pytest.raises(UsageError, match="choose another"):
        importing.build(ready, path=tmp_path / "x.csv", eval_set="small", arm="market_price")


def test_a_file_without_end_is_refused(ready: Store) -> None:
    with pytest.raises(InputRefused, match="larger than"):
        importing.build(ready, path=Path("/dev/zero"), eval_set="small")


def test_import_and_show_on_the_command_line(ready: Store, tmp_path: Path, capsys: Any) -> None:
    path = write(tmp_path / "mine.csv", f"question,run,probability\n{Q1},1,0.65\n")
    code, found = hindcast(
        ready, "forecast", "import", str(path), "--eval-set", "small", "--arm", "mine", capsys=capsys
    )
    assert (code, found["rows"], found["statuses"]) == (0, 1, {"ok": 1})
    code, shown = hindcast(
        ready, "forecast", "show", Q1, "--eval-set", "small", "--arm", "mine", "--model", "external", capsys=capsys
    )
    assert (code, shown["forecast"]["prob_yes"]) == (0, 0.65)
    code, error = hindcast(
        ready, "forecast", "show", "0x", "--eval-set", "small", "--arm", "mine", "--model", "external", capsys=capsys
    )
    assert (code, "2 questions" in error["error"]["message"]) == (2, True)
    code, error = hindcast(
        ready, "forecast", "show", Q2, "--eval-set", "small", "--arm", "mine", "--model", "external", capsys=capsys
    )
    assert (code, "hindcast forecast run" in error["error"]["message"]) == (4, True)


def test_a_model_that_nobody_knows_is_refused_with_exit_code_2(ready: Store, capsys: Any) -> None:
    code, error = hindcast(
        ready, "forecast", "run", "--arm", "zero_shot", "--model", "nobody", "--eval-set", "small", capsys=capsys
    )
    assert (code, "roster" in error["error"]["message"]) == (2, True)


def test_a_trace_of_the_agent_is_shown_readably(ready: Store, settings: Any, capsys: Any) -> None:
    from hindcast_dagster.forecast.run import build
    from tests.forecast_world import Script, archive

    chat = Script(answers={"summary": "Key facts [/bold] [t3_p1]"})
    build(ready, settings, arm="retrieval", model="m", eval_set="small", runs=1, chat=chat, archive=archive())
    with pytest.raises(SystemExit) as ended:
        main.run(
            ["forecast", "show", Q1, "--eval-set", "small", "--arm", "retrieval", "--model", "m",
             "--data-root", str(ready.root)]
        )  # fmt: skip
    shown = capsys.readouterr().out
    assert not ended.value.code
    for word in ("standing at 2025-03-01T00:00:00Z", "stop_reason", "t3_p0 2024-12-31", "Key facts [/bold] [t3_p1]"):
        assert word in shown
    assert "search search_database: 'rocket launch 0', 20 hits" in shown.replace("\n", " ")


def test_the_release_form_holds_no_words_of_posts_or_models(ready: Store, settings: Any) -> None:
    from hindcast_dagster.forecast.run import build
    from tests.forecast_world import Script, archive

    canary = "CANARY in a reply"
    chat = Script(answers={"summary": canary, "seed_queries": json.dumps({"queries": [canary, "rocket"]}),
                           "forecast": json.dumps({"prob_yes": 0.5, "reasoning": canary})})  # fmt: skip
    build(ready, settings, arm="retrieval", model="m", eval_set="small", runs=1, chat=chat, archive=archive())
    record = next(records.traces(ready, "small"))
    assert canary in json.dumps(records.to_record(record))
    released = json.dumps(records.to_release(record))
    assert "CANARY" not in released
    assert "Rocket news" not in released
    for word in ("t3_p0", "messages_sha256", '"prob_yes": 0.5', '"seed": 1'):
        assert word in released


def test_a_replay_on_the_command_line_says_whether_it_is_the_same(ready: Store, settings: Any) -> None:
    from hindcast_dagster.forecast import replay
    from hindcast_dagster.forecast.run import build
    from tests.forecast_world import Script, archive

    build(ready, settings, arm="retrieval", model="m", eval_set="small", runs=1, chat=Script(), archive=archive())
    found = replay.of_stored(
        ready, settings, arm="retrieval", model="m", eval_set="small", question=question(1), run=1, chat=Script(),
        archive=archive(),
    )  # fmt: skip
    assert found.difference == ""


def test_questions_for_outside_agents_hold_no_outcome(ready: Store, capsys: Any) -> None:
    code, found = hindcast(ready, "forecast", "questions", "--eval-set", "small", capsys=capsys)
    assert code == 0
    keys = {"id", "text", "criteria", "options", "t0", "planned_close"}
    assert [set(listed) for listed in found["questions"]] == [keys, keys]


def test_the_baselines_are_a_command_that_needs_no_archive(ready: Store, capsys: Any) -> None:
    code, found = hindcast(ready, "forecast", "baselines", "--eval-set", "small", capsys=capsys)
    assert (code, found["rows"], found["runs"]) == (0, 8, 1)
    assert "hindcast archive build" in found["left_out"]["evidence_count"]


class Half:
    arm, version, uses_archive = "half", "1", False

    def forecast(self, question: Any, archive: Any, *, run: int) -> Any:
        from hindcast_dagster.forecast.forecaster import Forecast

        return Forecast(prob_yes=0.5)


def test_the_first_run_makes_the_baselines_too(ready: Store, capsys: Any) -> None:
    arm = "tests.unit.test_forecast_import:Half"
    code, found = hindcast(ready, "forecast", "run", "--arm", arm, "--eval-set", "small", "--runs", "2", capsys=capsys)
    assert (code, found["rows"], found["identical_runs"]) == (0, 4, True)
    assert set(records.all_forecasts(ready, "small")["arm"]) >= {"half", "market_price", "constant_half"}
    code, planned = hindcast(
        ready, "forecast", "run", "--arm", arm, "--eval-set", "small", "--runs", "3", "--dry-run", capsys=capsys
    )
    assert (code, planned["done"], planned["pending"], planned["calls"]) == (0, 4, 2, None)


@pytest.mark.parametrize("arm", ["zero_shot", "retrieval", "market_price", "scored"])
def test_what_was_made_elsewhere_cannot_take_the_name_of_an_arm_of_ours(ready: Store, tmp_path: Path, arm: str) -> None:
    path = tmp_path / "mine.csv"
    path.write_text("question,run,probability\n")
    with pytest.raises(UsageError, match="choose another --arm"):
        importing.build(ready, path=path, eval_set="small", arm=arm, model="m")
