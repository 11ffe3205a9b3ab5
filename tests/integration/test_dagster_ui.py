"""Dagster's UI in a real browser, started as `make ui` does: what an operator clicks, and what is there to read.

The clicks are real. Whether runs have ended is asked of the server, because a page says so late.
"""

import os
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from hindcast_dagster.sample.world import generate
from hindcast_dagster.sample.write import write
from hindcast_dagster.storage.store import open_store
from scripts.dagster_ui import DONE, LOCATION, Ui, running

CHROMIUM = Path("/usr/bin/chromium")
FIRST, LAST = "2025-08", "2025-11"
MONTHS = ("2025-08", "2025-09", "2025-10", "2025-11")
GROUPS = ("corpus", "archive", "markets", "evaluation", "forecasts", "scores")
CONFIG = f"""
[window]
first_month = "{FIRST}"
last_month = "{LAST}"
first_close_month = "{FIRST}"

[embedding]
model = "minilm"

[polymarket]
source = "sample"

[sample]
months = 4
first_month = "{FIRST}"
"""
pytestmark = [pytest.mark.browser, pytest.mark.slow, pytest.mark.timeout(280)]


@pytest.fixture(scope="module")
def ui(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Ui]:
    """`make ui` over a root with four months of the sample world's dumps and nothing built."""
    if not CHROMIUM.exists():
        assert not os.environ.get("CI"), "Chromium must be installed where CI runs (apt-get install chromium)."
        pytest.skip("Chromium is not installed")
    root = tmp_path_factory.mktemp("ui")
    (root / "hindcast.toml").write_text(CONFIG, encoding="utf-8")
    write(open_store(root), generate(months=4, first_month=FIRST))
    with running(root=root, home=tmp_path_factory.mktemp("home")) as found:
        yield found


@pytest.fixture(scope="module")
def complaints() -> list[str]:
    """What the page or the server complained about; every test leaves it empty."""
    return []


@pytest.fixture(scope="module")
def tab(ui: Ui, complaints: list[str]) -> Iterator[Any]:
    from playwright.sync_api import sync_playwright

    def console(message: Any) -> None:
        if message.type == "error":
            complaints.append(message.text)

    def request(asked: Any) -> None:
        if not asked.url.startswith((ui.url, ui.url.replace("http", "ws"), "data:", "blob:")):
            complaints.append(f"left this machine: {asked.url}")

    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=str(CHROMIUM), args=["--no-sandbox", "--disable-gpu"])
        page = browser.new_page(viewport={"width": 1600, "height": 1000})
        page.set_default_timeout(60_000)
        page.on("console", console)
        page.on("pageerror", lambda error: complaints.append(str(error)))
        page.on("request", request)
        page.on("response", lambda got: complaints.append(f"{got.status} {got.url}") if got.status >= 400 else None)
        yield page
        browser.close()


@pytest.fixture(autouse=True)
def nothing_to_complain_about(complaints: list[str]) -> Iterator[None]:
    yield
    assert complaints == []


def launch(tab: Any, ui: Ui, partitions: str, button: str) -> None:
    """Open the asset `submissions`, choose partitions in the dialog and press the button that launches them."""
    tab.goto(f"{ui.url}/assets/submissions")
    tab.get_by_role("button", name="Materialize…").click()
    dialog = tab.get_by_role("dialog")
    dialog.get_by_placeholder("ex: ").fill(partitions)
    tab.keyboard.press("Tab")
    dialog.get_by_role("button", name=button).click()
    dialog.wait_for(state="hidden")


def finished(ui: Ui, months: tuple[str, ...]) -> bool:
    """Whether the newest run of every month has ended; one that failed fails the test."""
    ended = {run.partition: run.status for run in reversed(ui.runs()) if run.status in DONE}
    assert set(ended.values()) <= {"SUCCESS"}, ended
    return set(months) <= ended.keys()


def completed(ui: Ui) -> str | None:
    """The id of the one backfill when it is done; one that failed fails the test."""
    query = "{ partitionBackfillsOrError { ... on PartitionBackfills { results { id status numPartitions } } } }"
    (found,) = ui.ask(query)["partitionBackfillsOrError"]["results"]
    assert found["numPartitions"] == 3
    assert "FAILED" not in found["status"]
    return str(found["id"]) if found["status"].startswith("COMPLETED") else None


