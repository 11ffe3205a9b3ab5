"""The five tools on a small archive: what they return, in which order, and what they say when they return little."""

import pytest

from hindcast_dagster.archive.predicate import Predicate
from hindcast_dagster.archive.protocol import Archive, ArchiveView, Filters
from hindcast_dagster.clock import InvalidInstant
from hindcast_dagster.errors import NotReady, UsageError
from hindcast_dagster.settings import load
from hindcast_dagster.storage.store import open_store
from tests.archive_world import ToyEmbedder, seal, use
from tests.toy_archive import document

T0 = 1769817600  # 2026-01-31T00:00:00Z
POSTS = [
    document("a1", "2025-12-05", title="Bridge", text="will the bridge open", subreddit="CryptoCurrency"),
    document("a2", "2026-01-10", title="Bridge again", text="the bridge", author="O'Brien"),
    document("a3", T0 - 1, title="Last second", text="bridge bridge"),
    document("a4", T0, title="The bridge opened", text="bridge bridge bridge"),
    document("a5", "2026-02-02", title="Afterwards", text="bridge"),
]
COMMENTS = [
    document("c1", "2025-12-06", "first", link_id="a1"),
    document("c2", "2026-01-02", "a month later", link_id="a1", parent_id="t1_c1"),
    document("c3", "2026-01-03", "its parent is gone", link_id="a1", parent_id="t1_zz"),
    document("c4", T0 + 600, "after t0", link_id="a1", parent_id="t1_c2"),
    document("c5", "2026-01-04", "a circle", link_id="a1", parent_id="t1_c6"),
    document("c6", "2026-01-05", "a circle", link_id="a1", parent_id="t1_c5"),
]


@pytest.fixture(scope="module")
def archive(tmp_path_factory):
    with pytest.MonkeyPatch.context() as patch:
        use(patch, ToyEmbedder())
        root = str(tmp_path_factory.mktemp("archive"))
        yield seal(open_store(root), load(data_root=root), POSTS + COMMENTS)


@pytest.fixture
def view(archive):
    return archive.at(T0)


def ids(answer):
    return [found.id for found in answer.documents]


def found(answer):
    return [hit.document.id for hit in answer.hits]


def test_the_protocol_is_answered(archive, view):
    assert isinstance(archive, Archive)
    assert isinstance(view, ArchiveView)
    assert archive.months == ("2025-12", "2026-01", "2026-02")
    assert view.subreddits == ("CryptoCurrency", "toys")


def test_search_returns_only_what_existed_strictly_before_t0(view):
    answer = view.search_database("bridge")
    assert set(found(answer)) == {"a1", "a2", "a3"}
    assert [hit.distance for hit in answer.hits] == sorted(hit.distance for hit in answer.hits)
    assert "Only 3 rows" in answer.note
    assert found(view.search_database("bridge", k=1)) == found(answer)[:1]


def test_a_call_narrows_and_never_widens(view):
    def search(**filters):
        return view.search_database("bridge", filters=Filters(**filters))

    assert set(found(search(cutoff="2099-01-01"))) == {"a1", "a2", "a3"}
    assert "can only be moved earlier" in search(cutoff="2099-01-01").note
    assert found(search(cutoff="2026-01-01")) == ["a1"]
    assert found(search(subreddits=["cryptocurrency"])) == ["a1"]
    assert found(search(author="O'Brien")) == ["a2"]
    assert found(search(months=["2026-02"])) == []
    assert set(found(search(start="2026-01-01"))) == {"a2", "a3"}
    assert found(search(start=T0)) == []
    assert found(search(subreddits=[])) == []
    assert found(search(doc_type="comment")) == []


def test_an_empty_answer_says_why(view):
    def note(**filters):
        return view.search_database("bridge", filters=Filters(**filters)).note

    assert "start time is not before the cutoff" in note(start=T0)
    assert "None of the months asked for" in note(months=["2026-02"])
    assert "author" in note(author="nobody")
    assert "submissions only" in note(doc_type="comment")
    assert "empty" in view.search_database("  ").note
    assert "has no such row" in view.getpostcoreinfo("zzz").note


def test_a_cutoff_past_the_archive_says_where_it_ends(archive):
    assert "ends with 2026-02" in archive.at("2027-01-01").search_database("bridge").note
    assert "begins in 2025-12" in archive.at("2020-01-01").search_database("bridge").note


@pytest.mark.parametrize("t0", [None, float("nan"), "", "2026-13-01", 1769817600000, True, "yesterday"])
def test_without_an_instant_there_is_no_view(archive, t0):
    with pytest.raises(InvalidInstant):
        archive.at(t0)


def test_look_ups_by_id(view):
    assert ids(view.getpostcoreinfo("a3")) == ids(view.getpostcoreinfo("t3_a3")) == ["a3"]
    assert ids(view.getpostcoreinfo("a4")) == []
    assert ids(view.getcommentcoreinfo("c2")) == ["c2"]
    assert ids(view.getcommentcoreinfo("c4")) == []
    assert ids(view.getpostcoreinfo("a3", filters=Filters(doc_type="comment"))) == []
    for call, wrong in ((view.getpostcoreinfo, "t1_c1"), (view.getcommentcoreinfo, "t3_a1")):
        with pytest.raises(UsageError, match="is the id of a"):
            call(wrong)


