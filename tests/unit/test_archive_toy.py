"""The toy archive answers the archive's protocol: what the tests of every layer above rely on."""

from hindcast_dagster.archive.protocol import Archive, ArchiveView, Filters
from tests.toy_archive import ToyArchive, document

POSTS = [
    document("p1", "2025-03-01", title="Will the bridge open", text="the bridge opens in spring"),
    document("p2", "2025-03-02", title="Cats", text="all about cats", engagement_as_of=None),
    document("p3", "2025-03-05", title="The bridge opened", text="bridge bridge bridge"),
]
COMMENTS = [
    document("c1", "2025-03-01T01:00Z", "first", link_id="p1"),
    document("c2", "2025-03-01T02:00Z", "reply", link_id="p1", parent_id="t1_c1"),
    document("c3", "2025-03-06", "too late", link_id="p1", parent_id="t1_c2"),
    document("c4", "2025-03-01T03:00Z", "its parent is missing", link_id="p1", parent_id="t1_zz"),
]


def test_the_protocol_is_answered_and_nothing_later_than_t0_surfaces():
    archive = ToyArchive(POSTS + COMMENTS)
    view = archive.at("2025-03-04")
    assert isinstance(archive, Archive)
    assert isinstance(view, ArchiveView)
    assert [hit.document.id for hit in view.search_database("bridge").hits] == ["p1", "p2"]
    assert [hit.document.id for hit in archive.at("2025-03-07").search_database("bridge", k=1).hits] == ["p3"]
    assert view.getpostcoreinfo("t3_p3").document is None
    assert view.subreddits == ("toys",)


def test_votes_that_are_later_or_unknown_are_withheld_in_strict_mode_only():
    strict = ToyArchive(POSTS).at("2025-03-04").getpostcoreinfo("p2").document
    paper = ToyArchive(POSTS, mode="paper").at("2025-03-04").getpostcoreinfo("p2").document
    assert strict is not None
    assert paper is not None
    assert (strict.score, strict.num_comments, strict.withheld) == (None, None, ("score", "num_comments"))
    assert (paper.score, paper.num_comments, paper.withheld) == (10, 5, ())
    assert ToyArchive(POSTS, late_votes="hide").at("2025-03-04").getpostcoreinfo("p2").document is None


def test_threads_and_authors():
    view = ToyArchive(POSTS + COMMENTS).at("2025-03-04")

    def ids(**arguments):
        return [found.id for found in view.getpostcommentslist("p1", **arguments).documents]

    assert ids() == ["c1", "c2", "c4"]
    assert ids(depth=1) == ["c1", "c4"]
    assert ids(comment_id="c2", traversal="ancestors") == ["c1"]
    assert ids(comment_id="c1", traversal="descendants") == ["c2"]
    assert ids(filters=Filters(start="2025-03-01T02:30Z")) == ["c4"]
    assert [found.key for found in view.getauthorhistorylist("anon", posts=1, comments=2).documents] == [
        "t3_p2",
        "t1_c4",
        "t1_c2",
    ]