def test_the_asset_graph_shows_every_group_and_asset(tab: Any, ui: Ui, tmp_path: Path) -> None:
    tab.goto(f"{ui.url}/asset-groups")
    tab.get_by_text("Global asset lineage").wait_for()
    for group in GROUPS:
        tab.get_by_text(group, exact=True).first.wait_for()
    tab.keyboard.press("Alt+KeyE")  # expands every group
    tab.get_by_text("submission_index", exact=True).first.wait_for()
    nodes = ui.ask("{ assetNodes { assetKey { path } groupName description } }")["assetNodes"]
    assert {node["groupName"] for node in nodes} == set(GROUPS)
    for node in nodes:
        name = node["assetKey"]["path"][-1]
        shortened = re.compile(rf"^({name}|{name[:6]}.*….*)$")  # the graph cuts long names in the middle
        tab.get_by_text(shortened).first.wait_for(state="attached")
        assert node["description"]
    assert len(tab.screenshot(path=str(tmp_path / "graph.png"))) > 20_000


def test_no_dialog_asks_to_sign_up(tab: Any, ui: Ui) -> None:
    tab.goto(ui.url)
    tab.get_by_text("Lineage", exact=True).first.wait_for()
    tab.wait_for_timeout(2000)  # the sign-up dialog of a fresh instance comes by itself
    assert tab.get_by_role("dialog").count() == 0
    assert tab.get_by_text(re.compile("newsletter|sign up|email", re.IGNORECASE)).count() == 0


def test_a_month_is_launched_and_succeeds(tab: Any, ui: Ui) -> None:
    launch(tab, ui, MONTHS[0], "Launch")
    ui.wait("one month succeeds", lambda: finished(ui, MONTHS[:1]))


def test_a_backfill_of_three_months_succeeds(tab: Any, ui: Ui) -> None:
    launch(tab, ui, f"[{MONTHS[1]}...{MONTHS[3]}]", "Launch backfill")
    ui.wait("three months succeed", lambda: finished(ui, MONTHS), limit_s=200)
    backfill = ui.wait("the backfill says that it is done", lambda: completed(ui))
    tab.goto(f"{ui.url}/runs/b/{backfill}")
    tab.get_by_text(backfill).first.wait_for()
    tab.get_by_role("link", name="submissions").first.wait_for()
    tab.goto(f"{ui.url}/assets/submissions?view=partitions")
    tab.get_by_text("Materialized (4)").wait_for()
    tab.get_by_text("Missing (0)").wait_for()


def test_a_month_shows_its_rows_and_its_ledger(tab: Any, ui: Ui) -> None:
    tab.goto(f"{ui.url}/assets/submissions?view=partitions&partition={MONTHS[0]}")
    for shown in ("dagster/row_count", "low_score"):  # the heading is there before the rows are
        tab.get_by_role("row").filter(has_text=shown).first.wait_for()
    rows = tab.get_by_role("row").all_inner_texts()
    said = {row.split()[0]: row for row in rows if row.strip()}
    assert int(said["dagster/row_count"].split()[1].replace(",", "")) > 100
    assert "other_subreddit" in " ".join(rows)


def test_the_checks_say_what_they_looked_at(tab: Any, ui: Ui) -> None:
    tab.goto(f"{ui.url}/assets/submissions?view=checks")
    tab.get_by_text("month_health").first.wait_for()
    tab.get_by_text("contract", exact=True).first.click()
    tab.get_by_text("Passed", exact=True).first.wait_for()
    tab.get_by_text(re.compile(r"^\d+ of \d+ expectations hold")).wait_for()
    tab.get_by_role("row").filter(has_text="created_at").first.wait_for()
    tab.get_by_text("month_health").first.click()
    tab.get_by_text(re.compile(r"^(ok|unknown)")).first.wait_for()


def test_columns_are_explained(tab: Any, ui: Ui) -> None:
    tab.goto(f"{ui.url}/assets/submissions")
    tab.get_by_text("Columns", exact=True).first.wait_for()
    tab.get_by_role("row").filter(has_text="engagement_as_of").filter(has_text="votes").first.wait_for()


def test_what_starts_by_itself_is_listed_and_off(tab: Any, ui: Ui) -> None:
    tab.goto(f"{ui.url}/automation")
    for name in ("new_dumps", "partitions", "vintages", "predictions", "scores", "daily_markets", "weekly_rerun"):
        tab.get_by_text(name, exact=True).first.wait_for()
    tab.get_by_text(LOCATION, exact=True).first.wait_for()
    states = ui.ask(
        "query($one: RepositorySelector!) { repositoryOrError(repositorySelector: $one) { ... on Repository {"
        " sensors { sensorState { status } } schedules { scheduleState { status } } } } }",
        one={"repositoryLocationName": LOCATION, "repositoryName": "__repository__"},
    )["repositoryOrError"]
    found = [each["sensorState"]["status"] for each in states["sensors"]]
    found += [each["scheduleState"]["status"] for each in states["schedules"]]
    assert found == ["STOPPED"] * 7
