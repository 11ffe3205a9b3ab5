"""Known failures of people who collect dumps (group G, and A1), each as an input and its right value."""

import json
from pathlib import Path
from typing import Any

import polars as pl
import pytest
import zstandard

from hindcast_dagster import clock
from hindcast_dagster.contracts.documents import BY_KIND
from hindcast_dagster.contracts.suites import run_suite
from hindcast_dagster.corpus import health, ledger, subreddits
from hindcast_dagster.corpus.build import build
from hindcast_dagster.corpus.values import NEVER
from hindcast_dagster.errors import UsageError
from hindcast_dagster.settings import load
from hindcast_dagster.storage.manifest import Manifest
from hindcast_dagster.storage.store import NotSealed, Store
from hindcast_dagster.storage.tables import read_table

MONTH, START, END = "2024-01", 1_704_067_200, 1_706_745_600
WORDS = "twenty words that say something about the game and who may win it in the end if all goes as planned"


def comment(number: int, **changes: Any) -> dict[str, Any]:
    created = START + number * 60
    return {
        "id": f"k{number}", "created_utc": created, "subreddit": "nfl", "author": "ann", "body": WORDS, "score": 9,
        "edited": False, "link_id": "t3_top", "parent_id": "t3_top", "retrieved_on": created + 20,
        "_meta": {"retrieved_2nd_on": created + 130_000},
    } | changes  # fmt: skip


def post(number: int, **changes: Any) -> dict[str, Any]:
    created = START + number * 60
    return {
        "id": f"p{number}", "created_utc": created, "subreddit": "nfl", "author": "ann", "title": "A title",
        "selftext": WORDS, "score": 30, "num_comments": 9, "edited": False, "url": "https://example.org/a?b=1&copy=2",
        "permalink": "/r/nfl/comments/p/", "over_18": False, "retrieved_on": created + 20,
        "_meta": {"retrieved_2nd_on": created + 130_000},
    } | changes  # fmt: skip


def seal(store: Store, records: list[Any], *, kind: str = "comments", month: str = MONTH, **corpus: Any) -> Manifest:
    dump = store.root / "x.zst"
    dump.parent.mkdir(parents=True, exist_ok=True)
    lines = [record if isinstance(record, bytes) else json.dumps(record).encode() for record in records]
    dump.write_bytes(zstandard.compress(b"".join(line + b"\n" for line in lines)))
    return build(store, load(data_root=str(store.root), corpus=corpus), month=month, kind=kind, dump=dump)


def rows(store: Store, kind: str = "comments") -> pl.DataFrame:
    return read_table(store.partition(kind, MONTH).require(), BY_KIND[kind])


def test_a1_rows_without_a_usable_time_are_counted_and_never_kept(store: Store) -> None:
    bad = [None, "", "NaN", 0, -1, 9 * 10**18, START * 1000, "2024-01-05", True, [START], float("nan")]
    manifest = seal(store, [comment(n, created_utc=value) for n, value in enumerate(bad)] + [comment(99)])
    assert manifest.stats["dropped"] == {"bad_record": len(bad)}
    assert rows(store)["id"].to_list() == ["k99"]


def test_created_utc_of_every_era_is_the_same_instant(store: Store) -> None:
    seal(store, [comment(n, created_utc=value) for n, value in enumerate([START + 5, str(START + 5), START + 5.9])])
    assert rows(store)["created_at"].to_list() == [START + 5] * 3


def test_g2_null_fields_of_a_deleted_post(store: Store) -> None:
    gone = post(1, author=None, domain=None, url=None, title=None, selftext="[deleted]")
    manifest = seal(store, [gone, post(2, url=None, domain=None, permalink=None, over_18=None)], kind="submissions")
    assert manifest.stats["dropped"] == {"author_gone": 1}
    assert rows(store, "submissions").select("url", "permalink", "over_18").row(0) == (None, None, None)


def test_g3_parents_of_every_era(store: Store) -> None:
    parents = ["t1_abc", "t3_top", None, 45_568_804_275, "abc", "top", {}, "t9_x"]
    seal(store, [comment(n, parent_id=value) for n, value in enumerate(parents)])
    found = ["t1_abc", "t3_top", "t3_top", "t1_kxmhmer", "t1_abc", "t3_top", None, None]
    assert rows(store)["parent_id"].to_list() == found
    seal(store, [comment(1, link_id=None, parent_id=None), comment(2, link_id=36**3, parent_id="t1_q")])
    assert rows(store).select("link_id", "parent_id").rows() == [(None, None), ("1000", "t1_q")]


