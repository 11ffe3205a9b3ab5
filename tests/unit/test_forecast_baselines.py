"""The forecasters without a model."""

from hindcast_dagster.contracts.forecasts import FORECASTS
from hindcast_dagster.forecast import baselines, records
from hindcast_dagster.forecast.evidence_count import moved
from hindcast_dagster.settings import Settings
from hindcast_dagster.storage.store import Store
from hindcast_dagster.storage.tables import read_table
from tests.forecast_world import T0, archive, question, seal_eval_set
from tests.toy_archive import ToyArchive, document


def test_each_baseline_is_a_row_per_question(store: Store, settings: Settings) -> None:
    seal_eval_set(store, [question(1), question(2, price_at_t0=None)])
    manifest = baselines.build(store, settings, eval_set="small", archive=archive())
    table = read_table(store.partition("market_baseline", "small").require(), FORECASTS)
    assert set(table["model"]) == {"none"}
    by_arm = {arm: group["prob_yes"].to_list() for (arm,), group in table.group_by("arm", maintain_order=True)}
    assert by_arm["market_price"] == [0.6]
    assert by_arm["constant_half"] == [0.5, 0.5]
    assert by_arm["base_rate"] == [0.3, 0.3]
    assert by_arm["reference_class"] == [0.25, 0.25]
    assert len(by_arm["evidence_count"]) == 2
    assert manifest.stats["left_out"] == {"market_price": 1}


def test_evidence_count_reads_the_archive_at_t0_and_leaves_a_trace(store: Store, settings: Settings) -> None:
    seal_eval_set(store, [question(1)])
    baselines.build(store, settings, eval_set="small", archive=archive())
    record = next(found for found in records.traces(store, "small") if found.arm == "evidence_count")
    assert record.forecast.prob_yes is not None
    assert record.forecast.prob_yes > 0.3  # the posts confirm it
    assert record.forecast.evidence_quality == "strong"
    assert {step.kind for step in record.steps} == {"search", "note"}
    seen = [seen for step in record.steps for seen in step.seen]
    assert seen
    assert all(document.created_at < T0 for document in seen)


def test_a_budget_for_the_model_changes_no_baseline(store: Store, settings: Settings) -> None:
    seal_eval_set(store, [question(1), question(2)])
    small = settings.model_copy(
        update={"agent": settings.agent.model_copy(update={"hits_per_query": 1, "expanded": 1})}
    )
    tables = [
        read_table(store.partition("market_baseline", "small").require(), FORECASTS)
        for given in (settings, small)
        if baselines.build(store, given, eval_set="small", archive=archive())
    ]
    assert tables[0].equals(tables[1])


def test_an_archive_that_is_silent_leaves_the_base_rate(store: Store, settings: Settings) -> None:
    seal_eval_set(store, [question(1)])
    elsewhere = ToyArchive([document("a", "2025-01-10", "Best pasta recipes, and the dough was a success.")])
    baselines.build(store, settings, eval_set="small", archive=elsewhere)
    record = next(found for found in records.traces(store, "small") if found.arm == "evidence_count")
    assert record.forecast.prob_yes == question(1).base_rate
    assert record.forecast.evidence_quality == "none"


def test_without_a_searchable_month_it_is_left_out_and_said(store: Store, settings: Settings) -> None:
    seal_eval_set(store, [question(1)])
    empty = baselines.build(store, settings, eval_set="small", archive=ToyArchive([]))
    assert "no searchable month" in empty.stats["left_out"]["evidence_count"]
    missing = baselines.build(store, settings, eval_set="small")
    assert "evidence_count" in missing.stats["left_out"]
    assert missing.rows == 4


def test_building_again_changes_nothing_and_drops_stale_forecasts(store: Store, settings: Settings) -> None:
    seal_eval_set(store, [question(1)])
    first = baselines.build(store, settings, eval_set="small", archive=archive())
    again = baselines.build(store, settings, eval_set="small", archive=archive())
    assert again.without_time() == first.without_time()
    baselines.build(store, settings, eval_set="small", archive=archive(count=5))
    assert sum(found.arm == "evidence_count" for found in records.traces(store, "small")) == 1


def test_no_evidence_stays_on_the_prior_and_no_count_makes_certain() -> None:
    assert moved(0.3, 0.0) == 0.3
    assert moved(0.0, 1.0) < 0.5
    assert moved(1.0, 1.0) == 0.98
    assert moved(0.5, -1.0) < 0.1
