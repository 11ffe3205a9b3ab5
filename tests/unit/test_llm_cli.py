"""`hindcast models list`: one JSON document, every field, for people a table."""

import json
from typing import Any

import pytest

from hindcast_dagster.cli.main import run
from hindcast_dagster.storage.store import Store


def hindcast(store: Store, capsys: Any, *arguments: str) -> tuple[int, str]:
    with pytest.raises(SystemExit) as stopped:
        run(["--data-root", str(store.root), *arguments])
    return int(stopped.value.code or 0), capsys.readouterr().out


def test_the_roster_as_json(store: Store, capsys: Any) -> None:
    code, out = hindcast(store, capsys, "models", "list", "--json")
    models = {entry["slug"]: entry for entry in json.loads(out)["models"]}
    assert code == 0
    assert sum(entry["paper"] for entry in models.values()) == 9
    assert models["llama-3-1-8b"]["knowledge_cutoff"] == 1_704_067_200  # 2024-01-01
    assert models["qwen3-8b"]["knowledge_cutoff"] is None
    assert models["ministral-8b"]["remarks"] == ["research use only"]


def test_only_the_paper_and_the_encoders(store: Store, capsys: Any) -> None:
    _, out = hindcast(store, capsys, "models", "list", "--paper", "--json")
    assert len(json.loads(out)["models"]) == 9
    _, out = hindcast(store, capsys, "--json", "models", "list", "--encoders")
    assert {encoder["slug"] for encoder in json.loads(out)["encoders"]} == {"qwen3-embedding-0-6b", "minilm"}


def test_the_table_names_every_slug(store: Store, capsys: Any) -> None:
    code, out = hindcast(store, capsys, "models", "list")
    assert code == 0
    assert all(slug in out for slug in ("qwen3-32b", "gemma-3-27b", "smollm2", "unknown", "2023-12-31"))


def test_a_broken_roster_file_is_exit_code_2(store: Store, capsys: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HINDCAST_LLM__ROSTER_FILE", str(store.root / "missing.toml"))
    code, out = hindcast(store, capsys, "models", "list", "--json")
    assert code == 2
    assert "cannot be read" in json.loads(out)["error"]["message"]
