"""Building eval sets: t0, price, exclusions, base rates, pins, immutability, vintages, moving them."""

import json
import re
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import polars as pl
import pytest
from hypothesis import given
from hypothesis import settings as hypothesis_settings
from hypothesis import strategies as st

from hindcast_dagster.clock import DAY, HOUR, Cutoff, T0Policy, iso
from hindcast_dagster.contracts.coverage import COVERAGE
from hindcast_dagster.contracts.markets import PRICES
from hindcast_dagster.contracts.questions import EVAL_SET
from hindcast_dagster.errors import InputRefused, NotReady, UsageError
from hindcast_dagster.evalset.build import build
from hindcast_dagster.evalset.portable import export, import_file
from hindcast_dagster.evalset.rates import Rates
from hindcast_dagster.forecast import records
from hindcast_dagster.forecast.run import build as forecast
from hindcast_dagster.markets.fetch import fetch
from hindcast_dagster.questions.load import load
from hindcast_dagster.questions.question import PROMPT_FIELDS, Question, ResolvedQuestion
from hindcast_dagster.settings import Settings
from hindcast_dagster.storage.manifest import Manifest
from hindcast_dagster.storage.store import Store, open_store
from hindcast_dagster.storage.tables import publish_table, read_table
from tests.forecast_world import Script
from tests.toy_archive import ToyArchive, document
from tests.toy_polymarket import JAN_15, ToyPolymarket, condition, daily, serving

FEB_10 = JAN_15 + 26 * DAY


@pytest.fixture
def toy() -> Iterator[ToyPolymarket]:
    with serving(ToyPolymarket()) as served:
        yield served


@pytest.fixture
def settings(toy: ToyPolymarket, store: Store) -> Settings:
    return toy.settings(store.root)


def made(
    toy: ToyPolymarket, store: Store, settings: Settings, **options: Any
) -> tuple[Manifest, list[ResolvedQuestion]]:
    """Fetch what the toy has and build the eval set `q` of it."""
    fetch(store, settings)
    manifest = build(store, settings, name="q", **({"policy": "day_before_close"} | options))
    return manifest, load(store, "q")


def archive_month(store: Store, month: str, table: str = "submission_index") -> Manifest:
    """Seal an archive month that holds nothing: an eval set only pins its version."""
    with store.partition(table, month).draft() as draft:
        (draft.path / "x").write_text(month)
        return draft.seal(rows=0, schema_version="x/1", code_version="1")


# -- t0 and the price


def test_the_day_before_close_is_a_calendar_day_and_the_same_everywhere(
    toy: ToyPolymarket, store: Store, settings: Settings
) -> None:
    """A6: close 2026-01-15T00:30Z, so t0 is 2026-01-14T00:00Z, not 24 hours before the close."""
    close = JAN_15 + 30 * 60
    toy.add(1, [(JAN_15 - DAY, 0.4), (JAN_15 - DAY + 1, 0.9)], close=close)
    _, (question,) = made(toy, store, settings)
    policy = T0Policy.parse("day_before_close").resolve(open_at=None, close_at=close)
    assert policy is not None
    row = read_table(store.partition("eval_set", "q").require(), EVAL_SET).row(0, named=True)
    assert iso(row["t0"]) == "2026-01-14T00:00:00Z"
    assert row["t0"] == question.question.t0.epoch == policy.cutoff.epoch
    assert (question.question.price_at_t0, question.price_age_s) == (0.4, 0)


