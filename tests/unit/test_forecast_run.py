"""The runner: resume, identity, refusals, failures, money; and that nothing of the future reaches an arm."""

import asyncio
import json
import sys
import threading
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest

from hindcast_dagster.contracts.forecasts import FORECASTS
from hindcast_dagster.errors import CutoffViolation, InputRefused, Unreachable, UsageError
from hindcast_dagster.forecast import records
from hindcast_dagster.forecast.forecaster import Forecast, Step, Trace
from hindcast_dagster.forecast.run import build, plan
from hindcast_dagster.settings import Settings, load
from hindcast_dagster.storage.store import NotSealed, Store
from hindcast_dagster.storage.tables import read_table
from tests.forecast_world import T0, Script, archive, question, seal_eval_set

HERE = "tests.unit.test_forecast_run"


@pytest.fixture
def asked(store: Store, settings: Settings) -> dict[str, Any]:
    seal_eval_set(store, [question(number) for number in range(1, 5)])
    return {"store": store, "settings": settings, "eval_set": "small"}


def run(asked: dict[str, Any], **values: Any) -> Any:
    options = {"arm": "zero_shot", "model": "scripted", "runs": 2, **values}
    return build(asked["store"], asked["settings"], eval_set=asked["eval_set"], **options)


def frame(asked: dict[str, Any]) -> Any:
    return records.all_forecasts(asked["store"], asked["eval_set"])


class Sync:
    arm = "sync_arm"
    version = "1"
    uses_archive = False

    def forecast(self, question: Any, archive: Any, *, run: int) -> Forecast:
        return Forecast(prob_yes=run / 10)


class Reader:
    arm = "reader"
    version = "1"

    async def forecast(self, question: Any, archive: Any, *, run: int) -> Forecast:
        await asyncio.sleep(0.001 * (int(question.id, 16) % 3))
        hits = archive.search_database(question.text, k=5).hits
        await asyncio.sleep(0)
        archive.getauthorhistorylist(hits[0].document.author)
        assert all(hit.document.created_at < question.t0.epoch for hit in hits)
        assert archive.cutoff == question.t0
        return Forecast(prob_yes=0.5)


class Broken(Sync):
    arm = "broken"

    def forecast(self, question: Any, archive: Any, *, run: int) -> Forecast:
        raise ValueError("no luck")


class Flaky(Sync):
    arm = "flaky"
    fails = True

    def forecast(self, question: Any, archive: Any, *, run: int) -> Forecast:
        if Flaky.fails and int(question.id, 16) == 3:
            raise ValueError("only this one")
        return Forecast(prob_yes=0.5)


class Leaky(Sync):
    arm = "leaky"

    def forecast(self, question: Any, archive: Any, *, run: int) -> Forecast:
        raise CutoffViolation("a row of the future")


class Liar(Sync):
    arm = "liar"
    uses_archive = False

    def forecast(self, question: Any, archive: Any, *, run: int) -> Forecast:
        archive.search_database("anything")
        return Forecast(prob_yes=0.5)


class Wrong(Sync):
    arm = "wrong"

    def forecast(self, question: Any, archive: Any, *, run: int) -> Any:
        return 0.5


class Keeper(Sync):
    """Takes the view of the first question for that of all: an honest mistake, and a leak where t0s differ."""

    arm, uses_archive = "keeper", True
    kept: Any = None

    def forecast(self, question: Any, archive: Any, *, run: int) -> Forecast:
        self.kept = self.kept or archive
        self.kept.search_database(question.text)
        return Forecast(prob_yes=0.5)


class Crossed(Sync):
    """Two forecasts at once; each asks the view of the other."""

    arm, uses_archive = "crossed", True

    def __init__(self) -> None:
        self.views: dict[str, Any] = {}
        self.both = asyncio.Barrier(2)

    async def forecast(self, question: Any, archive: Any, *, run: int) -> Forecast:  # type: ignore[override]
        self.views[question.id] = archive
        await self.both.wait()
        other = next(view for known, view in self.views.items() if known != question.id)
        with pytest.raises(UsageError, match="of its own"):
            await asyncio.to_thread(other.search_database, question.text)
        archive.search_database(question.text)
        return Forecast(prob_yes=0.5)


