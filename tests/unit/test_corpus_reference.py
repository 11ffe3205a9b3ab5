"""The corpus build against a slow, obvious reference: any record shape gives the same counts and the same rows."""

import html
import itertools
import json
import math
import re
import tempfile
from collections import Counter
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import polars as pl
import pytest
import zstandard
from hypothesis import HealthCheck, example, given
from hypothesis import settings as hypothesis_settings
from hypothesis import strategies as st

from hindcast_dagster.contracts.documents import BY_KIND
from hindcast_dagster.corpus import lines as lines_module
from hindcast_dagster.corpus import source
from hindcast_dagster.corpus.build import build
from hindcast_dagster.corpus.sieve import Sieve
from hindcast_dagster.errors import InputRefused
from hindcast_dagster.settings import load
from hindcast_dagster.storage.store import open_store
from hindcast_dagster.storage.tables import read_table

MONTH, START, END = "2024-01", 1_704_067_200, 1_706_745_600
KEPT = ("nfl", "cryptocurrency")
URL = re.compile(r"https?://\S+")


# ---- the reference -------------------------------------------------------------------------------------------------


@dataclass
class Result:
    lines: int
    dropped: dict[str, int]
    rows: list[dict[str, Any]]

    @property
    def of_another_month(self) -> bool:
        """Every record that could be dated lies outside the month: not a dump of it."""
        placed = {"bad_record", "other_subreddit", "no_id", "duplicate"}
        return (
            "outside_month" in self.dropped and not self.rows and not self.dropped.keys() - placed - {"outside_month"}
        )


def reference(data: bytes, *, kind: str, everything: bool) -> Result:
    seen: set[str] = set()
    dropped: Counter[str] = Counter()
    rows = []
    lines = data.split(b"\n")[:-1]
    for line in lines:
        reason, row = judge(line, kind, everything, seen)
        if reason:
            dropped[reason] += 1
        else:
            rows.append(row)
    return Result(len(lines), dict(dropped), sorted(rows, key=lambda row: (row["created_at"], row["id"])))


def judge(line: bytes, kind: str, everything: bool, seen: set[str]) -> tuple[str | None, Any]:  # noqa: PLR0911
    if not everything and rejected_unparsed(line):
        return "other_subreddit", None
    try:
        raw = json.loads(line.decode("utf-8", "replace"))
    except (ValueError, RecursionError):
        return "bad_record", None
    if not isinstance(raw, dict):
        return "bad_record", None
    created = seconds(raw.get("created_utc"))
    if created is None:
        return "bad_record", None
    subreddit = raw.get("subreddit")
    if not isinstance(subreddit, str) or subreddit == "" or not (everything or subreddit.lower() in KEPT):
        return "other_subreddit", None
    name = bare(raw.get("id"))
    if name is None:
        return "no_id", None
    if name in seen:
        return "duplicate", None
    seen.add(name)
    if not START <= created < END:
        return "outside_month", None
    return content(raw, kind, name, created)


def content(raw: dict[str, Any], kind: str, name: str, created: int) -> tuple[str | None, Any]:  # noqa: C901, PLR0911
    author = storable(raw.get("author"))
    if not author or author == "[deleted]":
        return "author_gone", None
    body = storable(raw.get("body" if kind == "comments" else "selftext")) or ""
    if body.strip() in {"[removed]", "[deleted]", "[ Removed by Reddit ]", "[deleted by user]"}:
        return "text_gone", None
    if kind == "comments" and not body.strip():
        return "text_gone", None
    score = number(raw.get("score"))
    if score is None:
        return "score_unknown", None
    if score < 5:
        return "low_score", None
    comments = number(raw.get("num_comments"))
    if kind == "submissions" and (comments is None or comments < 3):
        return "few_comments", None
    text = html.unescape(body)
    title = html.unescape(storable(raw.get("title")) or "")
    if kind == "comments":
        solid = [ch for ch in text if not ch.isspace()]
        links = sum(len(url) for url in URL.findall(text))
        if len(solid) - links < 5:
            return "too_short", None
        if links > len(solid) / 2:
            return "mostly_link", None
        words = text.split()
    else:
        words = (title + " " + text).split()
    if len(words) < 20:
        return "few_words", None
    comment = kind == "comments"
    return None, {
        "id": name,
        "author": author,
        "title": None if comment else title,
        "text": text,
        "created_at": created,
        "score": score,
        "num_comments": None if comment else comments,
        "subreddit": storable(raw["subreddit"]),
        "text_as_of": text_time(raw, created),
        "engagement_as_of": engagement_time(raw, created),
    }


