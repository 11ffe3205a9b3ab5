"""Real dumps to an archive, asked with cutoffs inside the month and held against the plain-Python oracle."""

import pytest

from hindcast_dagster import clock
from hindcast_dagster.archive.build import build_comments, build_submissions
from hindcast_dagster.archive.open import open_archive
from hindcast_dagster.archive.protocol import Document
from hindcast_dagster.contracts.documents import BY_KIND
from hindcast_dagster.corpus.build import build as build_corpus
from hindcast_dagster.settings import load
from hindcast_dagster.storage.store import open_store
from hindcast_dagster.storage.tables import read_table
from tests.archive_world import ToyEmbedder, cosine, use
from tests.toy_archive import ToyArchive

pytestmark = [pytest.mark.shared, pytest.mark.slow]
DUMPS = {
    "submissions": ("2019-10", "AskMen_submissions.zst", build_submissions),
    "comments": ("2005-12", "RC_2005-12.zst", build_comments),
}


@pytest.fixture(scope="module")
def pair(shared, tmp_path_factory):
    with pytest.MonkeyPatch.context() as patch:
        use(patch, ToyEmbedder())
        root = str(tmp_path_factory.mktemp("real"))
        store, settings = open_store(root), load(data_root=root, corpus={"all_subreddits": True})
        documents: list[Document] = []
        for kind, (month, dump, make) in DUMPS.items():
            build_corpus(store, settings, month=month, kind=kind, dump=shared / "data" / "reddit" / dump)
            make(store, settings, month=month)
            frame = read_table(store.partition(kind, month).require(), BY_KIND[kind])
            names = [name for name in Document.__dataclass_fields__ if name != "withheld"]
            documents += [Document(**row) for row in frame.select(names).iter_rows(named=True)]
        yield open_archive(store, settings), ToyArchive(documents, distance=cosine)


@pytest.mark.parametrize("day", ["2019-10-02", "2019-10-15T12:30:00Z", "2024-01-01"])
def test_search_equals_the_oracle(pair, day):
    real, toy = (archive.at(day) for archive in pair)
    queries = ["gym and girls", "how to quit a job", "what is your favourite movie?"]
    for mine, meant in zip(real.search_many(queries, k=50), toy.search_many(queries, k=50), strict=True):
        assert [hit.document for hit in mine.hits] == [hit.document for hit in meant.hits]
        assert all(hit.document.created_at < real.cutoff.epoch for hit in mine.hits)
    assert real.subreddits == toy.subreddits


def test_threads_and_authors_equal_the_oracle(pair):
    for day in ("2005-12-13", "2005-12-20", "2006-01-01"):
        real, toy = (archive.at(day) for archive in pair)
        comments = [each for each in pair[1].documents if each.doc_type == "comment"]
        for link in sorted({each.link_id for each in comments}):
            assert real.getpostcommentslist(link).documents == toy.getpostcommentslist(link).documents
        for author in sorted({each.author for each in comments}):
            assert real.getauthorhistorylist(author).documents == toy.getauthorhistorylist(author).documents
    assert any(len(real.getpostcommentslist(each.link_id).documents) > 10 for each in comments)


def test_votes_of_old_dumps_were_read_years_later_and_are_withheld(pair):
    """Pushshift read the votes of 2019 in 2020: strict mode shows none of them at a cutoff in 2019."""
    hits = pair[0].at("2019-10-20").search_database("advice", k=100).hits
    assert len(hits) == 100
    assert all(hit.document.withheld == ("score", "num_comments") for hit in hits)
    assert clock.iso(hits[0].document.engagement_as_of or 0) > "2020"
