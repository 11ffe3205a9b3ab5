"""Random archives, filters and cutoffs against the toy archive: the same documents in the same order from every tool.

The oracle is plain Python over a list (tests/toy_archive.py). Searched exactly, through LanceDB's exact scan and
through its vector index.
"""

from collections.abc import Callable
from typing import Any, NamedTuple

import pytest
from hypothesis import HealthCheck, Phase, given
from hypothesis import settings as profile
from hypothesis import strategies as st

from hindcast_dagster import clock
from hindcast_dagster.archive import ranking, table
from hindcast_dagster.archive.open import LanceArchive
from hindcast_dagster.archive.protocol import Document, Filters
from hindcast_dagster.settings import load
from hindcast_dagster.storage.store import open_store
from tests.archive_world import ToyEmbedder, cosine, seal, use
from tests.toy_archive import ToyArchive, document

MONTHS = ("2025-11", "2025-12", "2026-01", "2026-02")
START, END = clock.month_start(MONTHS[0]), clock.month_end(MONTHS[-1])
EDGES = [edge + by for month in MONTHS for edge in (clock.month_start(month),) for by in (-1, 0, 1)]
INSTANTS = st.one_of(st.sampled_from(EDGES), st.integers(START, END - 1)).filter(lambda at: START <= at < END)
WORDS = ("bridge", "rate", "vote", "court", "storm", "launch")
SUBREDDITS = ("CryptoCurrency", "cryptocurrency_", "news", "2020s", "u_ann")
AUTHORS = ("ann", "Ann", "O'Brien", 'a"b', "x\\", "%_", "a' OR '1'='1", "🙂", "ann ", "-- ")
TEXTS = st.lists(st.sampled_from(WORDS), max_size=4).map(" ".join)


@st.composite
def corpora(draw: st.DrawFn) -> list[Document]:
    """Posts and comments; replies to anything: other months, other threads, later rows, themselves, nothing."""
    posts = [f"p{n}" for n in range(draw(st.integers(0, 12)))]
    comments = [f"c{n}" for n in range(draw(st.integers(0, 16)))]

    def common() -> dict[str, Any]:
        created = draw(INSTANTS)
        later = st.one_of(st.just(created), INSTANTS.map(lambda at: max(at, created)))
        return {
            "created_at": created,
            "text": draw(TEXTS),
            "author": draw(st.sampled_from(AUTHORS)),
            "subreddit": draw(st.sampled_from(SUBREDDITS)),
            "text_as_of": draw(later),
            "engagement_as_of": draw(st.one_of(st.none(), later)),
        }

    made = [document(name, **common(), title=draw(TEXTS)) for name in posts]
    for name in comments:
        link = draw(st.sampled_from([*posts, "gone"]))
        parents = [f"t1_{other}" for other in comments] + [f"t3_{link}", "t1_gone", None]
        made.append(document(name, **common(), link_id=link, parent_id=draw(st.sampled_from(parents))))
    return made


def subset(values: Any) -> st.SearchStrategy[tuple[str, ...] | None]:
    return st.one_of(st.none(), st.lists(st.sampled_from(values), max_size=3).map(tuple))


FILTERS = st.builds(
    Filters,
    cutoff=st.one_of(st.none(), INSTANTS),
    doc_type=st.sampled_from([None, None, None, "submission", "comment"]),
    subreddits=subset([*SUBREDDITS, "CRYPTOCURRENCY", "elsewhere"]),
    author=st.one_of(st.none(), st.sampled_from([*AUTHORS, "nobody", "a\x00b"])),
    months=subset([*MONTHS, "2026-07"]),
    start=st.one_of(st.none(), INSTANTS),
)
RULES = st.sampled_from([("strict", "withhold"), ("strict", "hide"), ("paper", "withhold")])


class Pair(NamedTuple):
    """The same documents in both archives."""

    real: LanceArchive
    toy: ToyArchive


class Makers:
    """Builds pairs in fresh folders."""

    def __init__(self, folder: Callable[[], str]) -> None:
        self._folder = folder

    def pair(self, documents: list[Document], rules: tuple[str, str]) -> Pair:
        mode, late_votes = rules
        settings = load(data_root=self._folder(), archive={"mode": mode, "late_votes": late_votes})
        real = seal(open_store(settings.data_root), settings, documents, months=["2025-12"])
        return Pair(real, ToyArchive(documents, mode=mode, late_votes=late_votes, distance=cosine))


@pytest.fixture(scope="module")
def makers(tmp_path_factory):
    with pytest.MonkeyPatch.context() as patch:
        use(patch, ToyEmbedder())
        patch.setattr("os.fsync", lambda _handle: None)  # durability is not what is tested here
        yield Makers(lambda: str(tmp_path_factory.mktemp("pair")))


