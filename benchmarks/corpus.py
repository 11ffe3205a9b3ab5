"""How fast a month of comments becomes a sealed partition, beside plain decompression and the usual script.

    python benchmarks/corpus.py                  the ratios, on 500,000 synthetic lines
    python benchmarks/corpus.py --scaling        time and memory at 0.1, 0.5, 1 and 2 million lines
    python benchmarks/corpus.py --lines 100000 --keep /tmp/month

The month is made here: comments in Arctic Shift's shape, about 1.7 KB a line, 3,000 subreddits of which the 20 kept
ones make up about 3 %, one zstd frame with a 2 GiB window. Every measurement is a fresh process; the best of
`--repeat`. Wall times mean something on a machine with two idle cores; on a busy one look at the processor time of the
busiest thread instead.
"""

import argparse
import json
import random
import re
import resource
import subprocess
import sys
import tempfile
import time
import zlib
from pathlib import Path

import zstandard

MONTH, START, SECONDS = "2024-06", 1_717_200_000, 30 * 86_400
PEER_LINES_PER_S = 47_550  # what a widely used multiprocess script reported for itself on such a machine
KEPT_SHARE, SUBREDDITS = 0.03, 3_000
MIN_SCORE, MIN_WORDS = 5, 20
TEXT_WORDS = 8_000_000  # bodies are cut from one long random text
_DIGITS = "0123456789abcdefghijklmnopqrstuvwxyz"


def base36(number: int) -> str:
    text = ""
    while number:
        number, rest = divmod(number, 36)
        text = _DIGITS[rest] + text
    return text


def write_month(path: Path, lines: int) -> None:
    """Write the synthetic month."""
    from hindcast_dagster.corpus import subreddits

    rng = random.Random(20240601)
    words = ["".join(rng.choices("etaoinshrdlucmfwypvbgkjqxz", k=rng.randint(2, 10))) for _ in range(20_000)]
    prose = " ".join(rng.choices(words, weights=[1 / (rank + 9) for rank in range(len(words))], k=TEXT_WORDS))
    kept = subreddits.names()
    others = [f"sub_{rng.randrange(36**6):x}" for _ in range(SUBREDDITS - len(kept))]
    params = zstandard.ZstdCompressionParameters.from_level(3, window_log=31, enable_ldm=True, write_checksum=1)
    with path.open("wb") as out, zstandard.ZstdCompressor(compression_params=params).stream_writer(out) as stream:
        for number in range(lines):
            name = rng.choice(kept) if rng.random() < KEPT_SHARE else others[int(len(others) * rng.random() ** 2)]
            created = START + number * SECONDS // lines
            begin, length = int(rng.random() * len(prose)), int(rng.expovariate(1 / 180)) + 10
            values = {
                "own": base36(45_000_000_000 + number), "link": base36(2_000_000_000 + int(rng.random() * 4e6)),
                "created": created, "first": created + 15, "second": created + 130_000 + number % 900,
                "author": f"{words[int(rng.random() ** 2 * 20_000)]}_{int(rng.random() * 4e5)}",
                "full": f"{int(rng.random() * 1e12):x}", "score": int(rng.paretovariate(1.1)), "name": name,
                "sub": f"{zlib.crc32(name.encode()):x}", "slug": words[int(rng.random() * 20_000)],
                "body": prose[begin : begin + length],
            }  # fmt: skip
            stream.write((LINE % values).encode())