def test_threads_cross_months_and_tolerate_missing_parents_and_cycles(view):
    answer = view.getpostcommentslist("a1")
    assert ids(answer) == ["c1", "c2", "c3", "c5", "c6"]
    assert "5 comments of this post existed" in answer.note
    assert ids(view.getpostcommentslist("a1", comment_id="c2", traversal="ancestors")) == ["c1"]
    assert ids(view.getpostcommentslist("a1", comment_id="c1", traversal="descendants")) == ["c2"]
    assert ids(view.getpostcommentslist("a1", comment_id="c1")) == ["c1", "c2"]
    assert ids(view.getpostcommentslist("a1", comment_id="c5")) == ["c5", "c6"]
    assert ids(view.getpostcommentslist("a1", depth=1)) == ["c1", "c3", "c5"]
    limited = view.getpostcommentslist("a1", limit=2)
    assert ids(limited) == ["c1", "c2"]
    assert "2 of 5 are listed" in limited.note
    late = view.getpostcommentslist("a1", comment_id="c4")
    assert ids(late) == []
    assert "c4 is not among them" in late.note
    with pytest.raises(UsageError, match="needs the comment_id"):
        view.getpostcommentslist("a1", traversal="ancestors")


def test_author_history_is_newest_first_posts_then_comments(view):
    assert ids(view.getauthorhistorylist("anon", posts=2, comments=2)) == ["a3", "a1", "c6", "c5"]
    assert ids(view.getauthorhistorylist("O'Brien")) == ["a2"]
    assert ids(view.getauthorhistorylist("o'brien")) == []
    assert ids(view.getauthorhistorylist("anon", posts=0, comments=1)) == ["c6"]


def test_limits_are_clamped_with_a_note(view):
    assert "k was set to 200" in view.search_database("bridge", k=10**9).note
    assert len(view.search_database("bridge", k=0).hits) == 1
    assert "depth was set to 50" in view.getpostcommentslist("a1", depth=1000).note
    with pytest.raises(UsageError, match="whole number"):
        view.search_database("bridge", k="20")


def test_many_queries_answer_in_order(view):
    one = view.search_database("bridge open")
    many = view.search_many(["again", "", "bridge open"])
    assert many[2] == one
    assert [answer.query for answer in many] == ["again", "", "bridge open"]
    assert many[1].hits == ()
    assert view.search_many([]) == []


def test_nothing_sealed_is_not_ready(store, settings):
    from hindcast_dagster.archive.open import open_archive

    with pytest.raises(NotReady, match="archive build"):
        open_archive(store, settings)


class TestModes:
    """What strict and paper mode do with texts and votes of later than t0 (docs/archive.md)."""

    DOCUMENTS = (
        document("b1", T0 - 9000, title="settled"),
        document("b2", T0 - 9000, title="edited later", text_as_of=T0 + 5),
        document("b3", T0 - 9000, title="votes later", engagement_as_of=T0),
        document("b4", T0 - 9000, title="votes unknown", engagement_as_of=None),
        document("d1", T0 - 900, "votes later", link_id="b1", engagement_as_of=T0),
        document("d2", T0 - 900, "edited at t0", link_id="b1", text_as_of=T0),
    )

    def view(self, store, monkeypatch, **archive):
        use(monkeypatch, ToyEmbedder())
        return seal(store, load(data_root=str(store.root), archive=archive), self.DOCUMENTS).at(T0)

    def test_strict(self, store, monkeypatch):
        view = self.view(store, monkeypatch)
        shown = {hit.document.id: hit.document for hit in view.search_database("later").hits}
        assert set(shown) == {"b1", "b3", "b4"}
        assert (shown["b1"].score, shown["b1"].num_comments, shown["b1"].withheld) == (10, 5, ())
        for late in ("b3", "b4"):
            assert (shown[late].score, shown[late].num_comments) == (None, None)
            assert shown[late].withheld == ("score", "num_comments")
        comments = view.getpostcommentslist("b1").documents
        assert [(each.id, each.score, each.withheld) for each in comments] == [("d1", None, ("score",))]
        assert view.getcommentcoreinfo("d2").document is None
        assert ids(view.getauthorhistorylist("anon")) == ["b4", "b3", "b1", "d1"]

    def test_hide(self, store, monkeypatch):
        view = self.view(store, monkeypatch, late_votes="hide")
        assert found(view.search_database("later")) == ["b1"]
        assert view.getpostcoreinfo("b3").document is None
        assert view.getpostcommentslist("b1").documents == ()
        assert ids(view.getauthorhistorylist("anon")) == ["b1"]

    def test_hide_where_no_vote_time_is_known(self, store, monkeypatch):
        use(monkeypatch, ToyEmbedder())
        unknown = [
            document("e1", T0 - 90, engagement_as_of=None),
            document("e2", T0 - 9, link_id="e1", engagement_as_of=None),
        ]
        settings = load(data_root=str(store.root), archive={"late_votes": "hide"})
        view = seal(store, settings, unknown).at(T0)
        assert view.search_database("title").hits == ()
        assert view.getpostcommentslist("e1").documents == view.getauthorhistorylist("anon").documents == ()
        month = view.archive.submissions["2026-01"]
        assert month.nearest(month.vectors.exact[0], Predicate(votes_before=5), k=1, exact=True) == []

    @pytest.mark.parametrize("late_votes", ["withhold", "hide"])
    def test_paper(self, store, monkeypatch, late_votes):
        view = self.view(store, monkeypatch, mode="paper", late_votes=late_votes)
        shown = [hit.document for hit in view.search_database("later").hits]
        assert {each.id for each in shown} == {"b1", "b2", "b3", "b4"}
        assert all(each.score == 10 and each.withheld == () for each in shown)
        assert ids(view.getpostcommentslist("b1")) == ["d1", "d2"]


@pytest.mark.parametrize("text", ["\ud800", "will it \udfff rain"])
def test_half_a_character_is_refused_before_anything_reads_it(view, text):
    for ask in (view.search_database, view.getauthorhistorylist, lambda given: view.search_many(["fine", given])):
        with pytest.raises(UsageError, match="half a character"):
            ask(text)