@pytest.mark.parametrize(("archive_end", "t0"), [(None, JAN_15 - DAY), ("2026-01-10", JAN_15 - 5 * DAY)])
def test_retrieval_price_prompt_and_record_stand_at_one_t0(
    toy: ToyPolymarket, store: Store, settings: Settings, archive_end: str | None, t0: int
) -> None:
    """A6: close 2026-01-15T00:30Z, with and without a cap that is applied last."""
    toy.add(1, [(t0 - HOUR, 0.3), (t0, 0.4), (t0 + 1, 0.9)], close=JAN_15 + 30 * 60)
    made(toy, store, settings, archive_end=archive_end)
    posts = [
        document("before", t0 - 1, "rocket"),
        document("at", t0, "CANARY"),
        document("c", t0, "CANARY", link_id="before"),
    ]
    chat = Script()
    forecast(
        store, settings, arm="retrieval", model="scripted", eval_set="q", runs=1, chat=chat, archive=ToyArchive(posts)
    )
    row = read_table(store.partition("eval_set", "q").require(), EVAL_SET).row(0, named=True)
    (trace,) = records.traces(store, "q")
    prompts = "\n".join(message.content for _, messages, _ in chat.calls for message in messages)
    asked = {step.detail["cutoff"] for step in trace.steps if step.kind in {"search", "lookup"}}
    assert row["t0"] == trace.t0 == t0
    assert asked == set(records.all_forecasts(store, "q")["t0"]) == {t0}
    assert set(re.findall("[0-9]{4}-[0-9]{2}-[0-9]{2}T[0-9:]{8}Z", prompts)) == {iso(t0)}
    assert (row["price_at_t0"], row["t0"] - row["price_age_s"]) == (0.4, t0)
    assert trace.forecast.trace.documents() == {"t3_before"}
    assert "CANARY" not in prompts


@pytest.mark.parametrize(
    ("policy", "t0"),
    [
        ("day_before_close", JAN_15 - DAY),
        ("lookback:0.25", JAN_15 - 15 * DAY),
        ("lookback:0.5", JAN_15 - 10 * DAY),
        ("lookback:1", JAN_15 - 1),
        ("days_before:3", JAN_15 - 3 * DAY),
        ("fixed:2026-01-05", JAN_15 - 10 * DAY),
    ],
)
def test_every_policy_goes_through_the_clock(
    toy: ToyPolymarket, store: Store, settings: Settings, policy: str, t0: int
) -> None:
    toy.add(1)
    manifest, (question,) = made(toy, store, settings, policy=policy)
    assert question.question.t0.epoch == t0
    assert question.flags.count("at_close") == (policy == "lookback:1")
    assert manifest.stats["policy"] == str(T0Policy.parse(policy))


def test_archive_end_caps_every_policy_and_is_applied_last(
    toy: ToyPolymarket, store: Store, settings: Settings
) -> None:
    toy.add(1)
    toy.add(2, close=FEB_10, points=daily(FEB_10, days=40), opened=FEB_10 - 40 * DAY)
    manifest, questions = made(toy, store, settings, policy="lookback:1", archive_end="2026-01-31")
    assert [iso(each.question.t0.epoch) for each in questions] == ["2026-01-14T23:59:59Z", "2026-01-31T00:00:00Z"]
    assert [("capped" in each.flags, "at_close" in each.flags) for each in questions] == [(False, True), (True, False)]
    assert manifest.stats["capped_share"] == 0.5


def test_a_t0_that_is_not_before_the_close_is_refused_and_counted(
    toy: ToyPolymarket, store: Store, settings: Settings
) -> None:
    toy.add(1)
    toy.add(2, daily(FEB_10, days=30), close=FEB_10, opened=FEB_10 - 30 * DAY)
    manifest, questions = made(toy, store, settings, policy=f"fixed:{JAN_15 + 5 * DAY}")
    assert [each.question.id for each in questions] == [condition(2)]
    assert manifest.stats["excluded"] == {"no_t0_before_close": 1}


def test_no_price_at_or_before_t0_is_an_exclusion_and_never_one_half(
    toy: ToyPolymarket, store: Store, settings: Settings
) -> None:
    """A8: only later points."""
    toy.add(1)
    toy.add(2, [(JAN_15 - HOUR, 0.9)])
    toy.add(3, [])
    manifest, questions = made(toy, store, settings)
    assert [each.question.id for each in questions] == [condition(1)]
    assert manifest.stats["excluded"] == {"no_price_before_t0": 1, "no_price_history": 1}


