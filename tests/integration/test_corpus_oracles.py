"""The corpus commands on real dumps: the counts of the field notes exactly, and nothing from a dump that is cut."""

import json
import subprocess
import sys
from pathlib import Path

import pytest

pytestmark = pytest.mark.shared

ASKMEN = {"author_gone": 6671, "text_gone": 3915, "low_score": 1233, "few_comments": 2, "few_words": 464}
RC_2005_12 = {"author_gone": 185, "low_score": 783, "mostly_link": 7, "few_words": 20}


def hindcast(*arguments: str) -> subprocess.CompletedProcess[str]:
    code = "import sys; from hindcast_dagster.cli.main import run; run(sys.argv[1:])"
    return subprocess.run([sys.executable, "-c", code, *arguments], capture_output=True, text=True, check=False)


@pytest.mark.parametrize(
    ("name", "month", "kind", "counts"),
    [
        ("AskMen_submissions.zst", "2019-10", "submissions", (13_050, 765, ASKMEN)),
        ("RC_2005-12.zst", "2005-12", "comments", (1_075, 80, RC_2005_12)),
    ],
)
def test_ledger_of_the_field_notes(
    *, shared: Path, tmp_path: Path, name: str, month: str, kind: str, counts: tuple[int, int, dict[str, int]]
) -> None:
    dump = shared / "data/reddit" / name
    where = ["--data-root", str(tmp_path / "root"), "--month", month, "--kind", kind, "--json"]
    built = hindcast("corpus", "build", "--dump", str(dump), "--all-subreddits", *where)
    assert built.returncode == 0, built.stderr
    found = json.loads(built.stdout)
    assert (found["lines"], found["kept"], found["dropped"]) == counts
    assert found["sealed"] is True
    assert json.loads(hindcast("corpus", "ledger", *where).stdout) == found


def test_cut_dump_leaves_nothing(shared: Path, tmp_path: Path) -> None:
    cut = tmp_path / "cut.zst"
    cut.write_bytes((shared / "data/reddit/RC_2005-12.zst").read_bytes()[:100_000])
    root = tmp_path / "root"
    where = ["--data-root", str(root), "--month", "2005-12", "--kind", "comments"]
    built = hindcast("corpus", "build", "--dump", str(cut), "--all-subreddits", *where)
    assert built.returncode == 3
    assert str(cut) in built.stderr
    assert "byte 100,000" in built.stderr
    assert "line 628" in built.stderr
    assert not list(root.rglob("*.parquet"))
    assert hindcast("corpus", "ledger", *where).returncode == 4