def line_template() -> str:
    """Return a line as Arctic Shift writes them (all keys, sorted), with places for the values that differ."""
    null = dict.fromkeys(("approved_at_utc", "approved_by", "associated_award", "author_flair_background_color",
        "author_flair_css_class", "author_flair_template_id", "author_flair_text", "author_flair_text_color",
        "banned_at_utc", "banned_by", "collapsed_because_crowd_control", "collapsed_reason", "collapsed_reason_code",
        "comment_type", "distinguished", "likes", "mod_note", "mod_reason_by", "mod_reason_title", "num_reports",
        "removal_reason", "report_reasons", "top_awarded_type", "unrepliable_reason"))  # fmt: skip
    false = dict.fromkeys(("archived", "author_is_blocked", "author_patreon_flair", "author_premium", "can_gild",
        "can_mod_post", "collapsed", "edited", "is_submitter", "locked", "no_follow", "saved", "score_hidden",
        "stickied"), False)  # fmt: skip
    lists = ("all_awardings", "author_flair_richtext", "awarders", "mod_reports", "treatment_tags", "user_reports")
    record = null | false | {name: [] for name in lists} | {
        "_meta": {"retrieved_2nd_on": "#second#"}, "author": "%(author)s", "author_flair_type": "text",
        "author_fullname": "t2_%(full)s", "body": "%(body)s", "controversiality": 0, "created": "#created#",
        "created_utc": "#created#", "downs": 0, "gilded": 0, "gildings": {}, "id": "%(own)s", "link_id": "t3_%(link)s",
        "name": "t1_%(own)s", "parent_id": "t3_%(link)s", "replies": "", "retrieved_on": "#first#", "score": "#score#",
        "permalink": "/r/%(name)s/comments/%(link)s/%(slug)s/%(own)s/", "send_replies": True, "subreddit": "%(name)s",
        "subreddit_id": "t5_%(sub)s", "subreddit_name_prefixed": "r/%(name)s", "subreddit_type": "public",
        "total_awards_received": 0, "ups": "#score#",
    }  # fmt: skip
    text = json.dumps(dict(sorted(record.items())), separators=(",", ":"))
    return re.sub('"#([a-z]+)#"', r"%(\1)d", text) + "\n"


LINE = line_template()


def usual_script(dump: Path, out: Path, *, everything: bool) -> None:
    """Do what the common scripts do: one loop, json.loads on every line, the chosen lines to a file."""
    from hindcast_dagster.corpus import subreddits

    kept = subreddits.read()
    with dump.open("rb") as raw, out.open("w", encoding="utf-8") as target:
        reader = zstandard.ZstdDecompressor(max_window_size=2**31).stream_reader(raw)
        tail = ""
        while chunk := reader.read(2**24):
            *lines, tail = (tail + chunk.decode()).split("\n")
            for line in lines:
                record = json.loads(line)
                if (
                    (everything or record["subreddit"].lower() in kept)
                    and record["author"] != "[deleted]"
                    and record["body"] not in {"[deleted]", "[removed]"}
                    and record["score"] >= MIN_SCORE
                    and len(record["body"].split()) >= MIN_WORDS
                ):
                    target.write(line + "\n")


def pipeline(dump: Path, root: Path, *, everything: bool) -> None:
    """Build the month."""
    from hindcast_dagster.corpus.build import build
    from hindcast_dagster.settings import load
    from hindcast_dagster.storage.store import open_store

    settings = load(data_root=str(root), corpus={"all_subreddits": everything})
    build(open_store(root), settings, month=MONTH, kind="comments", dump=dump)


def measured(task: str, dump: Path) -> None:
    """Run one task in this process and print its time (imports excluded) and its peak memory."""
    import hindcast_dagster.corpus.month  # noqa: F401 - a program that is up: imports are reported apart

    with tempfile.TemporaryDirectory(dir=dump.parent) as folder:
        begun, main, process = time.perf_counter(), time.thread_time(), time.process_time()
        name, _, scope = task.partition(":")
        run = {"pipeline": pipeline, "script": usual_script}[name]
        run(dump, Path(folder) / "out", everything=scope == "all")
        seconds, main, process = (time.perf_counter() - begun, time.thread_time() - main, time.process_time() - process)
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
    print(json.dumps({"seconds": seconds, "busiest": max(main, process - main), "mib": peak}))


def best_of(task: str, dump: Path, repeat: int) -> dict[str, float]:
    command = [sys.executable, __file__, "--task", task, "--dump", str(dump)]
    runs = [json.loads(subprocess.run(command, capture_output=True, check=True).stdout) for _ in range(repeat)]
    best = {name: min(run[name] for run in runs) for name in ("seconds", "busiest")}
    return best | {"mib": max(run["mib"] for run in runs)}


def whole_command(dump: Path, repeat: int) -> float:
    """Return the wall time of the command line, interpreter start included."""
    code = "import sys; from hindcast_dagster.cli.main import run; run(sys.argv[1:])"
    times = []
    for _ in range(repeat):
        with tempfile.TemporaryDirectory(dir=dump.parent) as folder:
            where = ["--month", MONTH, "--kind", "comments", "--dump", str(dump), "--data-root", folder]
            begun = time.perf_counter()
            subprocess.run([sys.executable, "-c", code, "corpus", "build", *where], capture_output=True, check=True)
            times.append(time.perf_counter() - begun)
    return min(times)