def test_a_stale_price_is_flagged_and_dropped_only_on_demand(
    toy: ToyPolymarket, store: Store, settings: Settings
) -> None:
    toy.add(1)
    toy.add(2, [(JAN_15 - 10 * DAY, 0.3)])
    manifest, questions = made(toy, store, settings)
    assert [("stale_price" in each.flags, each.price_age_s) for each in questions] == [
        (False, DAY - 7),
        (True, 9 * DAY),
    ]
    assert manifest.stats["excluded"] == {}
    fresh = build(store, settings, name="fresh", policy="day_before_close", max_price_age_h=36)
    assert fresh.stats["excluded"] == {"stale_price": 1}
    assert fresh.rows == 1


def test_what_the_markets_excluded_is_counted_here_too(toy: ToyPolymarket, store: Store, settings: Settings) -> None:
    toy.add(1)
    toy.add(2, outcomePrices='["0.5", "0.5"]')
    toy.add(3, umaResolutionStatus="disputed")
    manifest, questions = made(toy, store, settings)
    assert len(questions) == 1
    assert manifest.stats["excluded"] == {"not_resolved": 1, "void_50_50": 1}
    assert manifest.stats["candidates"] == 3


# -- the question


def test_a_question_carries_nothing_that_tells_the_outcome(
    toy: ToyPolymarket, store: Store, settings: Settings
) -> None:
    """G22 and A11: an allow-list, and the note of after t0 is nowhere in the object."""
    toy.add(
        1,
        description="Yes if X. Otherwise No.\n\nUpdate 2026-02-03: resolved to Yes CANARY",
        question="Will X happen? (resolved)",
    )
    _, (question,) = made(toy, store, settings)
    shown = question.question
    assert "CANARY" not in repr(shown)
    assert "resolved" not in repr(shown)
    assert (shown.text, shown.criteria) == ("Will X happen?", "Yes if X. Otherwise No.")
    assert "had_addenda" in question.flags
    fields = set(Question.__slots__)
    assert fields == {
        "id", "source", "event_id", "text", "criteria", "options", "t0", "planned_close", "topic", "duration", "tags",
        "price_at_t0", "base_rate", "reference_rate",
    }  # fmt: skip
    assert fields >= PROMPT_FIELDS == {"text", "criteria", "options", "t0", "planned_close"}
    assert not PROMPT_FIELDS & {
        "closed",
        "winner",
        "umaResolutionStatus",
        "outcome",
        "close_at",
        "price_at_t0",
        "volume",
    }


def test_early_closers_are_flagged(toy: ToyPolymarket, store: Store, settings: Settings) -> None:
    toy.add(1, endDate=iso(JAN_15 + 30 * DAY))
    toy.add(2, endDate=iso(JAN_15 - HOUR))
    _, questions = made(toy, store, settings)
    assert [("early_resolved" in each.flags) for each in questions] == [True, False]
    assert questions[0].question.planned_close == JAN_15 + 30 * DAY


@pytest.mark.parametrize(("days", "name"), [(1, "short"), (7, "short"), (8, "medium"), (60, "medium"), (61, "long")])
def test_duration_classes(toy: ToyPolymarket, store: Store, settings: Settings, days: int, name: str) -> None:
    toy.add(1, [(JAN_15 - days * DAY, 0.5)], opened=JAN_15 - days * DAY)
    _, (question,) = made(toy, store, settings, policy="lookback:0.5")
    assert question.question.duration == name


# -- base rates


def test_the_base_rate_knows_only_markets_that_closed_before_t0(
    toy: ToyPolymarket, store: Store, settings: Settings
) -> None:
    for number in range(1, 11):  # close day by day until 2026-01-10; 3 of 10 Yes
        toy.add(number, outcome="Yes" if number <= 3 else "No", close=JAN_15 - (15 - number) * DAY)
    toy.add(11, outcome="Yes", close=JAN_15 - HOUR)  # t0 = 2026-01-13: ten have closed before
    toy.add(12, outcome="Yes", close=JAN_15 - 5 * DAY + HOUR)  # t0 = 2026-01-09: eight have
    _, questions = made(toy, store, settings)
    by_id = {each.question.id: each for each in questions}
    rows = {
        row["id"]: row for row in read_table(store.partition("eval_set", "q").require(), EVAL_SET).iter_rows(named=True)
    }
    late, early = by_id[condition(11)], by_id[condition(12)]
    assert (late.question.base_rate, rows[condition(11)]["base_rate_n"]) == (4 / 11, 11)
    assert "few_for_base_rate" not in late.flags
    assert (early.question.base_rate, rows[condition(12)]["base_rate_n"]) == (0.5, 8)
    assert "few_for_base_rate" in early.flags


