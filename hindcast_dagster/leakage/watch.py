"""Listens for canaries: in every prompt and reply while a run is under way, and in everything that it left behind.

What belongs here: finding marks. It reads files as bytes or as tables and needs no knowledge of what they mean.
"""

import zipfile
from collections.abc import Collection, Iterable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final, NamedTuple

from hindcast_dagster.leakage.canaries import Canary
from hindcast_dagster.llm.protocol import ChatModel, Completion, Decoding, Message
from hindcast_dagster.storage.store import Store

CORPUS: Final = frozenset({"submissions", "comments", "submission_index", "comment_index"})
"""Tables where canaries lie by right."""
_AREAS: Final = ("journal", "reports", "exports")


class Sighting(NamedTuple):
    """One mark where it must not be."""

    where: str
    mark: str


@dataclass
class Watched:
    """A model that answers as the one that it wraps and notes every mark in a prompt or a reply."""

    model: ChatModel
    marks: frozenset[str]
    sightings: list[Sighting] = field(default_factory=list)
    heard: set[str] = field(default_factory=set)
    """Of `also`: marks that may be seen and were, so that a silent run can be told from a deaf one."""
    also: frozenset[str] = frozenset()
    calls: int = 0

    @property
    def slug(self) -> str:
        """See `ChatModel`."""
        return self.model.slug

    @property
    def revision(self) -> str | None:
        """See `ChatModel`."""
        return self.model.revision

    @property
    def context_length(self) -> int:
        """See `ChatModel`."""
        return self.model.context_length

    def count_tokens(self, text: str) -> int:
        """See `ChatModel`."""
        return self.model.count_tokens(text)

    async def complete(
        self, messages: list[Message], *, decoding: Decoding, schema: dict[str, Any] | None = None
    ) -> Completion:
        """Call the model and listen."""
        self.calls += 1
        call = self.calls
        self._listen(f"prompt of call {call}", "\n".join(message.content for message in messages))
        completion = await self.model.complete(messages, decoding=decoding, schema=schema)
        self._listen(f"reply of call {call}", f"{completion.text}\n{completion.reasoning}")
        return completion

    async def close(self) -> None:
        """See `ChatModel`."""
        await self.model.close()

    def _listen(self, where: str, text: str) -> None:
        self.sightings += [Sighting(where, mark) for mark in sorted(self.marks) if mark in text]
        self.heard |= {mark for mark in self.also if mark in text}


def marks(planted: Iterable[Canary]) -> frozenset[str]:
    """Return everything that must not surface."""
    return frozenset(mark for canary in planted for mark in canary.marks)


def left_behind(store: Store, planted: Collection[str]) -> list[Sighting]:
    """Return every mark in what a run left: journals, reports, exports, and every table but the corpus."""
    roots = [store.area(area) for area in _AREAS]
    roots += [store.root / "tables" / table for table in store.tables() if table not in CORPUS]
    files = sorted(path for root in roots if root.is_dir() for path in root.rglob("*") if path.is_file())
    return [
        Sighting(str(path.relative_to(store.root)), mark)
        for path in files
        for mark in sorted({mark for data in _contents(path) for mark in planted if mark.encode() in data})
    ]


def _contents(path: Path) -> Iterator[bytes]:
    """Yield what a file says: the bytes, and for packed formats what is inside."""
    if path.suffix == ".parquet":
        import polars as pl

        yield pl.read_parquet(path).write_ndjson().encode()
    elif zipfile.is_zipfile(path):
        with zipfile.ZipFile(path) as bundle:
            for name in bundle.namelist():
                yield name.encode() + b"\n" + bundle.read(name)
    else:
        yield path.read_bytes()
