"""`make audit-deps`: asks for known vulnerabilities of every pinned package, and says what could not be asked.

A package is `clean` only when the database answered for it, and the database counts as answering only when it knows
the vulnerabilities of an old release that everybody knows to be vulnerable. Everything else is `not audited`: an audit
that reached nobody must not look like one that found nothing. Exit codes: 0 all clean, 3 something is vulnerable, 4
something was not audited.
"""

import argparse
import json
import re
import subprocess
import sys
import tempfile
from collections import Counter
from pathlib import Path
from typing import Any, Final, NamedTuple

ROOT: Final = Path(__file__).resolve().parent.parent
LOCKS: Final = ("run.lock", "dev.lock", "torch.lock", "smollm2.lock", "audit.lock")
KNOWN_BAD: Final = ("django", "2.0")
"""No package of ours, and vulnerable in many published ways: a database that does not know it does not answer."""
CLEAN, VULNERABLE, NOT_AUDITED = "clean", "vulnerable", "not audited"
PIN: Final = re.compile(r"^([A-Za-z0-9._-]+)==([^\s;\\]+)", re.MULTILINE)


class Verdict(NamedTuple):
    """What is known of one package."""

    name: str
    version: str
    status: str
    said: str = ""


def pins(folder: Path) -> list[tuple[str, str]]:
    """Return every pinned package and its version, sorted, names as the index spells them."""
    texts = [(folder / name).read_text(encoding="utf-8") for name in LOCKS]
    return sorted({(normal(name), version) for text in texts for name, version in PIN.findall(text)})


def normal(name: str) -> str:
    """Return a name as the index compares names."""
    return re.sub(r"[-_.]+", "-", name).lower()


def judge(wanted: list[tuple[str, str]], answer: dict[str, Any] | None, *, reason: str = "") -> list[Verdict]:
    """Return a verdict for every wanted package from pip-audit's JSON, or from nothing when it gave none."""
    entries = answer.get("dependencies") if isinstance(answer, dict) else None
    found = {normal(str(each.get("name"))): each for each in entries or () if isinstance(each, dict)}
    probe = found.get(KNOWN_BAD[0], {})
    if probe.get("version") != KNOWN_BAD[1] or not probe.get("vulns"):
        why = reason or f"the database does not know that {' '.join(KNOWN_BAD)} is vulnerable: its silence says nothing"
        return [Verdict(name, version, NOT_AUDITED, why) for name, version in wanted]
    return [_one(name, version, found.get(name)) for name, version in wanted]


def _one(name: str, version: str, entry: dict[str, Any] | None) -> Verdict:
    if entry is None:
        return Verdict(name, version, NOT_AUDITED, "no answer for it")
    if "skip_reason" in entry or not isinstance(entry.get("vulns"), list) or entry.get("version") != version:
        return Verdict(name, version, NOT_AUDITED, str(entry.get("skip_reason", "an answer about another version")))
    if entry["vulns"]:
        return Verdict(name, version, VULNERABLE, ", ".join(str(each.get("id")) for each in entry["vulns"]))
    return Verdict(name, version, CLEAN)


def ask(wanted: list[tuple[str, str]], program: str) -> tuple[dict[str, Any] | None, str]:
    """Return pip-audit's answer about all packages and the known bad one, or None and why there is none."""
    with tempfile.NamedTemporaryFile("w", suffix=".txt", encoding="utf-8") as listing:
        listing.write("".join(f"{name}=={version}\n" for name, version in [*wanted, KNOWN_BAD]))
        listing.flush()
        options = ["--no-deps", "--disable-pip", "--progress-spinner", "off", "--format", "json", "--timeout", "15"]
        command = [program, *options, "--vulnerability-service", "osv", "--requirement", listing.name]
        try:
            done = subprocess.run(command, capture_output=True, text=True, check=False, timeout=900)
        except (OSError, subprocess.TimeoutExpired) as error:
            return None, f"pip-audit did not run ({error})"
    try:
        answer = json.loads(done.stdout)
    except ValueError:
        lines = done.stderr.strip().splitlines() or ["pip-audit said nothing"]
        return None, f"the database gave no answer ({lines[-1].partition('(')[0]})"
    return (answer, "") if isinstance(answer, dict) else (None, "pip-audit's answer is no object")


def main() -> int:
    """Ask, print one line a package that is not clean, and a count."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--program", default=str(ROOT / ".venv" / "audit" / "bin" / "pip-audit"))
    given = parser.parse_args()
    wanted = pins(ROOT / "requirements")
    answer, reason = ask(wanted, given.program)
    verdicts = judge(wanted, answer, reason=reason)
    for each in verdicts:
        if each.status != CLEAN:
            print(f"{each.name} {each.version}: {each.status} ({each.said})")
    counts = Counter(each.status for each in verdicts)
    print(f"{len(verdicts)} packages: " + ", ".join(f"{counts[s]} {s}" for s in (CLEAN, VULNERABLE, NOT_AUDITED)))
    return 3 if counts[VULNERABLE] else 4 if counts[NOT_AUDITED] else 0


if __name__ == "__main__":
    sys.exit(main())
