"""What a person may get wrong: one clear sentence, the right exit code, and nothing half-made."""

import json
import os
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from hindcast_dagster.cli import main
from hindcast_dagster.storage.store import open_store


class Outcome:
    def __init__(self, code: int, out: str, err: str) -> None:
        self.code, self.out, self.err = code, out, err

    @property
    def sentence(self) -> str:
        return str(json.loads(self.out)["error"]["message"])


@pytest.fixture
def hindcast(tmp_path: Path, capsys: pytest.CaptureFixture[str]):
    def run(*words: str, root: Path | str | None = None) -> Outcome:
        with pytest.raises(SystemExit) as ended:
            main.run([*words, "--data-root", str(root or tmp_path / "root"), "--json"])
        said = capsys.readouterr()
        assert isinstance(ended.value.code, int)
        return Outcome(ended.value.code, said.out, said.err)

    return run


def sealed(root: Path) -> list[str]:
    """Everything below the root that a reader could take for a result."""
    tables = root / "tables"
    return [
        path.name
        for path in tables.rglob("*")
        if path.name == "manifest.json" or path.name.startswith((".draft", "v-"))
    ]


LINE = (
    b'{"id":"%d","author":"pseudonym","subreddit":"news","title":"'
    + b"word " * 25
    + b'","selftext":"","created_utc":1704067200,"score":9,"num_comments":9}\n'
)


def test_a_missing_dump(hindcast, tmp_path: Path) -> None:
    found = hindcast("corpus", "build", "--month", "2024-01", "--kind", "submissions")
    assert found.code == 4
    assert "RS_2024-01.zst" in found.sentence
    assert sealed(tmp_path / "root") == []


@pytest.mark.parametrize("cut", [0.3, 0.9])
def test_a_truncated_dump(hindcast, tmp_path: Path, cut: float) -> None:
    import zstandard

    whole = zstandard.ZstdCompressor().compress(b"".join(LINE % number for number in range(3000)))
    dump = tmp_path / "RS_2024-01.zst"
    dump.write_bytes(whole[: int(len(whole) * cut)])
    found = hindcast(
        "corpus", "build", "--month", "2024-01", "--kind", "submissions", "--dump", str(dump), "--all-subreddits"
    )
    assert found.code == 3
    assert "RS_2024-01.zst" in found.sentence
    assert "byte" in found.sentence
    assert sealed(tmp_path / "root") == []


def test_an_unreachable_api(hindcast, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HINDCAST_POLYMARKET__GAMMA_URL", "http://127.0.0.1:9")
    monkeypatch.setenv("HINDCAST_POLYMARKET__WAIT_BUDGET_S", "0.5")
    found = hindcast("markets", "fetch")
    assert found.code == 4
    assert "127.0.0.1:9" in found.sentence
    assert sealed(tmp_path / "root") == []


def test_an_unknown_model_and_an_unknown_arm(hindcast) -> None:
    words = ("forecast", "run", "--eval-set", "q")
    for more in (("--arm", "zero_shot", "--model", "gpt-99"), ("--arm", "no_such_arm", "--model", "smollm2")):
        found = hindcast(*words, *more)
        assert found.code in {2, 4}
        assert found.sentence


def test_an_eval_set_that_is_not_there(hindcast) -> None:
    for command in (("score",), ("report",), ("audit",), ("evalset", "show")):
        words = (*command, "absent") if command[0] == "evalset" else (*command, "--eval-set", "absent")
        found = hindcast(*words)
        assert found.code == 4, command
        assert "absent" in found.sentence


def test_a_data_root_that_cannot_be_written(hindcast, tmp_path: Path) -> None:
    file = tmp_path / "file"
    file.write_text("in the way")
    dump = tmp_path / "RS_2024-01.ndjson"
    dump.write_bytes(LINE % 1)
    words = ("corpus", "build", "--month", "2024-01", "--kind", "submissions", "--dump", str(dump))
    assert hindcast(*words, root=file).code == 2
    assert hindcast("status", root="s3://bucket/x").code == 2


def test_wrong_settings(hindcast, tmp_path: Path) -> None:
    (tmp_path / "root").mkdir()
    (tmp_path / "root" / "hindcast.toml").write_text("[agent]\nrounds = 'many'\n")
    found = hindcast("status")
    assert found.code == 2
    assert "agent.rounds" in found.sentence


@pytest.mark.parametrize(
    "words",
    [
        ("corpus", "build", "--month", "2024-13", "--kind", "submissions"),
        ("corpus", "build", "--month", "2024-01", "--kind", "posts"),
        ("search", "x", "--cutoff", "yesterday"),
        ("search", "x", "--cutoff", "2024-01-01T00:00:00"),
        ("search", "x", "--cutoff", "1704067200000"),
        ("evalset", "build", "../x", "--t0", "day_before_close", "--all"),
        ("evalset", "build", "x", "--t0", "sometime", "--all"),
        ("no-such-command",),
        ("search", "x", "--cutoff", "2024-01-20", "--author", ""),
        ("search",),
    ],
)
def test_wrong_usage(hindcast, words: tuple[str, ...]) -> None:
    found = hindcast(*words)
    assert found.code == 2
    assert found.sentence


@pytest.fixture
def small_disk(tmp_path: Path) -> Iterator[Path]:
    """A disk of 2 MiB of its own."""
    place = tmp_path / "disk"
    place.mkdir()
    if (
        os.geteuid() != 0
        or subprocess.run(["mount", "-t", "tmpfs", "-o", "size=2m", "tmpfs", place], check=False).returncode
    ):
        pytest.skip("a small disk cannot be mounted here (needs root)")
    yield place
    subprocess.run(["umount", place], check=True)


def noise() -> bytes:
    """25 words that no compression shortens."""
    return b" ".join(os.urandom(8).hex().encode() for _ in range(25))


def test_a_full_disk_keeps_what_was_sealed(hindcast, tmp_path: Path, small_disk: Path) -> None:
    words = ("corpus", "build", "--month", "2024-01", "--kind", "submissions", "--all-subreddits", "--dump")
    small, large = tmp_path / "small.ndjson", tmp_path / "large.ndjson"
    small.write_bytes(b"".join(LINE % number for number in range(10)))
    large.write_bytes(b"".join((LINE % number).replace(b"word " * 25, noise()) for number in range(20_000)))
    assert hindcast(*words, str(small), root=small_disk).code == 0
    found = hindcast(*words, str(large), root=small_disk)
    assert found.code == 4
    assert "No space left" in found.sentence
    kept = open_store(small_disk).partition("submissions", "2024-01").require()
    assert kept.manifest.rows == 10
    assert not list(small_disk.rglob(".draft-*"))


def test_json_may_stand_before_or_after_and_is_one_document(
    hindcast, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    root = str(tmp_path / "root")
    for words in (["--json", "--data-root", root, "status"], ["status", "--json", f"--data-root={root}"]):
        with pytest.raises(SystemExit) as ended:
            main.run(words)
        assert ended.value.code == 0
        assert json.loads(capsys.readouterr().out)["data_root"] == root
