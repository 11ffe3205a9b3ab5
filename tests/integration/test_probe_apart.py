"""What the coverage probe wrote and knows of the outcome reaches no forecaster: no prompt, no trace, no search."""

import json
import shutil
from collections import Counter
from pathlib import Path

import pytest

from hindcast_dagster.evalset.build import build as build_set
from hindcast_dagster.evalset.config import Choice
from hindcast_dagster.forecast import records
from hindcast_dagster.forecast.run import build as run_arm
from hindcast_dagster.questions.load import load as load_questions
from tests.forecast_world import Script
from tests.golden.test_coverage_sample import Knowing, made, shown
from tests.toy_archive import ToyArchive

TOKEN = "zzprobetoken"
MARK = f" {TOKEN}"


class Talking(Knowing):
    """The knowing judge, which leaves a token in every reply: its queries, its labels and its verdict."""

    def answer(self, prompt, planted):
        reply = json.loads(super().answer(prompt, planted))
        if "yes" in reply:
            return json.dumps({side: [query + MARK for query in asked] for side, asked in reply.items()})
        return json.dumps({**reply, "because": f"{TOKEN}: it resolves {planted.direction}"})


class Listening(ToyArchive):
    """Keeps every query that any view was asked."""

    def __init__(self, rows):
        super().__init__(rows, distance=self.heard)
        self.queries = set()

    def heard(self, query, post):
        self.queries.add(query)
        return 0.5


@pytest.fixture(scope="module")
def probed(tmp_path_factory):
    sample = made(tmp_path_factory.mktemp("apart") / "root", knowing=Talking, mark=MARK)
    build_set(sample.store, sample.settings, name="q", policy="day_before_close", choice=Choice(balanced=True))
    return sample


def files_with(root: Path, token: str) -> set[str]:
    """Return the top folders and first names below `root` whose files hold a token."""
    found = [path for path in root.rglob("*") if path.is_file() and token.encode() in path.read_bytes()]
    return {"/".join(path.relative_to(root).parts[:2]) for path in found}


def posts(sample):
    kept = (post for posts in sample.world.posts.values() for post in posts if post.fate == "kept")
    return [shown(post) for post in kept if post.kind == "submission"]


def forecast(sample, arm, model, archive):
    asked = {"eval_set": "q", "arm": arm, "model": model.slug, "runs": 1}
    run_arm(sample.store, sample.settings, **asked, chat=model, archive=archive)


def test_no_text_of_the_probe_enters_a_prompt_a_trace_or_a_search(probed):
    assert files_with(probed.store.root, TOKEN) == {"journal/coverage_probe"}, (
        "the probe's words lie in its journal only"
    )
    archive, model = Listening(posts(probed)), Script(slug="scripted")
    for arm in ("zero_shot", "retrieval"):
        forecast(probed, arm, model, archive)
    asked = {name for name, _, _ in model.calls}
    assert {"zero_shot", "seed_queries", "summary", "tally", "forecast"} <= asked, "every kind of prompt was sent"
    prompts = [message.content for _, messages, _ in model.calls for message in messages]
    assert not [text for text in prompts if TOKEN in text]
    assert archive.queries
    assert not [query for query in archive.queries if TOKEN in query]
    assert list(records.traces(probed.store, "q"))
    assert files_with(probed.store.root, TOKEN) == {"journal/coverage_probe"}, "no trace and no forecast repeats it"


def test_what_the_probe_found_changes_no_prompt(probed, tmp_path):
    """The same questions, once chosen by the probe and once named by hand in a store without any probe."""
    chosen = [found.question.id for found in load_questions(probed.store, "q")]
    named = made(tmp_path / "named", knowing=Talking, mark=MARK)
    for part in ("tables", "journal"):
        shutil.rmtree(named.store.root / part / "coverage_probe")
    build_set(named.store, named.settings, name="q", policy="day_before_close", market_ids=chosen)
    sent = []
    for sample in (probed, named):
        model = Script(slug="other")
        for arm in ("zero_shot", "retrieval"):
            forecast(sample, arm, model, ToyArchive(posts(sample)))
        sent.append(Counter("\n".join(message.content for message in messages) for _, messages, _ in model.calls))
    assert sent[0] == sent[1]
    assert sent[0].total() > len(chosen) > 1
