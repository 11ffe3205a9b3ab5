"""The raw log: every whole frame survives, a torn one is cut off."""

import random
import subprocess
import sys
import threading
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from hindcast_dagster.errors import InputRefused
from hindcast_dagster.markets.rawlog import RawLog


def test_what_is_appended_is_read_back_in_order(tmp_path: Path) -> None:
    log = RawLog(tmp_path / "a" / "log.ndjson.zst")
    assert list(log.records()) == []
    log.append([{"n": 1, "text": "é\u2028\n\x85 x"}, {"n": 2}])
    log.append([])
    RawLog(log.path).append([{"n": 3}])
    assert [record["n"] for record in log.records()] == [1, 2, 3]
    assert next(iter(log.records()))["text"] == "é\u2028\n\x85 x"


@settings(deadline=None, max_examples=40)
@given(cut=st.integers(1, 400))
def test_a_torn_end_costs_only_the_last_frame(tmp_path_factory: pytest.TempPathFactory, cut: int) -> None:
    path = tmp_path_factory.mktemp("torn") / "log.ndjson.zst"
    log = RawLog(path)
    for n in range(3):
        log.append([{"n": n, "pad": str(hash(n)) * 20}])
    whole = path.read_bytes()
    path.write_bytes(whole[: max(len(whole) - cut, 0)])
    kept = [record["n"] for record in RawLog(path).records()]
    assert kept == list(range(len(kept)))
    RawLog(path).append([{"n": 99}])
    assert [record["n"] for record in RawLog(path).records()] == [*kept, 99]


def test_damage_before_the_end_is_refused_and_names_the_file(tmp_path: Path) -> None:
    log = RawLog(tmp_path / "log.ndjson.zst")
    log.append([{"n": 1, "pad": "x" * 500}])
    log.append([{"n": 2}])
    data = bytearray(log.path.read_bytes())
    data[0] ^= 0xFF
    log.path.write_bytes(bytes(data))
    with pytest.raises(InputRefused, match=r"log\.ndjson\.zst is damaged"):
        list(log.records())


def test_threads_do_not_mix_their_records(tmp_path: Path) -> None:
    log = RawLog(tmp_path / "log.ndjson.zst")
    threads = [
        threading.Thread(target=lambda k=k: [log.append([{"k": k, "i": i}]) for i in range(20)]) for k in range(4)
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    found = [(record["k"], record["i"]) for record in log.records()]
    assert sorted(found) == [(k, i) for k in range(4) for i in range(20)]


def test_frames_larger_than_a_read_are_whole(tmp_path: Path) -> None:
    log = RawLog(tmp_path / "log.ndjson.zst")
    noise = random.Random(1).randbytes(3 << 20).hex()  # does not compress below 3 MB
    log.append([{"i": 0, "noise": noise}])
    log.append([{"i": 1}])
    assert log.path.stat().st_size > 3 << 20
    assert [record["i"] for record in log.records()] == [0, 1]


def test_a_killed_writer_leaves_whole_records(tmp_path: Path) -> None:
    path = tmp_path / "log.ndjson.zst"
    code = (
        "import sys; from pathlib import Path; from hindcast_dagster.markets.rawlog import RawLog\n"
        "log = RawLog(Path(sys.argv[1])); print('up', flush=True)\n"
        "n = 0\nwhile True:\n    log.append([{'n': n, 'pad': 'x' * 2000}]); n += 1\n"
    )
    with subprocess.Popen([sys.executable, "-c", code, str(path)], stdout=subprocess.PIPE) as child:
        assert child.stdout is not None
        child.stdout.readline()
        while not path.exists() or path.stat().st_size < 2000:
            pass
        child.kill()
    numbers = [record["n"] for record in RawLog(path).records()]
    assert numbers == list(range(len(numbers)))
    assert numbers
