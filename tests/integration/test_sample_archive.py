"""The sample world in an archive: at every market's t0 the planted evidence is found, and nothing later ever is."""

from collections.abc import Iterator

import pytest

from hindcast_dagster.archive.build import build_comments, build_submissions
from hindcast_dagster.archive.open import LanceArchive, open_archive
from hindcast_dagster.archive.protocol import ArchiveView
from hindcast_dagster.corpus import build as corpus
from hindcast_dagster.sample.model import Post
from hindcast_dagster.sample.world import World, generate
from hindcast_dagster.sample.write import write
from hindcast_dagster.settings import load
from hindcast_dagster.storage.store import Store, open_store
from tests.archive_world import ToyEmbedder, use

MONTHS = 2

pytestmark = pytest.mark.slow


@pytest.fixture(scope="module")
def world() -> World:
    return generate(months=MONTHS)


@pytest.fixture(scope="module")
def posts(world: World) -> dict[str, Post]:
    return {post.key: post for rows in world.posts.values() for post in rows if post.fate == "kept"}


@pytest.fixture(scope="module")
def sealed(world: World, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Store]:
    store = open_store(tmp_path_factory.mktemp("sample-archive"))
    settings = load(data_root=str(store.root), embedding={"model": "minilm"})
    write(store, world)
    with pytest.MonkeyPatch.context() as patch:
        use(patch, ToyEmbedder())
        for month in world.months:
            corpus.build(store, settings, month=month, kind="submissions")
            corpus.build(store, settings, month=month, kind="comments")
            build_submissions(store, settings, month=month)
            build_comments(store, settings, month=month)
        yield store


def _archive(store: Store, mode: str) -> LanceArchive:
    settings = load(data_root=str(store.root), embedding={"model": "minilm"}, archive={"mode": mode})
    return open_archive(store, settings)


def _get(view: ArchiveView, post: Post) -> bool:
    tool = view.getpostcoreinfo if post.kind == "submission" else view.getcommentcoreinfo
    return tool(post.id).document is not None


def test_what_was_there_is_found_and_what_came_later_is_not(
    world: World, posts: dict[str, Post], sealed: Store
) -> None:
    archive = _archive(sealed, "strict")
    for planted in world.planted:
        if planted.status == "open":
            continue
        view = archive.at(planted.t0)
        for key in (*planted.between, *planted.after, *planted.late_text):
            assert not _get(view, posts[key]), key
        assert all(_get(view, posts[key]) for key in planted.before)
        for hit in view.search_database(planted.question, k=20).hits:
            assert hit.document.text_as_of < planted.t0


def test_late_comments_under_old_posts_stay_hidden(world: World, posts: dict[str, Post], sealed: Store) -> None:
    archive, hidden = _archive(sealed, "strict"), 0
    for planted in world.planted:
        for key in planted.after:
            late = posts[key]
            if late.link is None:
                continue
            assert late.link.created_at < planted.t0
            thread = archive.at(planted.t0).getpostcommentslist(late.link.id).documents
            assert late.id not in {found.id for found in thread}
            after = archive.at(planted.close_at + 30 * 86_400).getpostcommentslist(late.link.id).documents
            assert late.id in {found.id for found in after}
            hidden += 1
    assert hidden >= 8


def test_paper_mode_shows_the_texts_that_strict_mode_is_there_for(
    world: World, posts: dict[str, Post], sealed: Store
) -> None:
    archive = _archive(sealed, "paper")
    late = [(planted.t0, key) for planted in world.planted for key in planted.late_text]
    assert len(late) >= 2
    assert all(_get(archive.at(t0), posts[key]) for t0, key in late)


def test_a_search_for_a_discussed_subject_finds_it_and_for_a_silent_one_does_not(world: World, sealed: Store) -> None:
    archive, subjects = _archive(sealed, "strict"), {market.market_id: market.slots["s"] for market in world.markets}
    for planted in world.planted:
        if planted.status == "open":
            continue
        name = subjects[planted.market_id]
        hits = archive.at(planted.t0).search_database(name, k=20).hits
        naming = {hit.document.key for hit in hits if name in f"{hit.document.title} {hit.document.text}"}
        assert naming <= set(planted.before)
        assert bool(naming) == (planted.kind != "silence")
