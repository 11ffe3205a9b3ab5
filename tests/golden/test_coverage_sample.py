"""The probe on the sample world: with a judge that knows the planted truth, tallies and selection are that truth."""

import json
import re
import sys
import tempfile
from pathlib import Path
from typing import NamedTuple

import polars as pl
import pytest

from hindcast_dagster.archive.protocol import Document
from hindcast_dagster.clock import month_of
from hindcast_dagster.contracts.coverage import COVERAGE
from hindcast_dagster.contracts.markets import MARKETS, PRICES
from hindcast_dagster.coverage import probe
from hindcast_dagster.coverage.llm_judge import LlmJudge
from hindcast_dagster.evalset.build import build
from hindcast_dagster.evalset.config import Choice
from hindcast_dagster.evalset.portable import export, import_file
from hindcast_dagster.evalset.select import select
from hindcast_dagster.llm.protocol import Completion
from hindcast_dagster.questions.load import load as load_questions
from hindcast_dagster.sample.world import World, generate
from hindcast_dagster.settings import Settings, load
from hindcast_dagster.storage.store import Store, open_store
from hindcast_dagster.storage.tables import publish_table, read_table
from tests.leak_world import market_row
from tests.toy_archive import ToyArchive

MONTHS = 3
GOLDEN = Path(__file__).with_name("coverage_selection.json")
"""What each of these choices selects. Written by `python -m tests.golden.test_coverage_sample`."""
CHOICES = {
    "balanced": {"choice": Choice(balanced=True)},
    "eight": {"size": 8, "seed": 7},
    "one-per-event": {"choice": Choice(balanced=True, per_event=1), "seed": 2},
    "weeks-ahead": {"policy": "days_before:3", "choice": Choice(balanced=True, min_lead_h=72.0)},
}
STORY = {"queries_per_side": 1, "hits_per_query": 50, "blocks_per_call": 50, "block_chars": 100_000}


class Knowing:
    """Labels the posts that were planted for a market, by their text: strong for the side where it points."""

    slug, revision, context_length = "knowing", "1", 10_000_000

    def __init__(self, world, posts):
        self.told = {planted.question: planted for planted in world.planted}
        self.key_of = {(post.title or "", post.text.strip()): post.key for post in posts}

    def count_tokens(self, text):
        return len(text) // 4

    async def complete(self, messages, *, decoding, schema=None):
        prompt = messages[-1].content
        planted = self.told[re.search(r"^Question: (.*)$", prompt, re.MULTILINE)[1]]
        return Completion(
            self.answer(prompt, planted),
            "",
            "stop",
            unfinished_thought=False,
            tokens_in=1,
            tokens_out=1,
            tokens_cached=0,
            latency_s=0.0,
            attempts=1,
            model_revision="1",
        )

    def answer(self, prompt, planted):
        if "<blocks>" in prompt:
            side = re.search(r"resolves (Yes|No)\.", prompt)[1]
            blocks = re.findall(r'<block number="(\d+)".*?>\n(.*?)\n(.*?)\n?</block>', prompt, re.DOTALL)
            return json.dumps(
                {"labels": {number: self.label(title, text, side, planted) for number, title, text in blocks}}
            )
        if "queries for each" in prompt:
            return json.dumps({"yes": [planted.question], "no": [planted.question]})
        strong = sum(int(count) for count in re.findall(r"^(?:Yes|No): (\d+) strong", prompt, re.MULTILINE))
        return json.dumps({"contrast": 0.5, "evidence_quality": "strong" if strong else "none"})

    def label(self, title, text, side, planted):
        key = self.key_of.get((title, text.strip()))
        if key not in {*planted.before, *planted.between}:
            return "irrel"
        return "contra" if planted.direction not in {side, None} else "strong"

    async def close(self):
        pass


