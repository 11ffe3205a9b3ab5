"""The record of take-downs: which documents were asked to be forgotten, so that no later build brings them back.

One file under the root, to which lines are only ever added. An id stands in it as a keyed hash: the file is no reading
list of what people wanted gone, but whoever holds it can confirm an id that he already has. Beside the hash lie the
three instants of the document, so that an audit can still hold an old trace against its t0: forgetting hides no leak.
"""

import hashlib
import json
import re
import secrets
from collections.abc import Mapping
from typing import Final, NamedTuple

from filelock import FileLock

from hindcast_dagster import clock
from hindcast_dagster.errors import InputRefused
from hindcast_dagster.storage.files import write_atomic
from hindcast_dagster.storage.store import Store

VERSION: Final = 1
PREFIXES: Final = {"submissions": "t3_", "comments": "t1_"}
_NAMED: Final = re.compile(rb'"(?:id|name)"[ \t\r]*:[ \t\r]*"(?:t[13]_)?([0-9a-z]{1,13})"')


class Instants(NamedTuple):
    """When a forgotten document came to be, and when its text and its votes were true (epoch seconds)."""

    created_at: int
    text_as_of: int
    engagement_as_of: int | None


class Forgotten:
    """What one reading of the record says. Keys are prefixed ids: t3_ or t1_."""

    def __init__(self, salt: bytes, entries: Mapping[str, Instants | None], *, state: str) -> None:
        self._salt, self._entries, self.state = salt, entries, state

    def __len__(self) -> int:
        return len(self._entries)

    def __contains__(self, key: object) -> bool:
        return bool(self._entries) and isinstance(key, str) and self.digest(key) in self._entries

    def digest(self, key: str) -> str:
        """Return the keyed hash under which an id is recorded."""
        return hashlib.blake2b(key.encode("utf-8", "surrogatepass"), key=self._salt, digest_size=16).hexdigest()

    def instants(self, key: str) -> Instants | None:
        """Return what was known of a forgotten document; None when no month held it at the time."""
        return self._entries.get(self.digest(key))

    def adding(self, found: Mapping[str, Instants | None]) -> "Forgotten":
        """Return a record that names these too, without writing it (a dry run)."""
        more = {self.digest(key): instants for key, instants in found.items() if key not in self}
        return Forgotten(self._salt, {**self._entries, **more}, state=self.state)

    def named_in(self, line: bytes, kind: str) -> bool:
        """Return whether a raw line of a dump is, or nests (a crosspost does), a forgotten document."""
        prefix = PREFIXES[kind]
        return bool(self._entries) and any(prefix + found.decode() in self for found in _NAMED.findall(line))


def load(store: Store) -> Forgotten:
    """Read the record of a store; empty where nothing was ever forgotten. Raises `InputRefused` for a damaged one."""
    path = store.area("forgotten", "record.jsonl")
    try:
        data = path.read_bytes()
    except FileNotFoundError:
        return Forgotten(b"-", {}, state="")
    try:
        head, *lines = map(json.loads, data.splitlines())
        if head["forgotten"] != VERSION:
            raise InputRefused(f"{path} has version {head['forgotten']}; this program reads {VERSION}: upgrade it.")
        entries: dict[str, Instants | None] = {}
        for line in lines:
            known = entries.get(line["digest"])
            entries[line["digest"]] = known or (Instants(*line["instants"]) if line["instants"] else None)
        return Forgotten(bytes.fromhex(head["salt"]), entries, state=hashlib.sha256(data).hexdigest())
    except (ValueError, KeyError, TypeError) as error:
        raise InputRefused(
            f"{path} is damaged ({error!r}): restore it from a copy. Without it forgotten documents would come back."
        ) from error


def add(store: Store, found: Mapping[str, Instants | None]) -> int:
    """Add documents (prefixed id -> instants, None when unknown) and return how many were new. What is there stays."""
    path = store.area("forgotten", "record.jsonl")
    path.parent.mkdir(parents=True, exist_ok=True)
    with FileLock(path.parent / ".lock"):
        data = path.read_bytes() if path.is_file() else _head()
        if not path.is_file():
            write_atomic(path, data)
        before = load(store)
        lines = [
            _line(before, key, instants) for key, instants in sorted(found.items()) if _wanted(before, key, instants)
        ]
        if lines:
            write_atomic(path, data + b"".join(lines))
        return sum(key not in before for key in found)


def unchanged(store: Store, before: Forgotten) -> bool:
    """Return whether nothing was added since `before` was read: a build that began earlier must not seal otherwise."""
    return load(store).state == before.state


def _wanted(before: Forgotten, key: str, instants: Instants | None) -> bool:
    return key not in before or (instants is not None and before.instants(key) is None)


def _head() -> bytes:
    return json.dumps({"forgotten": VERSION, "salt": secrets.token_hex(32)}).encode() + b"\n"


def _line(record: Forgotten, key: str, instants: Instants | None) -> bytes:
    values = {"digest": record.digest(key), "at": clock.iso(clock.now()), "instants": instants}
    return json.dumps(values).encode() + b"\n"
