"""The sample world through the stages that need no model: what was planted is what the pipeline finds."""

from collections import Counter
from collections.abc import Iterator
from pathlib import Path

import pytest

from hindcast_dagster.corpus import build as corpus
from hindcast_dagster.corpus import ledger, subreddits
from hindcast_dagster.evalset import build as evalset
from hindcast_dagster.markets import fetch
from hindcast_dagster.markets.read import all_markets
from hindcast_dagster.questions.load import load as load_questions
from hindcast_dagster.sample.filler import OUTSIDE, SUBREDDITS
from hindcast_dagster.sample.model import Status
from hindcast_dagster.sample.people import BOTS
from hindcast_dagster.sample.server import serve
from hindcast_dagster.sample.world import World, generate
from hindcast_dagster.sample.write import write
from hindcast_dagster.settings import Settings, load
from hindcast_dagster.storage.store import Store, open_store

MONTHS = 4

# What the outcome rule says about each planted status; `open` is not in the listing of closed markets, and a market
# without a close time belongs to no month.
REASONS: dict[Status, str] = {
    "up_down": "not_binary", "three_way": "not_binary", "void_50_50": "void_50_50", "disputed": "not_resolved",
    "provisional": "provisional", "unsettled_price": "unsettled_price",
}  # fmt: skip


@pytest.fixture(scope="module")
def world() -> World:
    return generate(months=MONTHS)


@pytest.fixture(scope="module")
def fetched(world: World, tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[Store, Settings]]:
    store = open_store(tmp_path_factory.mktemp("sample"))
    with serve(world) as url:
        urls = {"gamma_url": url, "clob_url": url, "data_url": url}
        settings = load(data_root=str(store.root), polymarket=urls)
        fetch.fetch(store, settings)
        yield store, settings


def test_subreddits_are_those_of_the_default_list() -> None:
    kept = subreddits.read()
    assert {name.lower() for name in SUBREDDITS} <= kept
    assert not {name.lower() for name in OUTSIDE} & kept


def test_the_corpus_counts_what_was_planted(world: World, store: Store, settings: Settings) -> None:
    write(store, world)
    for month in world.months[:2]:
        for kind in ("submissions", "comments"):
            corpus.build(store, settings, month=month, kind=kind)  # type: ignore[arg-type]
            found = ledger.read(store, month, kind)
            planted = world.ledger(kind, month)  # type: ignore[arg-type]
            assert found.kept == planted.pop("kept")
            assert {reason: count for reason, count in found.dropped.items() if count} == planted
            assert found.stats["health"]["verdict"] != "hollow"


def test_a_list_of_bots_drops_their_posts_too(world: World, store: Store, tmp_path: Path) -> None:
    write(store, world)
    bots = tmp_path / "bots.txt"
    bots.write_text("\n".join(BOTS).lower(), encoding="utf-8")
    settings = load(data_root=str(store.root), corpus={"bots_file": bots})
    month = world.months[0]
    corpus.build(store, settings, month=month, kind="comments")
    found, planted = ledger.read(store, month, "comments"), world.ledger("comments", month)
    by_bots = [post.fate for post in world.posts["comments", month] if post.author in BOTS]
    assert found.dropped["bot"] == len(by_bots) - by_bots.count("other_subreddit")
    assert found.kept == planted["kept"] - by_bots.count("kept") < planted["kept"]


def test_markets_come_out_with_their_planted_outcomes(world: World, fetched: tuple[Store, Settings]) -> None:
    frame = all_markets(fetched[0])
    found = {row["market_id"]: row for row in frame.iter_rows(named=True)}
    for market in world.markets:
        if market.status in {"open", "no_close_time"}:
            assert market.market_id not in found
            continue
        row = found[market.market_id]
        assert row["outcome"] == market.outcome
        assert row["excluded"] == REASONS.get(market.status)
        assert row["close_at"] == market.close_at
        assert row["open_at"] == market.open_at
        if market.status == "resolved":
            assert row["yes_token"] == market.yes_token
            assert row["topic"] == market.story.topic
            assert row["rules"] == market.rules
            assert row["addenda"] == market.addendum.strip()
            assert row["early_resolved"] == (market.planned_close > market.close_at)


def test_an_eval_set_of_the_world_has_its_golden_values(world: World, fetched: tuple[Store, Settings]) -> None:
    store, settings = fetched
    evalset.build(store, settings, name="sample", policy="day_before_close")
    questions = {found.question.id: found for found in load_questions(store, "sample")}
    priced = {key: golden for key, golden in world.golden.items() if golden.status == "resolved" and golden.price_at_t0}
    assert set(questions) == set(priced)
    for key, golden in priced.items():
        found = questions[key]
        assert found.question.t0.epoch == golden.t0
        assert found.outcome == golden.outcome
        assert found.close_at == golden.close_at
        assert found.question.price_at_t0 == pytest.approx(golden.price_at_t0)
    assert Counter(found.outcome for found in questions.values())["Yes"] >= len(questions) // 4


def test_no_question_shows_a_note_that_states_the_outcome(world: World, fetched: tuple[Store, Settings]) -> None:
    noted = {market.market_id: market for market in world.markets if market.addendum}
    assert len(noted) >= 5
    for row in all_markets(fetched[0]).iter_rows(named=True):
        shown = f"{row['question']} {row['rules']}"
        assert "consensus" not in shown
        assert row["market_id"] not in noted or noted[row["market_id"]].addendum.strip() not in shown
