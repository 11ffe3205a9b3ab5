"""The sample world: deterministic, readable as real dumps are, and with the planted truth where it says it is."""

import importlib.util
import json
import re
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

import pytest
import zstandard
from hypothesis import given, settings
from hypothesis import strategies as st

from hindcast_dagster import clock, keys
from hindcast_dagster.clock import T0Policy
from hindcast_dagster.contracts.questions import TOPICS
from hindcast_dagster.errors import InputRefused, UsageError
from hindcast_dagster.sample.model import Post
from hindcast_dagster.sample.stories import stories
from hindcast_dagster.sample.world import World, generate
from hindcast_dagster.sample.write import compress, write
from hindcast_dagster.storage.store import Store

MONTHS = 6
ROOT = Path(__file__).resolve().parent.parent.parent


@pytest.fixture(scope="module")
def world() -> World:
    return generate(months=MONTHS)


@pytest.fixture(scope="module")
def small() -> World:
    return generate(months=2)


@pytest.fixture(scope="module")
def posts(world: World) -> dict[str, Post]:
    """Every kept row by key; the repeated rows share the key of their original and are left out."""
    return {post.key: post for rows in world.posts.values() for post in rows if post.fate == "kept"}


def test_one_seed_gives_one_world_down_to_the_bytes(small: World) -> None:
    again, other = generate(months=2), generate(months=2, seed=1)
    assert again.planted == small.planted
    assert again.gamma_rows == small.gamma_rows
    for kind, month in small.posts:
        assert compress(again.lines(kind, month)) == compress(small.lines(kind, month))
    assert not set(other.golden) & set(small.golden)


def test_dumps_have_the_published_shape(small: World, store: Store) -> None:
    write(store, small)
    found = sorted(path.name for path in store.area("dumps").glob("*.zst"))
    assert found == sorted(f"{prefix}_{month}.zst" for prefix in ("RS", "RC") for month in small.months)
    data = store.area("dumps", "RS_2025-09.zst").read_bytes()
    frame = zstandard.get_frame_parameters(data)
    assert frame.window_size == 2**31
    assert frame.content_size == zstandard.CONTENTSIZE_UNKNOWN
    lines = _read(store.area("dumps", "RS_2025-09.zst"))
    assert lines == list(small.lines("submissions", "2025-09"))
    record = json.loads(lines[100])
    assert list(record) == sorted(record)
    assert next(iter(record)) == "_meta"
    assert b'": ' not in lines[100].partition(b'"selftext"')[0]
    assert isinstance(record["created_utc"], int)
    assert {"retrieved_2nd_on"} <= set(record["_meta"])


def test_the_shape_is_the_one_of_the_real_month(world: World, shared: Path) -> None:
    for kind, name in (("submissions", "RS"), ("comments", "RC")):
        schema = json.loads((shared / f"data/reddit/facts/schema_{name}_2025-01.json").read_bytes())[0]["schema"]
        for line in list(world.lines(kind, "2025-10"))[:200]:  # type: ignore[arg-type]
            if line.startswith(b"{") and line.endswith(b"}"):
                record = json.loads(line)
                assert set(record) <= set(schema)
                assert set(record["_meta"]) <= {key for usage in schema["_meta"] for key in usage["schema"]}


def test_a_second_write_leaves_the_files_alone(small: World, store: Store) -> None:
    write(store, small)
    before = {path: path.stat().st_mtime_ns for path in store.area("dumps").iterdir()}
    write(store, small)
    assert {path: path.stat().st_mtime_ns for path in store.area("dumps").iterdir()} == before


def test_another_seed_replaces_what_the_sample_wrote_but_never_other_data(small: World, store: Store) -> None:
    write(store, generate(months=1, seed=5))
    write(store, small)
    path = store.area("dumps", "RC_2025-08.zst")
    assert _read(path) == list(small.lines("comments", "2025-08"))
    path.write_bytes(b"a real dump")
    with pytest.raises(InputRefused, match="is there already"):
        write(store, small)
    assert path.read_bytes() == b"a real dump"


def test_every_drop_reason_of_the_filters_is_planted_every_month(world: World) -> None:
    common = {
        "kept",
        "bad_record",
        "other_subreddit",
        "no_id",
        "duplicate",
        "outside_month",
        "author_gone",
        "text_gone",
    }
    common |= {"score_unknown", "low_score", "few_words"}
    for month in world.months:
        submissions, comments = world.ledger("submissions", month), world.ledger("comments", month)
        assert set(submissions) == common | {"few_comments"}
        assert set(comments) == common | {"too_short", "mostly_link"}
        assert 150 <= submissions["kept"] <= 320
        assert 300 <= comments["kept"] <= 750
        assert sum(submissions.values()) > 3 * submissions["kept"]