def rejected_unparsed(line: bytes) -> bool:
    values = re.findall(rb'"subreddit"[ \t\r]*:[ \t\r]*("[^"]*"?|.)?', line)
    if not values:
        return False
    for value in values:
        if value.startswith(b'"'):
            if len(value) < 2 or not value.endswith(b'"') or b"\\" in value:
                return False
            if value.strip(b'"').lower().decode("utf-8", "replace") in KEPT:
                return False
    return True


def seconds(value: Any) -> int | None:
    if isinstance(value, bool) or value is None:
        return None
    if isinstance(value, str):
        if not re.fullmatch(r"[0-9]{1,12}(\.[0-9]+)?", value):
            return None
        return seconds(int(value.split(".")[0]))
    if isinstance(value, (list, dict)) or not math.isfinite(value):
        return None
    found = int(value) if not isinstance(value, float) else int(value // 1)
    return found if 1_104_537_600 <= found < 4_102_444_800 else None


def number(value: Any) -> int | None:
    if isinstance(value, str) and re.fullmatch(r"-?[0-9]{1,18}", value):
        return int(value)
    if isinstance(value, float) and value.is_integer():
        value = int(value)
    if isinstance(value, bool) or not isinstance(value, int):
        return None
    return value if -(2**63) <= value < 2**63 else None


def bare(value: Any) -> str | None:
    if isinstance(value, int) and not isinstance(value, bool) and 0 <= value < 2**63:
        digits = ""
        while value or not digits:
            value, rest = divmod(value, 36)
            digits = "0123456789abcdefghijklmnopqrstuvwxyz"[rest] + digits
        return digits
    found = re.fullmatch(r"(?:t1_|t3_)?([0-9a-z]{1,13})", value) if isinstance(value, str) else None
    return found.group(1) if found else None


def storable(value: Any) -> str | None:
    if not isinstance(value, str):
        return None
    return "".join("\ufffd" if 0xD800 <= ord(ch) <= 0xDFFF else ch for ch in value)


def meta(raw: dict[str, Any]) -> dict[str, Any]:
    return raw["_meta"] if isinstance(raw.get("_meta"), dict) else {}


def engagement_time(raw: dict[str, Any], created: int) -> int | None:
    second = meta(raw).get("retrieved_2nd_on")
    found = first_fetch(raw) if second is None else seconds(second)
    return found if found is not None and found >= created else None


def first_fetch(raw: dict[str, Any]) -> int | None:
    return seconds(raw.get("retrieved_on")) or seconds(raw.get("retrieved_utc"))


def says_changed(value: Any) -> bool:
    return value not in (None, False, 0, "") and str(value).strip().lower() not in {"false", ""}


def text_time(raw: dict[str, Any], created: int) -> int:
    never = 4_102_444_799
    edited, updated, second = raw.get("edited"), raw.get("updated_on"), meta(raw).get("retrieved_2nd_on")
    times = [created]
    if says_changed(updated):
        at = seconds(updated)
        times.append(at if at is not None and at >= created else never)
    if says_changed(edited):
        at = None if edited is True else seconds(edited)
        fetched = first_fetch(raw)
        usable = fetched if fetched is not None and fetched >= created else never
        times.append(at if at is not None and at >= created else usable)
    if meta(raw).get("was_initially_deleted") is True:
        restored = seconds(second)
        times.append(restored if restored is not None and restored >= created else never)
    return max(times)


# ---- the build -----------------------------------------------------------------------------------------------------


def built(data: bytes, *, kind: str, everything: bool, frames: tuple[int, ...] = ()) -> Result:
    with tempfile.TemporaryDirectory() as folder:
        root = Path(folder)
        root.joinpath("names.txt").write_text("NFL\nr/CryptoCurrency  # a remark\n")
        dump = root / "dump.zst"
        cuts = [0, *sorted(cut for cut in frames if 0 < cut < len(data)), len(data)]
        dump.write_bytes(b"".join(zstandard.compress(data[a:b]) for a, b in itertools.pairwise(cuts)))
        corpus = {"all_subreddits": everything, "subreddits_file": root / "names.txt"}
        settings = load(data_root=str(root / "root"), corpus=corpus)
        store = open_store(root / "root")
        manifest = build(store, settings, month=MONTH, kind=kind, dump=dump)
        frame = read_table(store.partition(kind, MONTH).require(), BY_KIND[kind])
        assert manifest.rows == frame.height == manifest.stats["kept"]
        assert manifest.stats["bytes"] == len(data)
        assert frame["dump_sha256"].unique().to_list() == [manifest.stats["dump_sha256"]] * bool(frame.height)
        return Result(manifest.stats["lines"], manifest.stats["dropped"], frame.to_dicts())


def assert_same(data: bytes, *, kind: str, everything: bool, frames: tuple[int, ...] = ()) -> None:
    wanted = reference(data, kind=kind, everything=everything)
    if wanted.of_another_month:
        with pytest.raises(InputRefused, match=f"{wanted.dropped['outside_month']:,} of other months"):
            built(data, kind=kind, everything=everything, frames=frames)
        return
    found = built(data, kind=kind, everything=everything, frames=frames)
    assert (found.lines, found.dropped) == (wanted.lines, wanted.dropped)
    columns = list(wanted.rows[0]) if wanted.rows else []
    assert [{name: row[name] for name in columns} for row in found.rows] == wanted.rows


# ---- record shapes -------------------------------------------------------------------------------------------------

WORDS = "the quick brown fox jumps over a lazy dog and then some more of the same words again until enough"
instants = st.one_of(
    st.integers(START - 3, START + 3),
    st.integers(START, END - 1),
    st.integers(START, END - 1).map(float),
    st.integers(START, END - 1).map(str),
    st.sampled_from([None, "", "NaN", 0, -1, 9 * 10**18, START * 1000, True, float("nan"), [], END - 1, END, 10**40]),
)
texts = st.one_of(
    st.just(WORDS + " end."),
    st.just(WORDS + " &gt; &amp;#x200B; http://example.org/" + "x" * 60),
    st.just("https://example.org/" + "y" * 200 + " " + WORDS),
    st.just(WORDS + " \ud83d lone \u2028 line\u0085 NUL\x00 \U0001f4a9 tail"),
    st.sampled_from(["[removed]", "[deleted]", " [ Removed by Reddit ]\n", "[deleted by user]", "", " ", None, 7]),
    st.text(alphabet=st.characters(), max_size=60).map(lambda text: text + " w" * 20),
    st.just("&nbsp;" * 25 + "a b c"),
)
numbers = st.one_of(st.integers(-3, 9), st.sampled_from([None, "7", 5.0, 5.5, True, 10**30, "x", []]))
subreddits = st.sampled_from(
    ["nfl", "NFL", "CryptoCurrency", "aww", "u_someone", "", None, 3, "\u212arypto", 'a"b', "a\\nfl"]
)
fields: dict[str, st.SearchStrategy[Any]] = {
    "id": st.one_of(st.sampled_from(["a1", "a2", "b", "t1_c", "A", "", None, 45_568_804_275, "x" * 14, "a-1"]),
                    st.integers(0, 10**9).map(lambda n: f"k{n}")),
    "created_utc": instants, "subreddit": subreddits, "author": st.sampled_from(["ann", "[deleted]", "", None, 5, "b\ud800"]),
    "body": texts, "selftext": texts, "title": st.sampled_from(["A title", "", None, "T " * 20]), "score": numbers,
    "num_comments": numbers, "edited": st.one_of(st.booleans(), st.none(), instants), "retrieved_on": instants,
    "retrieved_utc": instants, "updated_on": instants, "link_id": st.sampled_from(["t3_z9", "z9", 5, None]),
    "parent_id": st.sampled_from(["t1_q", "t3_z9", None, 45_568_804_275, {}]), "over_18": st.sampled_from([True, False, None, "no"]),
    "_meta": st.one_of(st.none(), st.just([]), st.fixed_dictionaries({}, optional={
        "retrieved_2nd_on": instants, "was_initially_deleted": st.booleans(), "was_deleted_later": st.booleans()})),
    "crosspost_parent_list": st.just([{"subreddit": "nfl", "id": "zz"}]),
    "other": st.sampled_from(['"subreddit":"nfl"', "subreddit", '\\"subreddit\\":\\"nfl\\"', {"subreddit": "aww"}, float("inf")]),
}  # fmt: skip
good = {
    "id": "good1", "created_utc": START + 9, "subreddit": "nfl", "author": "ann", "body": WORDS + " end.",
    "selftext": WORDS, "title": "A title", "score": 9, "num_comments": 5, "edited": False,
}  # fmt: skip
spacings = st.sampled_from([(",", ":"), (", ", ": "), (" , ", " \t: "), (",", " :")])


@st.composite
def records(draw: st.DrawFn) -> bytes:
    """A line: a good record with some fields changed or gone, in any order, spacing and escaping."""
    record = dict(good) | {"id": draw(fields["id"])}
    for name in draw(st.sets(st.sampled_from(sorted(fields)), max_size=4)):
        record[name] = draw(fields[name])
    for name in draw(st.sets(st.sampled_from(sorted(record)), max_size=1)):
        record.pop(name)
    names = draw(st.permutations(sorted(record))) if draw(st.booleans()) else sorted(record)
    text = json.dumps(
        {name: record[name] for name in names}, separators=draw(spacings), ensure_ascii=draw(st.booleans())
    )
    return text.encode("utf-8", "replace").replace(b"\n", b" ")


odd_lines = st.sampled_from(
    [b"", b" ", b"{", b"null", b"[1]", b'"subreddit":"aww"', b'{"subreddit":"nfl', b'{"subreddit":"aww', b"\xff\xfe", b"{}\r",
     b'{"subreddit":"nfl"}', b'{"\\u0073ubreddit":"nfl","id":"e1","created_utc":1704067209}', b'{"a":"subreddit"}', b"[" * 3000]
)  # fmt: skip
line_lists = st.lists(st.one_of(records(), records(), records(), odd_lines), max_size=12)
endings = st.sampled_from([b"\n", b"\r\n"])


@pytest.mark.parametrize("everything", [False, True])
@pytest.mark.parametrize("kind", ["comments", "submissions"])
def test_any_record_shape(kind: str, everything: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(source, "OUTPUT", 61)  # blocks end inside lines, keys and characters
    monkeypatch.setattr(Sieve, "refuse_other_kind", lambda *_, **__: None)  # a handful of shapes proves no kind

    @hypothesis_settings(max_examples=50, deadline=None, suppress_health_check=list(HealthCheck))
    @given(lines=line_lists, ending=endings, cuts=st.lists(st.integers(1, 4000), max_size=3))
    @example(lines=[], ending=b"\n", cuts=[])
    def check(lines: list[bytes], ending: bytes, cuts: list[int]) -> None:
        data = b"".join(line + ending for line in lines)
        assert_same(data, kind=kind, everything=everything, frames=tuple(cuts))

    check()


def line(**changes: Any) -> bytes:
    return json.dumps(good | changes, separators=(",", ":")).encode() + b"\n"


def test_lines_of_16_mib() -> None:
    long = line(id="long", other="x" * (1 << 24))
    data = line(id="a") + long + long.replace(b'"nfl"', b'"aww"') + line(id="b")
    for everything in (False, True):
        assert_same(data, kind="comments", everything=everything, frames=(100, 5_000_000))


def test_a_line_too_long_for_a_record_is_one_bad_record(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(lines_module, "MAX_LINE", 10_000)
    monkeypatch.setattr(source, "OUTPUT", 1_000)
    found = built(line(id="a") + line(id="l", other="x" * 50_000) + line(id="b"), kind="comments", everything=True)
    assert found.dropped == {"bad_record": 1}
    assert [row["id"] for row in found.rows] == ["a", "b"]


def test_an_append_of_the_month_to_itself_changes_only_the_duplicates() -> None:
    data = b"".join(line(id=f"x{n}", score=n % 9, created_utc=START + n * 977 % 2_000_000) for n in range(500))
    once = built(data, kind="comments", everything=False)
    twice = built(data + data, kind="comments", everything=False)
    assert twice.dropped == once.dropped | {"duplicate": 500}
    drop = [{k: v for k, v in row.items() if k != "dump_sha256"} for row in once.rows]
    assert drop == [{k: v for k, v in row.items() if k != "dump_sha256"} for row in twice.rows]


def test_the_schema_of_an_empty_month() -> None:
    with tempfile.TemporaryDirectory() as folder:
        store = open_store(folder)
        dump = Path(folder) / "RC_2024-01.zst"
        dump.write_bytes(zstandard.compress(b""))
        build(store, load(data_root=folder), month=MONTH, kind="comments", dump=dump)
        frame = read_table(store.partition("comments", MONTH).require(), BY_KIND["comments"])
        assert frame.schema == pl.Schema(BY_KIND["comments"].polars)
        assert frame.height == 0