def test_the_reference_class_is_the_series_and_falls_back_to_the_base_rate(
    toy: ToyPolymarket, store: Store, settings: Settings
) -> None:
    for number in range(1, 13):
        event = {"id": str(number), "slug": f"btc-up-or-down-january-{number}-2026"}
        toy.add(number, outcome="Yes", close=JAN_15 - (20 - number) * DAY, events=[event])
    for number in range(13, 25):
        toy.add(number, outcome="No", close=JAN_15 - (32 - number) * DAY)
    toy.add(30, outcome="No", events=[{"id": "30", "slug": "btc-up-or-down-january-15-2026"}])
    toy.add(31, outcome="No")
    _, questions = made(toy, store, settings)
    by_id = {each.question.id: each for each in questions}
    assert by_id[condition(30)].question.base_rate == 0.5
    assert by_id[condition(30)].question.reference_rate == 1.0
    assert by_id[condition(31)].question.reference_rate == by_id[condition(31)].question.base_rate
    assert "few_for_reference" in by_id[condition(31)].flags


MARKET = st.tuples(
    st.integers(JAN_15, JAN_15 + 50), st.sampled_from(["Yes", "No", None]), st.sampled_from(["a", "b", None])
)


@hypothesis_settings(deadline=None)
@given(
    markets=st.lists(MARKET, max_size=40),
    t0=st.integers(JAN_15 - 1, JAN_15 + 51),
    series=st.sampled_from(["a", "b", "c", None]),
)
def test_rates_equal_a_plain_count(
    markets: list[tuple[int, str | None, str | None]], t0: int, series: str | None
) -> None:
    rates = Rates([{"close_at": at, "outcome": y, "series": s} for at, y, s in markets], at_least=5)
    closed = [y for at, y, _ in markets if y is not None and at < t0]
    base = closed.count("Yes") / len(closed) if len(closed) >= 5 else 0.5
    assert rates.base(Cutoff(t0))[:2] == (base, len(closed))
    mine = [y for at, y, s in markets if y is not None and at < t0 and s == series and series is not None]
    assert rates.reference(series, Cutoff(t0))[:2] == (
        mine.count("Yes") / len(mine) if len(mine) >= 5 else base,
        len(mine),
    )


# -- pins, the archive, identity


def test_an_eval_set_pins_markets_prices_and_archive(toy: ToyPolymarket, store: Store, settings: Settings) -> None:
    toy.add(1)
    toy.add(2, close=FEB_10)
    archive = [archive_month(store, "2025-12"), archive_month(store, "2025-12", "comment_index")]
    manifest, questions = made(toy, store, settings, closed_from="2026-01-01", closed_to="2026-01-31")
    pins = {(pin.table, pin.key) for pin in manifest.pins}
    assert pins == {
        ("markets", ("2026-01",)), ("markets", ("2026-02",)), ("market_prices", ("2026-01",)),
        ("submission_index", ("2025-12",)), ("comment_index", ("2025-12",)),
    }  # fmt: skip
    assert {each.version for each in archive} <= {pin.version for pin in manifest.pins}
    assert "beyond_archive" in questions[0].flags  # t0 lies in January, the archive ends with December
    assert manifest.stats["flags"]["beyond_archive"] == 1


def test_a_t0_within_the_archive_is_not_flagged(toy: ToyPolymarket, store: Store, settings: Settings) -> None:
    toy.add(1)
    archive_month(store, "2026-01")
    _, (question,) = made(toy, store, settings)
    assert "beyond_archive" not in question.flags