def made(root, *, knowing=Knowing, mark=""):
    """Return the sample world, its posts, and a store with its resolved markets, their prices and their probes.

    `mark` is what a judge other than `Knowing` ends its queries with.
    """
    world = generate(months=MONTHS)
    store = open_store(root)
    by_month = {}
    for market in world.markets:
        if market.status == "resolved":
            row = market_row(
                market_id=market.market_id, question=market.question, rules=market.rules, outcome=market.outcome,
                event_id=market.event_id, topic=market.story.topic, open_at=market.open_at, close_at=market.close_at,
                planned_close=market.planned_close,
            )  # fmt: skip
            by_month.setdefault(month_of(market.close_at), []).append(row)
    for month, rows in by_month.items():
        publish_table(store.partition("markets", month), MARKETS.frame(rows), MARKETS, code_version="1")
        prices = [
            {"market_id": row["market_id"], "at": row["open_at"], "price": 0.5, "route": "clob", "step_s": 60}
            for row in rows
        ]
        publish_table(store.partition("market_prices", month), PRICES.frame(prices), PRICES, code_version="1")
    kept = {post.key: post for posts in world.posts.values() for post in posts if post.fate == "kept"}
    posts = [shown(post) for post in kept.values() if post.kind == "submission"]
    planted = {one.question: {*one.before, *one.between, *one.after, *one.late_text} for one in world.planted}
    archive = ToyArchive(
        posts, distance=lambda query, post: 0.1 if post.key in planted[query.removesuffix(mark)] else 0.9
    )
    settings = load(data_root=str(store.root), coverage=STORY)
    judge = LlmJudge(knowing(world, posts), settings.coverage)
    for month in by_month:
        for as_of in ("close", "t0"):
            probe.build(store, settings, month=month, judge=judge, as_of=as_of, archive=archive)
    return Sample(world, {post.key for post in posts}, store, settings, sorted(by_month))


class Sample(NamedTuple):
    """The world, the keys of its posts, the store and its close months."""

    world: World
    posts: set[str]
    store: Store
    settings: Settings
    months: list[str]


@pytest.fixture(scope="module")
def built(tmp_path_factory):
    return made(tmp_path_factory.mktemp("coverage") / "root")


@pytest.fixture(scope="module")
def sample(built):
    frames = [read_table(built.store.partition("coverage_probe", month).require(), COVERAGE) for month in built.months]
    return built.world, built.posts, pl.concat(frames)


def shown(post):
    return Document(
        id=post.id, doc_type="submission", subreddit=post.subreddit, author=post.author, title=post.title,
        text=post.text, created_at=post.created_at, text_as_of=post.text_as_of, engagement_as_of=post.fetched_at,
        score=post.score, num_comments=post.num_comments, link_id=None, parent_id=None, permalink=None, url=post.url,
        month=month_of(post.created_at),
    )  # fmt: skip


@pytest.mark.parametrize("as_of", ["t0", "close"])
def test_tallies_equal_the_planted_truth(sample, as_of):
    world, posts, frame = sample
    rows = {row["market_id"]: row for row in frame.filter(pl.col("as_of") == as_of).iter_rows(named=True)}
    checked = 0
    for planted in world.planted:
        if planted.status != "resolved":
            continue
        visible = planted.before if as_of == "t0" else (*planted.before, *planted.between)
        count = len(posts.intersection(visible))
        row = rows[planted.market_id]
        assert row["at"] == (planted.t0 if as_of == "t0" else planted.close_at)
        for side in ("Yes", "No"):
            against = planted.direction not in {side, None}
            assert row[f"{side.lower()}_strong"] == (0 if against else count), planted
            assert row[f"{side.lower()}_contra"] == (count if against else 0)
        assert row["evidence_quality"] == ("strong" if count else "none")
        assert row["resolved_contrast"] == (row["contrast"] if planted.outcome == "Yes" else -row["contrast"])
        checked += 1
    assert checked == len(rows) >= 5 * MONTHS


