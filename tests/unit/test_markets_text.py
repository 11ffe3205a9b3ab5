"""Rules and titles without what was added later (A11), topics, series."""

import gzip
import json
import time
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from hindcast_dagster.contracts.questions import TOPICS
from hindcast_dagster.errors import UsageError
from hindcast_dagster.markets.addenda import split_rules, split_title
from hindcast_dagster.markets.fields import number
from hindcast_dagster.markets.parse import Malformed, parse
from hindcast_dagster.markets.series import series_of
from hindcast_dagster.markets.topics import load_topics, slug, tags_of
from tests.toy_polymarket import JAN_15, market_row

RULES = 'This market will resolve to "Yes" if X happens by January 31, 2026. Otherwise, it will resolve to "No".'

NOTES = [
    "Update 2026-02-03: resolved to Yes",  # A11
    "UPDATE (February 3): the court has ruled, so Yes.",
    "Update: X happened.",
    "**Update** - X happened on Tuesday.",
    "Update as of February 3, 2026, X happened",
    "[Edit] the deadline is met",
    "Additional context: X happened on February 2.",
    "Additional Context\n\nX happened on February 2.",
    "### Additional context (added 2/3/26)\nX happened.",
    "Clarification (Feb 3, 2026): a partial X counts, so Yes.",
    "Correction: X happened.",
    "Note (added February 3, 2026): X happened.",
    "Note, added on 2026-02-03: X happened.",
    "2026-02-03: resolved to Yes",
    "[Feb 3] X happened.",
    "February 3, 2026 – X happened.",
    "3 February 2026: X happened.",
    "Resolved to Yes.",
    "RESOLVED: YES",
    "This market has been resolved to “Yes”.",
    "Final outcome: Yes",
    "Outcome: No",
    "Outcome - No",
    "Resolution: Yes",
    "Winner: Yes",
    "Proposed resolution: Yes",
    "UPD (Feb 3): X happened.",
    "upd: X happened.",
    "The market resolved YES on February 3.",
    "Market resolved: Yes",
    "Settled at Yes",
    "Ruling: a partial X counts.",
    "Moderator note: X happened.",
    "Post-resolution note (Feb 3): X happened.",
    "Added on February 3: X happened.",
    "Added 2026-02-03 X happened.",
]


@pytest.mark.parametrize("note", NOTES)
@pytest.mark.parametrize("join", ["\n\n", "\n", " ", "\r\n\r\n", "\n\n- ", "\n\n_"])
def test_what_was_added_later_is_split_off(note: str, join: str) -> None:
    found = split_rules(RULES + join + note)
    assert found.kept == RULES
    assert note.replace("\r\n", "\n").split("\n")[-1] in found.addenda


def test_all_that_follows_a_note_goes_with_it() -> None:
    text = f"{RULES}\n\nUpdate (Feb 3):\n\nThe committee met.\n\nThe market resolves Yes."
    assert split_rules(text).kept == RULES


@pytest.mark.parametrize(
    "text",
    [
        RULES,
        RULES + "\n\nNote: this event is mutually exclusive.",
        RULES + "\n\nNote: This market is about the movie's gross in 2025 - dates outside of 2025 will not count.",
        RULES + "\n\nThis market may be updated in the future to replace Company E with another name.",
        RULES + "\n\nNote: An update may be made to this market to allow for early expiration.",
        RULES + "\n\nThe resolution source is the settlement price, regardless of any later corrections or updates.",
        RULES + "\n\nAdditional information may be found at https://example.com/live-updates.",
        RULES + " If no winner is known by July 31, 2026, this market will resolve to Other.",
        RULES + "\n\nIf the match ends in a tie, this market will resolve 50-50.",
        RULES + "\n\nResolution: Yes if X happens, no otherwise.",
        RULES + "\n\nRuling parties of other countries do not count.",
        RULES + "\n\nAdded time counts.",
        RULES + "\n\nThe resolution source is the court's ruling: its text decides.",
        "",
    ],
)
def test_launch_text_stays(text: str) -> None:
    assert split_rules(text) == (text.strip(), "")


def test_a_title_loses_its_word_on_the_outcome() -> None:
    assert split_title("Will X happen by January 31? (resolved)").kept == "Will X happen by January 31?"
    assert split_title("Will X happen? [RESOLVED: Yes]") == ("Will X happen?", "[RESOLVED: Yes]")
    assert split_title("Will X (the company) happen?").kept == "Will X (the company) happen?"


@pytest.mark.parametrize(
    "title",
    [
        "Will X happen? Resolved to Yes", "Will X happen? RESOLVED", "Will X happen? - Resolved: No", "Will X happen?\u2014settled.",
        "Will X happen? | Closed", "Will X happen? This market has been resolved to \u201cYes\u201d.",
        "Will X happen? Resolved YES on February 3", "RESOLVED: Will X happen?", "Resolved to No - Will X happen?",
        "[Resolved] Will X happen?", "**Settled YES: Will X happen?", "Will X happen? (resolved) Resolved No",
    ],
)  # fmt: skip
def test_a_word_on_the_outcome_goes_wherever_it_stands(title: str) -> None:
    found = split_title(title)
    assert found.kept == "Will X happen?"
    assert found.addenda


@pytest.mark.parametrize(
    "title",
    [
        "Will the case be settled?", "Trump v. Slaughter: settled by June?", "Will the strait be closed?", "Closed-door talks in May?",
        "Will it be decided? Settled before July?", "Final: Alcaraz vs. Sinner", "GTA VI: Update 2.0 in May?", "Who resolved it: X or Y?",
    ],
)  # fmt: skip
def test_a_question_may_ask_about_such_words(title: str) -> None:
    assert split_title(title) == (title, "")


