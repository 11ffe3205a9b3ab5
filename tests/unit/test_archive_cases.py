"""Failures that others have met (temporal leaks, LanceDB's habits), held against the archive."""

import asyncio
import os
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pyarrow as pa
import pytest
from pydantic import ValidationError

from hindcast_dagster.archive import ranking, table
from hindcast_dagster.archive.predicate import NOTHING, literal, one_of
from hindcast_dagster.archive.protocol import Filters
from hindcast_dagster.errors import InputRefused, UsageError
from hindcast_dagster.settings import load
from hindcast_dagster.storage.store import open_store
from tests.archive_world import ToyEmbedder, seal, use
from tests.toy_archive import document

T0 = 1769817600  # 2026-01-31T00:00:00Z
HOSTILE = [
    "' OR '1'='1",
    "'; DROP TABLE rows; --",
    "x' /* comment */ OR created_at > 0 --",
    'a"b',
    "x\\",
    "\\' OR 1=1 --",
    "%",
    "_",
    "٢٠٢٦",
    "a\x00b",
    "x" * 1_000_000,
    "true",
    "NULL",
    "🙂",
    "\ud800",
    "",
]
POSTS = [
    *(
        document(f"p{n}", T0 - 3600 * (n + 1), "bridge", author=name)
        for n, name in enumerate(["ann", "O'Brien", 'a"b'])
    ),
    *(document(f"f{n}", T0 + n, "bridge", author="ann") for n in range(3)),
]
COMMENTS = [
    document("c1", T0 - 600, "before", link_id="p0", author="ann"),
    document("c2", T0 + 600, "after", link_id="p0", author="ann"),
]


@pytest.fixture(scope="module")
def root(tmp_path_factory):
    with pytest.MonkeyPatch.context() as patch:
        use(patch, ToyEmbedder())
        path = tmp_path_factory.mktemp("cases")
        yield path, seal(open_store(path), load(data_root=str(path)), POSTS + COMMENTS)


@pytest.fixture
def archive(root):
    return root[1]


@pytest.mark.parametrize("text", HOSTILE)
def test_text_of_a_model_never_changes_the_predicate(archive, text):
    view = archive.at(T0)
    asked = {
        "search": lambda: [hit.document for hit in view.search_database(text, k=200).hits],
        "author": lambda: view.getauthorhistorylist(text).documents,
        "filter": lambda: [hit.document for hit in view.search_database("bridge", filters=Filters(author=text)).hits],
        "subreddit": lambda: view.getauthorhistorylist("ann", filters=Filters(subreddits=(text,))).documents,
        "month": lambda: view.getauthorhistorylist("ann", filters=Filters(months=(text,))).documents,
        "post": lambda: view.getpostcoreinfo(text).documents,
        "comment": lambda: view.getcommentcoreinfo(text).documents,
        "thread": lambda: view.getpostcommentslist("p0", comment_id=text).documents,
        "cutoff": lambda: view.getauthorhistorylist("ann", filters=Filters(cutoff=text)).documents,
        "start": lambda: view.getauthorhistorylist("ann", filters=Filters(start=text)).documents,
    }
    for name, ask in asked.items():
        try:
            found = ask()
        except (UsageError, ValidationError):
            continue
        assert all(each.created_at < T0 for each in found)
        if name in {"author", "filter"}:
            assert {each.author for each in found} <= {text}
        elif name != "search":
            assert not found or text == "x"


def test_quoting():
    assert literal("O'Brien") == "'O''Brien'"
    assert literal(7) == "7"
    assert one_of("id", []) == NOTHING
    assert one_of("id", ["a", "b'"]) == "id IN ('a', 'b''')"
    for bad in (None, 1.5, True, "a\x00b", b"a", ["a"]):
        with pytest.raises(UsageError):
            literal(bad)


@pytest.mark.parametrize(
    ("t0", "found"), [(T0, {"p0", "p1", "p2"}), (T0 + 0.9, {"p0", "p1", "p2"}), (T0 + 1, {"p0", "p1", "p2", "f0"})]
)
def test_the_cutoff_is_strict_and_a_fraction_is_floored(archive, t0, found):
    hits = archive.at(t0).search_database("bridge").hits
    assert {hit.document.id for hit in hits} == found


def test_a_start_at_or_after_t0_is_an_empty_answer_from_every_tool(archive):
    view, late = archive.at(T0), Filters(start=T0)
    assert view.search_database("bridge", filters=late).hits == ()
    for answer in (
        view.getpostcoreinfo("p0", filters=late),
        view.getcommentcoreinfo("c1", filters=late),
        view.getpostcommentslist("p0", filters=late),
        view.getauthorhistorylist("ann", filters=late),
        view.getauthorhistorylist("ann", filters=Filters(months=("2026-02",))),
    ):
        assert answer.documents == ()
        assert answer.note


def test_counts_are_of_visible_rows(archive):
    assert "1 comments of this post existed" in archive.at(T0).getpostcommentslist("p0").note
    assert "2 comments of this post existed" in archive.at(T0 + 900).getpostcommentslist("p0").note


PROBE = """
import sys
from hindcast_dagster.archive.open import open_archive
from hindcast_dagster.settings import load
from hindcast_dagster.storage.store import open_store
archive = open_archive(open_store(sys.argv[1]), load(data_root=sys.argv[1]))
for t0 in ("2026-01-31", "2026-01-31T00:00:01Z", "2026-02-01"):
    view = archive.at(t0)
    print(t0, view.cutoff.epoch, view.cutoff.month, [d.id for d in view.getauthorhistorylist("ann").documents])
"""