def test_the_probe_at_the_close_sees_what_nobody_at_t0_can(sample):
    _, _, frame = sample
    seen = frame.group_by("as_of").agg(pl.col("yes_strong", "no_strong").sum())
    by = {row["as_of"]: row["yes_strong"] + row["no_strong"] for row in seen.iter_rows(named=True)}
    assert by["close"] > by["t0"] > 0


def test_selection_keeps_the_discussed_and_balances_them(sample):
    world, posts, frame = sample
    markets = {market.market_id: market for market in world.markets}
    rows = frame.filter(pl.col("as_of") == "close").rename({"market_id": "id"})
    pool = rows.with_columns(
        event_id=pl.Series([markets[name].event_id for name in rows["id"]]),
        outcome=pl.Series([markets[name].outcome for name in rows["id"]]),
        topic=pl.Series([markets[name].story.topic for name in rows["id"]]),
        t0=pl.Series([markets[name].t0 for name in rows["id"]]),
        close_at=pl.Series([markets[name].close_at for name in rows["id"]]),
        price_at_t0=pl.lit(0.5),
    )
    told = {one.market_id: bool(posts & {*one.before, *one.between}) for one in world.planted}
    found = select(pool, seed=1)
    assert all(told[name] for name in found.ids)
    silent = [name for name in pool["id"] if not told[name]]
    assert found.excluded.get("evidence_none", 0) == len(silent) > 0
    outcomes = [markets[name].outcome for name in found.ids]
    rarer = min(sum(markets[name].outcome == side for name in pool["id"] if told[name]) for side in ("Yes", "No"))
    assert outcomes.count("Yes") == outcomes.count("No") == rarer > 0


def selected(store, settings):
    """Build every set of `CHOICES` and return, by name, what it took and how it came to that."""
    found = {}
    for name, asked in CHOICES.items():
        manifest = build(store, settings, name=name, **({"policy": "day_before_close", "keep": "strong"} | asked))
        found[name] = {
            "markets": [question.question.id for question in load_questions(store, name)],
            "funnel": manifest.stats["funnel"],
            "taken": manifest.stats["selection"]["taken"],
        }
    return found


def test_selections_equal_the_golden_list(built):
    assert selected(built.store, built.settings) == json.loads(GOLDEN.read_text(encoding="utf-8"))


def test_the_whole_way_twice_gives_identical_sets(built, tmp_path):
    """World, markets, probe, selection: made again elsewhere the manifests differ in `made_at` alone."""
    selected(built.store, built.settings)
    again = made(tmp_path / "root")
    selected(again.store, again.settings)
    for name in CHOICES:
        first, second = (each.store.partition("eval_set", name).require().manifest for each in (built, again))
        assert first.without_time() == second.without_time()
        assert first.rows >= 2


def test_an_exported_set_carries_no_post(built, tmp_path):
    """Every post of the world is a canary: neither its text, its title, its author nor its id is in the file."""
    selected(built.store, built.settings)
    path = export(built.store, name="balanced").path
    written = path.read_text(encoding="utf-8")
    posts = [post for posts in built.world.posts.values() for post in posts if post.fate == "kept"]
    assert len(posts) > 100
    asked = " ".join(market.question + market.rules for market in built.world.markets)
    for post in posts:
        for text in (post.text, post.title):
            assert not text or text.strip() in asked or json.dumps(text.strip())[1:-1] not in written
        assert f'"{post.id}"' not in written
        assert f'"{post.author}"' not in written
    other = open_store(tmp_path / "elsewhere")
    import_file(other, path)
    assert load_questions(other, "balanced") == load_questions(built.store, "balanced")


if __name__ == "__main__":
    with tempfile.TemporaryDirectory() as folder:
        fresh = made(Path(folder) / "root")
        GOLDEN.write_text(json.dumps(selected(fresh.store, fresh.settings), indent=1) + "\n", encoding="utf-8")
    sys.stdout.write(f"{GOLDEN}\n")