def test_every_planted_defect_can_be_seen_in_the_lines(world: World) -> None:
    for kind in ("submissions", "comments"):
        lines = list(world.lines(kind, "2025-11"))
        records = [json.loads(line) for line in lines if line.startswith(b"{") and line.endswith(b"}")]
        assert len(lines) - len(records) == 2
        assert sum(record["created_utc"] is None for record in records) == 1
        times = [record["created_utc"] for record in records if record["created_utc"] is not None]
        assert times != sorted(times)
        assert sum(clock.month_of(at) != "2025-11" for at in times) == 2
        ids = Counter(record["id"] for record in records if record["id"] is not None)
        assert sorted(ids.values())[-3:] == [2, 2, 2]
        assert sum(b"\\ud83d" in line for line in lines) >= 3
        assert sum(isinstance(record["edited"], int) and record["edited"] is not False for record in records) >= 1
        for flag in ("is_edited", "was_initially_deleted", "was_deleted_later"):
            assert sum(record["_meta"].get(flag, False) for record in records) >= 2
        assert {"[deleted]", "RemindMeBot", "AutoModerator"} <= {record["author"] for record in records}
    sharing = [
        record
        for record in map(json.loads, filter(_whole, world.lines("submissions", "2025-11")))
        if "crosspost_parent_list" in record
    ]
    for record in sharing:
        keys.reddit_id(record["crosspost_parent"])
        assert record["crosspost_parent"] == "t3_" + record["crosspost_parent_list"][0]["id"]
    nested = [(record["subreddit"], record["crosspost_parent_list"][0]["subreddit"]) for record in sharing]
    ours = {name for story in stories() for name in story.subreddits}
    assert any(outer in ours and inner not in ours for outer, inner in nested)
    assert any(outer not in ours and inner in ours for outer, inner in nested)


def test_kept_rows_meet_the_floors(posts: dict[str, Post]) -> None:
    for post in posts.values():
        keys.reddit_id(post.id)
        assert post.score is not None
        assert post.score >= 5
        assert len(f"{post.title} {post.text}".split()) >= 20
        assert post.kind == "comment" or post.num_comments >= 3


def test_threads_hang_together_and_reach_into_other_months(posts: dict[str, Post]) -> None:
    comments = [post for post in posts.values() if post.kind == "comment"]
    for post in comments:
        assert post.link is not None
        assert post.parent is not None
        assert post.link.key in posts
        assert post.parent.key in posts
        assert post.parent.created_at < post.created_at
    assert any(
        clock.month_of(post.created_at) != clock.month_of(post.link.created_at) for post in comments if post.link
    )
    assert any(post.parent is not post.link for post in comments)


def test_markets_cover_topics_kinds_and_both_outcomes(world: World) -> None:
    resolved = [planted for planted in world.planted if planted.status == "resolved"]
    assert 40 <= len(world.planted) <= 50
    assert {planted.topic for planted in resolved} == set(TOPICS)
    assert {planted.kind for planted in resolved} == {"fact", "hype", "silence", "contradiction"}
    share = sum(planted.outcome == "Yes" for planted in resolved) / len(resolved)
    assert 0.3 <= share < 0.5
    assert {market.status for market in world.markets} == {
        "resolved", "void_50_50", "disputed", "provisional", "open", "up_down", "three_way", "no_close_time",
        "unsettled_price",
    }  # fmt: skip
    legs = Counter(market.event_id for market in world.markets if market.leg)
    assert set(legs.values()) == {4}
    winners = Counter(market.event_id for market in world.markets if market.leg and market.outcome == "Yes")
    assert set(winners.values()) == {1}
    assert sum(market.series is not None for market in world.markets) == MONTHS
    assert any(market.planned_close > market.close_at + 10 * clock.DAY for market in world.markets)


def test_what_states_an_outcome_came_after_the_close(world: World, posts: dict[str, Post]) -> None:
    markets = {market.market_id: market for market in world.markets}
    for planted in world.planted:
        market = markets[planted.market_id]
        stating = _stating(market.story.lines["won"] + market.story.lines["lost"], market.slots)
        late = set(planted.late_text)
        for post in posts.values():
            if stating.search(f"{post.title} {post.text}"):
                assert post.text_as_of > market.close_at
                assert post.created_at > market.close_at or post.key in late
        for key in planted.after:
            assert stating.search(f"{posts[key].title} {posts[key].text}")
        if planted.outcome is not None:
            assert len(planted.after) >= 2
    assert sum(len(planted.late_text) for planted in world.planted) >= 6
    assert any(posts[key].restored for planted in world.planted for key in planted.late_text)
    assert any(posts[key].edited_at for planted in world.planted for key in planted.late_text)


def test_nobody_names_the_subject_of_a_silent_market_before_t0(world: World, posts: dict[str, Post]) -> None:
    markets = {market.market_id: market for market in world.markets}
    silent = [planted for planted in world.planted if planted.kind == "silence"]
    assert len(silent) >= 5
    for planted in silent:
        name = re.compile(rf"\b{re.escape(markets[planted.market_id].slots['s'])}\b")
        naming = [post for post in posts.values() if name.search(f"{post.title} {post.text}")]
        assert naming
        assert all(post.text_as_of > planted.close_at for post in naming)
        assert not planted.before