@pytest.mark.slow
def test_the_zone_of_the_host_changes_nothing(root):
    """A naive datetime under New York is five hours of future."""
    environment = {**os.environ, "PYTHONPATH": str(Path(__file__).parents[2])}
    said = {
        subprocess.run(
            [sys.executable, "-c", PROBE, str(root[0])],
            env={**environment, "TZ": zone},
            check=True,
            capture_output=True,
            text=True,
        ).stdout
        for zone in ("America/New_York", "Asia/Tokyo")
    }
    assert len(said) == 1
    assert said.pop().splitlines()[0] == f"2026-01-31 {T0} 2026-01 ['p0', 'c1']"


def test_many_cutoffs_at_once_from_threads_and_from_asyncio(archive):
    """Each of 64 callers sees only its own past."""
    cutoffs = [T0 - 4 * 3600 + 240 * n for n in range(64)]

    def ask(t0):
        view = archive.at(t0)
        found = [hit.document for hit in view.search_database("bridge", k=200).hits]
        found += view.getauthorhistorylist("ann").documents + view.getpostcommentslist("p0").documents
        return t0, {each.id for each in found}, all(each.created_at < t0 for each in found)

    def meant(t0):
        return {each.id for each in [*POSTS, *COMMENTS] if each.created_at < t0 and each.text_as_of < t0}

    async def gather():
        return await asyncio.gather(*(asyncio.to_thread(ask, t0) for t0 in cutoffs))

    with ThreadPoolExecutor(16) as pool:
        for t0, ids, past in [*pool.map(ask, cutoffs), *asyncio.run(gather())]:
            assert past
            assert ids == meant(t0)


@pytest.fixture(scope="module")
def big(tmp_path_factory):
    """An archive whose only month has a vector index."""
    with pytest.MonkeyPatch.context() as patch:
        use(patch, ToyEmbedder())
        patch.setattr(table, "INDEX_FROM", 1)
        patch.setattr(ranking, "EXACT_BELOW", 0)
        path = tmp_path_factory.mktemp("big")
        rows = [
            document(f"{n}", 1767225600 + n, f"word{n % 97} word{n % 31} {n}", author=f"a{share(n)}")
            for n in range(4000)
        ]
        yield seal(open_store(path), load(data_root=str(path)), rows), rows


@pytest.mark.parametrize("group", ["0.1%", "1%", "10%", "rest"])
def test_selective_filters_through_the_index_keep_recall_and_count(big, group):
    """Post-filtering and capped probes have returned 0 to 18 of 20 rows."""
    archive, rows = big
    view, filters = archive.at(T0), Filters(author=f"a{group}")
    legal = sum(each.author == f"a{group}" for each in rows)
    ways = {}
    for way in ("exact", "index"):
        archive.paths = dict.fromkeys(archive.months, way)
        ways[way] = view.search_many(["word3 word7", "word50", "word96 word2"], filters=filters)
    shared = 0
    for mine, exact in zip(ways["index"], ways["exact"], strict=True):
        assert len(mine.hits) == min(20, legal)
        shared += len({hit.document.id for hit in mine.hits} & {hit.document.id for hit in exact.hits})
    assert shared >= 0.99 * sum(len(exact.hits) for exact in ways["exact"])


def share(n):
    place = (n * 7919) % 1000
    return "0.1%" if place < 1 else "1%" if place < 11 else "10%" if place < 111 else "rest"


def test_an_index_that_loses_rows_is_not_believed(big, monkeypatch):
    """Capped probes return fewer rows than exist: the exact scan is asked instead."""
    archive, _ = big
    archive.paths = dict.fromkeys(archive.months, "index")
    month = archive.submissions["2026-01"]
    honest = month.table.nearest

    def losing(vector, where, *, k, exact):
        return honest(vector, where, k=k, exact=exact) if exact else honest(vector, where, k=k, exact=exact)[:3]

    monkeypatch.setattr(month.table, "nearest", losing)
    assert len(archive.at(T0).search_database("word3").hits) == 20


@pytest.mark.parametrize("kind", [pa.string(), pa.float64(), pa.int32(), pa.timestamp("s", tz="UTC")], ids=str)
def test_a_table_whose_times_are_no_int64_is_refused(tmp_path, kind):
    """As text '999999999' is later than '1769817600', and zones have shifted predicates: the schema decides on opening."""
    import lancedb

    times = pa.array([T0 - 1], pa.int64()).cast(pa.int32() if kind == pa.int32() else pa.int64()).cast(kind)
    lancedb.connect(tmp_path / table.FOLDER).create_table(table.TABLE, pa.table({"row": [0], "created_at": times}))
    with pytest.raises(InputRefused, match="created_at is not int64"):
        table.LanceTable(tmp_path, version=1).nearest([1.0], "true", k=1, exact=True)


def test_the_predicate_of_this_lancedb_is_tested_before_a_table_is_read(monkeypatch):
    import lancedb

    table.self_test()
    table.self_test.cache_clear()

    class Wrong:
        def __getattr__(self, _name):
            return lambda *_arguments, **_named: self

        def __getitem__(self, _name):
            return self

        def to_pylist(self):
            return [1, 2, 3]

    monkeypatch.setattr(lancedb, "connect", lambda *_: Wrong())
    with pytest.raises(table.TableNotVerified, match="do not use it"):
        table.self_test()