def test_g6_an_appended_copy_changes_only_the_duplicates(store: Store) -> None:
    records = [comment(n, score=n % 8) for n in range(300)]
    once, table = seal(store, records), rows(store).drop("dump_sha256")
    twice = seal(store, records + records)
    assert twice.stats["dropped"] == once.stats["dropped"] | {"duplicate": 300}
    assert rows(store).drop("dump_sha256").equals(table)


def test_g7_a_silence_is_reported_and_fails_nothing(store: Store) -> None:
    hours = [*range(5 * 24), *range(19 * 24, 31 * 24)]
    seal(store, [comment(hour * 60, id=f"h{hour}") for hour in hours])
    found = health.check(store, MONTH, "comments")
    assert found.verdict == "ok"
    assert found.numbers["gaps"] == [{"subreddit": "nfl", "from": "2024-01-06T00:00:00Z", "hours": 14 * 24}]
    assert "r/nfl, 336 hours from 2024-01-06" in found.advice


def test_g8_january_holds_only_january_in_utc(store: Store) -> None:
    manifest = seal(store, [comment(n, created_utc=at) for n, at in enumerate([START - 1, START, END - 1, END])])
    assert manifest.stats["dropped"] == {"outside_month": 2}
    assert rows(store)["created_at"].to_list() == [START, END - 1]
    assert manifest.stats["health"]["numbers"]["strays"] == 2


def test_g9_the_first_occurrence_decides_whatever_became_of_it(store: Store) -> None:
    manifest = seal(store, [comment(1), comment(1, body="[removed]"), comment(2, body="[removed]"), comment(2)])
    assert manifest.stats["dropped"] == {"duplicate": 2, "text_gone": 1}
    assert rows(store)["text"].to_list() == [WORDS]


@pytest.mark.parametrize("kind", ["comments", "submissions"])
def test_g10_an_empty_month_has_the_whole_schema(store: Store, kind: str) -> None:
    manifest = seal(store, [], kind=kind)
    assert (manifest.rows, manifest.stats["lines"], manifest.stats["dropped"]) == (0, 0, {})
    assert rows(store, kind).schema == pl.Schema(BY_KIND[kind].polars)
    assert health.check(store, MONTH, kind).verdict == "unknown"


def test_g12_names_match_in_any_case(store: Store, tmp_path: Path) -> None:
    names = tmp_path / "names"
    names.write_text("# mine\nr/cryptoCURRENCY\n\n")
    seal(store, [comment(1, subreddit="CryptoCurrency"), comment(2)], subreddits_file=names)
    assert rows(store)["subreddit"].to_list() == ["CryptoCurrency"]


def test_the_package_names_20_subreddits() -> None:
    assert len(subreddits.read()) == len(subreddits.names()) == 20


@pytest.mark.parametrize("content", [b"", b"# nothing\n", b"../etc\n", b"a b\n", b"\xff\n"])
def test_an_unusable_subreddit_list_is_refused(tmp_path: Path, content: bytes) -> None:
    path = tmp_path / "names"
    path.write_bytes(content)
    with pytest.raises(UsageError):
        subreddits.read(path)


def test_a_crosspost_is_judged_by_its_own_subreddit(store: Store) -> None:
    nested = {"crosspost_parent_list": [{"subreddit": "nfl", "id": "zz", "title": "no"}]}
    manifest = seal(store, [post(1, subreddit="aww") | nested, post(2, subreddit="NFL") | nested], kind="submissions")
    assert manifest.stats["dropped"] == {"other_subreddit": 1}
    assert rows(store, "submissions")["id"].to_list() == ["p2"]


def test_text_is_unescaped_once_and_before_words_are_counted(store: Store) -> None:
    body = "&gt; a &amp;gt; b" + " w" * 20
    manifest = seal(store, [comment(1, body=body), comment(2, body="&nbsp;" * 30 + "only three words")])
    assert rows(store)["text"].to_list() == ["> a &gt; b" + " w" * 20]
    assert manifest.stats["dropped"] == {"few_words": 1}
    seal(store, [post(1)], kind="submissions")
    assert rows(store, "submissions")["url"].to_list() == ["https://example.org/a?b=1&copy=2"]  # no entity in a URL


def test_a_link_post_passes_on_its_title(store: Store) -> None:
    seal(store, [post(1, selftext="", title=WORDS), post(2, selftext="")], kind="submissions")
    assert rows(store, "submissions").select("id", "text").rows() == [("p1", "")]


def test_surrogates_are_replaced_and_counted(store: Store) -> None:
    lone = json.dumps(comment(1, body=WORDS + " \ud83d!")).encode()
    broken = json.dumps(comment(2, body=WORDS + " X")).encode().replace(b"X", b"\xff")
    honest = json.dumps(comment(3, body=WORDS + " \ufffd")).encode()
    manifest = seal(store, [lone, broken, honest, comment(4)])
    assert manifest.stats["surrogates"] == 2
    assert [text[len(WORDS) :] for text in rows(store)["text"]] == [" \ufffd!", " \ufffd", " \ufffd", ""]


