"""`hindcast score`, `compare`, `report` and `sql` as programs and people call them."""

import json

import pytest

from hindcast_dagster.cli import main
from tests.score_world import noisy, question, seal_baselines, seal_forecasts, seal_questions


@pytest.fixture
def call(store, capsys):
    def run(*arguments: str) -> tuple[int, str, str]:
        with pytest.raises(SystemExit) as stopped:
            main.run([*arguments, "--data-root", str(store.root)])
        out = capsys.readouterr()
        return int(stopped.value.code or 0), out.out, out.err

    return run


def seal(store, *, arms=("zero_shot", "retrieval")):
    rows = [question(n, outcome="Yes" if n % 3 else "No") for n in range(6)]
    seal_questions(store, rows)
    seal_baselines(store, rows)
    for arm in arms:
        seal_forecasts(store, noisy(rows, arm=arm, lift=0.1))


def test_score_prints_one_document_with_the_promised_keys(store, call):
    seal(store)
    code, out, _ = call("score", "--eval-set", "small", "--json")
    document = json.loads(out)
    assert code == 0
    assert (document["eval_set"], document["missing"]) == ("small", [])
    wanted = {"model", "arm", "runs", "n", "unparsed", "accuracy", "accuracy_sd", "brier", "brier_sd"}
    assert all(wanted <= set(cell) for cell in document["cells"])
    cells = {(cell["model"], cell["arm"]): cell for cell in document["cells"]}
    assert set(cells) == {
        ("none", "market_price"), ("none", "constant_half"), ("none", "base_rate"),
        ("toy-1b", "zero_shot"), ("toy-1b", "retrieval"),
    }  # fmt: skip
    assert cells["none", "constant_half"]["brier"] == 0.25
    assert cells["none", "market_price"]["brier_sd"] is None
    assert cells["toy-1b", "zero_shot"]["runs"] == 5


def test_missing_cells_are_listed_and_only_fail_on_request(store, call):
    seal(store, arms=("zero_shot",))
    code, out, _ = call("score", "--eval-set", "small", "--json")
    assert code == 0
    assert [(cell["model"], cell["arm"]) for cell in json.loads(out)["missing"]] == [("toy-1b", "retrieval")]
    code, out, err = call("score", "--eval-set", "small", "--json", "--require-complete")
    assert code == 4
    assert json.loads(out)["missing"]  # the document stands alone on stdout; the remark is on stderr
    assert "hindcast forecast run --arm retrieval --model toy-1b --eval-set small" in " ".join(err.split())


def test_a_person_sees_the_missing_cell_above_the_table(store, call, monkeypatch):
    monkeypatch.setenv("COLUMNS", "80")
    seal(store, arms=("zero_shot",))
    _, out, _ = call("score", "--eval-set", "small")
    assert out.index("missing: toy-1b/retrieval") < out.index("Scores of small")
    assert "constant_half" in out
    assert all(len(line) <= 80 for line in out.splitlines())


def test_an_unknown_eval_set_is_not_ready(call):
    code, out, _ = call("score", "--eval-set", "nowhere", "--json")
    assert code == 4
    assert "hindcast evalset build nowhere" in json.loads(out)["error"]["message"]


def test_a_name_that_cannot_be_a_key_is_wrong_usage(call):
    assert call("score", "--eval-set", "../up")[0] == 2


def test_compare_measures_both_metrics_by_question_and_by_event(store, call):
    seal(store)
    call("score", "--eval-set", "small", "--json")
    code, out, _ = call("compare", "toy-1b/retrieval", "none/market_price", "--eval-set", "small", "--json")
    rows = json.loads(out)["comparisons"]
    assert code == 0
    assert {(row["metric"], row["cluster"], row["missing"]) for row in rows} == {
        (metric, cluster, missing)
        for metric in ("brier", "accuracy")
        for cluster in ("question", "event")
        for missing in ("intersection", "half")
    }
    assert call("compare", "toy-1b/retrieval", "x/y", "--eval-set", "small")[0] == 2


def test_compare_prints_the_interval_that_was_asked_for(store, call):
    seal(store)
    call("score", "--eval-set", "small", "--json")
    cells = ("compare", "toy-1b/retrieval", "toy-1b/zero_shot", "--eval-set", "small")
    row = next(
        row
        for row in json.loads(call(*cells, "--json")[1])["comparisons"]
        if (row["metric"], row["cluster"], row["missing"]) == ("brier", "question", "intersection")
    )
    for kind, low in (("percentile", row["low"]), ("bca", row["bca_low"])):
        _, out, _ = call(*cells, "--interval", kind)
        assert f"{low:.3f} ..".replace("0.", ".", 1) in out
        assert {"percentile": "percentile", "bca": "BCa"}[kind] in out
    assert call(*cells, "--interval", "wrong")[0] == 2


def test_a_comparison_says_first_what_its_cells_lack(store, call):
    seal(store, arms=("zero_shot",))
    rows = [question(n, outcome="Yes" if n % 3 else "No") for n in range(6)]
    seal_forecasts(store, noisy(rows[:4], arm="retrieval", lift=0.1))
    call("score", "--eval-set", "small", "--json")
    cells = ("compare", "toy-1b/retrieval", "toy-1b/zero_shot", "--eval-set", "small")
    _, out, _ = call(*cells)
    assert out.index("missing: toy-1b/retrieval 10 of 30") < out.index("minus")
    code, out, err = call(*cells, "--json", "--require-complete")
    assert (code, [each["arm"] for each in json.loads(out)["missing"]]) == (4, ["retrieval"])
    assert "hindcast forecast run --arm retrieval" in " ".join(err.split())
    assert call("compare", "none/market_price", "toy-1b/zero_shot", "--eval-set", "small", "--require-complete")[0] == 0


def test_compare_in_a_terminal_fits_eighty_columns(store, call, monkeypatch):
    monkeypatch.setenv("COLUMNS", "80")
    seal(store)
    call("score", "--eval-set", "small", "--json")
    _, out, _ = call("compare", "toy-1b/retrieval", "toy-1b/zero_shot", "--eval-set", "small")
    assert "6 questions" in out
    assert all(len(line) <= 80 for line in out.splitlines())


def test_sql_answers_and_refuses(store, call):
    seal(store)
    code, out, _ = call("sql", "select count(*) n from eval_set", "--json")
    assert (code, json.loads(out)["rows"]) == (0, [{"n": 6}])
    code, out, _ = call("sql", "copy eval_set to 'x.csv'", "--json")
    assert code == 2
    assert "exactly one SELECT" in json.loads(out)["error"]["message"]


def test_markup_in_a_value_is_printed_and_not_obeyed(store, call):
    seal_questions(store, [question(0, text="[bold red]not a style[/]")])
    _, out, _ = call("sql", "select text from eval_set")
    assert "[bold red]not a style[/]" in " ".join(out.split())


@pytest.mark.parametrize("command", ["score", "compare", "report", "sql"])
def test_help_teaches_with_an_example(call, command):
    code, out, _ = call(command, "--help")
    assert code == 0
    assert "hindcast" in out.partition("Example")[2]
