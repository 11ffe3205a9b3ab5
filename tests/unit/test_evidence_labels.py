"""Labels, tallies and the reading of cue words."""

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from hindcast_dagster.evidence import cues
from hindcast_dagster.evidence.claim import claim_of
from hindcast_dagster.evidence.labels import LABELS, Label, Tally, contrast, quality
from hindcast_dagster.evidence.numbers import Amount, Threshold, amounts, threshold
from tests.forecast_world import question
from tests.toy_archive import document

COUNT = st.integers(0, 30)
TALLY = st.builds(Tally, strong=COUNT, weak=COUNT, irrel=COUNT, contra=COUNT, unlabelled=COUNT)


def test_the_score_of_a_side_is_the_papers() -> None:
    assert Tally(strong=3, weak=2, irrel=9, contra=1, unlabelled=4).score == 2 * 3 + 2 - 1


@given(st.lists(st.sampled_from([*LABELS, None])))
def test_a_tally_counts_every_block(labels: list[Label | None]) -> None:
    found = Tally.of(labels)
    assert found.total == len(labels)
    assert found.as_dict()["unlabelled"] == labels.count(None)


@given(TALLY, TALLY)
def test_the_contrast_is_bounded_and_antisymmetric(yes: Tally, no: Tally) -> None:
    assert -1 <= contrast(yes, no) <= 1
    assert contrast(yes, no) == -contrast(no, yes)


@given(TALLY, TALLY, st.integers(1, 5))
def test_more_strong_evidence_for_yes_never_lowers_the_contrast(yes: Tally, no: Tally, more: int) -> None:
    stronger = Tally(yes.strong + more, yes.weak, yes.irrel, yes.contra)
    assert contrast(stronger, no) >= contrast(yes, no)


def test_a_barely_mentioned_market_lands_near_zero_and_on_none() -> None:
    assert contrast(Tally(irrel=5), Tally(irrel=5)) == 0
    assert quality(Tally(irrel=5), Tally(unlabelled=5)) == "none"
    assert abs(contrast(Tally(weak=1), Tally())) <= 0.2
    assert quality(Tally(weak=1), Tally()) == "weak"
    assert quality(Tally(weak=9), Tally()) == "weak"
    assert quality(Tally(strong=2), Tally(contra=2)) == "strong"


CASES = [
    ("Will the SEC approve a spot Ethereum ETF by May 31?", "It is official: the SEC approved the spot Ethereum ETF.",
     ("strong", "contra")),
    ("Will the SEC approve a spot Ethereum ETF by May 31?", "The SEC has rejected the Ethereum ETF filing.",
     ("contra", "strong")),
    ("Will the SEC approve a spot Ethereum ETF by May 31?", "The SEC has not approved the Ethereum ETF yet.",
     ("irrel", "weak")),
    ("Will the SEC approve a spot Ethereum ETF by May 31?", "Will the SEC approve the Ethereum ETF?",
     ("irrel", "irrel")),
    ("Will the SEC approve a spot Ethereum ETF by May 31?", "My sourdough starter was approved by my wife.",
     ("irrel", "irrel")),
    ("Will the Chiefs win the Super Bowl?", "Rumor: the Chiefs Super Bowl win is confirmed, maybe.",
     ("weak", "irrel")),
    ("Will the Chiefs win the Super Bowl?", "I think the Chiefs are favorites!! Let's gooo Super Bowl",
     ("irrel", "irrel")),
    ("Will the Chiefs win the Super Bowl?", "The Eagles defeated the Chiefs in the Super Bowl.",
     ("contra", "strong")),
    ("Will the Chiefs win the Super Bowl?", "The Chiefs defeated the Eagles in the Super Bowl.",
     ("strong", "contra")),
    ("Will GTA VI be delayed to 2026?", "Rockstar confirmed that GTA VI was delayed.", ("strong", "contra")),
    ("Will Biden not sign the TikTok bill?", "Biden signed the TikTok bill.", ("contra", "strong")),
    ("Will Bitcoin close above $100,000 in January?", "Bitcoin trades at $97k today.", ("irrel", "weak")),
    ("Will Bitcoin close above $100,000 in January?", "Bitcoin trades at $104,250 today.", ("weak", "irrel")),
    ("Will Bitcoin close above $100,000 in January?", "Bitcoin sells for less than $90k.", ("irrel", "weak")),
    ("Will Bitcoin close above $100,000 in January?", "Bitcoin sells for more than $90k.", ("irrel", "irrel")),
    ("Will Bitcoin close above $100,000 in January?", "Bitcoin has not exceeded $100k.", ("irrel", "weak")),
    ("Will Bitcoin dip below $80,000?", "Bitcoin costs less than 90,000 dollars, under $79k in fact.",
     ("weak", "irrel")),
    ("Will the Chiefs win the Super Bowl?", "What to expect from the Chiefs at the Super Bowl", ("irrel", "irrel")),
    ("Will the Chiefs win the Super Bowl?", "The Chiefs are expected to take the Super Bowl.", ("weak", "irrel")),
    ("Will the Chiefs win the Super Bowl?", "Analysts expect the Chiefs to take the Super Bowl.", ("weak", "irrel")),
    ("Will the Kansas City Chiefs win the Super Bowl?", "The Eagles won it all: Super Bowl winners are confirmed.",
     ("irrel", "irrel")),
    ("Will the Kansas City Chiefs win the Super Bowl?", "The Super Bowl bound Chiefs clinched it. The Eagles lost.",
     ("strong", "contra")),
    ("Will the Celtics beat the Knicks?", "The Knicks beat the Celtics by 20.", ("contra", "strong")),
    ("Will the Celtics beat the Knicks?", "The Celtics beat the Knicks by 20.", ("strong", "contra")),
    ("Will the price of Bitcoin reach an all-time high?", "Bitcoin has reached an all-time high.",
     ("strong", "contra")),
    ("Will Bitcoin dip below $80,000?", "Bitcoin is at $78.5k", ("weak", "irrel")),
    ("Will inflation in Turkey be above 40%?", "Turkey inflation came in at 44.4% for the year.", ("weak", "irrel")),
]  # fmt: skip


