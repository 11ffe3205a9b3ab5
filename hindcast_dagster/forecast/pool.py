"""The evidence that one forecast has found: merged over queries and rounds, ranked, expanded.

What belongs here: documents and their order. What does not: rendering (see `blocks`), and any model.
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from typing import NamedTuple

from hindcast_dagster.archive.protocol import ArchiveView, Document, SearchAnswer
from hindcast_dagster.settings import Agent

ASKED: float = -1.0
"""Rank of a document that the model looked up by name: before every search hit."""


@dataclass(slots=True)
class Found:
    """One document and what was pulled in around it."""

    document: Document
    distance: float
    """Smallest cosine distance over all queries that hit it; `ASKED` for a look-up."""
    round: int
    """The round in which it was new."""
    comments: tuple[Document, ...] = ()
    history: tuple[Document, ...] = ()
    rendered: tuple[str, str, str, str, int, int, int] | None = None
    """What `blocks` made of it, kept so that a later call does not make it again."""


class Harvest(NamedTuple):
    """What one round of searches brought."""

    hits: int
    """Hits over all queries, repeats included."""
    new: int
    """Documents that nobody had found before."""

    @property
    def share(self) -> float:
        """New documents per hit: the yield that stops research when it gets small. 0 without hits."""
        return self.new / self.hits if self.hits else 0.0


@dataclass
class Pool:
    """All documents found so far, by key."""

    found: dict[str, Found] = field(default_factory=dict)

    def add(self, answers: Iterable[SearchAnswer], *, round_: int) -> Harvest:
        """Merge the hits of a round."""
        hits = new = 0
        for hit in (hit for answer in answers for hit in answer.hits):
            hits += 1
            known = self.found.get(hit.document.key)
            if known is None:
                self.found[hit.document.key] = Found(hit.document, hit.distance, round_)
                new += 1
            else:
                known.distance = min(known.distance, hit.distance)
        return Harvest(hits, new)

    def look_up(self, documents: Iterable[Document], *, round_: int) -> None:
        """Add documents that the model asked for by name."""
        for document in documents:
            known = self.found.setdefault(document.key, Found(document, ASKED, round_))
            known.distance = ASKED

    def ranked(self, *, round_: int | None = None) -> list[Found]:
        """Return the documents, best first; only those new in a round when one is given."""
        chosen = (found for found in self.found.values() if round_ is None or found.round == round_)
        return sorted(chosen, key=lambda found: (found.distance, found.document.key))

    def expand(self, view: ArchiveView, agent: Agent, *, round_: int) -> None:
        """Pull in author histories for the best new posts of a round, and comment threads for the very best."""
        posts = [found for found in self.ranked(round_=round_) if found.document.doc_type == "submission"]
        for rank, found in enumerate(posts[: agent.expanded]):
            found.rendered = None
            found.history = _history(view, found.document, agent)
            if rank < agent.threads and agent.comments_per_thread:
                answer = view.getpostcommentslist(
                    found.document.id, depth=agent.thread_depth, limit=agent.comments_per_thread
                )
                found.comments = answer.documents


def _history(view: ArchiveView, document: Document, agent: Agent) -> tuple[Document, ...]:
    """Return the author's recent posts and comments without the post itself."""
    if not agent.author_posts and not agent.author_comments:
        return ()
    answer = view.getauthorhistorylist(document.author, posts=agent.author_posts, comments=agent.author_comments)
    return tuple(other for other in answer.documents if other.key != document.key)


def keys(found: Sequence[Found]) -> list[str]:
    """Return the keys of documents in order."""
    return [item.document.key for item in found]
