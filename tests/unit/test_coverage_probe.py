"""The probe over a toy archive and sealed markets: cutoffs, blindness to outcomes, merging, resume, identity."""

import asyncio
from dataclasses import fields

import pytest

from hindcast_dagster.clock import DAY, Cutoff, T0Policy, instant
from hindcast_dagster.contracts.coverage import COVERAGE
from hindcast_dagster.contracts.markets import MARKETS
from hindcast_dagster.coverage import probe
from hindcast_dagster.coverage.cue_judge import CueJudge
from hindcast_dagster.coverage.judge import Block, Finding, Judge
from hindcast_dagster.coverage.rows import resolved_contrast
from hindcast_dagster.errors import InputRefused, Unreachable, UsageError
from hindcast_dagster.evidence.labels import Tallies, Tally
from hindcast_dagster.llm.purse import Purse
from hindcast_dagster.llm.roster import Price
from hindcast_dagster.settings import Coverage, load
from hindcast_dagster.storage.journal import Journal
from hindcast_dagster.storage.store import NotSealed
from hindcast_dagster.storage.tables import publish_table, read_table
from tests.toy_archive import ToyArchive, document

MONTH = "2025-03"
CLOSE = instant("2025-03-20T15:00:00Z")


def market(number, question, outcome="Yes", **values):
    base = {
        "market_id": f"0x{number:064x}", "gamma_id": None, "slug": None, "question": question, "rules": "As reported.",
        "addenda": "", "rules_sha256": "0" * 64, "event_id": None, "series": None, "tags": [], "topic": "Sports",
        "neg_risk": False, "yes_token": None, "no_token": None, "open_at": CLOSE - 20 * DAY, "planned_close": CLOSE,
        "close_at": CLOSE, "early_resolved": False, "outcome": outcome, "excluded": None if outcome else "void_50_50",
        "volume": None, "fetched_at": CLOSE + DAY, "raw_sha256": "0" * 64,
    }  # fmt: skip
    return base | values


def seal(store, *found, month=MONTH):
    publish_table(store.partition("markets", month), MARKETS.frame(list(found)), MARKETS, code_version="1")


MARKETS_OF_MONTH = (
    market(1, "Will Ferrowen win the Larkspur Cup?"),
    market(2, "Will Tessaly Vantor resign as mayor of Quillhaven?", "No"),
    market(3, "Will the Obrin bridge open?", "No"),
    market(4, "Will Nobody be asked?", None),
)
POSTS = (
    document("a1", "2025-03-18", "Ferrowen secured the Larkspur Cup, it was confirmed.", title="Ferrowen wins"),
    document("a2", "2025-03-19", "Official: Ferrowen clinched the Larkspur Cup.", title="Larkspur Cup: Ferrowen"),
    document("b1", "2025-03-18", "Vantor denied it and ruled out a resignation.", title="Tessaly Vantor stays"),
    document("b2", "2025-03-18", "Mayor Tessaly Vantor rejected calls to resign.", title="Quillhaven mayor Vantor"),
    document("z9", CLOSE, "Vantor resigned, officially confirmed.", title="Tessaly Vantor resigned as mayor"),
)


@pytest.fixture
def world(store):
    seal(store, *MARKETS_OF_MONTH)
    return ToyArchive(POSTS)


def rows(store, month=MONTH):
    frame = read_table(store.partition("coverage_probe", month).require(), COVERAGE)
    return {(row["market_id"][-1], row["as_of"], row["judge"]): row for row in frame.iter_rows(named=True)}


def test_evidence_count_reads_both_sides_as_of_the_close(store, settings, world):
    manifest = probe.build(store, settings, month=MONTH, judge="evidence_count", archive=world)
    found = rows(store)
    assert {key[0] for key in found} == {"1", "2", "3"}
    cup, mayor, bridge = (found[number, "close", "evidence_count"] for number in "123")
    assert cup["at"] == CLOSE
    assert (cup["yes_strong"], cup["no_contra"], cup["evidence_quality"]) == (2, 2, "strong")
    assert cup["contrast"] == cup["resolved_contrast"] > 0
    assert (mayor["no_strong"], mayor["yes_strong"]) == (2, 0), "the post at the second of the close is not seen"
    assert mayor["contrast"] < 0 < mayor["resolved_contrast"]
    assert (bridge["contrast"], bridge["evidence_quality"]) == (0.0, "none")
    account = manifest.stats["probes"]["evidence_count/close"]
    assert account["excluded"] == {"void_50_50": 1}
    assert account["quality"] == {"none": 1, "strong": 2}
    assert account["settings"]["queries_per_side"] == 5


def test_score_is_two_strong_plus_weak_minus_contra(store, settings, world):
    probe.build(store, settings, month=MONTH, judge="evidence_count", archive=world)
    for row in rows(store).values():
        for side in ("yes", "no"):
            assert row[f"{side}_score"] == 2 * row[f"{side}_strong"] + row[f"{side}_weak"] - row[f"{side}_contra"]


