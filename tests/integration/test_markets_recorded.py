"""The 104 recorded markets through the recorded server: the numbers of the field notes, faults, kill -9 and resume."""

import gzip
import json
import os
import signal
import subprocess
import sys
import time
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import polars as pl
import pytest

from hindcast_dagster.evalset.build import build
from hindcast_dagster.markets.fetch import fetch
from hindcast_dagster.markets.read import month_prices
from hindcast_dagster.questions.load import load as load_questions
from hindcast_dagster.settings import Settings, load
from hindcast_dagster.storage.store import Store, open_store

pytestmark = [pytest.mark.shared]
RECORDED = "data/polymarket/resolved_markets_with_history_open.jsonl.gz"


@contextmanager
def stub(shared: Path, *, recorded: Path | None = None, faults: str = "", page_cap: int = 100) -> Iterator[str]:
    """Run the recorded server on a free port and yield its URL."""
    command = [
        sys.executable, str(shared / "tools/polymarket_stub.py"), str(recorded or shared / RECORDED), "--port", "0",
        "--faults", faults, "--page-cap", str(page_cap),
    ]  # fmt: skip
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as server:
        assert server.stdout is not None
        try:
            yield server.stdout.readline().split()[-1]
        finally:
            server.kill()


def asked(url: str) -> dict[str, int]:
    with urllib.request.urlopen(f"{url}/__requests") as answer:
        found: dict[str, int] = json.load(answer)
    return found


def settings_for(root: Path, url: str) -> Settings:
    return load(data_root=str(root), polymarket={"gamma_url": url, "clob_url": url, "data_url": url})


def scores(store: Store, settings: Settings, name: str, **options: Any) -> tuple[int, float, float]:
    """Build an eval set and return n, the market's Brier score and its accuracy."""
    build(store, settings, name=name, policy="day_before_close", **options)
    pairs = [(each.question.price_at_t0, each.y) for each in load_questions(store, name)]
    assert all(price is not None for price, _ in pairs)
    known = [(price, y) for price, y in pairs if price is not None]
    brier = sum((price - y) ** 2 for price, y in known) / len(known)
    accuracy = sum((price > 0.5) == y for price, y in known) / len(known)
    return len(known), round(brier, 5), round(accuracy, 4)


def few(shared: Path, path: Path, count: int) -> Path:
    """Write the first markets of the recording."""
    with gzip.open(shared / RECORDED, "rt") as lines, gzip.open(path, "wt") as out:
        out.writelines(line for _, line in zip(range(count), lines, strict=False))
    return path


@pytest.fixture(scope="session")
def fetched(shared: Path, tmp_path_factory: pytest.TempPathFactory) -> tuple[Store, Settings, dict[str, int]]:
    """All 104 markets, fetched once, in pages of 40."""
    root = tmp_path_factory.mktemp("recorded")
    with stub(shared, page_cap=40) as url:
        store, settings = open_store(root), settings_for(root, url)
        report = fetch(store, settings)
        assert (report.fetched, report.parsed, report.kept, report.excluded) == (104, 104, 104, {})
        return store, settings, asked(url)


Fetched = tuple[Store, Settings, dict[str, int]]


@pytest.mark.slow
def test_the_market_baseline_of_the_field_notes(fetched: Fetched) -> None:
    store, settings, _ = fetched
    assert scores(store, settings, "all") == (104, 0.0219, 0.9712)


@pytest.mark.slow
def test_prices_of_at_most_36_hours(fetched: Fetched) -> None:
    store, settings, _ = fetched
    assert scores(store, settings, "fresh", max_price_age_h=36)[:2] == (92, 0.01938)
    stats = store.partition("eval_set", "fresh").require().manifest.stats
    assert stats["excluded"] == {"stale_price": 12}


@pytest.mark.slow
def test_t0_capped_at_the_end_of_the_papers_archive(fetched: Fetched) -> None:
    store, settings, _ = fetched
    n, brier, _ = scores(store, settings, "capped", archive_end="2026-01-31")
    assert (n, round(brier, 4)) == (92, 0.0365)
    stats = store.partition("eval_set", "capped").require().manifest.stats
    assert stats["excluded"] == {"no_price_before_t0": 12}
    assert max(each.question.t0.epoch for each in load_questions(store, "capped")) == 1_769_817_600


@pytest.mark.slow
def test_nothing_was_asked_for_twice(fetched: Fetched) -> None:
    _, _, requests = fetched
    assert {path: count for path, count in requests.items() if count > 1} == {}
    assert sum("keyset" in path for path in requests) == 3


@pytest.mark.slow
def test_yes_and_no_sum_to_one_on_the_sample(fetched: Fetched) -> None:
    store, _, _ = fetched
    checks = [check for manifest in store.manifests("market_prices") for check in manifest.checks]
    assert len(checks) == 8
    assert all(check.passed and "0 of 0" not in check.detail for check in checks)


@pytest.mark.slow
@pytest.mark.parametrize(
    ("faults", "cap", "count"),
    [("429=5,500=7,html=11,drop=13", 2, 5), ("empty=9", 100, 12), ("dup", 7, 12), ("empty=3,dup", 5, 8)],
)
def test_faults_give_the_same_prices(  # noqa: PLR0917 - fixtures and a table
    shared: Path, tmp_path: Path, fetched: Fetched, faults: str, cap: int, count: int
) -> None:
    """A few of the markets: a 429 costs a second each."""
    recorded = few(shared, tmp_path / "few.jsonl.gz", count)
    with stub(shared, recorded=recorded, faults=faults, page_cap=cap) as url:
        store, settings = open_store(tmp_path / "root"), settings_for(tmp_path / "root", url)
        assert fetch(store, settings).kept == count
    whole = fetched[0]
    for month in [key[0] for key in store.sealed_keys("market_prices")]:
        prices = month_prices(store, month)
        same = month_prices(whole, month).filter(pl.col("market_id").is_in(prices["market_id"].implode()))
        assert prices.select("market_id", "at", "price").equals(same.select("market_id", "at", "price"))


def run_fetch(root: Path, url: str) -> "subprocess.Popen[bytes]":
    environment = {
        "PATH": os.environ["PATH"],
        "HINDCAST_DATA_ROOT": str(root),
        **{f"HINDCAST_POLYMARKET__{name}_URL": url for name in ("GAMMA", "CLOB", "DATA")},
        "HINDCAST_POLYMARKET__WORKERS": "2",
    }
    code = "from hindcast_dagster.cli.main import run; run(['markets', 'fetch', '--json'])"
    return subprocess.Popen([sys.executable, "-c", code], env=environment, stdout=subprocess.PIPE)


@pytest.mark.slow
def test_killed_again_and_again_it_repeats_only_what_was_in_flight(shared: Path, tmp_path: Path) -> None:
    recorded = few(shared, tmp_path / "few.jsonl.gz", 30)
    root = tmp_path / "root"
    kills = 0
    with stub(shared, recorded=recorded, page_cap=4, faults="slow=0.02") as url:
        for wanted in (3, 40, 150):  # in the listing, in the prices, later in the prices
            with run_fetch(root, url) as child:
                while sum(asked(url).values()) < wanted and child.poll() is None:
                    time.sleep(0.02)
                if child.poll() is None:
                    child.send_signal(signal.SIGKILL)
                    kills += 1
        with run_fetch(root, url) as child:
            assert child.stdout is not None
            report = json.loads(child.stdout.read())
        requests = asked(url)
    assert kills == 3
    assert report["kept"] == 30
    assert sum(count - 1 for count in requests.values()) <= kills * 2  # two workers
