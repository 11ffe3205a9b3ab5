"""The retrieval agent over the real archive: sealed months, pinned versions, many forecasts at once, and a clean audit."""

from collections.abc import Iterator

import pytest

from hindcast_dagster.archive.open import open_archive
from hindcast_dagster.clock import Cutoff
from hindcast_dagster.forecast import baselines, records
from hindcast_dagster.forecast.run import build
from hindcast_dagster.settings import Settings, load
from hindcast_dagster.storage.store import Store
from tests.archive_world import ToyEmbedder, seal, use
from tests.forecast_world import DAY, T0, Script, archive, question, seal_eval_set
from tests.toy_archive import document

QUESTIONS = [question(number, t0=Cutoff(T0 - 7 * DAY * number)) for number in range(1, 5)]


pytestmark = pytest.mark.slow


@pytest.fixture
def ready(store: Store) -> Iterator[tuple[Store, Settings]]:
    with pytest.MonkeyPatch.context() as patch:
        use(patch, ToyEmbedder())
        settings = load(data_root=str(store.root), llm={"concurrency": 8})
        seal(store, settings, list(archive().documents))
        seal_eval_set(store, QUESTIONS, pins=open_archive(store, settings).pins)
        yield store, settings


def test_concurrent_agents_over_the_sealed_archive_leave_a_clean_trace(ready: tuple[Store, Settings]) -> None:
    store, settings = ready
    build(store, settings, arm="retrieval", model="m", eval_set="small", runs=2, chat=Script(delay_s=0.001))
    baselines.build(store, settings, eval_set="small")
    found = [record for record in records.traces(store, "small") if record.arm in {"retrieval", "evidence_count"}]
    assert len(found) == 4 * 2 + 4
    for record in found:
        seen = [seen for step in record.steps for seen in step.seen]
        assert seen
        assert max(seen.created_at for seen in seen) < record.t0
        assert record.identity.archive_snapshot is not None
    by_run = {(record.question_id, record.run): record for record in found if record.arm == "retrieval"}
    for asked in QUESTIONS:
        hits = [[seen.key for step in by_run[asked.id, run].steps for seen in step.seen] for run in (1, 2)]
        assert hits[0] == hits[1]


def test_the_audit_finds_nothing(ready: tuple[Store, Settings]) -> None:
    from hindcast_dagster.leakage import audit

    store, settings = ready
    build(store, settings, arm="retrieval", model="m", eval_set="small", runs=1, chat=Script())
    manifest = audit.build(store, settings, eval_set="small")
    found = audit.report(store, "small")
    assert manifest.stats["forecasts"] == 4
    assert [each for each in found["violations"] if each["question"] and each["document"]] == []


def test_months_that_come_later_do_not_change_a_pinned_eval_set(ready: tuple[Store, Settings]) -> None:
    store, settings = ready
    build(store, settings, arm="retrieval", model="m", eval_set="small", runs=1, limit=2, chat=Script())
    more = [*archive().documents, document("new1", T0 - 20 * DAY, "Zorba Corp rocket launch", title="late arrival")]
    seal(store, settings, more)
    chat = Script()
    manifest = build(store, settings, arm="retrieval", model="m", eval_set="small", runs=1, chat=chat)
    assert manifest.rows == 4
    assert all("t3_new1" not in record.forecast.trace.documents() for record in records.traces(store, "small"))
    assert len({record.identity.archive_snapshot for record in records.traces(store, "small")}) == 1
