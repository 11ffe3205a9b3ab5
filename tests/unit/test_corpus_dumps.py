"""Dump files: whole or refused. Many frames, cut files, flipped bytes, wrong names; and which file is meant."""

import bz2
import gzip
import json
import lzma
import os
import random
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import zstandard

from hindcast_dagster.corpus import fingerprints, health, source
from hindcast_dagster.corpus.build import build
from hindcast_dagster.corpus.dumps import NoDump, choose, describe, find
from hindcast_dagster.corpus.frames import Broken, FrameWalk
from hindcast_dagster.errors import HindcastError, InputRefused, UsageError
from hindcast_dagster.settings import Settings, load
from hindcast_dagster.storage.manifest import Manifest
from hindcast_dagster.storage.store import Store

MONTH, START = "2024-01", 1_704_067_200
WORDS = "the quick brown fox jumps over a lazy dog and then some more of the same words again until \U0001f4a9 enough"


def comment(number: int, **changes: Any) -> dict[str, Any]:
    return {
        "id": f"k{number}", "created_utc": START + number, "subreddit": "nfl", "author": f"user_{number % 7}",
        "body": f"{number} {WORDS}", "score": 9, "edited": False, "retrieved_on": START + number + 90_000,
    } | changes  # fmt: skip


def content(count: int = 200) -> bytes:
    return b"".join(json.dumps(comment(n), ensure_ascii=False).encode() + b"\n" for n in range(count))


def sealed(store: Store, settings: Settings, dump: Path) -> Manifest:
    return build(store, settings, month=MONTH, kind="comments", dump=dump)


def nothing_is_there(store: Store) -> bool:
    return not store.sealed_keys("comments") and not list(store.root.rglob("*.parquet"))


@pytest.fixture
def settings(store: Store) -> Settings:
    return load(data_root=str(store.root), corpus={"all_subreddits": True})


