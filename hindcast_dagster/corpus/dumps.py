"""Dump files: which ones lie under the data root, which month and kind their names claim, and what they weigh.

What belongs here: names, sizes and hashes of dumps. What does not: their content (see `source`); a file's name proves
nothing about it.
"""

import re
from pathlib import Path
from typing import Final, Literal, NamedTuple

from hindcast_dagster import keys
from hindcast_dagster.errors import HindcastError, InputRefused, NotReady, UsageError
from hindcast_dagster.storage.files import sha256_file
from hindcast_dagster.storage.store import Store

TABLE: Final = "reddit_dumps"

Kind = Literal["submissions", "comments"]
KINDS: Final[tuple[Kind, ...]] = ("submissions", "comments")

_KIND_OF: Final[dict[str, Kind]] = {"RS": "submissions", "RC": "comments"}
_PREFIX_OF: Final = {kind: prefix for prefix, kind in _KIND_OF.items()}
_PACKED: Final = "zst|gz|bz2|xz"
_NAME: Final = re.compile(
    rf"(RS|RC)_(?:v2_)?([0-9]{{4}}-(?:0[1-9]|1[0-2]))\.(?:{_PACKED}|(?:ndjson|jsonl)(?:\.(?:{_PACKED}))?)"
)


class DumpFile(NamedTuple):
    """A monthly dump as it lies under the data root."""

    path: Path
    month: str
    kind: Kind


class Description(NamedTuple):
    """What identifies a dump file."""

    size: int
    sha256: str


class NoDump(NotReady):
    """The dump of a month is not under the data root."""


def kind_of(text: object) -> Kind:
    """Return `text` if it is a kind of document; raise `UsageError` otherwise."""
    for kind in KINDS:
        if text == kind:
            return kind
    raise UsageError(f"{text!r} is not a kind: write {' or '.join(KINDS)}.")


def find(store: Store) -> list[DumpFile]:
    """Return every monthly dump in `dumps/`, sorted by kind, month and name.

    Known names: RS_YYYY-MM and RC_YYYY-MM, with or without `v2_`, as .zst, .gz, .bz2, .xz, .ndjson or .jsonl.
    """
    folder = store.area("dumps")
    named = ((path, _NAME.fullmatch(path.name)) for path in folder.rglob("*")) if folder.is_dir() else ()
    found = [DumpFile(path, match[2], _KIND_OF[match[1]]) for path, match in named if match and path.is_file()]
    return sorted(found, key=lambda dump: (dump.kind, dump.month, str(dump.path)))


def choose(store: Store, *, month: str, kind: Kind, dump: Path | None = None) -> Path:
    """Return the dump to read: `dump` if given, else the one under the data root.

    Raises `NoDump` when there is none, `UsageError` when several could be meant or `dump` is not a readable file.
    """
    keys.month(month)
    if dump is not None:
        if not dump.is_file():
            raise UsageError(f"--dump {dump} is not a file.")
        return dump
    found = [item.path for item in find(store) if (item.month, item.kind) == (month, kind)]
    if not found:
        name = f"{_PREFIX_OF[kind]}_{month}.zst"
        raise NoDump(f"No dump of {kind} {month}: put {name} into {store.area('dumps')} or name a file with --dump.")
    if len(found) > 1:
        names = ", ".join(path.name for path in found)
        raise UsageError(f"{len(found)} dumps could be {kind} {month} ({names}): name one with --dump.")
    return found[0]


def describe(path: Path) -> Description:
    """Return size and sha256 of a dump. Raises `InputRefused` when it cannot be read."""
    try:
        return Description(size=path.stat().st_size, sha256=sha256_file(path))
    except OSError as error:
        raise InputRefused(f"{path} cannot be read ({error.strerror}).") from error


def as_refusal(path: Path, error: Exception, *, offset: int, line: int) -> HindcastError:
    """Return the refusal of a dump that broke at a compressed byte offset, after so many whole lines."""
    where = f"{path} is not a complete, intact dump: at byte {offset:,}, after line {line:,}"
    return InputRefused(f"{where}: {error}. Nothing was sealed; fetch the file again.")