@pytest.mark.parametrize(
    ("changes", "text_at", "votes_at"),
    [
        ({}, 0, 130_000),
        ({"edited": START + 500}, 500, 130_000),
        ({"edited": float(START + 500)}, 500, 130_000),
        ({"edited": True}, 20, 130_000),
        ({"updated_on": START + 30}, 30, 130_000),
        ({"_meta": {"retrieved_2nd_on": START + 900, "was_initially_deleted": True}}, 900, 900),
        ({"_meta": {"is_edited": True}}, 0, 20),
        ({"_meta": {}, "retrieved_on": None, "retrieved_utc": START + 40}, 0, 40),
        ({"_meta": {}, "retrieved_on": None}, 0, None),
        ({"edited": START - 500}, 20, 130_000),
        ({"edited": 1_706_600_000_000}, 20, 130_000),
        ({"edited": "2024-01-30T00:00:00Z"}, 20, 130_000),
        ({"edited": [1]}, 20, 130_000),
        ({"edited": "false"}, 0, 130_000),
        ({"edited": True, "retrieved_on": None}, NEVER - START, 130_000),
        ({"retrieved_on": START - 100, "_meta": {}}, 0, None),
        # a time that cannot be read is never taken for an earlier one that can
        ({"updated_on": (START + 30) * 1000}, NEVER - START, 130_000),
        ({"updated_on": "2024-02-03T00:00:00Z"}, NEVER - START, 130_000),
        ({"updated_on": True}, NEVER - START, 130_000),
        ({"updated_on": 0}, 0, 130_000),
        ({"updated_on": START - 9}, NEVER - START, 130_000),
        ({"_meta": {"retrieved_2nd_on": (START + 900) * 1000}}, 0, None),
        ({"_meta": {"retrieved_2nd_on": "soon"}}, 0, None),
        ({"_meta": {"retrieved_2nd_on": START - 900}}, 0, None),
        ({"_meta": {"was_initially_deleted": True}}, NEVER - START, 20),
    ],
)
def test_when_text_and_votes_were_true(
    store: Store, changes: dict[str, Any], text_at: int, votes_at: int | None
) -> None:
    seal(store, [comment(0, **changes)])
    found = rows(store).select("text_as_of", "engagement_as_of").row(0)
    assert found == (START + text_at, None if votes_at is None else START + votes_at)


def test_deleted_later_is_kept_and_counted_unless_it_is_switched_off(store: Store) -> None:
    records = [comment(1), comment(2, _meta={"was_deleted_later": True, "retrieved_2nd_on": START + 9 * 10**4})]
    kept = seal(store, records)
    assert (kept.stats["deleted_later"], rows(store)["deleted_later"].to_list()) == (1, [False, True])
    dropped = seal(store, records, drop_deleted_later=True)
    assert (dropped.stats["deleted_later"], dropped.stats["dropped"]) == (1, {"deleted_later": 1})


def test_bots_of_a_list_go_in_any_case(store: Store, tmp_path: Path) -> None:
    bots = tmp_path / "bots"
    bots.write_text("Ann\n# ben\n")
    manifest = seal(store, [comment(1), comment(2, author="ben")], bots_file=bots)
    assert manifest.stats["dropped"] == {"bot": 1}


@pytest.mark.parametrize(
    ("score", "reason"),
    [
        (None, "score_unknown"),
        ("x", "score_unknown"),
        (10**30, "score_unknown"),
        (True, "score_unknown"),
        (4, "low_score"),
    ],
)
def test_scores_that_are_no_score(store: Store, score: Any, reason: str) -> None:
    assert seal(store, [comment(1, score=score)]).stats["dropped"] == {reason: 1}


def test_the_ledger_balances_and_shows_the_first_lines_of_each_reason(store: Store) -> None:
    records = [comment(n, subreddit="aww") for n in range(1500)] + [comment(n, score=1) for n in range(2000, 3200)]
    seal(store, [b"{}", *records, comment(1), b'{"subreddit": "nfl"'])
    found = ledger.read(store, MONTH, "comments")
    assert found.lines == found.kept + sum(found.dropped.values()) == 2703
    assert found.dropped == {"bad_record": 2, "other_subreddit": 1500, "low_score": 1200}
    path = store.area("ledgers", "comments", MONTH) / found.stats["rejects"]
    text = zstandard.ZstdDecompressor().decompressobj().decompress(path.read_bytes())
    shown = [json.loads(line) for line in text.splitlines()]
    by_reason = {name: [item for item in shown if item["reason"] == name] for name in found.dropped}
    assert {name: len(items) for name, items in by_reason.items()} == {
        "bad_record": 2, "other_subreddit": 1000, "low_score": 1000}  # fmt: skip
    assert [item["line"] for item in by_reason["bad_record"]] == [1, 2703]
    assert by_reason["other_subreddit"][0]["line"] == 2
    assert json.loads(by_reason["low_score"][3]["raw"]) == comment(2003, score=1)
    assert not any("rejects" in name.name for name in store.root.joinpath("tables").rglob("*"))