def agree(pair: Pair, t0: int, filters: Filters, queries: list[str], k: int) -> None:
    """Hold every tool of both views against each other."""
    real, toy = pair.real.at(t0), pair.toy.at(t0)
    assert real.subreddits == toy.subreddits
    for mine, meant in zip(
        real.search_many(queries, k=k, filters=filters), toy.search_many(queries, k=k, filters=filters), strict=True
    ):
        assert [hit.document for hit in mine.hits] == [hit.document for hit in meant.hits]
        assert [hit.distance for hit in mine.hits] == pytest.approx([max(0, hit.distance) for hit in meant.hits])
        assert mine.cutoff == meant.cutoff
        assert mine.hits or mine.note
    by_id = {"submission": "getpostcoreinfo", "comment": "getcommentcoreinfo"}
    for each in pair.toy.documents:
        ask = by_id[each.doc_type]
        same(getattr(real, ask)(each.key, filters=filters), getattr(toy, ask)(each.key, filters=filters))
    for author in AUTHORS:
        asked = {"posts": k % 5, "comments": k % 4, "filters": filters}
        same(real.getauthorhistorylist(author, **asked), toy.getauthorhistorylist(author, **asked))
    threads(pair, real, toy, filters, depth=1 + k % 6)


def threads(pair: Pair, real: Any, toy: Any, filters: Filters, *, depth: int) -> None:
    links = sorted({each.link_id for each in pair.toy.documents if each.link_id})
    focuses = [None, *(each.id for each in pair.toy.documents if each.doc_type == "comment")]
    for link in links[:2]:
        for focus in focuses[:5]:
            for traversal in ("all", "descendants", "ancestors")[: 2 if focus is None else 3]:
                asked = {
                    "comment_id": focus,
                    "traversal": traversal,
                    "depth": depth,
                    "limit": depth * 3,
                    "filters": filters,
                }
                same(real.getpostcommentslist(link, **asked), toy.getpostcommentslist(link, **asked))


def same(mine: Any, meant: Any) -> None:
    assert list(mine.documents) == list(meant.documents)
    assert mine.cutoff == meant.cutoff
    assert mine.documents or mine.note


CALLS = st.tuples(INSTANTS, FILTERS, st.lists(TEXTS, min_size=1, max_size=3), st.integers(1, 30))
PHASES = [Phase.explicit, Phase.reuse, Phase.generate]  # each example builds an archive: too dear to shrink
QUIET = profile(deadline=None, phases=PHASES, suppress_health_check=list(HealthCheck), print_blob=True)


@given(corpora(), RULES, st.lists(CALLS, min_size=4, max_size=8))
@profile(QUIET, max_examples=15)
def test_the_archive_equals_the_oracle(makers, documents, rules, calls):
    pair = makers.pair(documents, rules)
    for call in calls:
        agree(pair, *call)


def many(seed: int) -> list[Document]:
    """A larger corpus, from a seed."""
    import random

    rng = random.Random(seed)
    text = lambda: " ".join(rng.choices(WORDS, k=rng.randint(0, 6)))  # noqa: E731
    at = lambda: rng.choice([rng.randrange(START, END), rng.choice(EDGES[1:-1])])  # noqa: E731
    return [
        document(
            f"p{n}",
            max(START, at()),
            text(),
            title=text(),
            author=rng.choice(AUTHORS),
            subreddit=rng.choice(SUBREDDITS),
        )
        for n in range(600)
    ]


@pytest.fixture(scope="module", params=["exact", "lance scan", "lance index"])
def large(request, makers):
    """One corpus, reached in each of the ways that a month can be searched."""
    with pytest.MonkeyPatch.context() as patch:
        if request.param == "lance index":
            patch.setattr(table, "INDEX_FROM", 1)
            patch.setattr(ranking, "EXACT_BELOW", 0)
        pair = makers.pair(many(3), ("strict", "withhold"))
        if request.param != "exact":
            pair.real.paths = dict.fromkeys(pair.real.months, "index")
        yield pair


@given(call=CALLS)
@profile(QUIET, max_examples=60)
def test_every_way_of_searching_a_month_gives_the_exact_answer(large, call):
    t0, filters, queries, k = call
    mine = large.real.at(t0).search_many(queries, k=k, filters=filters)
    meant = large.toy.at(t0).search_many(queries, k=k, filters=filters)
    for found, wanted in zip(mine, meant, strict=True):
        assert [hit.document.id for hit in found.hits] == [hit.document.id for hit in wanted.hits]
