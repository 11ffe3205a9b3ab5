"""The parts of the corpus build that decide its correctness at scale, each against a one-line definition."""

import mmap
import random
import re
import tempfile
import threading
from collections.abc import Generator
from pathlib import Path

import polars as pl
import pytest
from hypothesis import given
from hypothesis import settings as hypothesis_settings
from hypothesis import strategies as st

from hindcast_dagster.contracts.documents import COMMENTS
from hindcast_dagster.contracts.table import ContractBroken
from hindcast_dagster.corpus import hugepages, merge, runs, scan
from hindcast_dagster.corpus.ahead import Ahead
from hindcast_dagster.corpus.health import Measures
from hindcast_dagster.corpus.rules import Row
from hindcast_dagster.corpus.runs import Runs
from hindcast_dagster.corpus.scan import Scanner, count, newlines, spans
from hindcast_dagster.corpus.seen import Seen
from hindcast_dagster.corpus.workspace import workspace
from hindcast_dagster.errors import NotReady
from hindcast_dagster.storage.store import Store

START = 1_704_067_200
KEPT = frozenset({b"nfl", b"cryptocurrency"})


# ---- the scan ------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("line", "parsed"),
    [
        (b'{"subreddit":"aww"}', False),
        (b'{"subreddit" \t: "aww"}', False),
        (b'{"subreddit":null}', False),
        (b'{"subreddit":"NFL"}', True),
        (b'{"subreddit" : "nfl"}', True),
        (b'{"subreddit":"nfl2"}', False),
        (b'{"subreddit":"a\\u0077w"}', True),  # an escape may spell a kept name
        (b'{"subreddit": "\\u006efl"}', True),
        (b'{"\\u0073ubreddit":"nfl"}', True),  # no plain key: only the parser knows
        (b'{"author":"subreddit"}', True),  # a value is not a key
        (b'{"author":"subreddit","subreddit":"aww"}', False),
        (b'{"x":{"subreddit":"nfl"},"subreddit":"aww"}', True),  # a crosspost: the parsed top level decides
        (b'{"x":{"subreddit":"aww"},"subreddit":"nfl"}', True),
        (b'{"x":{"subreddit":"aww"},"subreddit":"pics"}', False),
        (b'{"body":"\\"subreddit\\":\\"nfl\\"","subreddit":"aww"}', False),
        (b'{"subreddit":"aww","subreddit_id":"nfl"}', False),
        (b'{"subreddit":"nfl', True),
        (b'{"subreddit":"aww', True),
        (b'{"subreddit":', False),
        (b"", True),
        (b"not json", True),
    ],
)
def test_which_lines_must_be_parsed(line: bytes, parsed: bool) -> None:
    other = b'{"subreddit":"aww"}'
    for before, after in ((b"", b""), (other + b"\n", other + b"\n"), (b'{"subreddit":"nfl"}\n', b"x\n")):
        data = before + line + b"\n" + after
        scanner = Scanner(KEPT)
        for _ in range(2):  # what it remembers changes nothing
            found = scanner.scan(data, 0, len(data))
            number = before.count(b"\n")
            assert found.lines == data.count(b"\n")
            assert ((number, len(before), len(before) + len(line)) in found.candidates) == parsed


fragments = st.sampled_from(
    [b'"subreddit"', b'"subreddit', b'subreddit"', b":", b" : ", b": ", b" ", b'"', b"\\", b"nfl", b"NFL", b"aww", b"ab", b"abc",
     b"CryptoCurrency", b'"nfl"', b'"aww"', b'"\\u006efl"', b"{", b"}", b",", b"x" * 23, b"dit", b'"subreddit":"aww",', b"\x00\xff"]
)  # fmt: skip
found_lines = st.lists(st.lists(fragments, max_size=9).map(b"".join), max_size=8)


def must_be_parsed(line: bytes, kept: frozenset[bytes]) -> bool:
    """Say it plainly: no key at all, or one with a kept name, an escape or a cut in its value."""
    values = re.findall(rb'"subreddit"[ \t\r]*:[ \t\r]*("[^"]*"?|[^"]|$)', line)
    cut = [value for value in values if value[:1] == b'"' and not (len(value) > 1 and value.endswith(b'"'))]
    return not values or bool(cut) or any(b"\\" in v or v.strip(b'"').lower() in kept for v in values if v[:1] == b'"')


@given(
    lines=found_lines,
    skip=st.integers(0, 9),
    kept=st.sampled_from([KEPT, frozenset({b"ab"}), frozenset({b"a", b"abc"})]),
)
@hypothesis_settings(max_examples=400, deadline=None)
def test_the_scan_finds_what_a_pattern_finds(lines: list[bytes], skip: int, kept: frozenset[bytes]) -> None:
    before = b'"subreddit":"nfl"'[:skip] + b"\n"  # the end of a line that another block began
    data = before + b"".join(line + b"\n" for line in lines)
    wanted = [number for number, line in enumerate(lines) if must_be_parsed(line, kept)]
    for padding in (b"", b"." * 40):  # nothing is read behind the block, and what is there changes nothing
        found = Scanner(kept).scan(data + padding, len(before), len(data))
        assert found.lines == len(lines)
        assert [number for number, _, _ in found.candidates] == wanted
        assert [data[begin:stop] for _, begin, stop in found.candidates] == [lines[number] for number in wanted]