class Foreign(Sync):
    """Does to question 2 what foreign code may do; the others are answered."""

    arm = "foreign"
    does: Any = None
    once = Forecast(prob_yes=0.5)

    def forecast(self, question: Any, archive: Any, *, run: int) -> Forecast:
        return Foreign.does() if int(question.id, 16) == 2 else self.once  # type: ignore[no-any-return]


def _changed(**values: Any) -> Forecast:
    made = Forecast(prob_yes=0.5)
    for name, value in values.items():
        setattr(made, name, value)
    return made


def _recurses(depth: int = 0) -> Forecast:
    return _recurses(depth + 1)


def _step(**detail: Any) -> Forecast:
    return Forecast(prob_yes=0.5, trace=Trace([Step(kind="note", name="own", detail=detail)]))


FOREIGN = {
    "exits": lambda: sys.exit(0),
    "stops": lambda: next(iter(())),
    "recurses": _recurses,
    "nothing": lambda: None,
    "number": lambda: 0.5,
    "changed to 7": lambda: _changed(prob_yes=7),
    "changed to nan": lambda: _changed(prob_yes=float("nan")),
    "changed status": lambda: _changed(status="unparsed"),
    "unknown status": lambda: Forecast(prob_yes=None, status="perhaps"),  # type: ignore[arg-type]
    "text for a number": lambda: Forecast(prob_yes=0.5, confidence="high"),  # type: ignore[arg-type]
    "nan": lambda: Forecast(prob_yes=0.5, yes_score=float("nan")),
    "unknown word": lambda: Forecast(prob_yes=0.5, evidence_quality="great"),
    "too large": lambda: Forecast(prob_yes=0.5, rounds=2**70),
    "half a character": lambda: Forecast(prob_yes=0.5, rationale="\ud800"),
    "half a character of a step": lambda: _step(query="\udfff"),
    "no JSON": lambda: Forecast(prob_yes=0.5, extra={"own": object()}),
    "no JSON in a step": lambda: _step(own={1, 2}),
    "an error with half a character": lambda: (_ for _ in ()).throw(ValueError("\ud800")),
}  # fmt: skip


class Queued(Sync):
    """Question 1 finishes while the only writer thread is busy; then question 2 ends the work; the others hang."""

    arm = "queued"

    async def forecast(self, question: Any, archive: Any, *, run: int) -> Forecast:  # type: ignore[override]
        loop, number = asyncio.get_running_loop(), int(question.id, 16)
        if number == 1:
            self.busy, self.first = threading.Event(), asyncio.Event()
            loop.set_default_executor(ThreadPoolExecutor(1))
            loop.run_in_executor(None, self.busy.wait, 10)
            self.first.set()
            return Forecast(prob_yes=0.5)
        if number > 2:
            await asyncio.sleep(60)
        await self.first.wait()
        for _ in range(5):
            await asyncio.sleep(0)  # the write of question 1 is queued behind the busy thread
        loop.call_later(0.05, self.busy.set)  # after the work was told to end
        raise Unreachable("the server has gone")


def test_a_finished_forecast_whose_write_still_waits_survives_the_end_of_the_work(asked: dict[str, Any]) -> None:
    with pytest.raises(Unreachable):
        run(asked, arm=f"{HERE}:Queued", model="none", runs=1)
    journal = records.journal_of(asked["store"], arm="queued", model="none", eval_set="small")
    assert [record.question_id for record in records.records_in(journal)] == [question(1).id]


@pytest.mark.parametrize("does", FOREIGN)
def test_what_foreign_code_does_costs_its_own_forecast_only(asked: dict[str, Any], does: str) -> None:
    Foreign.does = FOREIGN[does]
    manifest = run(asked, arm=f"{HERE}:Foreign", model="none", runs=1)
    assert manifest.stats["statuses"] == {"failed": 1, "ok": 3}
    assert run(asked, arm=f"{HERE}:Foreign", model="none", runs=1).without_time() == manifest.without_time()
    assert all(record.trace.steps == [] for record in [Foreign.once]), "one object for all keeps no trace of any"


