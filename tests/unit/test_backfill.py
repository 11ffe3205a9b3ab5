"""`hindcast backfill`: what is fresh is left, one that fails or dies stops no other, killed it goes on where it was."""

import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import pytest

from hindcast_dagster.cli import main
from hindcast_dagster.cli.backfill_pool import Pool
from hindcast_dagster.errors import UsageError
from hindcast_dagster.operation import backfill
from hindcast_dagster.settings import load
from hindcast_dagster.storage.store import Store, open_store
from tests.forecast_world import question, seal_eval_set

ROOT = Path(__file__).resolve().parents[2]
MONTHS = ("2025-01", "2025-02", "2025-03")


def write_dump(store: Store, month: str, *, name: str = "RC", score: int = 9) -> Path:
    from hindcast_dagster.clock import month_start

    start = month_start(month)
    rows = [
        {
            "id": f"{month.replace('-', '')}{n}", "author": "somebody", "subreddit": "news", "created_utc": start + n,
            "retrieved_utc": start + 200_000, "score": score, "link_id": "t3_x", "parent_id": "t3_x",
            "body": "twenty words and more are needed here so that the filters keep this comment of a calm and quiet "
            "person who has much to say about nothing",
        }
        for n in range(5)
    ]  # fmt: skip
    path = store.area("dumps", f"{name}_{month}.ndjson")
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text("".join(json.dumps(row) + "\n" for row in rows))
    return path


@pytest.fixture
def run(store: Store, capsys: pytest.CaptureFixture[str]) -> Any:
    def command(*words: str) -> tuple[int, dict[str, Any]]:
        with pytest.raises(SystemExit) as ended:
            main.run(["backfill", *words, "--data-root", str(store.root), "--json"])
        return int(ended.value.code or 0), json.loads(capsys.readouterr().out)

    return command


def comments(first: str = "2025-01", last: str = "2025-03") -> list[str]:
    return ["months", "--from", first, "--to", last, "--kind", "comments"]


@pytest.mark.slow
def test_months_are_made_once_and_a_missing_dump_stops_no_other(store: Store, run: Any) -> None:
    for month in (MONTHS[0], MONTHS[2]):
        write_dump(store, month)
    code, document = run(*comments(), "--jobs", "3")
    assert code == 4
    states = {task["key"][1]: task["state"] for task in document["tasks"]}
    assert states == {"2025-01": "made", "2025-02": "failed", "2025-03": "made"}
    assert "No dump of comments 2025-02" in document["tasks"][1]["error"]
    write_dump(store, MONTHS[1])
    code, document = run(*comments())
    assert code == 0
    assert {task["key"][1]: task["state"] for task in document["tasks"]} == {
        "2025-01": "fresh", "2025-02": "made", "2025-03": "fresh",
    }  # fmt: skip
    assert store.sealed_keys("comment_index") == [(month,) for month in MONTHS]


def test_a_dry_run_says_why_and_does_nothing(store: Store, run: Any) -> None:
    write_dump(store, MONTHS[0])
    code, document = run(*comments(), "--dry-run")
    assert code == 0
    assert [task["why"] for task in document["to_make"]] == ["comments: not sealed"] * 3
    assert store.tables() == []