@given(st.lists(st.binary(max_size=9).map(lambda part: part.replace(b"\n", b"")), max_size=20), st.integers(0, 5))
def test_spans_and_counts_of_lines(lines: list[bytes], skip: int) -> None:
    data = b"".join(line + b"\n" for line in [b"." * skip, *lines])
    start = skip + 1
    found = spans(data, start, len(data))
    assert [data[begin:stop] for _, begin, stop in found] == lines
    assert count(data, start, len(data)) == len(found) == len(lines)
    assert newlines(data, start, len(data)).tolist() == [stop for _, _, stop in found]


def test_blocks_larger_than_what_is_searched_at_a_time(monkeypatch: pytest.MonkeyPatch) -> None:
    rng = random.Random(2)
    names = [b"aww", b"nfl", b"sub_x", b"CRYPTOCURRENCY"]
    lines = [b'{"b":"%s","subreddit":"%s"}' % (b"y" * rng.randrange(90), rng.choice(names)) for _ in range(400)]
    data = b"".join(line + b"\n" for line in lines)
    monkeypatch.setattr(scan, "_PIECE", 64)
    found = Scanner(KEPT).scan(data, 0, len(data))
    assert found.lines == len(lines)
    assert [lines[n] for n, _, _ in found.candidates] == [line for line in lines if must_be_parsed(line, KEPT)]


# ---- which ids came before -----------------------------------------------------------------------------------------


@given(st.lists(st.lists(st.integers(0, 60), max_size=12), max_size=15), st.integers(1, 9), st.integers(1, 40))
@hypothesis_settings(deadline=None)
def test_seen_is_a_set_whatever_spills(batches: list[list[int]], recent: int, largest: int) -> None:
    known: set[str] = set()
    with tempfile.TemporaryDirectory() as folder:
        seen = Seen(Path(folder), recent=recent, largest=largest)
        for batch in batches:
            ids = [f"{number:x}" for number in batch]
            expected = set()
            for place, name in enumerate(ids):
                if name in known:
                    expected.add(place)
                known.add(name)
            assert seen.repeats(ids) == expected


# ---- sorting beyond memory -----------------------------------------------------------------------------------------


def row(number: int, created: int) -> Row:
    name = f"{number:x}"
    return Row(name, "comment", "nfl", "a", None, "text \x00 " + name * 3, created, created, None, 5, None, "l", "t3_l",
                      None, "2024-01", None, None, deleted_later=False)  # fmt: skip


def merged(numbers: list[tuple[int, int]], **limits: int) -> tuple[pl.DataFrame, bytes, int]:
    with tempfile.TemporaryDirectory() as folder:
        collected = Runs(Path(folder), **limits)
        for number, created in numbers:
            collected.add(row(number, START + created))
        found = collected.finish()
        path = Path(folder) / "data.parquet"
        rows = merge.write(path, found, COMMENTS, dump_sha256="f" * 64)
        assert rows == collected.count == len(numbers)
        return pl.read_parquet(path), path.read_bytes(), len(found)


@given(st.dictionaries(st.integers(0, 10**6), st.integers(0, 30), max_size=60), st.integers(1, 9), st.randoms())
@hypothesis_settings(deadline=None, max_examples=60)
def test_a_merge_of_runs_is_a_sort(times: dict[int, int], piece: int, rng: random.Random) -> None:
    numbers = list(times.items())
    rng.shuffle(numbers)
    before, runs.WINDOW_ROWS = runs.WINDOW_ROWS, 3
    try:
        spilled, data, _ = merged(numbers, piece_rows=piece, run_bytes=1)
    finally:
        runs.WINDOW_ROWS = before
    whole, expected, _ = merged(numbers)
    assert COMMENTS.check(spilled).equals(whole.sort("created_at", "id"))
    assert data == expected  # the file depends on the rows alone


def test_row_groups_have_one_length_and_narrow_bounds() -> None:
    import pyarrow.parquet as pq

    with tempfile.TemporaryDirectory() as folder:
        collected = Runs(Path(folder), run_bytes=1 << 21)
        for number in random.Random(1).sample(range(120_000), 120_000):
            collected.add(row(number, START + number))
        found = collected.finish()
        assert len(found) > 3
        path = Path(folder) / "data.parquet"
        merge.write(path, found, COMMENTS, dump_sha256="f" * 64)
        groups = pq.ParquetFile(path).metadata
        column = COMMENTS.schema.names.index("created_at")
        bounds = [groups.row_group(i).column(column).statistics for i in range(groups.num_row_groups)]
        assert [groups.row_group(i).num_rows for i in range(groups.num_row_groups)] == [50_000, 50_000, 20_000]
        assert [(b.min - START, b.max - START) for b in bounds] == [(0, 49_999), (50_000, 99_999), (100_000, 119_999)]
        assert groups.row_group(0).column(0).compression == "ZSTD"


