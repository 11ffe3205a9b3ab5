"""What could not be audited is never called clean, and the locks let no unknown file in."""

import importlib.util
import json
import re
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
WANTED = [("jinja2", "3.1.6"), ("torch", "2.13.0")]


@pytest.fixture(scope="module")
def audit():
    spec = importlib.util.spec_from_file_location("audit_deps", ROOT / "scripts" / "audit_deps.py")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def answer(audit, *entries, probe=True):
    name, version = audit.KNOWN_BAD
    known = [{"name": name, "version": version, "vulns": [{"id": "CVE-1"}] if probe else []}]
    return {"dependencies": [*known, *entries]}


def entry(name="jinja2", version="3.1.6", **more):
    return {"name": name, "version": version, "vulns": []} | more


def statuses(verdicts):
    return {each.name: each.status for each in verdicts}


def test_an_answer_is_believed_package_by_package(audit):
    found = audit.judge(WANTED, answer(audit, entry("Jinja2"), entry("torch", "2.13.0", vulns=[{"id": "CVE-9"}])))
    assert statuses(found) == {"jinja2": "clean", "torch": "vulnerable"}
    assert found[1].said == "CVE-9"


@pytest.mark.parametrize(
    "entries",
    [
        [],
        [{"name": "jinja2", "skip_reason": "not found"}],
        [entry(version="3.1.5")],
        [{"name": "jinja2", "version": "3.1.6"}],
        [entry(vulns=None)],
    ],
    ids=["absent", "skipped", "another version", "no verdict", "null"],
)
def test_a_package_without_an_answer_is_not_audited(audit, entries):
    assert statuses(audit.judge(WANTED, answer(audit, *entries)))["jinja2"] == "not audited"


def test_a_database_that_knows_nothing_makes_nothing_clean(audit):
    silent = answer(audit, entry(), entry("torch", "2.13.0"), probe=False)
    for given in (silent, None, {}, {"dependencies": []}):
        assert set(statuses(audit.judge(WANTED, given)).values()) == {"not audited"}


@pytest.mark.parametrize("said", ["", "not json", "[]", json.dumps({"dependencies": []})])
def test_the_command_says_not_audited_and_fails(audit, tmp_path, monkeypatch, capsys, said):
    program = tmp_path / "pip-audit"
    program.write_text(f"#!{sys.executable}\nprint({said!r})\n")
    program.chmod(0o755)
    for path in (program, tmp_path / "absent"):
        monkeypatch.setattr(sys, "argv", ["audit_deps.py", "--program", str(path)])
        assert audit.main() == 4
        lines = capsys.readouterr().out.splitlines()
        assert sum("not audited (" in line for line in lines) == len(audit.pins(ROOT / "requirements")) > 150
        assert "0 clean, 0 vulnerable" in lines[-1]


def test_every_pinned_package_but_torch_has_hashes_and_no_address(audit):
    for name in audit.LOCKS:
        text = (ROOT / "requirements" / name).read_text()
        assert not re.search(r"https?://|--index|--find-links|file:", text), name
        requirements = re.findall(r"^[A-Za-z0-9](?:.*\\\n)*.*", text, re.MULTILINE)
        assert requirements
        for requirement in requirements:
            hashed = re.findall(r"--hash=sha256:[0-9a-f]{64}\b", requirement)
            assert bool(hashed) != requirement.startswith("torch=="), requirement.splitlines()[0]


def test_make_installs_by_hash(audit):
    installs = [line for line in (ROOT / "Makefile").read_text().splitlines() if "pip install" in line]
    assert len(installs) == 6
    for line in installs:
        assert "--require-hashes" in line or "torch.lock" in line or "--no-build-isolation -e ." in line, line
