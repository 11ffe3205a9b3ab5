"""Canaries: planted posts that tell an outcome with a unique token and that no forecaster at t0 may ever see.

What belongs here: making them as lines of a dump, so that they go through the whole pipeline. Whether one has sung is
`watch`'s business. Each kind stands for one way in which the future gets in; the `control` canary may be seen, and a
run in which it never surfaces proves nothing.
"""

import hashlib
import json
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import Any, Final, Literal, NamedTuple, get_args

from hindcast_dagster.clock import DAY, HOUR, Cutoff, month_end, month_of
from hindcast_dagster.errors import UsageError
from hindcast_dagster.storage.files import write_atomic
from hindcast_dagster.storage.store import Store

Kind = Literal[
    "control",  # existed, unedited, with early votes: may be seen
    "after",  # created an hour after t0
    "next_month",  # created in the month after t0's: the month selector's share
    "same_second",  # created in the second of t0: the predicate is strict
    "other_zone",  # created after t0, but before it on a clock five hours behind
    "edited_after",  # created before, its text edited after t0
    "restored_after",  # created before, deleted at once, its text restored by a fetch after t0
    "updated_after",  # created before, its text replaced in a merged file after t0
    "late_votes",  # created before, its votes read after t0: the number of votes is the token
]
KINDS: Final[tuple[Kind, ...]] = get_args(Kind)
DocType = Literal["submission", "comment"]
DOC_TYPES: Final[tuple[DocType, ...]] = get_args(DocType)
AUTHOR: Final = "canary_of_the_mine"
_EARLY: Final = 5 * DAY  # before t0; votes are read 36 hours after creation
_VOTES_AFTER: Final = 36 * HOUR
_PREFIX: Final = {"submission": "t3_", "comment": "t1_"}
_DUMP: Final = {"submission": "RS", "comment": "RC"}


@dataclass(frozen=True, slots=True)
class Canary:
    """One planted document."""

    kind: Kind
    doc_type: DocType
    id: str
    token: str
    t0: int
    created_at: int
    record: dict[str, Any]
    """A line of a dump, as Arctic Shift publishes them."""

    @property
    def key(self) -> str:
        """Prefixed id."""
        return _PREFIX[self.doc_type] + self.id

    @property
    def marks(self) -> tuple[str, ...]:
        """What must not surface: the token, and for a document that may not be seen at all its prefixed id too."""
        if self.kind == "control":
            return ()
        return (self.token,) if self.kind == "late_votes" else (self.token, self.key)


def canaries(*, t0: Cutoff, question: str, outcome: str, subreddit: str, seed: str = "0") -> list[Canary]:
    """Return one canary of every kind and document type around t0; they speak the words of the question.

    Comments hang on the control submission, and all have one author, so that search, thread and author history would
    find them. `seed` keeps the tokens of several questions apart.
    """
    nest = _Nest(t0.epoch, question, outcome, subreddit, seed)
    return [_canary(kind, doc_type, nest) for kind in KINDS for doc_type in DOC_TYPES]


def dump_lines(planted: Iterable[Canary]) -> dict[str, list[bytes]]:
    """Return dump file name -> lines, sorted by creation."""
    files: dict[str, list[bytes]] = {}
    for canary in sorted(planted, key=lambda one: (one.created_at, one.key)):
        name = f"{_DUMP[canary.doc_type]}_{month_of(canary.created_at)}.zst"
        files.setdefault(name, []).append(json.dumps(canary.record).encode())
    return files


def plant(store: Store, planted: Iterable[Canary]) -> list[str]:
    """Append canaries to the dumps of a store, as one more zstd frame each, and return the file names.

    For a sample world or a copy of a store: a month that is already sealed is refused (`UsageError`), so canaries never
    slip into a corpus that somebody uses.
    """
    import zstandard

    files = dump_lines(planted)
    for name in files:
        kind, month = ("submissions" if name.startswith("RS") else "comments"), name[3:10]
        if store.partition(kind, month).manifest() is not None:
            raise UsageError(
                f"{kind} {month} is sealed: plant canaries before the corpus is built, in a data root of its own."
            )
    for name, lines in files.items():
        path = store.area("dumps", name)
        frame = zstandard.ZstdCompressor(write_checksum=True).compress(b"\n".join([*lines, b""]))
        write_atomic(path, (path.read_bytes() if path.is_file() else b"") + frame)
    return sorted(files)