def test_as_of_t0_stands_where_a_forecaster_stands(store, settings, world):
    probe.build(store, settings, month=MONTH, judge="evidence_count", archive=world)
    probe.build(store, settings, month=MONTH, judge="evidence_count", as_of="t0", archive=world)
    found = rows(store)
    assert len(found) == 6, "both stand side by side"
    early = found["1", "t0", "evidence_count"]
    assert early["at"] == instant("2025-03-19")
    assert early["yes_strong"] == 1, "the post of t0's own second is not seen"
    probe.build(
        store, settings, month=MONTH, judge="evidence_count", as_of="t0", archive=world,
        policy=T0Policy.parse("days_before:5"), archive_end="2025-03-10",
    )  # fmt: skip
    assert rows(store)["1", "t0", "evidence_count"]["at"] == instant("2025-03-10")


def test_t0_of_an_eval_set_wins_over_the_policy(store, settings, world):
    name = MARKETS_OF_MONTH[0]["market_id"]
    at = {name: Cutoff.of("2025-03-12")}
    manifest = probe.build(
        store, settings, month=MONTH, judge="evidence_count", as_of="t0", at=at, market_ids={name}, archive=world
    )
    assert rows(store)["1", "t0", "evidence_count"]["at"] == instant("2025-03-12")
    assert manifest.rows == 1


class Scripted:
    """A judge that answers from a table, keeps count of what it saw, and can break."""

    version = "v1"

    def __init__(self, name="scripted", breaks=()):
        self.name, self.breaks, self.asked = name, set(breaks), []

    async def read(self, question, view):
        self.asked.append((question, view.cutoff))
        if question.id[-1] in self.breaks:
            raise Unreachable("the model is away")
        tally = Tally(strong=2)
        return Finding(
            Tallies(tally, Tally(contra=1, unlabelled=3)), 0.5, "strong", {"yes": ["q"], "no": []},
            (Block("t3_a1", 1, "strong", None),), {"calls": 2, "tokens_in": 10}, ("raw",),
        )  # fmt: skip

    async def close(self):
        raise AssertionError("a judge that the caller opened is the caller's to close")


def test_judge_sees_no_outcome(store, settings, world):
    judge = Scripted()
    assert isinstance(judge, Judge)
    probe.build(store, settings, month=MONTH, judge=judge, archive=world)
    for question, _ in judge.asked:
        assert not {"outcome", "close_at"} & {field.name for field in fields(question)}
        assert question.price_at_t0 is None
    flipped = [row | {"outcome": {"Yes": "No", "No": "Yes", None: None}[row["outcome"]]} for row in MARKETS_OF_MONTH]
    before = {key: row["resolved_contrast"] for key, row in rows(store).items()}
    seal(store, *flipped)
    again = Scripted()
    probe.build(store, settings, month=MONTH, judge=again, archive=world)
    assert again.asked == [], "a revised outcome asks nothing anew"
    assert {key: row["resolved_contrast"] for key, row in rows(store).items()} == {
        key: -value for key, value in before.items()
    }


@pytest.mark.parametrize(("outcome", "turned"), [("Yes", -0.4), ("No", 0.4)])
def test_contrast_is_turned_towards_the_resolved_side(outcome, turned):
    assert resolved_contrast(-0.4, outcome) == turned
    assert resolved_contrast(None, outcome) is None


def test_killed_and_resumed_probing_repeats_no_call(store, settings, world):
    broken = Scripted(breaks="2")
    with pytest.raises(Unreachable):
        probe.build(store, settings, month=MONTH, judge=broken, archive=world)
    assert store.partition("coverage_probe", MONTH).manifest() is None
    resumed = Scripted()
    probe.build(store, settings, month=MONTH, judge=resumed, archive=world)
    assert [question.id[-1] for question, _ in resumed.asked] == ["2"]
    assert len(rows(store)) == 3


def test_after_a_failure_nobody_who_waited_is_asked(store, settings, world):
    class Slow(Scripted):
        async def read(self, question, view):
            self.asked.append((question, view.cutoff))
            await asyncio.sleep(0.01)
            raise Unreachable("the model is away")

    broken = Slow()
    alone = settings.model_copy(update={"llm": settings.llm.model_copy(update={"concurrency": 1})})
    with pytest.raises(Unreachable):
        probe.build(store, alone, month=MONTH, judge=broken, archive=world)
    assert [question.id[-1] for question, _ in broken.asked] == ["1"]


def test_the_money_limit_is_kept_over_months_and_the_rest_is_said_to_be_unprobed(store, settings, world):
    dollar = Price(tokens_in=1_000_000 / 15, tokens_out=0)  # a probe of the scripted judge reads 10 tokens: $0.67
    purse = Purse(dollar, limit=1.5, estimate=0.7)
    first = Scripted()
    manifest = probe.build(store, settings, month=MONTH, judge=first, archive=world, purse=purse)
    assert (len(first.asked), len(rows(store))) == (2, 2)
    assert manifest.stats["probes"]["scripted/close"]["unprobed"] == 1
    assert 1.3 < purse.spent <= 1.5
    rest = Scripted()
    again = probe.build(store, settings, month=MONTH, judge=rest, archive=world, purse=Purse(dollar, 10, 0.7))
    assert (len(rest.asked), len(rows(store))) == (1, 3)
    assert again.stats["probes"]["scripted/close"]["unprobed"] == 0