def test_a_view_answers_only_the_forecast_that_it_was_given_to(asked: dict[str, Any]) -> None:
    one_by_one = asked | {"settings": load(data_root=str(asked["store"].root), llm={"concurrency": 1})}
    made = run(one_by_one, arm=f"{HERE}:Keeper", model="none", runs=1, archive=archive())
    assert made.stats["statuses"] == {"failed": 3, "ok": 1}
    assert run(asked, arm=f"{HERE}:Crossed", model="none", runs=1, archive=archive()).stats["statuses"] == {"ok": 4}
    for record in records.traces(asked["store"], asked["eval_set"]):
        if record.arm == "crossed":
            assert [step.detail["query"] for step in record.steps] == [question(int(record.question_id, 16)).text]


def test_every_forecast_is_asked_once_and_sealed(asked: dict[str, Any]) -> None:
    chat = Script()
    manifest = run(asked, chat=chat)
    table = read_table(asked["store"].partition("zero_shot_forecasts", "scripted", "small").require(), FORECASTS)
    assert manifest.rows == table.height == len(chat.calls) == 8
    assert set(table["prob_yes"]) == {0.7}
    assert set(table["choice"]) == {"Yes"}
    assert set(table["parse_step"]) == {"first"}
    assert set(table["model_revision"]) == {"rev-1"}
    assert table["tokens_in"].min() > 0
    assert manifest.stats["identical_runs"] is True
    assert manifest.stats["contamination"]["no_cutoff"] == 4


def test_runs_differ_in_their_seed_only(asked: dict[str, Any]) -> None:
    chat = Script()
    run(asked, chat=chat, runs=3, limit=1)
    seeds = [decoding.seed for _, _, decoding in chat.calls]
    assert sorted(seeds) == [1, 2, 3]
    assert len({(tuple(messages), decoding.temperature) for _, messages, decoding in chat.calls}) == 1


def test_resume_asks_for_what_is_missing_only(asked: dict[str, Any]) -> None:
    first = Script(fail_at=5, error=Unreachable("gone"))
    with pytest.raises(Unreachable):
        run(asked, chat=first)
    finished = len(list(records.traces(asked["store"], "small")))
    assert finished == 4
    with pytest.raises(NotSealed):
        asked["store"].partition("zero_shot_forecasts", "scripted", "small").require()
    second = Script()
    run(asked, chat=second)
    assert len(second.calls) == 8 - finished
    third = Script()
    run(asked, chat=third)
    assert third.calls == []
    assert frame(asked).height == 8


def test_more_runs_and_more_questions_add_only_what_is_new(asked: dict[str, Any]) -> None:
    run(asked, chat=Script(), runs=1, limit=2)
    more = Script()
    run(asked, chat=more, runs=2, limit=3)
    assert len(more.calls) == 6 - 2
    fewer = Script()
    manifest = run(asked, chat=fewer, runs=1, limit=1)
    assert fewer.calls == []
    assert manifest.rows == 6


def test_a_lost_partition_is_sealed_again_from_the_journal_with_the_same_content(asked: dict[str, Any]) -> None:
    import shutil

    before = run(asked, chat=Script())
    shutil.rmtree(asked["store"].root / "tables" / "zero_shot_forecasts")
    again = Script()
    after = run(asked, chat=again)
    assert again.calls == []
    assert after.without_time() == before.without_time()


def test_changed_settings_under_the_same_names_are_refused_unless_overwritten(asked: dict[str, Any]) -> None:
    run(asked, chat=Script(), runs=1)
    warmer = asked["settings"].decoding.model_copy(
        update={"zero_shot": asked["settings"].decoding.zero_shot.model_copy(update={"temperature": 0.9})}
    )
    changed = asked | {"settings": asked["settings"].model_copy(update={"decoding": warmer})}
    with pytest.raises(UsageError, match="prompts or settings"):
        run(changed, chat=Script(), runs=1)
    dry = plan(asked["store"], changed["settings"], arm="zero_shot", model="scripted", eval_set="small", runs=1,
               overwrite=True, chat=Script())  # fmt: skip
    assert (dry.done, dry.pending) == (0, 4)
    chat = Script()
    run(changed, chat=chat, runs=1, overwrite=True)
    assert len(chat.calls) == 4
    assert frame(asked).height == 4
    kept = list((asked["store"].area("journal", "zero_shot_forecasts", "scripted", "small") / "superseded").iterdir())
    assert len(kept) == 4
    again = Script()
    run(changed, chat=again, runs=1)
    assert again.calls == []