def test_what_is_built_later_changes_no_eval_set(toy: ToyPolymarket, store: Store, settings: Settings) -> None:
    toy.add(1)
    before, questions = made(toy, store, settings)
    toy.add(2)
    toy.rows[0]["outcomePrices"] = '["0", "1"]'  # a later revision
    fetch(store, settings)
    archive_month(store, "2026-01")
    assert build(store, settings, name="q", policy="day_before_close") == before
    assert load(store, "q") == questions
    pin = next(pin for pin in before.pins if pin.table == "markets")
    assert store.partition("markets", "2026-01").at_version(pin.version).manifest.rows == 1  # the old snapshot is kept


def test_a_set_is_not_sealed_over_markets_that_change_while_it_is_made(
    toy: ToyPolymarket, store: Store, settings: Settings
) -> None:
    """Its pins would name prices that nobody read, and its name would be taken for good."""
    toy.add(1)
    toy.add(2)
    fetch(store, settings)

    def change(*_: Any) -> None:
        (partition,) = [store.partition("market_prices", *key) for key in store.sealed_keys("market_prices")]
        frame = read_table(partition.require(), PRICES)
        publish_table(partition, frame.with_columns(pl.col("price") / 2), PRICES, code_version="x")

    with pytest.raises(NotReady, match="run the same command again"):
        build(store, settings, name="q", policy="day_before_close", progress=change)
    assert store.sealed_keys("eval_set") == []
    build(store, settings, name="q", policy="day_before_close")


def test_two_builds_of_one_name_at_once_end_with_the_first(
    toy: ToyPolymarket, store: Store, settings: Settings
) -> None:
    toy.add(1)
    fetch(store, settings)
    first, ended = threading.Event(), threading.Event()
    found: list[Manifest | Exception] = []

    def slow(*_: Any) -> None:
        first.set()
        ended.wait(0.5)

    def make(policy: str, progress: Any) -> None:
        try:
            found.append(build(store, settings, name="q", policy=policy, progress=progress))
        except InputRefused as error:
            found.append(error)

    threads = [threading.Thread(target=make, args=("day_before_close", slow))]
    threads[0].start()
    assert first.wait(20)
    threads.append(threading.Thread(target=make, args=("days_before:2", None)))
    threads[1].start()
    for thread in threads:
        thread.join()
    sealed, refused = found
    assert isinstance(refused, InputRefused)
    assert sealed == store.partition("eval_set", "q").manifest()


def test_a_revised_outcome_is_scored_in_a_new_set_and_a_void_one_in_none(
    toy: ToyPolymarket, store: Store, settings: Settings
) -> None:
    """E12: the old set keeps the outcome that its scores were made with."""
    toy.add(1)
    toy.add(2)
    made(toy, store, settings)
    toy.rows[0]["outcomePrices"] = '["0", "1"]'
    toy.rows[1]["outcomePrices"] = '["0.5", "0.5"]'
    fetch(store, settings)
    revised = build(store, settings, name="revised", policy="day_before_close")
    assert [(each.question.id, each.outcome) for each in load(store, "revised")] == [(condition(1), "No")]
    assert revised.stats["excluded"] == {"void_50_50": 1}
    assert [each.outcome for each in load(store, "q")] == ["Yes", "Yes"]


def test_a_known_name_with_another_configuration_is_refused(
    toy: ToyPolymarket, store: Store, settings: Settings
) -> None:
    toy.add(1)
    made(toy, store, settings)
    for other in (
        {"policy": "lookback:0.5"},
        {"archive_end": "2026-01-31"},
        {"max_price_age_h": 36.0},
        {"market_ids": [condition(1)]},
    ):
        with pytest.raises(InputRefused, match="exists with another configuration"):
            build(store, settings, **({"name": "q", "policy": "day_before_close"} | other))  # type: ignore[arg-type]


def test_two_builds_give_the_same_bytes(toy: ToyPolymarket, store: Store, settings: Settings, tmp_path: Path) -> None:
    for number in range(1, 8):
        toy.add(number, outcome="Yes" if number % 2 else "No")
    first, _ = made(toy, store, settings)
    other = open_store(tmp_path / "other")
    (tmp_path / "other").mkdir()
    (store.root / "raw").rename(tmp_path / "other" / "raw")
    fetch(other, toy.settings(other.root), refresh=False)
    second = build(other, toy.settings(other.root), name="q", policy="day_before_close")
    assert second.without_time() == first.without_time()


