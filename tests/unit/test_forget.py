"""Take-downs: no byte of a forgotten text is left, nothing brings it back, old audits say what they no longer know."""

import json
import os
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import lancedb
import numpy as np
import polars as pl
import pytest
import zstandard

from hindcast_dagster.archive.build import build_comments, build_submissions
from hindcast_dagster.archive.open import open_archive
from hindcast_dagster.cli import main
from hindcast_dagster.corpus import build as corpus
from hindcast_dagster.corpus import ledger
from hindcast_dagster.corpus.sieve import Sieve
from hindcast_dagster.errors import NotReady
from hindcast_dagster.forecast import records, replay
from hindcast_dagster.forecast.run import build as forecast
from hindcast_dagster.leakage import audit, detective
from hindcast_dagster.operation import redact
from hindcast_dagster.operation.forget import forget
from hindcast_dagster.report import build as report
from hindcast_dagster.scoring import build as scoring
from hindcast_dagster.scoring import compare
from hindcast_dagster.settings import Settings, load
from hindcast_dagster.storage import forgotten
from hindcast_dagster.storage.journal import Journal
from hindcast_dagster.storage.store import Store, open_store
from tests import archive_world
from tests.forecast_world import DAY, T0, Script, question, seal_eval_set

MONTH = "2025-02"
SECRET = "Xyzzyplugh"  # in every text that has to go
GONE = {"t3_gone1", "t1_gone2", "t3_gone3"}  # a post, a comment, and a post that the filters dropped


def post(name: str, at: int, text: str, **values: object) -> dict[str, object]:
    base = {
        "id": name, "author": "somebody", "subreddit": "news", "created_utc": at, "retrieved_utc": at + 2 * DAY,
        "score": 50, "num_comments": 9, "title": "Zorba Corp rocket launch news", "over_18": False,
        "selftext": f"{text} Zorba Corp confirmed the launch of a rocket, said people who were there and saw it with "
        "their own eyes before they went home.",
    }  # fmt: skip
    return base | values


def comment(name: str, at: int, text: str) -> dict[str, object]:
    words = post(name, at, text)
    body = words.pop("selftext")
    for key in ("title", "num_comments"):
        words.pop(key)
    return words | {"body": body, "link_id": "t3_p1", "parent_id": "t3_p1"}


def write_dumps(folder: Path) -> dict[str, Path]:
    start = T0 - 27 * DAY
    posts = [post(f"p{n}", start + n * DAY, "Quiet words.") for n in range(20)]
    posts += [
        post("gone1", T0 - 3 * DAY, f"{SECRET} post."),
        post("gone3", T0 - 4 * DAY, f"{SECRET} dropped.", score=1),
        post("cross", T0 - 4 * DAY, "A crosspost.", score=1, crosspost_parent_list=[post("gone1", T0, SECRET)]),
        post("other", T0 - 4 * DAY, "Elsewhere.", subreddit="nobody_keeps_this"),
    ]
    comments = [comment(f"c{n}", start + n * DAY, "Calm words.") for n in range(10)]
    comments += [comment("gone2", T0 - 2 * DAY, f"{SECRET} comment.")]
    folder.mkdir(parents=True, exist_ok=True)
    made = {}
    for kind, name, rows in (("submissions", "RS", posts), ("comments", "RC", comments)):
        made[kind] = folder / f"{name}_{MONTH}.ndjson"
        made[kind].write_text("".join(json.dumps(row) + "\n" for row in rows))
    return made


def build_month(store: Store, settings: Settings, dumps: dict[str, Path]) -> None:
    for kind, path in dumps.items():
        corpus.build(store, settings, month=MONTH, kind=kind, dump=path)
    build_submissions(store, settings, month=MONTH, accept_hollow=True)
    build_comments(store, settings, month=MONTH, accept_hollow=True)


def quoting(prompt: str) -> str:
    """A model that repeats what it read."""
    return json.dumps({"choice": "Yes", "prob_yes": 0.8, "confidence": 0.7, "reasoning": f"They say {SECRET}."})