def test_another_revision_of_the_model_is_refused(asked: dict[str, Any]) -> None:
    run(asked, chat=Script(), runs=1)
    with pytest.raises(UsageError, match="model revision: rev-1 is now rev-2"):
        run(asked, chat=Script(revision="rev-2"), runs=1)


def test_an_unparsed_forecast_is_kept_and_counted_never_a_half(asked: dict[str, Any]) -> None:
    refuses = Script(answers=dict.fromkeys(("zero_shot", "repair", "compact", "json_only"), "I cannot say."))
    manifest = run(asked, chat=refuses, runs=1)
    table = frame(asked)
    assert set(table["status"]) == {"unparsed"}
    assert table["prob_yes"].null_count() == 4
    assert manifest.stats["parse_rate"] == 0
    assert manifest.checks[0].passed is False
    record = next(records.traces(asked["store"], "small"))
    assert record.forecast.extra["reply"] == "I cannot say."
    again = Script()
    run(asked, chat=again, runs=1)
    assert again.calls == []


def test_the_warning_begins_above_three_in_216() -> None:
    from hindcast_dagster.forecast.rows import checks

    class Record:
        def __init__(self, status: str) -> None:
            self.forecast = Forecast(None, status=status) if status != "ok" else Forecast(0.5)  # type: ignore[arg-type]

    good: Any = [Record("ok")] * 213 + [Record("unparsed")] * 3
    bad: Any = [Record("ok")] * 212 + [Record("unparsed")] * 4
    assert checks(good)[0].passed
    assert not checks(bad)[0].passed


def test_a_sync_arm_of_ones_own_runs_and_needs_no_model(asked: dict[str, Any]) -> None:
    manifest = run(asked, arm=f"{HERE}:Sync", model="none", runs=3)
    assert manifest.key == ("none", "small")
    assert sorted(set(frame(asked)["prob_yes"])) == [0.1, 0.2, 0.3]


def test_interleaved_questions_never_mix_cutoffs(store: Store, settings: Settings) -> None:
    every = [question(number, t0=type(question().t0)(T0 - 86_400 * 9 * number)) for number in range(1, 7)]
    seal_eval_set(store, every)
    build(store, settings, arm=f"{HERE}:Reader", eval_set="small", runs=4, archive=archive())
    found = list(records.traces(store, "small"))
    assert len(found) == 24
    for record in found:
        seen = [seen for step in record.steps for seen in step.seen]
        assert seen
        assert all(seen.created_at < record.t0 for seen in seen)
        assert {step.detail["cutoff"] for step in record.steps} == {record.t0}
    assert len({record.t0 for record in found}) == 6


def test_an_arm_that_always_fails_stops_the_run(asked: dict[str, Any]) -> None:
    with pytest.raises(UsageError, match="ValueError: no luck"):
        run(asked, arm=f"{HERE}:Broken", model="none")


def test_one_failure_costs_one_forecast_and_is_tried_again(asked: dict[str, Any]) -> None:
    Flaky.fails = True
    manifest = run(asked, arm=f"{HERE}:Flaky", model="none", runs=1)
    assert manifest.stats["statuses"] == {"failed": 1, "ok": 3}
    Flaky.fails = False
    manifest = run(asked, arm=f"{HERE}:Flaky", model="none", runs=1)
    assert manifest.stats["statuses"] == {"ok": 4}


def test_a_cutoff_violation_ends_the_run(asked: dict[str, Any]) -> None:
    with pytest.raises(CutoffViolation):
        run(asked, arm=f"{HERE}:Leaky", model="none")