@pytest.mark.parametrize(
    ("suffix", "pack"),
    [
        (".zst", lambda data: zstandard.ZstdCompressor(write_checksum=True).compress(data)),
        (".zst", lambda data: zstandard.ZstdCompressor(write_content_size=False).compress(data)),
        (".gz", gzip.compress),
        (".bz2", bz2.compress),
        (".xz", lzma.compress),
        (".ndjson", bytes),
        (".jsonl", bytes),
    ],
)
def test_every_format_and_its_truncation(
    store: Store, settings: Settings, tmp_path: Path, suffix: str, pack: Callable[[bytes], bytes]
) -> None:
    whole = pack(content())
    dump = tmp_path / f"x{suffix}"
    dump.write_bytes(whole)
    assert sealed(store, settings, dump).rows == 200
    before = store.partition("comments", MONTH).require()
    for cut in {1, 3, 9, len(whole) // 3, len(whole) // 2, len(whole) - 5, len(whole) - 1}:
        dump.write_bytes(whole[:cut])
        with pytest.raises(InputRefused, match=r"byte .*line"):
            sealed(store, settings, dump)
    assert store.partition("comments", MONTH).require().manifest == before.manifest


def test_an_empty_file_is_an_empty_month_only_as_plain_text(store: Store, settings: Settings, tmp_path: Path) -> None:
    for suffix in (".zst", ".gz", ".xz"):
        dump = tmp_path / f"x{suffix}"
        dump.touch()
        with pytest.raises(InputRefused):
            sealed(store, settings, dump)
    assert nothing_is_there(store)
    plain = tmp_path / "x.ndjson"
    plain.touch()
    manifest = sealed(store, settings, plain)
    assert (manifest.rows, manifest.stats["lines"]) == (0, 0)
    found = health.check(store, MONTH, "comments")
    assert found.verdict == "unknown"
    assert found.advice.startswith("The dump holds no line at all")


def test_a_hash_is_remembered_until_the_file_changes(
    store: Store, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(fingerprints, "SETTLED_NS", 0)
    dump = tmp_path / "x.zst"
    dump.write_bytes(b"one")
    first = fingerprints.described(store, dump)
    assert first == describe(dump)
    with monkeypatch.context() as patched:
        patched.setattr(fingerprints, "describe", lambda _: pytest.fail("it was hashed again"))
        assert fingerprints.described(store, dump) == first
    before = dump.stat()
    dump.write_bytes(b"two")  # the same size, and a modification time that was set back
    os.utime(dump, ns=(before.st_atime_ns, before.st_mtime_ns))
    assert fingerprints.described(store, dump) == describe(dump) != first
    (note,) = store.area("work", "fingerprints").iterdir()
    note.write_bytes(b"{")
    assert fingerprints.described(store, dump) == describe(dump)
    with pytest.raises(InputRefused, match="cannot be read"):
        fingerprints.described(store, tmp_path / "absent.zst")


def test_a_file_that_has_just_changed_is_not_remembered(store: Store, tmp_path: Path) -> None:
    dump = tmp_path / "x.zst"
    dump.write_bytes(b"one")
    assert fingerprints.described(store, dump) == describe(dump)
    assert not store.area("work", "fingerprints").exists()


def test_frames_that_end_inside_lines_and_characters(store: Store, settings: Settings, tmp_path: Path) -> None:
    data = content(60)
    dump = tmp_path / "x.zst"
    skippable = (0x184D2A53).to_bytes(4, "little") + (5).to_bytes(4, "little") + b"hello"
    pieces = [data[at : at + 37] for at in range(0, len(data), 37)]
    dump.write_bytes(skippable + skippable.join(zstandard.compress(piece) for piece in pieces) + skippable)
    manifest = sealed(store, settings, dump)
    assert (manifest.rows, manifest.stats["bytes"]) == (60, len(data))


def test_every_cut_of_a_file_with_many_frames_is_noticed(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr(source, "CHUNK", 7)  # frame headers lie across the pieces that are read
    frames = [zstandard.ZstdCompressor(write_checksum=n % 2 == 0).compress(b"line %d\n" % n) for n in range(4)]
    whole = b"".join(frames)
    ends = {sum(map(len, frames[: n + 1])) for n in range(4)}
    dump = tmp_path / "x.zst"
    for cut in range(1, len(whole) + 1):
        dump.write_bytes(whole[:cut])
        if cut in ends:
            assert decoded(dump) == b"".join(b"line %d\n" % n for n in range(sorted(ends).index(cut) + 1))
        else:
            with pytest.raises(Broken):
                decoded(dump)


def decoded(dump: Path) -> bytes:
    with source.HashingReader(dump) as reader:
        return b"".join(source.decoded(reader, dump))


def test_the_walk_agrees_with_the_decoder_on_real_frames() -> None:
    rng = random.Random(3)
    for level in (1, 3, 19):
        for size in (0, 1, 255, 256, 70_000, 400_000):
            data = rng.randbytes(size // 2) + b"a" * (size - size // 2)
            frame = zstandard.ZstdCompressor(level=level, write_checksum=bool(size % 2)).compress(data)
            walk = FrameWalk()
            walk.feed(frame)
            walk.finish()
            with pytest.raises(Broken):
                walk.feed(b"garbage")


def test_flipped_bytes_are_never_a_silent_success(store: Store, settings: Settings, tmp_path: Path) -> None:
    """A frame with a checksum, as published months have one: a damaged file is refused, or its rows are untouched."""
    rng = random.Random(11)
    whole = zstandard.ZstdCompressor(level=3, write_checksum=True).compress(content(80))
    dump = tmp_path / "x.zst"
    dump.write_bytes(whole)
    good = sealed(store, settings, dump)
    version = store.partition("comments", MONTH).require().manifest.version
    places = {*range(14), *range(len(whole) - 8, len(whole)), *rng.sample(range(len(whole)), 60)}
    survived, refusals = 0, []
    for place in sorted(places):
        damaged = bytearray(whole)
        damaged[place] ^= 1 << rng.randrange(8)
        dump.write_bytes(damaged)
        try:
            found = sealed(store, settings, dump)
        except HindcastError as error:
            refusals.append((error.exit_code, str(dump) in str(error)))
            assert store.partition("comments", MONTH).require().manifest.version == version
        else:  # a bit that no decoder reads, such as the unused one of the frame header
            survived += 1
            assert (found.rows, found.stats["lines"]) == (good.rows, good.stats["lines"])
            sealed_again = tmp_path / "again.zst"
            sealed_again.write_bytes(whole)
            assert sealed(store, settings, sealed_again).version == version
    assert survived <= 2
    assert set(refusals) <= {(3, True), (4, True)}


def test_garbage_around_frames(store: Store, settings: Settings, tmp_path: Path) -> None:
    whole = zstandard.compress(content(3))
    dump = tmp_path / "x.zst"
    for damaged in (whole + b"\n", whole + b"\x00" * 64, b"\n" + whole, whole[:-30] + whole, content(3)):
        dump.write_bytes(damaged)
        with pytest.raises(InputRefused):
            sealed(store, settings, dump)
    assert nothing_is_there(store)


def test_a_last_line_without_a_newline_is_a_cut_file(store: Store, settings: Settings, tmp_path: Path) -> None:
    dump = tmp_path / "x.zst"
    dump.write_bytes(zstandard.compress(content(5)[:-1]))
    with pytest.raises(InputRefused, match=r"after line 4: .*no newline"):
        sealed(store, settings, dump)
    assert nothing_is_there(store)


def test_a_highly_compressed_file_stays_in_bounded_pieces(tmp_path: Path) -> None:
    dump = tmp_path / "x.zst"
    dump.write_bytes(zstandard.compress(b"\n" * (64 << 20)))
    with source.HashingReader(dump) as reader:
        assert max(map(len, source.decoded(reader, dump))) <= source.OUTPUT


def test_a_dump_of_the_other_kind_is_refused(store: Store, settings: Settings, tmp_path: Path) -> None:
    dump = tmp_path / "RS_2024-01.zst"
    dump.write_bytes(zstandard.compress(content(5)))
    with pytest.raises(InputRefused, match="holds comments, not submissions"):
        build(store, settings, month=MONTH, kind="submissions", dump=dump)
    assert not store.sealed_keys("submissions")


def test_find_and_choose(store: Store, tmp_path: Path) -> None:
    folder = store.area("dumps")
    (folder / "deep").mkdir(parents=True)
    for name in ("RC_2024-01.zst", "RS_2024-01.ndjson", "deep/RS_v2_2005-12.zst", "RC_2024-13.zst", "notes.txt",
                 "AskMen_submissions.zst", "RC_2024-01.zst.part", "RC_2024-02.jsonl.gz", "RS_2023-01"):  # fmt: skip
        (folder / name).write_bytes(b"x")
    found = {(dump.path.name, dump.month, dump.kind) for dump in find(store)}
    assert found == {
        ("RC_2024-01.zst", "2024-01", "comments"), ("RS_2024-01.ndjson", "2024-01", "submissions"),
        ("RS_v2_2005-12.zst", "2005-12", "submissions"), ("RC_2024-02.jsonl.gz", "2024-02", "comments"),
    }  # fmt: skip
    assert choose(store, month="2024-01", kind="comments").name == "RC_2024-01.zst"
    assert describe(folder / "RC_2024-01.zst").size == 1
    with pytest.raises(NoDump, match=r"RC_2030-01.zst"):
        choose(store, month="2030-01", kind="comments")
    (folder / "RC_2024-01.ndjson").write_bytes(b"")
    with pytest.raises(UsageError, match="--dump"):
        choose(store, month="2024-01", kind="comments")
    for month in ("2024-13", "2024-1", "2024-01/../..", "\u0662\u0660\u0662\u0664-\u0660\u0661"):
        with pytest.raises(UsageError):
            choose(store, month=month, kind="comments")
    with pytest.raises(UsageError, match="not a file"):
        choose(store, month="2024-01", kind="comments", dump=tmp_path)