def test_the_planted_discussion_is_what_it_is_called(world: World, posts: dict[str, Post]) -> None:
    markets = {market.market_id: market for market in world.markets}
    for planted in world.planted:
        market = markets[planted.market_id]
        said = {
            purpose: sum(
                bool(_stating(market.story.lines[purpose], market.slots).search(posts[key].text))
                for key in planted.before
            )
            for purpose in ("yes", "no", "hype")
        }
        assert all(posts[key].created_at < planted.t0 for key in planted.before)
        assert all(planted.t0 <= posts[key].created_at < planted.close_at for key in planted.between)
        if planted.kind == "fact":
            towards, against = ("yes", "no") if planted.direction == "Yes" else ("no", "yes")
            assert said[towards] >= 7
            assert said[against] <= 1
        if planted.kind == "hype":
            assert said["hype"] >= 9
            assert said["yes"] == said["no"] == 0
        if planted.kind == "contradiction":
            assert min(said["yes"], said["no"]) >= 4


def test_golden_values_follow_the_policy_and_the_price_informs(world: World) -> None:
    policy, errors = T0Policy.parse("day_before_close"), []
    for golden in world.golden.values():
        resolved = policy.resolve(open_at=None, close_at=golden.close_at)
        assert resolved is not None
        assert golden.t0 == resolved.cutoff.epoch
        if golden.status == "resolved" and golden.price_at_t0 is not None:
            errors.append((golden.price_at_t0 - (golden.outcome == "Yes")) ** 2)
    assert 0.04 < sum(errors) / len(errors) < 0.2  # noisy, but better than a coin


def test_the_world_says_that_it_is_invented(small: World, store: Store) -> None:
    write(store, small)
    assert "invented" in small.notice
    assert json.loads(store.area("dumps", "SAMPLE_WORLD.json").read_bytes())["notice"] == small.notice


@settings(max_examples=4, deadline=None)
@given(months=st.integers(1, 3), seed=st.integers(0, 10**6), first=st.sampled_from(["2024-01", "2025-02", "2023-11"]))
def test_any_world_keeps_its_promises(months: int, seed: int, first: str) -> None:
    world = generate(months=months, seed=seed, first_month=first)
    assert world.months == tuple(clock.months(first, clock.shift_month(first, months - 1)))
    rows = {post.key: post for kept in world.posts.values() for post in kept if post.fate == "kept"}
    for planted in world.planted:
        assert all(rows[key].text_as_of > planted.close_at for key in (*planted.after, *planted.late_text))
        assert planted.kind != "silence" or not planted.before
    assert len(set(world.golden)) == len(world.markets)


def test_a_long_world_does_not_run_out_of_names() -> None:
    world = generate(months=25, first_month="2024-01")
    assert len(world.months) == 25
    assert len({market.question for market in world.markets}) == len(world.markets) > 140


@pytest.mark.parametrize("months", [0, -1, 61])
def test_a_world_without_months_is_refused(months: int) -> None:
    with pytest.raises(UsageError, match="1 to 60 months"):
        generate(months=months)


def test_seed_zero_is_the_golden_world(world: World) -> None:
    """Any drift, of a sentence or of a random stream, shows here; scripts/golden_sample_world.py writes it anew."""
    spec = importlib.util.spec_from_file_location("golden_sample_world", ROOT / "scripts" / "golden_sample_world.py")
    assert spec is not None
    assert spec.loader is not None
    script = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(script)
    golden = json.loads((ROOT / "tests" / "golden" / "sample_world.json").read_text(encoding="utf-8"))
    assert json.loads(script.text(world)) == golden


def _whole(line: bytes) -> bool:
    return line.startswith(b"{") and line.endswith(b"}")


def _read(path: Path) -> list[bytes]:
    decoder = zstandard.ZstdDecompressor(max_window_size=2**31)
    with path.open("rb") as handle:
        data = b"".join(_chunks(decoder, handle))
    assert data.endswith(b"\n")
    return data[:-1].split(b"\n")


def _chunks(decoder: zstandard.ZstdDecompressor, handle: object) -> Iterator[bytes]:
    yield from decoder.read_to_iter(handle)  # type: ignore[arg-type]


def _stating(lines: tuple[str, ...], slots: dict[str, str]) -> re.Pattern[str]:
    """A pattern that any wording of any of these lines matches, whatever the number of the post is."""

    def one(line: str) -> str:
        text = re.escape(line)
        text = re.sub(r"\\\[([^\[\]]+?)\\\]", lambda found: "(?:" + found.group(1).replace("\\|", "|") + ")", text)
        return re.sub(
            r"\\\{([a-z]+)\\\}",
            lambda found: "[0-9]+" if found.group(1) == "m" else re.escape(slots[found.group(1)]),
            text,
        )

    return re.compile("|".join(map(one, lines)))
