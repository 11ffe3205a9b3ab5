"""The prompt texts hold what the paper's hold (sections 5, A.1, B.1, B.2)."""

import re

import pytest

from hindcast_dagster.forecast import retrieval, zero_shot
from hindcast_dagster.forecast.fields import fields
from hindcast_dagster.prompts.loader import load
from tests.forecast_world import question

OURS = sorted({*retrieval.PROMPTS, *zero_shot.PROMPTS})


def text(*names: str) -> str:
    return re.sub(r"\s+", " ", " ".join(load(name).text for name in names)).lower()


def test_the_report_has_its_five_sections() -> None:
    for prompt in ("research_summary", "research_task"):
        for section in (
            "key facts",
            "evidence for each option",
            "evidence against each option",
            "uncertainty",
            "suggested probability direction",
        ):
            assert section in text(prompt)


def test_research_uses_local_tools_only() -> None:
    system = text("research_system")
    assert "only the local reddit tools" in system
    assert "no web search" in system
    assert "no outside knowledge" in system
    assert "follow up" in system


def test_queries_are_diverse_and_not_the_question_itself() -> None:
    task = text("research_task")
    assert "several different research questions" in task
    assert "do not search the question word for word" in task
    assert "{{subreddits}}" in task
    assert "available subreddits are exactly" in task
    assert 'doc_type="submission"' in task
    assert "yyyy-mm" in task


@pytest.mark.parametrize(
    "name", ["zero_shot_user", "research_task", "research_tally", "forecast_user", "retry_compact"]
)
def test_the_cutoff_itself_stands_in_the_prompt(name: str) -> None:
    assert "cutoff_date" in load(name).places
    assert fields(question())["cutoff_date"] == "2025-03-01T00:00:00Z"


def test_only_what_could_be_known_at_t0_counts() -> None:
    for name in ("zero_shot_user", "forecast_user", "retry_compact", "retry_json_only"):
        assert "only what could be known at that time" in text(name)
    assert "nothing from after the cutoff date" in text("research_task")


def test_the_five_prior_categories_have_the_papers_ranges() -> None:
    found = re.findall(r"(\d)\. [^\n]+?->\s*(\.\d\d-\.\d\d)", load("forecast_user").text)
    assert found == [("1", ".05-.20"), ("2", ".10-.30"), ("3", ".40-.60"), ("4", ".55-.85"), ("5", ".70-.95")]
    assert 'first sentence of "reasoning"' in text("forecast_user")


def test_weak_evidence_without_asymmetry_keeps_the_prior() -> None:
    said = text("forecast_user")
    assert 'evidence_quality is "none", or "weak" without asymmetry, keep the prior' in said
    assert "unless it was extreme and only driven by an anchor" in said
    assert "lean one way consistently" in said
    assert "asymmetry moves the prior towards the stronger side" in said


def test_the_forecast_judge_is_told_the_three_steps_of_the_paper() -> None:
    said = text("forecast_system")
    for word in (
        "base-rate prior",
        "asymmetry",
        "missing evidence is no reason",
        "indirect or contextual",
        "single json",
    ):
        assert word in said


def test_the_schema_is_the_papers() -> None:
    keys = re.findall(r'"(\w+)":', load("forecast_schema").text)
    assert keys == ["choice", "prob_yes", "prob_no", "confidence", "reasoning"]


def test_the_four_labels_are_explained() -> None:
    for label in ("strong:", "weak:", "irrel:", "contra:"):
        assert label in text("research_tally")


@pytest.mark.parametrize("name", OURS)
def test_no_prompt_names_what_only_the_future_knows(name: str) -> None:
    for word in ("closedtime", "outcomeprices", "price_at_t0", "volume", "resolved_to"):
        assert word not in text(name)


def test_every_prompt_that_quotes_posts_says_that_they_are_data() -> None:
    for name in ("research_system", "research_summary", "research_tally", "forecast_system", "retry_repair"):
        assert "data" in text(name)