@pytest.fixture
def world(store: Store, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> tuple[Store, Settings, dict[str, Path]]:
    """A month with its indexes, and an eval set that pins them and was forecast by a model that quotes."""
    archive_world.use(monkeypatch, archive_world.ToyEmbedder())
    settings = load(data_root=str(store.root))
    dumps = write_dumps(tmp_path / "elsewhere")
    build_month(store, settings, dumps)
    pins = open_archive(store, settings).pins
    seal_eval_set(store, [question(n) for n in (1, 2)], pins=pins)
    chat = Script({"forecast": quoting, "summary": f"Key facts\n- {SECRET} [t3_gone1]"})
    forecast(store, settings, arm="retrieval", model="m", eval_set="small", runs=1, chat=chat)
    return store, settings, dumps


def texts(path: Path) -> Iterator[bytes]:
    """Everything that a file holds, unpacked."""
    data = path.read_bytes()
    yield data
    if path.suffix == ".parquet":
        yield json.dumps(pl.read_parquet(path).to_dicts(), default=str).encode()
    if path.suffix == ".zst":
        yield zstandard.ZstdDecompressor().stream_reader(data).read()


def where(store: Store, word: str) -> set[str]:
    """The top folders (and table) under the root in which a word lies, in any version of any format."""
    found = set()
    for path in store.root.rglob("*"):
        if path.is_file() and any(word.encode() in data for data in texts(path)):
            found.add("/".join(path.relative_to(store.root).parts[:2]))
    for folder in store.root.rglob("rows.lance"):
        table = lancedb.connect(folder.parent).open_table("rows")
        for version in table.list_versions():
            table.checkout(version["version"])
            if word in json.dumps(
                table.to_arrow().drop_columns(["vector"] * ("vector" in table.schema.names)).to_pylist()
            ):
                found.add("/".join(folder.relative_to(store.root).parts[:2]))
    return found


def vectors(store: Store) -> list[np.ndarray]:
    return [np.load(path) for path in store.root.rglob("float32.npy")]


def holds_vector(store: Store, text: str) -> bool:
    unit = archive_world.unit(text)
    return any(bool((np.abs(each - unit).max(axis=1) < 1e-6).any()) for each in vectors(store) if len(each))


def test_no_byte_of_the_text_is_left_anywhere(world: tuple[Store, Settings, dict[str, Path]]) -> None:
    store, settings, dumps = world
    embedded = "Zorba Corp rocket launch news\n" + str(
        json.loads(dumps["submissions"].read_text().splitlines()[20])["selftext"]
    )
    places = {"tables/submissions", "tables/comments", "tables/submission_index", "tables/comment_index",
              "journal/retrieval_forecasts", "ledgers/submissions"}  # fmt: skip
    assert where(store, SECRET) == places  # the search itself finds what is there
    assert holds_vector(store, embedded)
    account = forget(store, settings, GONE)
    assert where(store, SECRET) == set()
    assert not holds_vector(store, embedded)
    assert not account.failed
    assert account.new == 3
    assert account.unknown == 1  # the filters had dropped it
    assert account.rejected_lines == 2  # it, and a crosspost that nested a forgotten one
    assert account.journal_units == 2
    assert account.dumps == []  # they lay elsewhere
    assert "gone" not in store.area("forgotten", "record.jsonl").read_text()


def test_a_later_build_drops_them_again_and_seals_the_same(world: tuple[Store, Settings, dict[str, Path]]) -> None:
    store, settings, dumps = world
    forget(store, settings, GONE)
    names = [("submissions", MONTH), ("comments", MONTH), ("submission_index", MONTH), ("comment_index", MONTH)]
    before = [store.partition(*name).require().manifest for name in names]
    embedder = archive_world.ToyEmbedder()
    build_month(store, settings, dumps)
    after = [store.partition(*name).require().manifest for name in names]
    assert [each.without_time() for each in after] == [each.without_time() for each in before]
    assert embedder.embedded == 0
    assert ledger.read(store, MONTH, "submissions").dropped["forgotten"] == 1
    assert where(store, SECRET) == set()


def test_a_fresh_root_with_the_record_never_lets_them_in(
    world: tuple[Store, Settings, dict[str, Path]], tmp_path: Path
) -> None:
    store, settings, _ = world
    forget(store, settings, GONE)
    other = open_store(tmp_path / "other")
    shutil.copytree(store.area("forgotten"), other.area("forgotten"))
    write_dumps(other.area("dumps"))
    for kind in ("submissions", "comments"):
        corpus.build(other, load(data_root=str(other.root)), month=MONTH, kind=kind)
    assert where(other, SECRET) == {f"dumps/{name}_{MONTH}.ndjson" for name in ("RS", "RC")}
    account = forget(other, settings, [])
    assert len(account.dumps) == 2  # named, because the text is still in them


def test_a_second_time_changes_nothing_and_a_dry_run_neither(world: tuple[Store, Settings, dict[str, Path]]) -> None:
    store, settings, _ = world

    def state() -> dict[str, bytes]:
        return {str(path): path.read_bytes() for path in store.root.rglob("*") if path.is_file()}

    before = state()
    told = forget(store, settings, GONE, dry_run=True)
    assert state() == before
    done = forget(store, settings, GONE)
    assert (told.new, told.rows, told.journal_units) == (done.new, done.rows, done.journal_units)
    after = state()
    again = forget(store, settings, GONE)
    assert (again.new, sum(again.rows.values()), again.journal_units, again.partitions) == (0, 0, 0, [])
    assert state() == after


def test_the_pinned_archive_still_opens_and_forecasts_go_on(world: tuple[Store, Settings, dict[str, Path]]) -> None:
    store, settings, _ = world
    forget(store, settings, GONE)
    chat = Script()
    manifest = forecast(store, settings, arm="retrieval", model="m", eval_set="small", runs=2, chat=chat)
    assert manifest.rows == 4
    assert manifest.stats["missing"] == 0
    later = [each for each in records.traces(store, "small") if each.run == 2]
    assert later
    assert not any(GONE & each.forecast.trace.documents() for each in later)
    assert len({each.identity.archive_snapshot for each in records.traces(store, "small")}) == 1


class TestAudit:
    def test_a_forgotten_document_is_told_and_is_no_violation(
        self, world: tuple[Store, Settings, dict[str, Path]]
    ) -> None:
        store, settings, _ = world
        before = audit.build(store, settings, eval_set="small")
        assert before.stats["clean"]
        assert before.stats["forgotten"]["documents"] == 0
        forget(store, settings, GONE)
        document = audit.report(store, "small")  # made again by the take-down itself
        assert document["clean"]
        assert document["forgotten"]["documents"] >= 1
        assert document["forgotten"]["forecasts"] == 2
        assert document["forgotten"]["unproved"] == 0
        check = store.partition("leak_audit", "small").require().manifest.checks[0]
        assert "forgotten since" in check.detail

    def test_forgetting_hides_no_leak(self, world: tuple[Store, Settings, dict[str, Path]]) -> None:
        store, settings, _ = world
        for path in store.area("journal", "retrieval_forecasts", "m", "small").glob("*.json"):
            values = json.loads(path.read_text())
            for step in values["steps"]:
                for seen in step["seen"]:
                    if seen[0] == "t3_gone1":
                        step["seen"].append(["t3_late", *seen[1:]])
                        break
            path.write_text(json.dumps(values))
        forgotten.add(store, {"t3_late": forgotten.Instants(T0 + DAY, T0 + DAY, None)})
        found = audit.build(store, settings, eval_set="small")
        assert not found.stats["clean"]
        assert "created_after_t0" in found.stats["by_kind"]

    def test_without_instants_nothing_is_vouched_for(self, world: tuple[Store, Settings, dict[str, Path]]) -> None:
        store, settings, _ = world
        (path, *_) = store.area("journal", "retrieval_forecasts", "m", "small").glob("*.json")
        values = json.loads(path.read_text())
        step = next(step for step in values["steps"] if step["seen"])
        step["seen"].append(["t3_elsewhere", *step["seen"][0][1:]])
        path.write_text(json.dumps(values))
        assert "unknown_document" in audit.build(store, settings, eval_set="small").stats["by_kind"]
        forgotten.add(store, {"t3_elsewhere": None})
        found = audit.build(store, settings, eval_set="small").stats
        assert "unknown_document" not in found["by_kind"]
        assert found["forgotten"]["unproved"] == 1


def test_reports_are_made_again_without_the_quote(world: tuple[Store, Settings, dict[str, Path]]) -> None:
    store, settings, _ = world
    scoring.build_scored(store, settings, eval_set="small")
    scoring.build_tables(store, settings, eval_set="small")
    compare.build(store, settings, eval_set="small")
    audit.build(store, settings, eval_set="small")
    report.build(store, settings, eval_set="small")
    assert {"tables/report", "reports/small"} <= where(store, SECRET)
    account = forget(store, settings, GONE)
    assert account.reports == ["small"]
    assert where(store, SECRET) == set()
    assert report.path_of(store, "small").is_file()
    assert "forgotten since" in report.path_of(store, "small").read_text()


def test_nothing_is_removed_while_forecasts_are_made(world: tuple[Store, Settings, dict[str, Path]]) -> None:
    from filelock import FileLock

    store, settings, _ = world
    with (
        FileLock(store.area("journal", "retrieval_forecasts", "m", "small", ".lock")),
        pytest.raises(NotReady, match="retrieval_forecasts/m/small"),
    ):
        forget(store, settings, GONE)
    assert forget(store, settings, []).journal_units == 2  # the record was written first: the next call ends the work


def test_a_build_that_began_before_does_not_seal_what_was_forgotten_meanwhile(
    world: tuple[Store, Settings, dict[str, Path]], monkeypatch: pytest.MonkeyPatch
) -> None:
    store, settings, dumps = world
    forget(store, settings, ["t3_gone1"])

    judged = Sieve.refuse_other_kind

    def meanwhile(self: Sieve, *, enough: int) -> None:
        forgotten.add(store, {"t1_gone2": None})
        judged(self, enough=enough)

    monkeypatch.setattr(Sieve, "refuse_other_kind", meanwhile)
    with pytest.raises(NotReady, match="forgotten while"):
        corpus.build(store, settings, month=MONTH, kind="comments", dump=dumps["comments"])


KILLED = """
import sys, time
from tests import archive_world
from hindcast_dagster.operation import forget as takedown
from hindcast_dagster.settings import load
from hindcast_dagster.storage.store import Partition, open_store
import hindcast_dagster.storage.store as store_module

root, point = sys.argv[1:3]
def stop(name):
    if name == point:
        open(root + "/../reached", "w").close()
        time.sleep(600)
plain = {name: getattr(Partition, name) for name in ("_publish", "rewrite", "drop_versions", "_settle")}
for name, original in plain.items():
    def wrapped(self, *given, _name=name, _original=original, **named):
        stop("before" + _name + self.table)
        result = _original(self, *given, **named)
        stop("after" + _name + self.table)
        return result
    setattr(Partition, name, wrapped)
redact = takedown.redact.redact
def redacted(unit):
    redact(unit)
    stop("redact")
takedown.redact.redact = redacted
takedown.forget(open_store(root), load(data_root=root), sys.argv[3:])
"""


@pytest.mark.slow
@pytest.mark.parametrize(
    "point",
    ["redact", "before_publishsubmissions", "after_publishsubmissions", "after_publishsubmission_index",
     "before_settlesubmission_index", "afterdrop_versionscomments"],
)  # fmt: skip
def test_killed_at_any_point_the_next_call_ends_the_work(
    world: tuple[Store, Settings, dict[str, Path]], tmp_path: Path, point: str
) -> None:
    store, settings, _ = world
    command = [sys.executable, "-c", KILLED, str(store.root), point, *sorted(GONE)]
    root = Path(__file__).resolve().parents[2]
    process = subprocess.Popen(command, cwd=root, env={**os.environ, "PYTHONPATH": str(root)})
    deadline = time.monotonic() + 120
    while not (tmp_path / "reached").exists() and process.poll() is None and time.monotonic() < deadline:
        time.sleep(0.05)
    assert (tmp_path / "reached").exists()
    process.send_signal(signal.SIGKILL)
    process.wait()
    forget(store, settings, [])  # not even the ids are needed again
    assert where(store, SECRET) == set()
    assert forget(store, settings, GONE).partitions == []


class TestJournals:
    """Whatever saw a forgotten document loses what may quote it, in every journal, and keeps its numbers."""

    def forecast_file(self, store: Store) -> Path:
        return min(store.area("journal", "retrieval_forecasts", "m", "small").glob("*.json"))

    def test_probes_detectives_controls_and_superseded_forecasts(
        self, world: tuple[Store, Settings, dict[str, Path]]
    ) -> None:
        store, settings, _ = world
        forecast_file = self.forecast_file(store)
        for place in (("retrieval_forecasts", "m", "small", "superseded"), ("leak_controls", "unsealed", "m", "small")):
            store.area("journal", *place).mkdir(parents=True)
            shutil.copy(forecast_file, store.area("journal", *place, forecast_file.name))
        finding = {"yes": {}, "no": {}, "contrast": 0.5, "evidence_quality": "weak", "queries": {"yes": ["rockets"]},
                   "blocks": [["t3_gone1", T0, "strong", None]], "economics": {"calls": 3}, "replies": [f"{SECRET}!"]}  # fmt: skip
        other = {**finding, "blocks": [["t3_p1", T0, "strong", None]], "replies": ["another reply"]}
        reply = json.dumps({"later_knowledge": "yes", "why": SECRET})
        notes = [
            {"kind": "document", "item": "t1_gone2", "reply": reply, "question": "q"},
            {"kind": "rationale", "item": forecast_file.stem, "reply": reply, "question": "q"},
            {"kind": "document", "item": "t3_p1", "reply": "kept", "question": "q"},
        ]
        written = [("coverage_probe", "2025-03", {"identity": {}, "finding": finding}),
                   ("coverage_probe", "2025-03", {"identity": {}, "finding": other}),
                   *(("leak_detective", "m", note) for note in notes)]  # fmt: skip
        for number, (table, key, record) in enumerate(written):
            Journal(store, table, key).write(f"{number:064x}", record)
        assert where(store, SECRET) >= {"journal/coverage_probe", "journal/leak_detective", "journal/leak_controls"}
        account = forget(store, settings, GONE)
        assert where(store, SECRET) == set()
        assert account.journal_units == 2 + 2 + 1 + 2
        read = [Journal(store, table, key).read(f"{number:064x}") for number, (table, key, _) in enumerate(written)]
        assert read[0]["finding"]["economics"] == {"calls": 3}
        assert read[0]["finding"]["queries"] == {"yes": ["rockets"]}  # asked before anything was read
        assert read[1]["finding"]["replies"] == ["another reply"]
        assert [detective.verdict(each["reply"]) for each in read[2:4]] == ["yes", "yes"]
        assert read[4]["reply"] == "kept"

    def test_numbers_identity_and_what_was_seen_stay(self, world: tuple[Store, Settings, dict[str, Path]]) -> None:
        store, settings, _ = world
        before = {record.forecast_id: record for record in records.traces(store, "small")}
        forget(store, settings, GONE)
        after = {record.forecast_id: record for record in records.traces(store, "small")}
        assert after.keys() == before.keys()
        for name, record in after.items():
            assert record.forecast.prob_yes == before[name].forecast.prob_yes
            assert record.forecast.trace.documents() == before[name].forecast.trace.documents()
            assert record.message_hashes == before[name].message_hashes
            assert record.forecast.rationale == ""
            calls = [step.detail for step in record.steps if step.kind == "call"]
            assert all("reply" not in call and call["tokens_out"] > 0 for call in calls)

    def test_a_replay_says_that_the_reply_is_gone(self, world: tuple[Store, Settings, dict[str, Path]]) -> None:
        store, settings, _ = world
        forget(store, settings, GONE)
        with pytest.raises(replay.Diverged, match="forgotten"):
            replay.of_stored(
                store,
                settings,
                arm="retrieval",
                model="m",
                eval_set="small",
                question=question(1),
                run=1,
                chat=Script(),
            )

    def test_numbers_are_what_is_left_of_anything(self) -> None:
        value = {"a": 1, "b": "text", "c": [True, "text", {"d": 0.5, "e": None}], "f": {"g": "text"}}
        assert redact.numbers(value) == {"a": 1, "c": [True, {"d": 0.5}], "f": {}}


class TestCommand:
    def run(self, capsys: pytest.CaptureFixture[str], *words: str) -> tuple[int, dict]:
        with pytest.raises(SystemExit) as ended:
            main.run([*words, "--json"])
        return int(ended.value.code or 0), json.loads(capsys.readouterr().out)

    def test_ids_come_from_a_file(
        self, world: tuple[Store, Settings, dict[str, Path]], tmp_path: Path, capsys: pytest.CaptureFixture[str]
    ) -> None:
        store, _, _ = world
        ids = tmp_path / "ids.txt"
        ids.write_text("# asked on 2026-11-30\nt3_gone1\n\nt1_gone2  # and this one\nt3_gone3\n")
        code, document = self.run(capsys, "forget", "--ids", str(ids), "--data-root", str(store.root))
        assert code == 0
        assert document["asked"] == document["new"] == 3
        assert where(store, SECRET) == set()

    @pytest.mark.parametrize("line", ["gone1", "t3_", "t5_abc", "t3_../x", "https://example.org/t3_gone1"])
    def test_what_is_no_id_is_named_with_its_line(
        self, store: Store, tmp_path: Path, capsys: pytest.CaptureFixture[str], line: str
    ) -> None:
        ids = tmp_path / "ids.txt"
        ids.write_text(f"t3_fine\n{line}\n")
        code, document = self.run(capsys, "forget", "--ids", str(ids), "--data-root", str(store.root))
        assert code == 2
        assert "line 2" in document["error"]["message"]
        assert not store.area("forgotten").exists()

    def test_one_broken_month_does_not_hold_up_the_others(
        self, world: tuple[Store, Settings, dict[str, Path]], tmp_path: Path, capsys: pytest.CaptureFixture[str]
    ) -> None:
        store, _, _ = world
        shutil.copytree(store.partition("comments", MONTH).path, store.partition("comments", "2025-01").path)
        (store.partition("comments", "2025-01").path / "manifest.json").write_text("{")
        ids = tmp_path / "ids.txt"
        ids.write_text("\n".join(GONE))
        code, document = self.run(capsys, "forget", "--ids", str(ids), "--data-root", str(store.root))
        assert code == 4
        assert [said[:16] for said in document["failed"]] == ["comments 2025-01"]
        assert where(store, SECRET) == {"tables/comments"}