@pytest.mark.parametrize("second", [(7, 3), (7, 4)])
def test_a_repeated_key_or_a_null_never_reaches_a_table(second: tuple[int, int], tmp_path: Path) -> None:
    good = pl.DataFrame([row(7, 3)], schema=runs.RUN_SCHEMA, orient="row")
    bad = pl.DataFrame([row(*second)], schema=runs.RUN_SCHEMA, orient="row")
    if second != (7, 3):
        bad = bad.with_columns(text=pl.lit(None, pl.String))
    two = [
        runs.Run((frame["created_at"][0], frame["id"][0]), lambda frame=frame: iter([frame])) for frame in (good, bad)
    ]
    with pytest.raises(ContractBroken):
        merge.write(tmp_path / "x.parquet", two, COMMENTS, dump_sha256="f" * 64)


# ---- places on disk, memory, gaps ----------------------------------------------------------------------------------


def test_folders_of_killed_builds_are_swept_and_living_ones_stay(store: Store) -> None:
    home = store.area("work", "corpus")
    (home / "killed").mkdir(parents=True)
    (home / "killed" / "run-0.arrow").write_bytes(b"x")
    with workspace(store) as first:
        assert not (home / "killed").exists()
        (first / "mine").touch()
        with workspace(store) as second:
            assert (first / "mine").exists()
            assert first != second
        assert not second.exists()
    assert not first.exists()


def test_too_little_memory_is_said_before_anything_is_read(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    from hindcast_dagster.corpus import memory

    dump = tmp_path / "RC.zst"
    dump.write_bytes(b"\x28\xb5\x2f\xfd\x00\xa8" + b"\x00" * (64 << 20))  # a header that asks for 2 GiB
    monkeypatch.setattr(memory, "available", lambda: 2 << 30)
    with pytest.raises(NotReady, match=r"RC\.zst needs 2\.5 GiB of memory to unpack; 2\.0 GiB"):
        memory.require(dump)
    monkeypatch.setattr(memory, "available", lambda: 3 << 30)
    memory.require(dump)
    monkeypatch.setattr(memory, "_address_space_left", lambda: 1 << 30)
    with pytest.raises(NotReady, match="ulimit"):
        memory.require(dump)


def gaps(hours: dict[str, list[int]]) -> list[tuple[str, str, int]]:
    measures = Measures(START, START + 10 * 86_400)
    for name, busy in hours.items():
        for hour in busy:
            measures.seen_in(hour, [name])
    return [(gap["subreddit"], gap["from"], gap["hours"]) for gap in measures.numbers(kept=0, strays=0)["gaps"]]


def test_gaps_of_a_day_or_more() -> None:
    dark = set(range(50, 74)) | set(range(100, 130)) | set(range(140, 163))
    found = gaps({"nfl": [hour for hour in range(240) if hour not in dark]})
    assert found == [("nfl", "2024-01-05T04:00:00Z", 30), ("nfl", "2024-01-03T02:00:00Z", 24)]


def test_a_thin_subreddit_is_not_reported_for_being_thin() -> None:
    assert gaps({"thin": [0, 23, 48, 72, 96, 97, 239], "once": [5]}) == []
    rng = random.Random(4)
    thin = {f"thin{n}": sorted(rng.sample(range(240), rng.randint(3, 60))) for n in range(300)}
    assert gaps(thin) == []  # silences of a day or more all over, none of them more than chance
    (name, _, hours) = gaps(thin | {"nfl": [*range(60), *range(110, 240)]})[0]
    assert (name, hours) == ("nfl", 50)


# ---- steps that work ahead ------------------------------------------------------------------------------------------


def test_a_step_that_works_ahead_gives_its_results_in_order_and_its_error_at_the_end() -> None:
    def steps() -> Generator[int, None, None]:
        yield from range(50)
        raise NotReady("at the end")

    taken: list[int] = []
    with Ahead(steps, most=3) as ready, pytest.raises(NotReady, match="at the end"):
        for number in ready:
            taken.append(number)  # noqa: PERF402
    assert taken == list(range(50))


def test_leaving_a_step_early_closes_it_in_its_own_thread() -> None:
    closed: list[str] = []

    def inner() -> Generator[int, None, None]:
        try:
            while True:
                yield 1
        finally:
            closed.append("inner")

    def outer() -> Generator[int, None, None]:
        try:
            with Ahead(inner, most=2) as ready:
                yield from ready
        finally:
            closed.append("outer")

    before = threading.active_count()
    with Ahead(outer, most=2) as ready:
        assert next(iter(ready)) == 1
    assert closed == ["inner", "outer"]
    assert threading.active_count() == before


def test_a_large_window_is_given_huge_pages_where_the_kernel_has_them() -> None:
    if not Path("/sys/kernel/mm/transparent_hugepage").is_dir():
        pytest.skip("this kernel has no transparent huge pages")
    with mmap.mmap(-1, 1 << 27, flags=mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS):
        assert hugepages.advise(1 << 27) >= 1
    assert hugepages.advise(1 << 20) == 0
    assert hugepages.advise(1 << 50) == 0