def test_markets_by_id_and_by_window(toy: ToyPolymarket, store: Store, settings: Settings) -> None:
    for number in range(1, 5):
        toy.add(number, close=JAN_15 + number * DAY)
    fetch(store, settings)
    ids = build(
        store, settings, name="ids", policy="day_before_close", market_ids=[condition(3), condition(1), condition(3)]
    )
    assert [each.question.id for each in load(store, "ids")] == [condition(1), condition(3)]
    assert ids.stats["market_ids"] == [condition(1), condition(3)]
    build(store, settings, name="window", policy="day_before_close", closed_from="2026-01-17", closed_to="2026-01-18")
    assert [each.question.id for each in load(store, "window")] == [condition(2), condition(3)]
    with pytest.raises(InputRefused, match="not sealed here"):
        build(store, settings, name="x", policy="day_before_close", market_ids=[condition(77)])
    with pytest.raises(UsageError, match="one way"):
        build(store, settings, name="x", policy="day_before_close", market_ids=[condition(1)], closed_from="2026-01-01")


def test_a_vintage_takes_what_resolved_since(toy: ToyPolymarket, store: Store, settings: Settings) -> None:
    toy.add(1)
    toy.add(2, umaResolutionStatus="proposed")
    made(toy, store, settings)
    with pytest.raises(NotReady, match="would be empty"):
        build(store, settings, name="q2", policy="day_before_close", vintage="q")
    toy.rows[1]["umaResolutionStatus"] = "resolved"
    toy.add(3, close=FEB_10)
    fetch(store, settings)
    build(store, settings, name="q2", policy="day_before_close", vintage="q")
    assert [each.question.id for each in load(store, "q2")] == [condition(2), condition(3)]
    toy.add(4, close=FEB_10)
    fetch(store, settings)
    build(store, settings, name="q3", policy="day_before_close", vintage="q2")
    assert [each.question.id for each in load(store, "q3")] == [condition(4)]
    assert [each.question.id for each in load(store, "q")] == [condition(1)]


def test_a_vintage_of_an_imported_set_leaves_out_what_closed_by_its_last_close(
    toy: ToyPolymarket, store: Store, settings: Settings, tmp_path: Path
) -> None:
    toy.add(1)
    made(toy, store, settings)
    path = export(store, name="q").path
    other = open_store(tmp_path / "other")
    toy.add(2, close=JAN_15 - DAY)
    toy.add(3, close=FEB_10)
    elsewhere = toy.settings(other.root)
    fetch(other, elsewhere)
    import_file(other, path)
    build(other, elsewhere, name="q2", policy="day_before_close", vintage="q")
    assert [each.question.id for each in load(other, "q2")] == [condition(3)]


def test_a_set_without_questions_is_not_sealed(toy: ToyPolymarket, store: Store, settings: Settings) -> None:
    with pytest.raises(NotReady, match="No market is sealed"):
        build(store, settings, name="q", policy="day_before_close")
    toy.add(1, outcomePrices='["0.5", "0.5"]')
    fetch(store, settings)
    with pytest.raises(NotReady, match="void_50_50 1"):
        build(store, settings, name="q", policy="day_before_close")
    assert store.sealed_keys("eval_set") == []


def test_it_describes_its_gaps_and_shares(toy: ToyPolymarket, store: Store, settings: Settings) -> None:
    toy.add(1, daily(JAN_15, price=0.99))
    toy.add(2, daily(JAN_15, price=0.02), outcome="No")
    toy.add(3, daily(JAN_15, price=0.5), outcome="No", close=JAN_15 + 12 * HOUR)
    manifest, _ = made(toy, store, settings)
    gaps = manifest.stats["gap_days"]
    assert (gaps["min"], gaps["median"], gaps["max"]) == (1.0, 1.0, 1.5)
    assert manifest.stats["decided_share"] == pytest.approx(2 / 3, abs=1e-6)
    assert manifest.stats["yes_share"] == pytest.approx(1 / 3, abs=1e-6)
    assert manifest.stats["topics"] == {"Other": 3}
    assert manifest.stats["without_topic"] == 3


