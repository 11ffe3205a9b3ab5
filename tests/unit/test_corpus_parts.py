"""The parts of the corpus build that decide its correctness at scale, each against a one-line definition."""

import random
import tempfile
from pathlib import Path

import polars as pl
import pytest
from hypothesis import given
from hypothesis import settings as hypothesis_settings
from hypothesis import strategies as st

from hindcast_dagster.contracts.documents import COMMENTS
from hindcast_dagster.contracts.table import ContractBroken
from hindcast_dagster.corpus import merge, runs
from hindcast_dagster.corpus.health import Measures
from hindcast_dagster.corpus.rules import Row
from hindcast_dagster.corpus.runs import Runs
from hindcast_dagster.corpus.scan import Scanner, count, spans
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


@given(st.lists(st.binary(max_size=9).map(lambda part: part.replace(b"\n", b"")), max_size=20), st.integers(0, 5))
def test_spans_and_counts_of_lines(lines: list[bytes], skip: int) -> None:
    data = b"".join(line + b"\n" for line in [b"." * skip, *lines])
    start = skip + 1
    found = spans(data, start, len(data))
    assert [data[begin:stop] for _, begin, stop in found] == lines
    assert count(data, start, len(data)) == len(found) == len(lines)


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


def test_gaps_of_a_day_or_more() -> None:
    measures = Measures(START, START + 10 * 86_400)
    for hour in [0, 23, 48, 72, 96, 97, 239]:
        measures.seen_at("nfl", START + hour * 3_600 + 59)
    gaps = measures.numbers(kept=0, strays=0)["gaps"]
    assert [(gap["from"], gap["hours"]) for gap in gaps] == [
        ("2024-01-05T02:00:00Z", 141),
        ("2024-01-02T00:00:00Z", 24),
    ]
