"""Another market's evidence: whose, and a view that hands it out.

What belongs here: the choice of a partner and the exchange of queries. The view stays at the question's own t0, so a
placebo leaks nothing; it is only about something else.
"""

import hashlib
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Final

from hindcast_dagster.archive.protocol import ArchiveView, LookupAnswer, SearchAnswer
from hindcast_dagster.clock import Cutoff
from hindcast_dagster.evidence import cues
from hindcast_dagster.questions.question import Question

_QUERIES: Final = 5


def partners(questions: Sequence[Question]) -> dict[str, Question]:
    """Return for each question another one, of another event: of its topic if there is one, then the nearest t0.

    A question without any other event has no partner and is absent. Ties are decided by a hash of both ids, so that
    one popular market does not lend its evidence to all.
    """
    found = ((question.id, _partner(question, questions)) for question in questions)
    return {name: partner for name, partner in found if partner is not None}


def _partner(question: Question, questions: Sequence[Question]) -> Question | None:
    others = [other for other in questions if other.id != question.id and not _same_event(question, other)]
    return min(others, key=lambda other: _distance(question, other), default=None)


def _same_event(one: Question, other: Question) -> bool:
    return one.event_id is not None and one.event_id == other.event_id


def _distance(one: Question, other: Question) -> tuple[bool, int, str]:
    tie = hashlib.sha256(f"{one.id}:{other.id}".encode()).hexdigest()
    return other.topic != one.topic, abs(other.t0.epoch - one.t0.epoch), tie


@dataclass(frozen=True, slots=True)
class Placebo:
    """A view at the question's t0 whose searches ask about another question; look-ups pass through."""

    view: ArchiveView
    other: Question

    @property
    def cutoff(self) -> Cutoff:
        """t0 of the question that is asked."""
        return self.view.cutoff

    @property
    def subreddits(self) -> tuple[str, ...]:
        """See `ArchiveView`."""
        return self.view.subreddits

    def search_database(self, query: str, **options: Any) -> SearchAnswer:
        """See `ArchiveView`; the query is exchanged."""
        return self.search_many([query], **options)[0]

    def search_many(self, queries: Sequence[str], **options: Any) -> list[SearchAnswer]:
        """See `ArchiveView`; every query is exchanged for one about the other question."""
        own = cues.queries(self.other, count=_QUERIES)
        return self.view.search_many([_exchanged(query, own) for query in queries], **options)

    def getpostcoreinfo(self, post_id: str, **options: Any) -> LookupAnswer:
        """See `ArchiveView`."""
        return self.view.getpostcoreinfo(post_id, **options)

    def getcommentcoreinfo(self, comment_id: str, **options: Any) -> LookupAnswer:
        """See `ArchiveView`."""
        return self.view.getcommentcoreinfo(comment_id, **options)

    def getpostcommentslist(self, post_id: str, **options: Any) -> LookupAnswer:
        """See `ArchiveView`."""
        return self.view.getpostcommentslist(post_id, **options)

    def getauthorhistorylist(self, author: str, **options: Any) -> LookupAnswer:
        """See `ArchiveView`."""
        return self.view.getauthorhistorylist(author, **options)


def _exchanged(query: str, own: Sequence[str]) -> str:
    """Return the same text about the other question for the same query, whatever stands beside it in a batch."""
    return own[int(hashlib.sha256(query.encode(errors="surrogatepass")).hexdigest(), 16) % len(own)] if own else query
