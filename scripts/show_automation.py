"""Show the sensors at work: a new dump and newly resolved markets go through to a new vintage and its scores.

    .venv/bin/python -m scripts.show_automation [--questions 1]

A real daemon and web server (`make ui`), a real dump (the samples' AskMen 2019-10) and real resolved markets, recorded
and served on loopback; the model is the one in the box, so its scores mean nothing. Nobody presses a button: what is
dropped, and what the sensors make of it, is printed as it happens. Ends with the score table of the new vintage and
the times. Needs the samples beside the checkout (../shared).
"""

import argparse
import contextlib
import gzip
import json
import os
import shutil
import socket
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

from rich.console import Console
from rich.table import Table

from hindcast_dagster.clock import month_start
from hindcast_dagster.llm import roster
from hindcast_dagster.report.terminal import score_table
from hindcast_dagster.settings import Settings
from scripts.dagster_ui import DONE, REPOSITORY, ROOT, Run, Ui, running

SHARED = ROOT.parent / "shared"
MARKETS = SHARED / "data" / "polymarket" / "resolved_markets_with_history_open.jsonl.gz"
DUMP = SHARED / "data" / "reddit" / "AskMen_submissions.zst"
MODEL = "smollm2"
NEW_MONTH = "2026-05"
VINTAGE_MIN = 10
SENSORS = ("new_dumps", "partitions", "vintages", "predictions", "scores")

CONFIG = """
[window]
first_month = "2019-10"
last_month = "{month}"
first_close_month = "2024-11"

[corpus]
all_subreddits = true

[embedding]
model = "minilm"

[polymarket]
gamma_url = "{url}"
clob_url = "{url}"
data_url = "{url}"

[automation]
vintage_of = "main"
vintage_min = {least}
spend = true
max_cost = 1.0
models = ["{model}"]
every_s = 5
settle_s = 2

[llm]
roster_file = "{roster}"
structured = true
concurrency = 1

[agent]
rounds = 1
seed_queries = 2
hits_per_query = 5
expanded = 3
author_posts = 0
author_comments = 0
threads = 0
evidence_tokens = 400

[decoding]
zero_shot = {{ temperature = 0.1, max_tokens = 120 }}
seed_queries = {{ temperature = 0.2, max_tokens = 100 }}
reflection = {{ temperature = 0.3, max_tokens = 100 }}
summary = {{ temperature = 0.1, max_tokens = 120 }}
tally = {{ temperature = 0.1, max_tokens = 120 }}
forecast = {{ temperature = 0.1, max_tokens = 120 }}
repair = {{ temperature = 0.1, max_tokens = 100 }}
compact = {{ temperature = 0.1, max_tokens = 100 }}
json_only = {{ temperature = 0.1, max_tokens = 60 }}

[forecast]
runs = 1
question_limit = {questions}
"""


class Story:
    """What has happened, with its time."""

    def __init__(self) -> None:
        self.began = time.monotonic()
        self.lines: list[tuple[float, str]] = []

    def tell(self, text: str) -> None:
        """Print a line with the seconds since the start, and keep it."""
        at = time.monotonic() - self.began
        self.lines.append((at, text))
        print(f"{at:6.1f} s  {text}", flush=True)


class Root:
    """The data root of this show: its files and its command line."""

    def __init__(self, path: Path) -> None:
        self.path = path

    def hindcast(self, *arguments: str) -> dict[str, Any]:
        """Run a command and return its JSON document."""
        command = [str(ROOT / ".venv/bin/hindcast"), "--data-root", str(self.path), *arguments, "--json"]
        done = subprocess.run(command, env=os.environ | {"HF_HUB_OFFLINE": "1"}, capture_output=True, check=False)
        if done.returncode:
            sys.exit(f"{' '.join(command)} ended with {done.returncode}:\n{done.stderr.decode()[-2000:]}")
        return dict(json.loads(done.stdout))

    def configure(self, url: str, *, questions: int) -> None:
        """Write the settings, and a roster in which the model in the box has a price: a ceiling needs one."""
        entry = roster.load(Settings()).get(MODEL)
        fields = entry.model_dump(mode="json", exclude={"slug"}, exclude_defaults=True, exclude_none=True)
        lines = [f"[models.{MODEL}]", *(f"{name} = {json.dumps(value)}" for name, value in fields.items())]
        models = self.path / "models.toml"
        models.write_text("\n".join([*lines, "price = { tokens_in = 0.01, tokens_out = 0.01 }", ""]), encoding="utf-8")
        text = CONFIG.format(
            url=url, month=NEW_MONTH, model=MODEL, roster=models, questions=questions, least=VINTAGE_MIN
        )
        (self.path / "hindcast.toml").write_text(text, encoding="utf-8")