def test_two_builds_give_the_same_manifest(store, settings, world):
    first = probe.build(store, settings, month=MONTH, judge=Scripted(), archive=world)
    assert probe.build(store, settings, month=MONTH, judge=Scripted(), archive=world).without_time() == (
        first.without_time()
    )
    account = first.stats["probes"]["scripted/close"]
    assert account["economics"] == {"calls": 6, "tokens_in": 30}
    assert (account["blocks"], account["unlabelled"]) == (18, 9)


def test_another_judge_adds_rows_and_a_new_version_replaces_its_own(store, settings, world):
    probe.build(store, settings, month=MONTH, judge=Scripted(), archive=world)
    probe.build(store, settings, month=MONTH, judge=Scripted("other"), archive=world)
    newer = Scripted()
    newer.version = "v2"
    name = MARKETS_OF_MONTH[0]["market_id"]
    manifest = probe.build(store, settings, month=MONTH, judge=newer, archive=world, market_ids={name})
    found = rows(store)
    assert {key[0] for key in found if key[2] == "scripted"} == {"1"}, "no column mixes two versions"
    assert {key[0] for key in found if key[2] == "other"} == {"1", "2", "3"}
    assert set(manifest.stats["probes"]) == {"other/close", "scripted/close"}


def test_a_later_archive_month_probes_nothing_anew(store, settings, world):
    publish = {"rows": 0, "schema_version": "x/1", "code_version": "1"}
    with store.partition("submission_index", MONTH).draft() as draft:
        draft.seal(**publish, identity={"a": "1"})
    probe.build(store, settings, month=MONTH, judge=Scripted(), archive=world)
    with store.partition("submission_index", "2025-04").draft() as draft:
        draft.seal(**publish, identity={"b": "1"})
    later = ToyArchive([*POSTS, document("n1", "2025-04-02")])
    quiet = Scripted()
    manifest = probe.build(store, settings, month=MONTH, judge=quiet, archive=later)
    assert quiet.asked == []
    assert ("submission_index", (MONTH,)) in {(part.table, part.key) for part in manifest.inputs}
    with store.partition("submission_index", MONTH).draft() as draft:
        draft.seal(**publish, identity={"a": "2"})
    probe.build(store, settings, month=MONTH, judge=quiet, archive=later)
    assert len(quiet.asked) == 3, "a rebuilt month does"


def test_another_archive_mode_probes_anew(store, settings, world):
    probe.build(store, settings, month=MONTH, judge=Scripted(), archive=world)
    paper = load(data_root=str(store.root), archive={"mode": "paper"})
    judge = Scripted()
    manifest = probe.build(store, paper, month=MONTH, judge=judge, archive=world)
    assert len(judge.asked) == 3, "paper mode shows texts that strict mode hides"
    assert manifest.stats["probes"]["scripted/close"]["archive_mode"] == "paper/withhold"


def test_what_is_refused(store, settings, world):
    with pytest.raises(NotSealed, match="hindcast markets fetch"):
        probe.build(store, settings, month="2024-01", judge="evidence_count", archive=world)
    with pytest.raises(UsageError, match="close or at t0"):
        probe.build(store, settings, month=MONTH, judge="evidence_count", as_of="now", archive=world)
    with pytest.raises(InputRefused, match="contrast"):
        Finding(Tallies(Tally(), Tally()), 1.5, None, {}, ())
    with pytest.raises(InputRefused, match="damaged"):
        Finding.of_record({"yes": {}})


def test_a_month_without_resolved_markets_is_sealed_and_empty(store, settings, world):
    seal(store, MARKETS_OF_MONTH[3])
    manifest = probe.build(store, settings, month=MONTH, judge="evidence_count", archive=world)
    assert manifest.rows == 0


def test_every_block_that_was_read_existed_before_the_cutoff(store, settings, world):
    probe.build(store, settings, month=MONTH, judge="evidence_count", archive=world)
    for _, record in Journal(store, "coverage_probe", MONTH).records():
        finding = Finding.of_record(record["finding"])
        assert finding.as_record() == record["finding"]
        assert all(block.created_at < record["identity"]["at"] for block in finding.blocks)


def test_version_follows_the_settings():
    assert CueJudge(Coverage()).version != CueJudge(Coverage(hits_per_query=6)).version


def test_progress_counts_every_market(store, settings, world):
    said = []
    probe.build(
        store, settings, month=MONTH, judge=Scripted(), archive=world, progress=lambda *words: said.append(words[:2])
    )
    assert said == [(1, 3), (2, 3), (3, 3)]
