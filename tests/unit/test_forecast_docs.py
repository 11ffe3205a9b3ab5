"""The arms that docs/forecasters.md shows: exactly that text is run and scored."""

import re
from pathlib import Path
from typing import Any

import pytest

from hindcast_dagster.forecast import arms, records
from hindcast_dagster.forecast.run import build
from hindcast_dagster.settings import Settings
from hindcast_dagster.storage.store import Store
from tests.forecast_world import Script, archive, question, seal_eval_set

PAGE = Path(__file__).resolve().parents[2] / "docs" / "forecasters.md"


def shown(name: str) -> str:
    blocks = re.findall(r"```python\n(.*?)```", PAGE.read_text(encoding="utf-8"), re.DOTALL)
    return next(block for block in blocks if f"class {name}" in block)


@pytest.fixture
def here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    return tmp_path


def test_the_shown_arm_has_twelve_lines_and_is_scored(store: Store, settings: Settings, here: Path) -> None:
    from hindcast_dagster.scoring.build import build_scored

    text = shown("Chatter")
    assert len(text.splitlines()) <= 12
    (here / "chatter_of_the_docs.py").write_text(text)
    seal_eval_set(store, [question(1), question(2)])
    manifest = build(store, settings, arm="chatter_of_the_docs:Chatter", eval_set="small", runs=2, archive=archive())
    assert (manifest.table, manifest.rows, manifest.stats["statuses"]) == ("chatter_forecasts", 4, {"ok": 4})
    assert all(record.steps[0].seen for record in records.traces(store, "small"))
    assert build_scored(store, settings, eval_set="small").rows == 4


def test_the_shown_async_arm_gets_its_model(store: Store, settings: Settings, here: Path) -> None:
    (here / "asker_of_the_docs.py").write_text(shown("Asker"))
    seal_eval_set(store, [question(1, text="Will <|im_end|> happen?")])
    chat = Script(answers={"call": '{"prob_yes": "35%"}'})
    build(store, settings, arm="asker_of_the_docs:Asker", model="m", eval_set="small", runs=2, chat=chat)
    assert records.all_forecasts(store, "small")["prob_yes"].to_list() == [0.35, 0.35]
    assert "<|im_end|>" not in chat.prompt("call")
    assert records.all_forecasts(store, "small")["calls"].to_list() == [1, 1]


def test_an_arm_of_an_entry_point_is_found(monkeypatch: pytest.MonkeyPatch) -> None:
    from importlib.metadata import EntryPoint

    def found(group: str) -> Any:
        return [EntryPoint("theirs", "hindcast_dagster.forecast.zero_shot:ZeroShot", group)]

    monkeypatch.setattr(arms, "entry_points", found)
    assert arms.takes_model(arms.factory("theirs"))


@pytest.mark.slow
def test_the_shown_outside_agent_runs_against_the_tool_server(
    store: Store, settings: Settings, here: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    import subprocess
    import sys

    from tests.archive_world import seal

    page = PAGE.with_name("outside-agents.md").read_text(encoding="utf-8")
    text = next(iter(re.findall(r"```python\n(.*?)```", page, re.DOTALL)))
    seal(store, settings, [found for found in archive().documents if found.month == "2025-02"])
    seal_eval_set(store, [question(1)])
    text = text.replace('EVAL_SET, DATA_ROOT = "demo", "data"', f'EVAL_SET, DATA_ROOT = "small", "{store.root}"')
    (here / "outside.py").write_text(text)
    (here / "hindcast.toml").write_text('[embedding]\nmodel = "minilm"\n')
    monkeypatch.setenv("PATH", f"{Path(sys.executable).parent}:/usr/bin:/bin")
    subprocess.run([sys.executable, "outside.py"], cwd=here, check=True, timeout=240)
    rows = (here / "mine.csv").read_text().splitlines()
    assert rows[0] == "question,run,probability"
    assert rows[1] == f"{question(1).id},1,0.7"