def recorded(*, newest: bool) -> bytes:
    """Return the recorded markets, gzipped: all of them, or those that resolved before the newest month."""
    with gzip.open(MARKETS, "rt") as lines:
        kept = [line for line in lines if newest or json.loads(line)["resolved_at"] < month_start(NEW_MONTH)]
    return gzip.compress("".join(kept).encode())


def replace(path: Path, data: bytes) -> None:
    """Put a file in place in one step, as a reader may be at it."""
    aside = path.with_suffix(".part")
    aside.write_bytes(data)
    aside.replace(path)


@contextlib.contextmanager
def polymarket(path: Path) -> Iterator[str]:
    """Serve the recorded markets of a file, read again whenever it changes."""
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    stub = [sys.executable, str(SHARED / "tools/polymarket_stub.py"), str(path), "--port", str(port), "--watch"]
    with subprocess.Popen(stub, stdout=subprocess.PIPE) as process:
        try:
            assert process.stdout is not None
            process.stdout.readline()  # it says when it listens
            yield f"http://127.0.0.1:{port}"
        finally:
            process.terminate()


def ended(ui: Ui, job: str, partition: str, *, after: int = 0) -> Callable[[], Run | None]:
    """Return a question for the newest ended run of a job and partition, when more than `after` have ended."""

    def look() -> Run | None:
        found = [run for run in ui.runs() if (run.job, run.partition) == (job, partition) and run.status in DONE]
        if found and found[0].status != "SUCCESS":
            sys.exit(f"{job} {partition} ended with {found[0].status}:\n{said(ui)}")
        return found[0] if len(found) > after else None

    return look


def said(ui: Ui) -> str:
    """Return what the server said last, without the sensors' looks."""
    lines = [line for line in ui.log.read_text().splitlines() if "SensorDaemon" not in line]
    return "\n".join(lines[-60:])


def by_sensor(run: Run) -> str:
    """Say who asked for a run and how long it took."""
    return f"{run.job} {run.partition}: asked by sensor {run.tags.get('dagster/sensor_name', '-')}, {run.seconds:.0f} s"


def show(work: Path, story: Story, *, questions: int) -> None:
    """Tell the whole story."""
    root = Root(work / "data")
    (root.path / "dumps").mkdir(parents=True)
    listing = work / "markets.jsonl.gz"
    replace(listing, recorded(newest=False))
    with polymarket(listing) as url:
        root.configure(url, questions=questions)
        kept = root.hindcast("markets", "fetch")["kept"]
        frozen = len(root.hindcast("evalset", "build", "main", "--t0", "day_before_close", "--all")["questions"])
        story.tell(f"before: {kept} markets have resolved, eval set main is frozen with {frozen} questions")
        with running(root=root.path, home=work / "home") as ui:
            story.tell("make ui: web server and daemon are up")
            for name in SENSORS:
                ui.start_sensor(name)
            ui.wait("a first look of every sensor", lambda: all(ui.ticks(name) for name in SENSORS))
            story.tell(f"sensors on, nothing to do yet: {', '.join(SENSORS)}")
            a_dump_appears(ui, root, story)
            markets_resolve(ui, listing, story)
            until_scored(ui, story)
            nothing_more(ui, story)
    finish(root, story)


def a_dump_appears(ui: Ui, root: Root, story: Story) -> None:
    """Copy a dump where dumps belong and wait for its month."""
    aside = root.path / "dumps" / "RS_2019-10.zst.part"
    shutil.copy(DUMP, aside)
    aside.rename(aside.with_suffix(""))
    story.tell("dropped: dumps/RS_2019-10.zst")
    run = ui.wait("the month of the dump", ended(ui, "submission_month", "2019-10"), limit_s=240)
    story.tell(by_sensor(run) + f" ({run.tags['hindcast/reason']} dump, filtered, embedded, indexed)")