def decompression(dump: Path, repeat: int) -> dict[str, float]:
    walls, works = [], []
    for _ in range(repeat):
        begun, before = time.perf_counter(), _children()
        subprocess.run(["zstd", "-dc", "--long=31", str(dump)], stdout=subprocess.DEVNULL, check=True)
        walls.append(time.perf_counter() - begun)
        works.append(_children() - before)
    return {"seconds": min(walls), "busiest": min(works)}


def _children() -> float:
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    return used.ru_utime + used.ru_stime


def shown(name: str, found: dict[str, float], lines: int) -> dict[str, float]:
    seconds, busiest, peak = found["seconds"], found.get("busiest", 0), found.get("mib", 0)
    speed = f"{seconds:8.2f} s {lines / seconds:12,.0f} lines/s"
    print(f"{name:<24}{speed}   busiest thread {busiest:6.2f} s   {peak:6.0f} MiB", flush=True)
    return found


def ratios(dump: Path, lines: int, repeat: int) -> None:
    """Print the four comparisons, measured side by side."""
    zstd = shown("zstd -dc --long=31", decompression(dump, repeat), lines)
    ours = shown("20 subreddits, sealed", best_of("pipeline:20", dump, repeat), lines)
    zstd = {name: min(value, zstd[name]) for name, value in decompression(dump, repeat).items()}
    ours_all = shown("all subreddits, sealed", best_of("pipeline:all", dump, repeat), lines)
    script = shown("usual script, 20", best_of("script:20", dump, 1), lines)
    script_all = shown("usual script, all", best_of("script:all", dump, 1), lines)
    command = shown("hindcast corpus build", {"seconds": whole_command(dump, repeat)}, lines)
    for name, found, wanted, most in (
        ("time / zstd", lambda key: ours[key] / zstd[key], 1.3, True),
        ("speed / usual script", lambda key: script[key] / ours[key], 5, False),
        (f"speed / {PEER_LINES_PER_S:,} lines/s", lambda key: lines / ours[key] / PEER_LINES_PER_S, 7, False),
        ("speed / usual script, all", lambda key: script_all[key] / ours_all[key], 2, False),
    ):
        ratio, idle = found("seconds"), found("busiest")
        met = ratio <= wanted if most else ratio >= wanted
        aim = f"{'at most' if most else 'at least'} {wanted}: {'met' if met else 'MISSED'}"
        print(f"{name:<28}{ratio:6.2f}  ({aim})   by the busiest thread {idle:6.2f}")
    print(
        f"whole command / zstd        {command['seconds'] / zstd['seconds']:6.2f}  (interpreter and imports included)"
    )


def scaling(folder: Path, repeat: int) -> None:
    """Print time and peak memory against the number of lines."""
    for lines in (100_000, 500_000, 1_000_000, 2_000_000):
        dump = month_of(folder, lines)
        for task in ("pipeline:20", "pipeline:all"):
            found = best_of(task, dump, repeat)
            each = found["seconds"] / lines * 1e6
            print(
                f"{lines:>9,} lines  {task:<13}{found['seconds']:7.2f} s {each:6.2f} us/line {found['mib']:6.0f} MiB",
                flush=True,
            )


def month_of(folder: Path, lines: int) -> Path:
    """Return the synthetic month of so many lines, written unless it is there."""
    dump = folder / f"RC_{MONTH}-{lines}.zst"
    if not dump.exists():
        write_month(dump, lines)
    return dump


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--lines", type=int, default=500_000)
    parser.add_argument("--repeat", type=int, default=3)
    parser.add_argument("--scaling", action="store_true", help="time and memory at 0.1 to 2 million lines")
    parser.add_argument("--keep", type=Path, help="a folder in which the synthetic month is kept and found again")
    parser.add_argument("--task", help=argparse.SUPPRESS)
    parser.add_argument("--dump", type=Path, help=argparse.SUPPRESS)
    given = parser.parse_args()
    if given.task:
        measured(given.task, given.dump)
        return
    with tempfile.TemporaryDirectory() as scratch:
        folder = given.keep or Path(scratch)
        folder.mkdir(parents=True, exist_ok=True)
        if given.scaling:
            scaling(folder, given.repeat)
            return
        ratios(month_of(folder, given.lines), given.lines, given.repeat)


if __name__ == "__main__":
    main()