# -- balanced selection


def probe(store: Store, month: str, quality: dict[str, str]) -> None:
    empty = dict.fromkeys([name for name in COVERAGE.schema.names if name.startswith(("yes_", "no_"))], 0)
    rows = [
        empty | {"yes_score": 0.0, "no_score": 0.0, "market_id": market, "as_of": "close", "at": JAN_15, "judge": "j",
                 "judge_version": "1", "evidence_quality": label, "contrast": 0.5, "resolved_contrast": 0.5, "documents": 3}
        for market, label in quality.items()
    ]  # fmt: skip
    publish_table(store.partition("coverage_probe", month), COVERAGE.frame(rows), COVERAGE, code_version="1")


def test_a_size_balances_outcomes(toy: ToyPolymarket, store: Store, settings: Settings) -> None:
    for number in range(1, 13):
        toy.add(number, outcome="Yes" if number <= 3 else "No")
    manifest, questions = made(toy, store, settings, size=4, seed=7)
    assert sorted(each.outcome for each in questions) == ["No", "No", "Yes", "Yes"]
    assert manifest.stats["excluded"] == {"not_needed_for_balance": 8}
    assert manifest.stats["judge"] is None


def test_a_size_keeps_strong_markets_where_they_are_probed(
    toy: ToyPolymarket, store: Store, settings: Settings
) -> None:
    for number in range(1, 9):
        toy.add(number, outcome="Yes" if number <= 4 else "No")
    fetch(store, settings)
    with pytest.raises(NotReady, match="coverage_probe 2026-01"):
        build(store, settings, name="s", policy="day_before_close", size=4, keep="strong")
    probe(store, "2026-01", {condition(n): "strong" if n in {1, 2, 7} else "weak" for n in range(1, 9)})
    manifest = build(store, settings, name="s", policy="day_before_close", size=4)
    assert [each.question.id for each in load(store, "s")][1] == condition(7)
    assert manifest.rows == 2
    assert manifest.stats["judge"] == "j"
    assert build(store, settings, name="any", policy="day_before_close", size=4, keep="any").rows == 4
    assert build(store, settings, name="both", policy="day_before_close", size=4, keep="weak,strong").rows == 4
    with pytest.raises(UsageError, match="keep"):
        build(store, settings, name="x", policy="day_before_close", size=4, keep="great")


# -- moving a set


def test_an_export_is_imported_elsewhere_as_it_is(
    toy: ToyPolymarket, store: Store, settings: Settings, tmp_path: Path
) -> None:
    toy.add(1, question="Ünïcode “question” 🙂?")
    toy.add(2, outcome="No")
    _, questions = made(toy, store, settings)
    written = export(store, name="q")
    assert written.path == store.root / "exports" / "q.eval-set.json"
    other = open_store(tmp_path / "other")
    pinned = archive_month(other, "2026-01")
    manifest = import_file(other, written.path)
    assert load(other, "q") == questions
    assert [pin.version for pin in manifest.pins] == [pinned.version]
    assert manifest.stats["policy"] == "day_before_close"
    assert import_file(other, written.path) == manifest
    assert export(other, name="q", out=tmp_path / "again.json").sha256 == written.sha256


def test_a_known_name_with_other_content_is_refused_on_import(
    toy: ToyPolymarket, store: Store, settings: Settings, tmp_path: Path
) -> None:
    toy.add(1)
    made(toy, store, settings)
    path = export(store, name="q").path
    other = open_store(tmp_path / "other")
    with serving(ToyPolymarket()) as elsewhere:
        elsewhere.add(5)
        mine = elsewhere.settings(other.root)
        fetch(other, mine)
        build(other, mine, name="q", policy="day_before_close")
    with pytest.raises(InputRefused, match="other content"):
        import_file(other, path)