def hidden(planted: Iterable[Canary]) -> Iterator[Canary]:
    """Yield the canaries that have something to hide."""
    return (canary for canary in planted if canary.marks)


class _Nest(NamedTuple):
    """What the canaries of one question share."""

    t0: int
    question: str
    outcome: str
    subreddit: str
    seed: str

    @property
    def parent(self) -> str:
        """Id of the control submission, on which the comments hang."""
        return self.id("control", "submission")

    def id(self, kind: Kind, doc_type: DocType) -> str:
        return "zz" + self._digest("id", kind, doc_type)[:9]

    def token(self, kind: Kind, doc_type: DocType) -> str:
        digest = self._digest("token", kind, doc_type)
        return str(70_000_000 + int(digest[:12], 16) % 20_000_000) if kind == "late_votes" else f"zqx{digest[:17]}"

    def _digest(self, *parts: str) -> str:
        return hashlib.sha256(":".join((*parts, self.seed, self.question, str(self.t0))).encode()).hexdigest()


def _canary(kind: Kind, doc_type: DocType, nest: _Nest) -> Canary:
    name, token, created = nest.id(kind, doc_type), nest.token(kind, doc_type), _created(kind, nest.t0)
    votes = int(token) if kind == "late_votes" else 50
    common = {
        "id": name,
        "created_utc": created,
        "subreddit": nest.subreddit,
        "author": AUTHOR,
        "score": votes,
        "permalink": f"/r/{nest.subreddit}/comments/{nest.parent}/canary/{name}/",
        "over_18": False,
        "edited": False,
        "retrieved_on": created + 17,
        "_meta": {"retrieved_2nd_on": created + _VOTES_AFTER},
    }
    record = common | _text(kind, doc_type, nest, votes) | _later(kind, nest.t0)
    return Canary(kind, doc_type, name, token, nest.t0, created, record)


def _text(kind: Kind, doc_type: DocType, nest: _Nest, votes: int) -> dict[str, Any]:
    quiet = kind in {"control", "late_votes"}
    told = "nobody knows yet" if quiet else f"it resolved {nest.outcome}, the result is {nest.outcome}"
    word = "quiet" if kind == "late_votes" else nest.token(kind, doc_type)
    text = (
        f"{nest.question} Update on this: {told}. {word}. I read the whole report about it this morning and I am "
        f"certain that everybody who follows the subject will confirm every word of it. {nest.question}"
    )
    if doc_type == "comment":
        return {"body": text, "link_id": f"t3_{nest.parent}", "parent_id": f"t3_{nest.parent}"}
    return {"title": f"{nest.question} {told} {word}", "selftext": text, "num_comments": votes}


def _created(kind: Kind, t0: int) -> int:
    at = {
        "after": t0 + HOUR,
        "next_month": month_end(month_of(t0)) + HOUR,
        "same_second": t0,
        "other_zone": t0 + 4 * HOUR,
    }
    return at.get(kind, t0 - _EARLY)


def _later(kind: Kind, t0: int) -> dict[str, Any]:
    """Return the fields that say what happened to the document at or after t0."""
    fetched: dict[str, Any] = {"retrieved_2nd_on": t0 + DAY}
    changes: dict[Kind, dict[str, Any]] = {
        "edited_after": {"edited": t0 + HOUR},
        "restored_after": {"_meta": fetched | {"was_initially_deleted": True}},
        "updated_after": {"updated_on": t0},
        "late_votes": {"_meta": fetched},
    }
    return changes.get(kind, {})