@pytest.mark.parametrize(("arm", "word"), [("Liar", "does not read the archive"), ("Wrong", "must return a Forecast")])
def test_arms_that_break_their_word_fail(asked: dict[str, Any], arm: str, word: str) -> None:
    with pytest.raises(UsageError, match=word):
        run(asked, arm=f"{HERE}:{arm}", model="none")


@pytest.mark.parametrize(
    ("values", "word"),
    [
        ({"arm": "nothing"}, "known: retrieval, zero_shot"),
        ({"arm": "no.such.module:Class"}, "cannot be imported"),
        ({"arm": "json:dumps"}, "cannot be made into a forecaster"),
        ({"arm": "zero_shot", "model": "none"}, "needs a model"),
        ({"runs": 0}, "--runs"),
        ({"limit": 0}, "--limit"),
        ({"model": "../x"}, "not a usable"),
        ({"max_cost": 1.0}, "needs a price"),
    ],
)
def test_wrong_names_are_refused_with_the_remedy(asked: dict[str, Any], values: dict[str, Any], word: str) -> None:
    chat = None if values.get("model") == "none" else Script()
    with pytest.raises(UsageError, match=word):
        run(asked, **({"chat": chat} | values))


def test_the_limit_of_the_settings_saves_calls_of_models_only(asked: dict[str, Any]) -> None:
    frugal = asked["settings"].model_copy(update={"forecast": load(forecast={"question_limit": 1}).forecast})
    asked = asked | {"settings": frugal}
    assert run(asked, chat=Script(), runs=1).rows == 1
    assert run(asked, arm=f"{HERE}:Sync", model="none", runs=1).rows == 4
    assert run(asked, arm=f"{HERE}:Sync", model="none", runs=1, name="fewer", limit=2).rows == 2


def test_a_missing_eval_set_is_named(store: Store, settings: Settings) -> None:
    with pytest.raises(NotSealed, match="hindcast evalset build nowhere"):
        build(store, settings, arm="zero_shot", model="scripted", eval_set="nowhere", chat=Script())


def test_a_damaged_journal_file_is_named(asked: dict[str, Any]) -> None:
    run(asked, chat=Script(), runs=1, limit=1)
    folder = asked["store"].area("journal", "zero_shot_forecasts", "scripted", "small")
    path = next(folder.glob("*.json"))
    values = json.loads(path.read_text())
    values["identity"]["t0"] += 1
    path.write_text(json.dumps(values))
    with pytest.raises(InputRefused, match=path.stem):
        run(asked, chat=Script(), runs=1, limit=1)


def test_a_question_that_the_model_may_know_is_not_asked_when_the_setting_says_so(asked: dict[str, Any]) -> None:
    llm = asked["settings"].llm.model_copy(update={"allow_contaminated": False})
    strict = asked | {"settings": asked["settings"].model_copy(update={"llm": llm})}
    with pytest.raises(UsageError, match="may know the outcome"):
        run(strict, chat=Script())


@pytest.mark.parametrize("concurrency", [1, 16])
def test_the_money_limit_is_kept_and_what_was_finished_is_sealed(
    asked: dict[str, Any], monkeypatch: pytest.MonkeyPatch, concurrency: int
) -> None:
    from hindcast_dagster.forecast import money
    from hindcast_dagster.llm.roster import Price

    price = Price(tokens_in=1_000_000, tokens_out=1_000_000)  # a dollar per token
    monkeypatch.setattr(money, "price_of", lambda settings, model: price)
    llm = asked["settings"].llm.model_copy(update={"concurrency": concurrency})
    decoding = asked["settings"].decoding.model_copy(
        update={"zero_shot": asked["settings"].decoding.zero_shot.model_copy(update={"max_tokens": 200})}
    )
    cheap = asked | {"settings": asked["settings"].model_copy(update={"llm": llm, "decoding": decoding})}
    manifest = run(cheap, chat=Script(), runs=5, max_cost=1000)
    assert manifest.stats["stopped"] is True
    assert 0 < manifest.rows < 20
    assert manifest.stats["missing"] == 20 - manifest.rows
    assert 700 < manifest.stats["cost"] <= 1000
    rest = run(cheap, chat=Script(), runs=5, max_cost=100_000)
    assert (rest.rows, rest.stats["stopped"], rest.stats["missing"]) == (20, False, 0)