def test_the_real_titles_are_kept(shared: Path) -> None:
    path = shared / "data/polymarket/resolved_markets_with_history_open.jsonl.gz"
    with gzip.open(path, "rt") as lines:
        cut = [record["question"] for record in map(json.loads, lines) if split_title(record["question"]).addenda]
    assert cut == []


def test_a_remark_in_the_middle_leaves_one_space() -> None:
    assert split_title("Will X (resolved) happen?").kept == "Will X happen?"


@pytest.mark.parametrize(
    "text",
    [
        "a" + " " * 200_000 + "b",
        "(" * 200_000,
        "\n" * 50_000,
        ". ______" * 20_000,
        "this " * 50_000,
        "." + " \t" * 100_000,
        "? " * 100_000,
        "? - " * 50_000,
        "?" + "-" * 200_000,
        "a" + "  -" * 70_000,
    ],
)
def test_no_text_takes_long_to_read(text: str) -> None:
    """Market texts are untrusted: a pattern must not run away on any of them."""
    began = time.process_time()
    split_rules(text)
    split_title(text)
    number("9" * 200_000 + "x")
    assert time.process_time() - began < 2


def test_a_market_whose_rules_are_only_a_note_is_excluded() -> None:
    row = parse(
        market_row(1, description="Update: X happened."), topics=load_topics(), fetched_at=JAN_15, raw_sha256=""
    )
    assert (row["outcome"], row["excluded"], row["rules"]) == (None, "rules_amended", "")


def test_a_question_that_is_only_a_remark_is_malformed() -> None:
    with pytest.raises(Malformed, match="only a remark"):
        parse(market_row(1, question="(resolved)"), topics=load_topics(), fetched_at=JAN_15, raw_sha256="")


@settings(deadline=None)
@given(before=st.text(max_size=80), note=st.sampled_from(NOTES), after=st.text(max_size=80))
def test_nothing_behind_a_note_is_ever_kept(before: str, note: str, after: str) -> None:
    found = split_rules(f"{before}\n{note}\nCANARY {after}")
    assert "CANARY" not in found.kept
    assert before.replace("\r\n", "\n").replace("\r", "\n").strip().startswith(found.kept)


def test_the_real_rules_keep_their_text(shared: Path) -> None:
    """None of the 104 recorded markets has an addendum; every one that is cut would lose launch text."""
    path = shared / "data/polymarket/resolved_markets_with_history_open.jsonl.gz"
    with gzip.open(path, "rt") as lines:
        cut = [record["question"] for record in map(json.loads, lines) if split_rules(record["background"]).addenda]
    assert cut == []


@pytest.mark.parametrize(
    ("tags", "topic"),
    [
        ([{"slug": "nba", "label": "NBA"}], "Sports"),
        ([{"label": "Bitcoin"}, {"label": "Recurring"}], "Crypto"),
        (["Oscars", "Movies"], "Awards"),  # narrow before wide
        ([{"slug": "fed-rates"}], "Economic"),
        ([{"slug": "us-elections"}], "Elections/politics"),
        ([{"slug": "hide-from-new"}], "Other"),
        ([], "Other"),
        ("not a list", "Other"),
        ([None, 5, {"id": "1"}], "Other"),
    ],
)
def test_topics_come_from_tags(tags: object, topic: str) -> None:
    assert load_topics().topic(tags_of({"tags": tags})) == topic


def test_tags_of_events_and_the_category_count_too() -> None:
    assert tags_of({"category": "Sports", "events": [{"tags": [{"slug": "Bit Coin"}]}]}) == ["bit-coin", "sports"]


def test_the_mapping_claims_every_topic_and_no_tag_twice() -> None:
    mapping = load_topics()
    assert {name for name, _ in mapping.topics} == set(TOPICS) - {"Other"}
    tags = [tag for _, claimed in mapping.topics for tag in claimed]
    assert sorted(tags) == sorted(set(tags))
    assert all(tag == slug(tag) for tag in tags)


@pytest.mark.parametrize(
    "text", ["topic = 5", "[[topic]]\nname = 'Sports'", "[[topic]]\nname = 'Cats'\ntags = []", "\x00"]
)
def test_a_mapping_that_does_not_fit_is_refused(tmp_path: Path, text: str) -> None:
    path = tmp_path / "topics.toml"
    path.write_text(text)
    with pytest.raises(UsageError):
        load_topics(path)


@pytest.mark.parametrize(
    ("event", "series"),
    [
        ({"seriesSlug": "premier-league-2025", "slug": "epl-che-eve-2025-12-13"}, "premier-league-2025"),
        ({"series": [{"slug": "btc-up-or-down-5m"}]}, "btc-up-or-down-5m"),
        ({"slug": "btc-updown-5m-1773307200"}, "btc-updown-5m"),
        ({"slug": "bitcoin-above-on-march-11"}, "bitcoin-above-on"),
        ({"slug": "bitcoin-up-or-down-december-21-10am-et"}, "bitcoin-up-or-down"),
        ({"slug": "fed-decision-in-january-2026"}, "fed-decision-in"),
        ({"slug": "democratic-presidential-nominee"}, None),
        ({}, None),
    ],
)
def test_series_of_recurring_events(event: dict[str, object], series: str | None) -> None:
    assert series_of({"events": [event]}) == series


def test_a_text_cannot_steer_a_terminal() -> None:
    raw = market_row(1, question="Will \x1b[2J\x9b31m X\u200b happen?\x07", description="Line one.\n\tLine two.\x00")
    row = parse(raw, topics=load_topics(), fetched_at=JAN_15, raw_sha256="")
    assert row["question"] == "Will [2J31m X happen?"
    assert row["rules"] == "Line one.\n\tLine two."