@pytest.mark.parametrize(
    ("change", "said"),
    [
        (lambda d: d.update(format="x"), "not an exported eval set"),
        (lambda d: d.update(schema="eval_set/99"), "eval_set/99"),
        (lambda d: d.update(name="../../x"), "eval set name"),
        (lambda d: d.update(questions=5), "no list of questions"),
        (lambda d: d["questions"][0].update(outcome="No"), "was changed after it was written"),
        (lambda d: d["questions"][0].update(t0=JAN_15 + 9), "not before its close"),
        (lambda d: d["questions"][0].update(outcome="Maybe"), "Maybe"),
        (lambda d: d["questions"][0].update(price_at_t0=1.5), "price_at_t0 are not in"),
        (lambda d: d["questions"][0].update(price_age_s=-5), "read after t0"),
        (lambda d: d["questions"][0].update(winner="Yes"), "no column 'winner'"),
        (lambda d: d["stats"].update(excluded={"x": "[bold]many"}), "states pins"),
        (lambda d: d["stats"].update(policy="whenever"), "states pins"),
        (lambda d: d["stats"].update(archive_end="soon"), "states pins"),
        (lambda d: d.update(pins=[{"table": "x"}]), "states pins"),
        (lambda d: d.update(name=float("nan")), "not JSON"),
        (lambda d: d["questions"].append(d["questions"][0]), "repeat a key"),
        (lambda d: d["questions"][0].update(text=None), "text"),
        (lambda d: d["questions"][0].update(topic="Cats"), "Cats"),
        (lambda d: d["questions"][0].update(text="a\ud800"), "half a character"),
        (lambda d: d["questions"][0].update(t0=True), "t0 is no instant"),
        (lambda d: d["questions"][0].update(t0=-1), "t0 is no instant"),
        (lambda d: d["questions"][0].update(close_at=10**18), "close_at is no instant"),
        (lambda d: d["questions"][0].update(open_at=10**12), "open_at is no instant"),
        (lambda d: d["questions"][0].update(price_at_t0="0.5"), "of other types"),
        (lambda d: d["questions"][0].update(price_age_s=False), "of other types"),
        (lambda d: d["questions"][0].update(base_rate=5), "base_rate is not a number"),
        (lambda d: d["questions"][0].update(reference_rate=-0.1), "reference_rate is not a number"),
        (lambda d: d["questions"][0].update(options=["Yes", "Yes"]), "two options"),
        (lambda d: d["questions"][0].update(id=""), "its id is not"),
        (lambda d: d["questions"][0].update(id="a\n"), "its id is not"),
        (lambda d: d["questions"][0].update(id="x" * 300), "its id is not"),
    ],
)
def test_a_file_that_was_tampered_with_is_refused(  # noqa: PLR0917 - fixtures and a table
    toy: ToyPolymarket, store: Store, settings: Settings, tmp_path: Path, change: Any, said: str
) -> None:
    import hashlib

    toy.add(1)
    made(toy, store, settings)
    document = json.loads(export(store, name="q").path.read_bytes())
    change(document)
    if said != "was changed after it was written":
        text = json.dumps(document["questions"], sort_keys=True, ensure_ascii=False)
        document["sha256"] = hashlib.sha256(text.encode(errors="surrogatepass")).hexdigest()
    path = tmp_path / "tampered.json"
    path.write_text(json.dumps(document))
    other = open_store(tmp_path / "other")
    with pytest.raises(InputRefused, match=said):
        import_file(other, path)
    assert other.sealed_keys("eval_set") == []


@pytest.mark.parametrize("text", ["", "[]", "{", "null", "[" * 100_000])
def test_a_file_that_is_no_eval_set_is_refused(store: Store, tmp_path: Path, text: str) -> None:
    path = tmp_path / "x.json"
    path.write_text(text)
    with pytest.raises(InputRefused):
        import_file(store, path)


def test_prices_stay_within_their_contract(toy: ToyPolymarket, store: Store, settings: Settings) -> None:
    toy.add(1)
    made(toy, store, settings)
    frame = read_table(store.partition("eval_set", "q").require(), EVAL_SET)
    assert frame.filter(~pl.col("price_at_t0").is_between(0, 1)).is_empty()
    assert frame["price_route"].to_list() == ["clob"]