class TestFreshness:
    def made(self, store: Store) -> Any:
        settings = load(data_root=str(store.root))
        task = backfill.Task("history", ("comments", MONTHS[0]), {"accept_hollow": False})
        write_dump(store, MONTHS[0])
        backfill.do(store, settings, task)
        return settings, task

    def test_what_is_sealed_from_this_dump_by_these_rules_is_fresh(self, store: Store) -> None:
        settings, task = self.made(store)
        assert backfill.need(store, settings, task).why == ""

    def test_another_dump_is_not(self, store: Store) -> None:
        settings, task = self.made(store)
        write_dump(store, MONTHS[0], score=99)
        assert backfill.need(store, settings, task) == ("comments", "the dump has changed")

    def test_a_dump_that_was_only_touched_is(self, store: Store) -> None:
        settings, task = self.made(store)
        os.utime(store.area("dumps", "RC_2025-01.ndjson"), (time.time() + 60, time.time() + 60))
        assert backfill.need(store, settings, task).why == ""

    def test_a_dump_that_was_removed_leaves_the_month_as_it_is(self, store: Store) -> None:
        settings, task = self.made(store)
        store.area("dumps", "RC_2025-01.ndjson").unlink()
        assert backfill.need(store, settings, task).why == ""

    def test_other_filters_are_not(self, store: Store) -> None:
        _, task = self.made(store)
        other = load(data_root=str(store.root), corpus={"min_score": 6})
        assert backfill.need(store, other, task) == ("comments", "other filters or lists")

    def test_an_index_of_an_older_month_is_not(self, store: Store) -> None:
        from hindcast_dagster.corpus.build import build

        settings, task = self.made(store)
        write_dump(store, MONTHS[0], score=99)
        build(store, settings, month=MONTHS[0], kind="comments")
        assert backfill.need(store, settings, task) == ("comment_index", "comments 2025-01 was made again")


def test_predictions_that_are_complete_are_fresh_and_more_runs_are_not(store: Store) -> None:
    from hindcast_dagster.forecast.run import build
    from tests.forecast_world import Script

    settings = load(data_root=str(store.root))
    seal_eval_set(store, [question()])
    (task,) = backfill.predictions(["zero_shot"], ["m"], ["small"], runs=1, limit=None, max_cost=None)
    assert backfill.need(store, settings, task).why == "not sealed"
    build(store, settings, arm="zero_shot", model="m", eval_set="small", runs=1, chat=Script())
    assert backfill.need(store, settings, task).why == ""
    more = task._replace(options={"runs": 2})
    assert backfill.need(store, settings, more).why == "1 of 2 runs"


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["months", "--from", "2025-02", "--to", "2025-01"], "ends"),
        (["months", "--from", "2025-13", "--to", "2026-01"], "2025-13"),
        (["months", "--from", "1925-01", "--to", "2026-01"], "at most"),
        (["months", "--from", "2025-01", "--to", "2025-01", "--kind", "posts"], "posts"),
        (["forecasts", "--eval-set", "a|b", "--model", "m"], "eval set name"),
    ],
)
def test_wrong_usage_is_refused_before_anything_starts(run: Any, words: list[str], said: str) -> None:
    code, document = run(*words)
    assert code == 2
    assert said in document["error"]["message"]


def test_months_are_named_in_order() -> None:
    tasks = backfill.history(backfill.months("2025-12", "2026-01"), ["submissions", "comments"], accept_hollow=False)
    assert [task.name for task in tasks] == [
        "submissions / 2025-12", "comments / 2025-12", "submissions / 2026-01", "comments / 2026-01",
    ]  # fmt: skip
    with pytest.raises(UsageError):
        backfill.months("2026-01", "2025-12")


@pytest.mark.slow
def test_a_worker_that_is_killed_is_told_and_the_others_go_on(store: Store) -> None:
    for month in MONTHS:
        write_dump(store, month)
    tasks = backfill.history(list(MONTHS), ["comments"], accept_hollow=False)
    pool = Pool(str(store.root), jobs=1)
    found = []
    for outcome in pool.run([(task, "test") for task in tasks]):
        found.append(outcome)
        if len(found) == 1:
            deadline = time.monotonic() + 60
            while not pool._running and time.monotonic() < deadline:
                time.sleep(0.01)
            next(iter(pool._running)).send_signal(signal.SIGKILL)
    by_state = [outcome.state for outcome in found]
    assert by_state == ["made", "failed", "made"]
    assert "killed" in found[1].error
    assert found[1].code == 4


