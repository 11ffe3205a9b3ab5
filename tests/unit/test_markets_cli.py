"""`hindcast markets` and `hindcast evalset`: JSON shapes that others rely on, exit codes, help that teaches."""

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from hindcast_dagster.cli.main import run
from hindcast_dagster.clock import DAY
from tests.toy_polymarket import JAN_15, ToyPolymarket, condition, daily, serving


@pytest.fixture
def toy(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Iterator[ToyPolymarket]:
    with serving(ToyPolymarket()) as served:
        for name in ("GAMMA", "CLOB", "DATA"):
            monkeypatch.setenv(f"HINDCAST_POLYMARKET__{name}_URL", served.url)
        monkeypatch.setenv("HINDCAST_POLYMARKET__WAIT_BUDGET_S", "1")
        monkeypatch.setenv("HINDCAST_DATA_ROOT", str(tmp_path / "root"))
        yield served


class Cli:
    def __init__(self, capsys: pytest.CaptureFixture[str]) -> None:
        self._capsys = capsys

    def __call__(self, *words: str) -> tuple[int, str, str]:
        with pytest.raises(SystemExit) as left:
            run(list(words))
        out, err = self._capsys.readouterr()
        return int(left.value.code or 0), out, err

    def json(self, *words: str, code: int = 0) -> Any:
        """Run with --json: exactly one JSON document on stdout."""
        found, out, _ = self(*words, "--json")
        assert found == code, out
        return json.loads(out)


@pytest.fixture
def cli(capsys: pytest.CaptureFixture[str]) -> Cli:
    return Cli(capsys)


def test_fetch_list_and_show(toy: ToyPolymarket, cli: Cli) -> None:
    toy.add(1)
    toy.add(2, outcomePrices='["0.5", "0.5"]')
    toy.rows.append({"no": "id"})
    report = cli.json("markets", "fetch")
    assert {name: report[name] for name in ("fetched", "parsed", "kept", "excluded")} == {
        "fetched": 3, "parsed": 2, "kept": 1, "excluded": {"malformed": 1, "void_50_50": 1},
    }  # fmt: skip
    (month,) = cli.json("markets", "list")["months"]
    assert (month["month"], month["markets"], month["kept"], month["price_series"]) == ("2026-01", 2, 1, 1)
    assert [row["outcome"] for row in cli.json("markets", "list", "--month", "2026-01")["markets"]] == ["Yes", None]
    shown = cli.json("markets", "show", "will-event-1-happen")
    assert (shown["market_id"], shown["outcome"], shown["series"]["status"]) == (condition(1), "Yes", "ok")
    assert cli.json("markets", "show", condition(2).upper().replace("0X", "0x"))["excluded"] == "void_50_50"
    code, out, _ = cli("markets", "list", "--month", "2026-01")
    assert code == 0
    assert "void_50_50" in out


def test_retries_leave_stdout_to_the_document(toy: ToyPolymarket, cli: Cli) -> None:
    toy.add(1)
    toy.fault = lambda number, path: (500, "", {}) if number % 2 else None
    assert cli.json("markets", "fetch")["kept"] == 1


def test_the_sample_world_is_fetched_by_a_setting(cli: Cli, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("HINDCAST_DATA_ROOT", str(tmp_path / "root"))
    monkeypatch.setenv("HINDCAST_POLYMARKET__SOURCE", "sample")
    monkeypatch.setenv("HINDCAST_SAMPLE__MONTHS", "1")
    report = cli.json("markets", "fetch", "--no-prices")
    assert report["kept"] > 0
    assert sum(report["excluded"].values()) > 0


def test_exit_codes(toy: ToyPolymarket, cli: Cli) -> None:
    assert cli.json("markets", "show", "nothing", code=4)["error"]["exit_code"] == 4
    assert cli("markets", "list", "--month", "2026-1")[0] == 2
    assert cli("markets", "fetch", "--closed-from", "yesterday")[0] == 2
    assert cli("evalset", "show", "missing")[0] == 4
    assert cli("evalset", "show", "../x")[0] == 2
    assert cli("evalset", "build", "q", "--t0", "day_before_close")[0] == 2  # which markets?
    assert cli("evalset", "build", "q", "--t0", "whenever", "--all")[0] == 2
    assert cli("evalset", "build", "q", "--t0", "day_before_close", "--all")[0] == 4  # nothing is sealed
    assert cli("evalset", "build", "q", "--t0", "lookback:0", "--all", "--closed-from", "2026-01-01")[0] == 2
    toy.fault = lambda number, path: (503, "", {})
    code, _, err = cli("markets", "fetch")
    assert code == 4
    assert "run the command again" in err.replace("\n", " ")


def test_an_eval_set_is_built_shown_exported_and_imported(toy: ToyPolymarket, cli: Cli, tmp_path: Path) -> None:
    toy.add(1)
    toy.add(2, [], outcome="No")
    cli.json("markets", "fetch")
    built = cli.json("evalset", "build", "q", "--t0", "day_before_close", "--all")
    assert built["name"] == "q"
    assert built["excluded"] == {"no_price_history": 1}
    (question,) = built["questions"]
    expected = {
        "id": condition(1), "event_id": "9001", "t0": JAN_15 - DAY, "outcome": "Yes", "price_at_t0": 0.6,
        "price_age_s": DAY - 7, "topic": "Other", "duration": "medium",
    }  # fmt: skip
    assert {name: question[name] for name in expected} == expected
    assert cli.json("evalset", "show", "q") == built
    assert cli.json("evalset", "build", "q", "--t0", "day_before_close", "--all") == built
    refused = cli.json("evalset", "build", "q", "--t0", "lookback:0.5", "--all", code=3)
    assert "another configuration" in refused["error"]["message"]
    assert [each["name"] for each in cli.json("evalset", "list")["eval_sets"]] == ["q"]
    exported = cli.json("evalset", "export", "q", "--out", str(tmp_path / "q.json"))
    assert exported["questions"] == 1
    elsewhere = cli.json("evalset", "import", str(tmp_path / "q.json"), "--data-root", str(tmp_path / "other"))
    assert elsewhere["questions"] == built["questions"]
    (tmp_path / "q.json").write_text("{}")
    assert cli("evalset", "import", str(tmp_path / "q.json"))[0] == 3
    assert cli("evalset", "import", str(tmp_path / "nowhere.json"))[0] == 2


def test_markets_from_a_file_a_window_or_a_vintage(toy: ToyPolymarket, cli: Cli, tmp_path: Path) -> None:
    for number in range(1, 4):
        toy.add(number, close=JAN_15 + number * DAY)
    cli.json("markets", "fetch")
    ids = tmp_path / "ids.txt"
    ids.write_text(f"# chosen\n{condition(3)}, why not\n\n{condition(1)}\n")
    day = ("--t0", "day_before_close")
    file = cli.json("evalset", "build", "file", *day, "--markets", str(ids))
    assert [question["id"] for question in file["questions"]] == [condition(1), condition(3)]
    window = cli.json("evalset", "build", "window", *day, "--closed-from", "2026-01-17", "--closed-to", "2026-01-17")
    assert [question["id"] for question in window["questions"]] == [condition(2)]
    toy.add(4, daily(JAN_15 + 9 * DAY), close=JAN_15 + 9 * DAY)
    cli.json("markets", "fetch")
    vintage = cli.json("evalset", "build", "next", *day, "--vintage", "window")
    assert [question["id"] for question in vintage["questions"]] == [condition(4)]
    assert cli("evalset", "build", "x", *day, "--markets", str(ids), "--all")[0] == 2
    ids.write_text("# none\n")
    assert cli("evalset", "build", "x", *day, "--markets", str(ids))[0] == 2
    ids.write_text("../../etc/passwd\n")
    assert cli("evalset", "build", "x", *day, "--markets", str(ids))[0] == 2


def test_archive_end_and_price_age_are_options(toy: ToyPolymarket, cli: Cli) -> None:
    toy.add(1)
    toy.add(2, [(JAN_15 - 10 * DAY, 0.3)])
    cli.json("markets", "fetch")
    words = ("--t0", "day_before_close", "--all")
    fresh = cli.json("evalset", "build", "fresh", *words, "--max-price-age", "36")
    assert fresh["excluded"] == {"stale_price": 1}
    capped = cli.json("evalset", "build", "capped", *words, "--archive-end", "2026-01-08")
    assert {question["t0"] for question in capped["questions"]} == {JAN_15 - 7 * DAY}
    assert capped["capped_share"] == 1.0
    assert capped["archive_end"] == "2026-01-08T00:00:00Z"


@pytest.mark.parametrize(
    "words",
    [("markets", name) for name in ("fetch", "list", "show")]
    + [("evalset", name) for name in ("build", "list", "show", "export", "import")],
)
def test_every_help_teaches_with_an_example(words: tuple[str, str], cli: Cli) -> None:
    code, out, _ = cli(*words, "--help")
    assert code == 0
    assert "Example: hindcast" in out
