"""The three layers of the cutoff, one by one (design, section 3): a leak needs every one of them to fail."""

from dataclasses import replace

import numpy as np
import pytest

from hindcast_dagster.archive import layers
from hindcast_dagster.archive.layers import Layers
from hindcast_dagster.archive.predicate import Predicate
from hindcast_dagster.archive.view import View
from hindcast_dagster.clock import Cutoff, month_of
from hindcast_dagster.errors import CutoffViolation
from hindcast_dagster.settings import load
from hindcast_dagster.storage.store import open_store
from tests.archive_world import ToyEmbedder, seal, use
from tests.toy_archive import document

T0 = Cutoff.of("2026-01-15T12:00:00Z")
TIMES = [
    "2025-12-31T23:59:59Z",
    T0.epoch - 1,
    T0.epoch,
    T0.epoch + 600,
    "2026-01-31T23:59:59Z",
    "2026-02-01",
    "2026-03-09",
]
POSTS = [document(f"p{n}", when, "bridge", author="ann") for n, when in enumerate(TIMES)]
COMMENTS = [document(f"c{n}", when, "bridge", author="ann", link_id="p0") for n, when in enumerate(TIMES)]
EDITED = document("pe", T0.epoch - 50, "bridge", author="ann", text_as_of=T0.epoch)
PAST = {"p0", "p1", "c0", "c1"}


def no_select(months, scope):
    return sorted(months)


def no_predicate(scope):
    return Predicate()


def no_recheck(rows, scope):
    return None


@pytest.fixture(scope="module")
def archive(tmp_path_factory):
    with pytest.MonkeyPatch.context() as patch:
        use(patch, ToyEmbedder())
        root = str(tmp_path_factory.mktemp("archive"))
        yield seal(open_store(root), load(data_root=root), [*POSTS, *COMMENTS, EDITED])


def calls(view):
    """Every tool, asked for what the future holds, by name."""
    return {
        "search_database": lambda: [hit.document for hit in view.search_database("bridge", k=200).hits],
        "search_many": lambda: [hit.document for hit in view.search_many(["bridge", "road"], k=200)[1].hits],
        "getpostcoreinfo": lambda: [
            found for n in range(len(TIMES)) for found in view.getpostcoreinfo(f"p{n}").documents
        ],
        "getcommentcoreinfo": lambda: [
            found for n in range(len(TIMES)) for found in view.getcommentcoreinfo(f"c{n}").documents
        ],
        "getpostcommentslist": lambda: view.getpostcommentslist("p0", limit=500).documents,
        "getauthorhistorylist": lambda: view.getauthorhistorylist("ann", posts=100, comments=100).documents,
    }


TOOLS = list(calls(None))


@pytest.mark.parametrize("tool", TOOLS)
def test_all_layers(archive, tool):
    found = calls(archive.at(T0.epoch))[tool]()
    assert {each.id for each in found} == {name for name in PAST if found[0].id[0] == name[0]} | (
        PAST if tool == "getauthorhistorylist" else set()
    )


@pytest.mark.parametrize("tool", TOOLS)
def test_the_predicate_alone_returns_no_future_row(archive, tool):
    alone = Layers(select=no_select, recheck=no_recheck)
    found = calls(View(archive, T0, alone))[tool]()
    assert found
    assert all(each.created_at < T0.epoch and each.text_as_of < T0.epoch for each in found)


@pytest.mark.parametrize("tool", TOOLS)
def test_the_recheck_alone_raises_whenever_a_future_row_would_be_returned(archive, tool):
    alone = Layers(select=no_select, predicate=no_predicate)
    with pytest.raises(CutoffViolation, match="at or after the cutoff"):
        calls(View(archive, T0, alone))[tool]()


def test_the_recheck_alone_lets_a_call_pass_that_returns_only_the_past(archive):
    view = View(archive, T0, Layers(select=no_select, predicate=no_predicate))
    assert [found.id for found in view.getpostcoreinfo("p1").documents] == ["p1"]


def test_the_recheck_also_looks_at_edited_texts_in_strict_mode_only(archive):
    view = View(archive, T0, Layers(predicate=no_predicate))
    with pytest.raises(CutoffViolation, match="has a text"):
        view.getpostcoreinfo("pe")
    paper = replace(layers.Scope.of(T0, layers.Filters(), layers.Rules(mode="paper")))
    layers.recheck([EDITED], paper)


STRICT, PAPER, HIDE = layers.Rules(), layers.Rules(mode="paper"), layers.Rules(late_votes="hide")


@pytest.mark.parametrize(
    ("rules", "value", "said"),
    [
        (PAPER, "created_at", "was created"),
        (STRICT, "created_at", "was created"),
        (STRICT, "text_as_of", "has a text"),
        (HIDE, "engagement_as_of", "has votes"),
    ],
)
def test_the_recheck_looks_at_each_instant_by_itself(rules, value, said):
    scope = layers.Scope.of(T0, layers.Filters(), rules)
    layers.recheck([replace(POSTS[1], **{value: T0.epoch - 1})], scope)
    with pytest.raises(CutoffViolation, match=said):
        layers.recheck([replace(POSTS[1], **{value: T0.epoch})], scope)


@pytest.mark.parametrize("tool", TOOLS)
def test_the_selector_alone_returns_no_row_of_a_later_month(archive, tool):
    alone = Layers(predicate=no_predicate, recheck=no_recheck)
    found = calls(View(archive, T0, alone))[tool]()
    assert found
    assert all(month_of(each.created_at) <= "2026-01" for each in found)


BOUNDS = {
    "before": ("created_at", lambda value, bound: value < bound),
    "text_before": ("text_as_of", lambda value, bound: value < bound),
    "votes_before": ("engagement_as_of", lambda value, bound: value < bound),
    "start": ("created_at", lambda value, bound: value >= bound),
}


@pytest.mark.parametrize("name", BOUNDS)
def test_each_bound_by_itself_is_strict_to_the_second_in_both_renderings(archive, name):
    """In strict mode the bound on texts would hide a fault of that on creation: here every one stands alone."""
    month = archive.submissions["2026-01"]
    column, holds = BOUNDS[name]
    times = getattr(month.columns, column).tolist()
    for bound in sorted({time + shift for time in times for shift in (-1, 0, 1)}):
        predicate = Predicate(**{name: bound})
        meant = {row for row, time in enumerate(times) if holds(time, bound)}
        assert set(np.flatnonzero(predicate.mask(month.columns)).tolist()) == meant, bound
        assert set(month.nearest(month.vectors.exact[0], predicate, k=100, exact=True)) == meant, bound
        assert not predicate.admits_all(month.columns) or meant == set(range(month.rows)), bound


def test_on_the_first_second_of_a_month_the_selector_leaves_that_month_out(archive):
    alone = Layers(predicate=no_predicate, recheck=no_recheck)
    months = {found.month for found in calls(View(archive, Cutoff.of("2026-01-01"), alone))["getpostcommentslist"]()}
    assert months == {"2025-12"}
    months = {
        found.month for found in calls(View(archive, Cutoff.of("2026-01-01T00:00:01Z"), alone))["search_database"]()
    }
    assert months == {"2025-12", "2026-01"}


def test_no_setting_reaches_the_layers():
    from hindcast_dagster.settings import Archive

    assert not {name for name in Archive.model_fields if "layer" in name or "recheck" in name or "select" in name}
    assert layers.Layers() == layers.ALL
