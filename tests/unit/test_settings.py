"""Settings: who wins over whom, and that a wrong one is named."""

from pathlib import Path

import pytest

from hindcast_dagster.errors import UsageError
from hindcast_dagster.settings import load


def test_arguments_win_over_environment_over_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "hindcast.toml").write_text(
        '[agent]\nrounds = 2\nthreads = 9\n[polymarket]\ngamma_url = "http://file"\n'
    )
    monkeypatch.setenv("HINDCAST_AGENT__ROUNDS", "4")
    monkeypatch.setenv("HINDCAST_POLYMARKET__GAMMA_URL", "http://environment")
    found = load(data_root=str(tmp_path), polymarket={"gamma_url": "http://argument"})
    assert found.agent.rounds == 4
    assert found.agent.threads == 9
    assert found.polymarket.gamma_url == "http://argument"
    assert found.data_root == str(tmp_path)


def test_defaults_are_the_papers(tmp_path: Path) -> None:
    found = load(data_root=str(tmp_path))
    agent = found.agent
    assert (agent.rounds, agent.seed_queries, agent.follow_ups_min, agent.follow_ups_max) == (3, 6, 4, 6)
    assert (agent.hits_per_query, agent.expanded, agent.author_posts, agent.author_comments) == (20, 20, 5, 5)
    assert agent.stop_confidence == 0.7
    assert found.forecast.runs == 5
    corpus = found.corpus
    assert (corpus.min_score, corpus.min_comments, corpus.min_characters, corpus.min_words) == (5, 3, 5, 20)
    assert found.archive.mode == "strict"
    assert not found.llm.structured


@pytest.mark.parametrize(
    ("content", "said"),
    [
        ("[agent]\nrounds = 0\n", "agent.rounds"),
        ("[agnet]\nrounds = 1\n", "agnet"),
        ("[agent]\nround = 1\n", "agent.round"),
        ("[window]\nfirst_month = '2026-13'\n", "window.first_month"),
        ("not toml", "TOML"),
    ],
)
def test_a_wrong_file_is_named(tmp_path: Path, content: str, said: str) -> None:
    (tmp_path / "hindcast.toml").write_text(content)
    with pytest.raises(UsageError, match=said):
        load(data_root=str(tmp_path))


def test_a_misspelt_variable_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HINDCAST_AGNET__ROUNDS", "1")
    with pytest.raises(UsageError, match="HINDCAST_AGNET__ROUNDS"):
        load(data_root=str(tmp_path))


def test_a_config_that_is_named_must_exist(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HINDCAST_CONFIG", str(tmp_path / "absent.toml"))
    with pytest.raises(UsageError, match=r"absent\.toml"):
        load(data_root=str(tmp_path))


@pytest.mark.parametrize("name", ["hindcast_archve__mode", "Hindcast_Archve__Mode"])
def test_a_misspelt_variable_is_refused_in_any_case(monkeypatch: pytest.MonkeyPatch, name: str) -> None:
    monkeypatch.setenv(name, "paper")
    with pytest.raises(UsageError, match="is not a setting"):
        load()


@pytest.mark.parametrize(("name", "value"), [("FORECAST__MODEL_ARMS", "zero_shot"), ("LLM", "{bad"), ("LLM", "[")])
def test_a_variable_that_is_no_json_is_wrong_usage_and_no_bug(
    monkeypatch: pytest.MonkeyPatch, name: str, value: str
) -> None:
    monkeypatch.setenv(f"HINDCAST_{name}", value)
    with pytest.raises(UsageError, match="JSON"):
        load()


@pytest.mark.parametrize(
    ("lines", "said"),
    [
        ("[agent]\nround = 3", r"agent\.round \(environment or .*\) is not a setting; the nearest is agent\.rounds\."),
        ("[agent]\nquestion_limit = 3", r"agent\.question_limit .* the nearest is forecast\.question_limit\."),
        (
            "[decoding.tally]\ntemprature = 0",
            r"decoding\.tally\.temprature .* the nearest is decoding\.tally\.temperature\.",
        ),
        ("[sample]\nqqq = 3", r"sample\.qqq .* is not a setting; known: sample\.months, "),
    ],
)
def test_a_name_that_is_no_setting_is_told_with_the_nearest(tmp_path: Path, lines: str, said: str) -> None:
    (tmp_path / "hindcast.toml").write_text(lines)
    with pytest.raises(UsageError, match=said):
        load(data_root=str(tmp_path))


def test_a_variable_that_is_no_setting_is_told_with_the_nearest(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HINDCAST_AGENT__ROUND", "3")
    with pytest.raises(UsageError, match=r"the nearest is agent\.rounds"):
        load()