def test_the_limit_of_the_settings_holds_where_none_is_asked_for(
    asked: dict[str, Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    from hindcast_dagster.forecast import money
    from hindcast_dagster.llm.roster import Price

    monkeypatch.setattr(money, "price_of", lambda settings, model: Price(tokens_in=1_000_000, tokens_out=1_000_000))
    llm = asked["settings"].llm.model_copy(update={"max_cost": 0.5})
    poor = asked | {"settings": asked["settings"].model_copy(update={"llm": llm})}
    stopped = run(poor, chat=(chat := Script()))
    assert (stopped.rows, stopped.stats["stopped"], chat.calls) == (0, True, [])
    assert run(poor, chat=Script(), max_cost=1e9).stats["stopped"] is False, "what is asked for wins"


async def test_an_arm_of_unknown_cost_begins_alone() -> None:
    from hindcast_dagster.forecast.money import Purse
    from hindcast_dagster.llm.roster import Price

    purse = Purse(Price(tokens_in=1.0, tokens_out=1.0), 10.0, None)
    assert await purse.reserve()
    second = asyncio.ensure_future(purse.reserve())
    await asyncio.sleep(0)
    assert not second.done()
    purse.settle(None)
    assert await second


def test_a_dry_run_asks_nothing_and_counts_what_a_run_would(asked: dict[str, Any]) -> None:
    chat = Script()
    found = plan(asked["store"], asked["settings"], arm="zero_shot", model="scripted", eval_set="small", chat=chat)
    assert (found.pending, found.done, found.calls, chat.calls) == (20, 0, 20, [])
    assert found.tokens_out == 20 * 4096
    assert found.tokens_in is not None
    assert found.tokens_in > 20 * 100


def test_a_dry_run_needs_no_engine_and_finds_what_is_done(asked: dict[str, Any]) -> None:
    found = plan(asked["store"], asked["settings"], arm="zero_shot", model="qwen3-8b", eval_set="small", runs=1)
    assert (found.pending, found.done) == (4, 0)
    with pytest.raises(UsageError, match="roster"):
        plan(asked["store"], asked["settings"], arm="zero_shot", model="nobody", eval_set="small")


def test_one_arm_under_two_settings_gets_two_names(asked: dict[str, Any]) -> None:
    run(asked, chat=Script(), runs=1)
    llm = asked["settings"].llm.model_copy(update={"structured": True})
    other = asked | {"settings": asked["settings"].model_copy(update={"llm": llm})}
    manifest = run(other, chat=Script(), runs=1, name="zero_shot_json")
    assert manifest.table == "zero_shot_json_forecasts"
    assert sorted(set(frame(asked)["arm"])) == ["zero_shot", "zero_shot_json"]
    with pytest.raises(UsageError, match="is taken"):
        run(other, chat=Script(), runs=1, name="market_price")


def test_two_processes_do_not_pay_for_the_same_forecasts(asked: dict[str, Any]) -> None:
    from filelock import FileLock

    from hindcast_dagster.errors import NotReady

    folder = asked["store"].area("journal", "zero_shot_forecasts", "scripted", "small")
    folder.mkdir(parents=True)
    chat = Script()
    with FileLock(folder / ".lock"), pytest.raises(NotReady, match="Another process"):
        run(asked, chat=chat)
    assert chat.calls == []
    run(asked, chat=chat)
    assert len(chat.calls) == 8


def test_a_forecast_that_keeps_failing_does_not_keep_the_others_from_being_sealed(asked: dict[str, Any]) -> None:
    Flaky.fails = True
    for _ in range(2):
        manifest = run(asked, arm=f"{HERE}:Flaky", model="none", runs=1)
        assert manifest.stats["statuses"] == {"failed": 1, "ok": 3}
    failed = frame(asked).filter(frame(asked)["status"] == "failed")
    assert failed["prob_yes"].to_list() == [None]
