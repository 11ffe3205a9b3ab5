"""Archives for tests: documents sealed as the corpus stage seals them, and a small deterministic embedding model."""

import hashlib
from collections.abc import Iterable, Sequence
from functools import lru_cache

import numpy as np
import pytest

from hindcast_dagster.archive import build
from hindcast_dagster.archive import open as opening
from hindcast_dagster.archive.embedding import ModelIdentity
from hindcast_dagster.archive.open import LanceArchive, open_archive
from hindcast_dagster.archive.protocol import Document
from hindcast_dagster.contracts.documents import BY_KIND
from hindcast_dagster.settings import Settings
from hindcast_dagster.storage.store import Store
from hindcast_dagster.storage.tables import publish_table
from tests.toy_archive import words

DIMENSION = 32


class ToyEmbedder:
    """Each word has a fixed random direction; a text is the sum of its words. Texts without words get one direction."""

    identity = ModelIdentity("toy", "1", "", 64, "float32", DIMENSION)

    def __init__(self) -> None:
        self.embedded = 0

    def documents(self, texts: Sequence[str]) -> np.ndarray:
        self.embedded += len(texts)
        return self.queries(texts)

    def queries(self, texts: Sequence[str]) -> np.ndarray:
        return np.array([unit(text) for text in texts], dtype=np.float32).reshape(-1, DIMENSION)

    def truncated(self, texts: Sequence[str]) -> int:
        return sum(len(text.split()) > self.identity.max_tokens for text in texts)

    def close(self) -> None:
        pass


@lru_cache(maxsize=20_000)
def unit(text: str) -> np.ndarray:
    total = np.zeros(DIMENSION)
    for word, count in words(text).items():
        total += count * direction(word)
    total = total if np.linalg.norm(total) > 1e-6 else direction("")
    found: np.ndarray = (total / np.linalg.norm(total)).astype(np.float32)
    found.setflags(write=False)  # it is shared
    return found


@lru_cache(maxsize=100_000)
def direction(word: str) -> np.ndarray:
    seed = int.from_bytes(hashlib.sha256(word.encode()).digest()[:8], "big")
    return np.random.default_rng(seed).standard_normal(DIMENSION)


def cosine(query: str, found: Document) -> float:
    """The oracle's distance: what the real archive must report for the toy embedder."""
    document = unit(build.document_text(found.title, found.text)).astype(np.float64)
    return float(1 - np.einsum("ij,j->i", document[None], unit(query).astype(np.float64))[0])


def use(monkeypatch: pytest.MonkeyPatch, embedder: object) -> None:
    """Make builds and archives use an embedder."""
    monkeypatch.setattr(build, "open_embedder", lambda _settings: embedder)
    monkeypatch.setattr(opening, "open_embedder", lambda _settings: embedder)


def row(found: Document) -> dict[str, object]:
    """A document as a row of the corpus contract."""
    values = {name: getattr(found, name) for name in Document.__dataclass_fields__ if name != "withheld"}
    return values | {"over_18": None, "deleted_later": False, "dump_sha256": "0" * 64}


def publish(store: Store, kind: str, month: str, documents: Iterable[Document], **stats: object) -> None:
    """Seal a month of the corpus."""
    frame = BY_KIND[kind].frame([row(found) for found in documents])
    publish_table(store.partition(kind, month), frame, BY_KIND[kind], code_version="test", stats=stats)


def seal(
    store: Store, settings: Settings, documents: Iterable[Document], *, months: Sequence[str] = ()
) -> LanceArchive:
    """Build an archive of the documents, with empty months for those named in `months`, and open it."""
    every = list(documents)
    for kind, doc_type, make in (
        ("submissions", "submission", build.build_submissions),
        ("comments", "comment", build.build_comments),
    ):
        rows = [found for found in every if found.doc_type == doc_type]
        for month in sorted({found.month for found in rows} | set(months)):
            publish(store, kind, month, [found for found in rows if found.month == month])
            make(store, settings, month=month)
    return open_archive(store, settings)