@pytest.mark.parametrize(("asked", "text", "labels"), CASES)
def test_cues_are_read_for_and_against(asked: str, text: str, labels: tuple[str, str]) -> None:
    found = cues.read(claim_of(asked), text)
    assert (found.yes, found.no) == labels, found.why


@pytest.mark.parametrize(
    ("asked", "subject"),
    [("Will the Chiefs win the Super Bowl?", {"chiefs"}), ("Will Israel and Iran agree by June?", {"israel", "iran"}),
     ("Will Donald J. Trump's team visit Rome?", {"donald", "trump"}), ("Will inflation in Turkey rise?", set()),
     ("Who will win in Rome?", set()), ("Will it rain in Paris?", set()), ("", set())],
)  # fmt: skip
def test_the_subject_is_whom_the_question_begins_with(asked: str, subject: set[str]) -> None:
    assert claim_of(asked).subject - {"j"} == subject


@given(st.text(max_size=300), st.text(max_size=300), st.text(max_size=100))
def test_reading_is_total(asked: str, text: str, title: str) -> None:
    found = cues.read(claim_of(asked), text, title=title)
    assert {found.yes, found.no} <= set(LABELS)
    assert not (found.yes in {"strong", "weak"} and found.no in {"strong", "weak"})


def test_years_dates_and_scores_are_no_amounts() -> None:
    assert [found.value for found in amounts("In 2025 on 2025-03-01 at 12:30 they won 3-1 by 7.")] == []
    assert [found.value for found in amounts("$1.2 million, 45%, 1,250 and 12.5k")] == [1.2e6, 45, 1250, 12500]


@pytest.mark.parametrize(
    ("text", "bound"),
    [("less than 50k", "most"), ("no more than 50k", "most"), ("up to about 50k", "most"), ("50k or fewer", "most"),
     ("not below 50k", "least"), ("over 50k", "least"), ("50k+", "least"), (">= 50k", None), ("> 50k", "least"),
     ("it hit 50k", None), ("over time it made 50k", None)],
)  # fmt: skip
def test_a_comparison_counts_only_beside_its_number(text: str, bound: str | None) -> None:
    assert [(found.value, found.bound) for found in amounts(text)] == [(50_000, bound)]


@given(st.sampled_from(["most", "least", None]), st.floats(40, 250), st.sampled_from([(100.0, None), (None, 100.0)]))
def test_a_bound_says_something_only_where_every_value_within_it_agrees(
    bound: Any, value: float, ends: tuple[float | None, float | None]
) -> None:
    said = Threshold(*ends, "plain").says(Amount(value, "plain", 0, bound))
    within = [value] if bound is None else [value, value * 100] if bound == "least" else [value, value / 100]
    if value == 100 or not 100 / 3 <= value <= 300:
        return
    verdicts = {x >= 100 if ends[0] else x <= 100 for x in within}
    assert said == (verdicts.pop() if len(verdicts) == 1 else None)


def test_a_range_and_a_direction_are_read() -> None:
    between = threshold("Will Tesla deliver between 400,000 and 450,000 cars?")
    assert between is not None
    assert (between.low, between.high) == (400_000, 450_000)
    assert threshold("Will it rain in Paris?") is None


def test_tallies_and_queries_of_a_question() -> None:
    asked = question(1)
    posts = [
        document("a", "2025-02-01", "Zorba Corp confirmed the launch of rocket 1."),
        document("b", "2025-02-02", "Zorba Corp cancelled the rocket."),
        document("c", "2025-02-03", "Best pasta recipes."),
    ]
    yes, no = cues.tallies(asked, posts)
    assert (yes.strong, yes.contra, yes.irrel) == (1, 1, 1)
    assert (no.strong, no.contra, no.irrel) == (1, 1, 1)
    texts = cues.queries(asked, count=5)
    assert len(texts) == len(set(texts)) == 5
    assert texts[0] == asked.text