@pytest.mark.slow
def test_killed_with_its_workers_it_goes_on_where_it_was(tmp_path: Path) -> None:
    store = open_store(tmp_path / "root")
    for month in MONTHS:
        write_dump(store, month)
    command = [sys.executable, "-c", "from hindcast_dagster.cli.main import run; run()", "--data-root", str(store.root),
               "backfill", *comments(), "--jobs", "1"]  # fmt: skip
    process = subprocess.Popen(command, cwd=ROOT, stderr=subprocess.DEVNULL, stdout=subprocess.DEVNULL)
    deadline = time.monotonic() + 120
    while not store.sealed_keys("comment_index") and time.monotonic() < deadline:
        time.sleep(0.05)
    process.send_signal(signal.SIGKILL)
    process.wait()
    time.sleep(1.5)  # its worker sees that nobody is there and ends
    before = len(store.sealed_keys("comment_index"))
    assert 1 <= before < len(MONTHS)
    time.sleep(1.5)
    assert len(store.sealed_keys("comment_index")) == before
    done = subprocess.run([*command, "--json"], cwd=ROOT, capture_output=True, text=True, check=True)
    document = json.loads(done.stdout)
    assert (document["fresh"], document["made"], document["failed"]) == (before, 3 - before, 0)


@pytest.mark.slow
def test_through_dagster_three_processes_share_one_instance_without_a_lock_error(
    store: Store, run: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    import dagster as dg

    monkeypatch.setenv("DAGSTER_HOME", str(tmp_path / "home"))
    (store.root).mkdir()
    (store.root / "hindcast.toml").write_text('[window]\nfirst_month = "2025-01"\nlast_month = "2025-03"\n')
    for month in (MONTHS[0], MONTHS[1]):
        write_dump(store, month)
    code, document = run(*comments(), "--jobs", "3", "--dagster")
    assert {task["key"][1]: task["state"] for task in document["tasks"]} == {
        "2025-01": "made", "2025-02": "made", "2025-03": "failed",
    }  # fmt: skip
    assert code == 4  # the kind of error survives Dagster
    assert "No dump of comments 2025-03" in document["tasks"][2]["error"]
    with dg.DagsterInstance.from_config(str(tmp_path / "home")) as instance:
        known = instance.get_materialized_partitions(dg.AssetKey("comment_index"))
        assert known == {"2025-01", "2025-02"}
        assert sorted(each.status.value for each in instance.get_runs()) == ["FAILURE", "SUCCESS", "SUCCESS"]


_RUNS = """
import sys
from hindcast_dagster.cli.dagster_backfill import do
from hindcast_dagster.operation.backfill import history
from hindcast_dagster.settings import load
from hindcast_dagster.storage.store import open_store
for task in history(sys.argv[2:], ["comments"], accept_hollow=False):
    do(open_store(sys.argv[1]), load(data_root=sys.argv[1]), task)
"""


@pytest.mark.slow
def test_twenty_partitions_from_three_processes_at_once_meet_no_lock(
    store: Store, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """SQLite has refused 30 to 75 % of many steps at once; three at a time is what the instance's template allows."""
    import dagster as dg

    from hindcast_dagster import clock
    from hindcast_dagster.cli.demo_pipeline import instance

    monkeypatch.setenv("DAGSTER_HOME", str(tmp_path / "home"))
    months = clock.months("2024-01", "2025-08")
    for month in months:
        write_dump(store, month)
    (store.root / "hindcast.toml").write_text('[window]\nfirst_month = "2024-01"\nlast_month = "2025-08"\n')
    with instance():  # two processes that create it at once break its schema
        pass
    processes = [
        subprocess.Popen(
            [sys.executable, "-c", _RUNS, str(store.root), *months[place::3]],
            cwd=ROOT,
            stderr=subprocess.PIPE,
            text=True,
        )
        for place in range(3)
    ]
    for process in processes:
        with process:
            _, said = process.communicate()
        assert process.returncode == 0, said[-2_000:]
        assert "locked" not in said
    with dg.DagsterInstance.from_config(str(tmp_path / "home")) as found:
        assert len(found.get_materialized_partitions(dg.AssetKey("comment_index"))) == len(months) == 20
        assert {each.status.value for each in found.get_runs()} == {"SUCCESS"}