def markets_resolve(ui: Ui, listing: Path, story: Story) -> None:
    """Let the rest of the recorded markets resolve, and refresh their month as the schedule does every day."""
    replace(listing, recorded(newest=True))
    story.tell(f"resolved: the markets of {NEW_MONTH}")
    walk_now = {"ops": {"markets": {"config": {"max_age_s": 0}}}}  # the listing was walked a minute ago
    launch(ui, "market_month", NEW_MONTH, config=walk_now)
    run = ui.wait("the markets' month", ended(ui, "market_month", NEW_MONTH), limit_s=180)
    story.tell(f"market_month {NEW_MONTH}: {run.seconds:.0f} s, launched here as `daily_markets` does at 04:00 UTC")


def launch(ui: Ui, job: str, partition: str, *, config: dict[str, Any]) -> None:
    """Launch one partition of a job, as a schedule would."""
    asked = """mutation($one: LaunchBackfillParams!) { launchPartitionBackfill(backfillParams: $one) {
        __typename ... on PythonError { message } } }"""
    selector = {"repositorySelector": REPOSITORY, "partitionSetName": f"{job}_partition_set"}
    one = {"selector": selector, "partitionNames": [partition], "runConfigData": json.dumps(config)}
    answer = ui.ask(asked, one=one)["launchPartitionBackfill"]
    if answer["__typename"] != "LaunchBackfillSuccess":
        sys.exit(f"{job} {partition} was not launched: {answer}")


def until_scored(ui: Ui, story: Story) -> None:
    """Wait for the new vintage, its scores with the baselines, the model's answers, and its scores again."""
    for job, partition, after, what in (
        ("freeze", "main-v2", 0, "the next vintage is frozen"),
        ("predict", f"main-v2|{MODEL}", 0, "both arms of the model"),
        ("evaluate", "main-v2", 0, "scores, audit, report"),
    ):
        run = ui.wait(f"{job} {partition}", ended(ui, job, partition, after=after), limit_s=300)
        story.tell(f"{by_sensor(run)} ({what})")
    ui.wait("nothing runs", lambda: all(run.status in DONE for run in ui.runs()), limit_s=240)
    last = next(run for run in ui.runs() if (run.job, run.partition) == ("evaluate", "main-v2"))
    story.tell(by_sensor(last) + " (with the model's forecasts)")


def nothing_more(ui: Ui, story: Story) -> None:
    """Let every sensor look again and see that none asks for anything that it has asked for."""
    before = {name: ui.ticks(name)[0]["tickId"] for name in SENSORS}

    def looked() -> bool:
        return all(ui.ticks(name)[0]["tickId"] != seen for name, seen in before.items())

    ui.wait("every sensor looks again", looked, limit_s=90)
    ui.wait("nothing runs", lambda: all(run.status in DONE for run in ui.runs()), limit_s=240)
    keys = [run.tags["dagster/run_key"] for run in ui.runs() if "dagster/run_key" in run.tags]
    if len(keys) != len(set(keys)):
        sys.exit(f"Something was asked for twice: {sorted(keys)}")
    failed = [tick for name in SENSORS for tick in ui.ticks(name) if tick["status"] == "FAILURE"]
    if failed:
        sys.exit(f"A sensor failed: {failed[0]['error']}")
    story.tell(f"every sensor looked again: {len(keys)} requests in all, none twice, no tick failed")


def finish(root: Root, story: Story) -> None:
    """Print the score table and the times; fail when the vintage is not what it should be."""
    asked = root.hindcast("evalset", "show", "main-v2")["questions"]
    scored = root.hindcast("score", "--eval-set", "main-v2")
    out = Console(width=110)
    out.print(score_table(scored))
    table = Table("seconds", "what happened", title="From a file and a listing to scores, untouched", box=None)
    for at, text in story.lines:
        table.add_row(f"{at:.1f}", text)
    out.print(table)
    answered = {(cell["model"], cell["arm"]) for cell in scored["cells"] if cell["n"] or cell["unparsed"]}
    wanted = {("none", "market_price"), (MODEL, "zero_shot"), (MODEL, "retrieval")}
    if len(asked) < VINTAGE_MIN or not wanted <= answered:
        sys.exit(f"The vintage main-v2 is not whole: {len(asked)} questions, answered {sorted(answered)}.")


def main() -> None:
    """Run the show in a temporary folder."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else "")
    parser.add_argument("--questions", type=int, default=1, help="questions that the model answers in each arm")
    options = parser.parse_args()
    if not MARKETS.exists():
        print("scripts/show_automation.py: the real samples (../shared/data) are not here; nothing shown.")
        return
    with tempfile.TemporaryDirectory() as work:
        show(Path(work), Story(), questions=options.questions)


if __name__ == "__main__":
    main()
