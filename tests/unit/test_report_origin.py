"""The commands of a release bundle: they follow from the manifests, and hindcast's own command line accepts them."""

import shlex

import pytest

from hindcast_dagster.contracts.questions import EVAL_SET
from hindcast_dagster.report import origin
from hindcast_dagster.report.origin import Asked, Month, Origin
from hindcast_dagster.settings import Corpus
from hindcast_dagster.storage.tables import publish_table
from tests.score_world import forecast, question, seal_baselines, seal_forecasts

RULES = Corpus().model_dump(mode="json", exclude={"subreddits_file", "bots_file"}) | {"bots_sha256": None}


def rules(kept=None, **limits):
    return RULES | {"subreddits": kept, "all_subreddits": kept is None} | limits


def made(*months, **values):
    given = {
        "name": "first",
        "stats": {"policy": "lookback:0.5"},
        "questions": 216,
        "months": months,
        "market_months": ("2025-12", "2026-01"),
        "asked": (Asked("qwen3-8b", "retrieval", 2, 50), Asked("qwen3-8b", "zero_shot", 5, 216)),
        "sample": False,
    }
    return Origin(**(given | values))


def month(kept, *, name="2026-01", kind="submissions", hollow=False, embedding=None, **limits):
    return Month(name, kind, "ab" * 32, rules(kept, **limits), hollow, embedding)


def test_every_subreddit_the_dump_s_hash_runs_and_limits_are_said():
    lines = origin.commands(made(month(None), month(None, kind="comments")))
    assert "# data/dumps/RC_2026-01.zst: sha256 " + "ab" * 32 in lines
    assert (
        "hindcast corpus build --month 2026-01 --kind comments --dump data/dumps/RC_2026-01.zst --all-subreddits"
        in lines
    )
    assert "hindcast markets fetch --closed-from 2025-12-01 --closed-to 2026-01-31" in lines
    assert "hindcast evalset build first --t0 lookback:0.5 --markets questions.csv" in lines
    assert "hindcast forecast run --arm retrieval --model qwen3-8b --eval-set first --runs 2 --limit 50" in lines
    assert "hindcast forecast run --arm zero_shot --model qwen3-8b --eval-set first --runs 5" in lines
    assert not any("HINDCAST_" in line for line in lines)
    assert lines.count("hindcast archive build --month 2026-01") == 1


def test_what_differs_from_the_package_s_settings_is_said_and_nothing_else():
    odd = month(["askmen", "nba"], hollow=True, embedding="minilm", min_score=3, bots_sha256="cd" * 32)
    stats = {"policy": "day_before_close", "archive_end": "2026-01-31T00:00:00Z", "max_price_age_h": 36.0}
    lines = origin.commands(made(odd, stats=stats | {"topics_by": "qwen3-8b"}, sample=True))
    assert [line.partition("  #")[0] for line in lines if line.startswith("export")] == [
        "export HINDCAST_POLYMARKET__SOURCE=sample",
        "export HINDCAST_EMBEDDING__MODEL=minilm",
        "export HINDCAST_CORPUS__MIN_SCORE=3",
    ]
    assert any("BOTS_FILE" in line and "cd" * 32 in line for line in lines)
    assert any(line.endswith("--subreddits subreddits.txt") for line in lines)
    assert "hindcast archive build --month 2026-01 --accept-hollow" in lines
    assert any(
        line.endswith("--archive-end 2026-01-31T00:00:00Z --max-price-age 36 --topics-by qwen3-8b") for line in lines
    )


def test_the_package_s_own_list_needs_no_option_and_months_with_other_lists_each_their_file():
    own = origin.subreddits_of_package()
    assert not any("--subreddits" in line for line in origin.commands(made(month(own))))
    three = made(month(own), month(["nba"], name="2025-12"), month(["nfl"], name="2025-11"))
    assert three.files == {"subreddits-1.txt": ["nba"], "subreddits-2.txt": ["nfl"]}
    said = [line for line in origin.commands(three) if "corpus build" in line]
    assert [line.rpartition(" ")[2] for line in said] == [
        "data/dumps/RS_2026-01.zst",
        "subreddits-1.txt",
        "subreddits-2.txt",
    ]


@pytest.mark.parametrize(
    ("months", "said"),
    [
        ([], "No month of an archive is pinned"),
        ([month(None)], "Every subreddit of the dumps"),
        ([month(["nba"])], "1 subreddit (nba)"),
        ([month(["nba"]), month(["nba", "nfl"])], "1 to 2 subreddits (nba, nfl)"),
        ([month(None), month(["nba"])], "Every subreddit of the dumps, in some months only named ones"),
        ([Month("2026-01", "submissions", None, {}, accepted_hollow=False, embedding=None)], "no longer there"),
    ],
)
def test_the_scope_of_the_corpus_is_what_its_months_say(months, said):
    assert said in origin.scope(made(*months))


def test_an_origin_is_read_at_the_versions_that_the_eval_set_pins(store):
    def corpus(kept, sha256):
        with store.partition("submissions", "2026-01").draft() as draft:
            stats = {"dump_sha256": sha256, "rules": rules(kept)}
            return draft.seal(rows=0, schema_version="x", code_version=sha256, stats=stats).as_input

    def index(source, *, mark):
        with store.partition("submission_index", "2026-01").draft() as draft:
            stats = {"embedding": {"model": "minilm"}, "accepted_hollow": mark}
            return draft.seal(rows=0, schema_version="x", code_version="x", inputs=[source], stats=stats).as_input

    pinned = index(corpus(["nba"], "aa"), mark=True)
    rows = [question(n) for n in range(3)]
    sealed = publish_table(
        store.partition("eval_set", "small"), EVAL_SET.frame(rows), EVAL_SET, code_version="x", pins=[pinned],
        stats={"policy": "day_before_close"},
    )  # fmt: skip
    seal_baselines(store, rows)
    seal_forecasts(store, [forecast(0, 0.5)], runs=2, questions=1, arm="zero_shot", arm_settings={"b": 1, "a": 2})
    found = origin.read(store, sealed, questions=3, sample=False)
    assert found.months == (
        Month("2026-01", "submissions", "aa", rules(["nba"]), accepted_hollow=True, embedding="minilm"),
    )
    assert found.asked == (Asked("toy-1b", "zero_shot", 2, 1, '{"a": 2, "b": 1}'),)


def test_every_command_is_one_that_the_command_line_takes(tmp_path, monkeypatch, capsys):
    """Each line is run with --help behind it: an option that does not exist would be refused first."""
    from hindcast_dagster.cli import main

    stats = {"policy": "day_before_close", "archive_end": "2026-01-31T00:00:00Z", "max_price_age_h": 36.0}
    both = made(month(None, hollow=True), month(["nba"], name="2025-12"), stats=stats)
    for line in origin.commands(both):
        words = shlex.split(line, comments=True)
        if not words or words[0] == "export":
            continue
        assert words[0] == "hindcast"
        options = [word for word in words if word.startswith("--")]
        with pytest.raises(SystemExit) as stopped:
            main.run([*[word for word in words[1:3] if not word.startswith("--")], "--help"])
        assert stopped.value.code in {0, None}
        told = capsys.readouterr().out
        assert all(option in told for option in options), line