def test_identical_input_gives_identical_files_and_manifest(store: Store, tmp_path: Path) -> None:
    from hindcast_dagster.storage.store import open_store

    records = [comment(n * 37 % 500, author=f"a{n % 9}") for n in range(500)]
    other = open_store(tmp_path / "elsewhere")
    first, second = seal(store, records), seal(other, records)
    assert first.without_time() == second.without_time()
    rejects = [list(place.area("ledgers").rglob("*.zst")) for place in (store, other)]
    assert [path.read_bytes() for path in rejects[0]] == [path.read_bytes() for path in rejects[1]]


def test_an_unsealed_month_names_the_command_that_makes_it(store: Store) -> None:
    with pytest.raises(NotSealed, match="hindcast corpus build --month 2024-01 --kind comments"):
        ledger.read(store, MONTH, "comments")
    with pytest.raises(UsageError):
        ledger.read(store, MONTH, "posts")


def test_the_expectation_suite_of_both_tables_passes(store: Store) -> None:
    seal(store, [comment(n) for n in range(20)])
    seal(store, [post(n) for n in range(20)], kind="submissions")
    for kind, contract in BY_KIND.items():
        assert all(verdict.passed for verdict in run_suite(contract, rows(store, kind)))


# ---- month health --------------------------------------------------------------------------------------------------


def month_of_posts(month: str, *, settled: float, unvoted: float, count: int = 400) -> list[dict[str, Any]]:
    start = clock.month_start(month)
    found = []
    for n in range(count):
        created = start + n * 6_000
        late = n < settled * count
        changes = {"_meta": {"retrieved_2nd_on": created + 130_000}} if late else {"_meta": {}}
        score = 1 if n * 7 % count < unvoted * count else 30
        found.append(
            post(n, id=f"{month[-2:]}x{n}", created_utc=created, retrieved_on=created + 20, score=score) | changes
        )
    return found


def test_g1_a_month_of_score_1_is_hollow_and_never_an_empty_one(store: Store) -> None:
    records = month_of_posts(MONTH, settled=0, unvoted=0.99)
    manifest = seal(store, records, kind="submissions")
    assert manifest.stats["health"]["verdict"] == "hollow"
    found = health.check(store, MONTH, "submissions")
    assert found.verdict == "hollow"
    assert "0.0% of the votes" in found.advice
    assert "--accept-hollow" in found.advice
    for record in records:
        record.pop("_meta"), record.pop("retrieved_on")
    seal(store, records, kind="submissions")
    found = health.check(store, MONTH, "submissions")
    assert (found.verdict, found.numbers["settled_share"]) == ("hollow", None)
    assert "99.0% of the rows have a score of exactly 1" in found.advice


def test_a_month_is_held_against_its_sound_neighbours(store: Store) -> None:
    for month, settled, unvoted in (("2023-12", 0.95, 0.4), ("2024-01", 0.8, 0.4), ("2024-02", 0.95, 0.4)):
        seal(store, month_of_posts(month, settled=settled, unvoted=unvoted), kind="submissions", month=month)
    assert health.check(store, MONTH, "submissions").verdict == "ok"  # the real 2024-01: 79.7 %
    seal(store, month_of_posts(MONTH, settled=0.52, unvoted=0.4), kind="submissions")
    assert health.check(store, MONTH, "submissions").verdict == "hollow"  # half, where its neighbours have 95 %
    seal(store, month_of_posts(MONTH, settled=0.95, unvoted=0.87), kind="submissions")
    found = health.check(store, MONTH, "submissions")
    assert (found.verdict, "pass the filters" in found.advice) == ("hollow", True)
    assert health.check(store, "2023-12", "submissions").verdict == "ok"  # a hollow neighbour is no yardstick


def test_health_is_unknown_without_retrieval_fields_and_neighbours(store: Store) -> None:
    records = month_of_posts(MONTH, settled=0, unvoted=0.4)
    for record in records:
        record.pop("_meta"), record.pop("retrieved_on")
    seal(store, records, kind="submissions")
    assert health.check(store, MONTH, "submissions").verdict == "unknown"
    seal(store, records[:50], kind="submissions")
    assert "too few" in health.check(store, MONTH, "submissions").advice
