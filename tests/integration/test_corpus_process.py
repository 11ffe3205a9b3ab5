"""The corpus build as a process: killed at any time, in other zones and locales, with too little memory."""

import json
import os
import random
import resource
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import pytest
import zstandard

from hindcast_dagster.cli import main

CLI = [sys.executable, "-c", "import sys; from hindcast_dagster.cli.main import run; run(sys.argv[1:])"]
MONTH, START, SECONDS = "2024-01", 1_704_067_200, 31 * 86_400
WORDS = "the quick brown fox jumps over a lazy dog and then some more of the same words again \U0001f4a9 until enough of them"


def write_dump(path: Path, count: int, *, window_log: int = 20) -> Path:
    rng = random.Random(5)
    params = zstandard.ZstdCompressionParameters.from_level(1, window_log=window_log, write_checksum=1)
    with path.open("wb") as out, zstandard.ZstdCompressor(compression_params=params).stream_writer(out) as stream:
        for number in range(count):
            created = START + number * SECONDS // count
            record = {
                "id": f"k{number}", "created_utc": created, "subreddit": "nfl", "author": f"user_{number % 999}",
                "body": f"{rng.random()} {WORDS}", "score": rng.randrange(9), "retrieved_on": created + 90_000,
            }  # fmt: skip
            stream.write(json.dumps(record, ensure_ascii=False).encode() + b"\n")
    return path


def command(root: Path, dump: Path) -> list[str]:
    where = ["--data-root", str(root), "--month", MONTH, "--kind", "comments", "--json"]
    return [*CLI, "corpus", "build", "--dump", str(dump), "--all-subreddits", *where]


def run(root: Path, dump: Path, **options: Any) -> subprocess.CompletedProcess[str]:
    return subprocess.run(command(root, dump), capture_output=True, text=True, check=False, timeout=120, **options)


def sealed_files(root: Path) -> dict[str, bytes]:
    return {str(path.relative_to(root)): path.read_bytes() for path in root.glob("tables/*/*/v-*/*.parquet")}


@pytest.mark.slow
def test_killed_at_any_time_and_run_again_gives_the_same_files(tmp_path: Path) -> None:
    dump = write_dump(tmp_path / "RC.zst", 60_000)
    begun = time.monotonic()
    assert run(tmp_path / "quiet", dump).returncode == 0
    whole = time.monotonic() - begun
    undisturbed = sealed_files(tmp_path / "quiet")
    root = tmp_path / "root"
    killed = 0
    for share in (0.3, 0.5, 0.7, 0.85, 0.95):
        process = subprocess.Popen(command(root, dump), stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        time.sleep(whole * share)
        process.send_signal(signal.SIGKILL)
        killed += process.wait() == -signal.SIGKILL
        if root.joinpath("tables/comments", MONTH, "manifest.json").exists():  # killed after it was sealed
            assert sealed_files(root) == undisturbed
    assert killed >= 3
    assert run(root, dump).returncode == 0
    assert sealed_files(root) == undisturbed
    assert not [path for path in root.joinpath("work/corpus").iterdir() if path.is_dir()]


def test_zone_and_locale_of_the_machine_change_nothing(tmp_path: Path) -> None:
    dump = write_dump(tmp_path / "RC.zst", 300)
    found = []
    for zone, locale in (("UTC", "C.UTF-8"), ("America/New_York", "C"), ("Asia/Kathmandu", "POSIX")):
        root = tmp_path / zone.replace("/", "-")
        environment = os.environ | {"TZ": zone, "LC_ALL": locale, "LANG": locale, "PYTHONUTF8": "0"}
        done = run(root, dump, env=environment)
        assert done.returncode == 0, done.stderr
        found.append((json.loads(done.stdout), list(sealed_files(root).values())))
    assert found[0] == found[1] == found[2]
    assert found[0][0]["kept"] > 100


def test_a_limit_below_the_window_is_a_clear_error_at_once(tmp_path: Path) -> None:
    dump = write_dump(tmp_path / "RC.zst", 300, window_log=31)

    def limit() -> None:
        resource.setrlimit(resource.RLIMIT_AS, (2 << 30, 2 << 30))

    begun = time.monotonic()
    done = run(tmp_path / "root", dump, preexec_fn=limit)
    assert time.monotonic() - begun < 60
    assert done.returncode == 4, done.stderr
    message = json.loads(done.stdout)["error"]["message"]
    assert str(dump) in message
    assert "memory" in message
    assert not list(tmp_path.joinpath("root").rglob("*.parquet"))


def test_the_command_line_refuses_what_has_no_meaning(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    dump = write_dump(tmp_path / "RC.zst", 3)
    base = ["--data-root", str(tmp_path / "root"), "--kind", "comments"]
    for arguments, code in (
        (["build", *base, "--month", "2024-13", "--dump", str(dump)], 2),
        (["build", *base, "--month", MONTH, "--dump", str(tmp_path / "absent")], 2),
        (["build", *base, "--month", MONTH], 4),
        (["build", *base, "--month", MONTH, "--all-subreddits", "--subreddits", str(dump)], 2),
        (["build", "--data-root", str(tmp_path / "root"), "--kind", "posts", "--month", MONTH], 2),
        (["ledger", *base, "--month", MONTH], 4),
    ):
        with pytest.raises(SystemExit) as ended:
            main.run(["corpus", *arguments])
        assert ended.value.code == code
        assert "hindcast: " in capsys.readouterr().err


def test_a_command_loads_no_tables_before_the_dump_is_being_read() -> None:
    heavy = "{'polars', 'pyarrow', 'numpy', 'dagster', 'pandas'}"
    code = f"import sys, hindcast_dagster.cli.main, hindcast_dagster.corpus.build; print({heavy} & set(sys.modules))"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "set()"


def test_an_empty_dump_is_sealed_with_a_warning(tmp_path: Path) -> None:
    dump = tmp_path / "RC_2024-01.ndjson"
    dump.touch()
    done = run(tmp_path / "root", dump)
    assert done.returncode == 0, done.stderr
    document = json.loads(done.stdout)
    assert (document["lines"], document["kept"], document["health"]["verdict"]) == (0, 0, "unknown")
    assert "Warning: comments 2024-01: The dump holds no line at all" in " ".join(done.stderr.split())
