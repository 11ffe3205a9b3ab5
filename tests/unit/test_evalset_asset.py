"""The asset `eval_set` and the command offer the same choices, and both hand them to one function."""

import dataclasses
import inspect

import dagster as dg
import pytest

from assets.evaluation import EvalSetConfig, seal_eval_set
from assets.partitions import EVAL_SETS
from hindcast_dagster.cli import evalset as command
from hindcast_dagster.clock import DAY
from hindcast_dagster.contracts.markets import PRICES
from hindcast_dagster.definitions import build_definitions
from hindcast_dagster.errors import UsageError
from hindcast_dagster.evalset.build import build
from hindcast_dagster.evalset.config import Asked, Choice, Config
from hindcast_dagster.questions.load import load
from hindcast_dagster.storage.tables import publish_table
from tests.leak_world import CLOSE, T0
from tests.unit.test_evalset_choice import MONTH, market_id, seal, seal_probe

CHOICE = {field.name for field in dataclasses.fields(Choice)} - {"blind"}  # a blind set is made as a twin
CHOICES = set(Asked.__annotations__) - {"choice"} | CHOICE
SAID_OTHERWISE = {"t0": "policy", "markets": "market_ids", "max_price_age": "max_price_age_h", "min_lead": "min_lead_h"}


def test_one_list_of_choices():
    """A choice that is added to the library must be added to both doors."""
    assert set(EvalSetConfig.model_fields) == CHOICES | {"twin_of", "sweep_of", "points"}
    options = set(inspect.signature(command.build).parameters) - {"context", "name", "take_all"}
    assert {SAID_OTHERWISE.get(option, option) for option in options} == CHOICES
    assert {field.name for field in dataclasses.fields(Config)} == set(Asked.__annotations__)


def test_the_asset_makes_the_set_that_the_library_makes(store, settings):
    seal(store)
    asked = {"balanced": True, "per_event": 2, "min_lead_h": 1.0, "seed": 5, "archive_end": "2026-01-31"}
    config = EvalSetConfig(price_band=[0.1, 0.9], **asked)
    made = seal_eval_set(store, settings, name="q", config=config)
    choice = Choice(balanced=True, per_event=2, min_lead_h=1.0, price_band=(0.1, 0.9))
    assert build(
        store, settings, name="q", policy="day_before_close", seed=5, archive_end="2026-01-31", choice=choice
    ) == (made)


def materialise(store, settings, name, **config):
    job = build_definitions(settings).resolve_implicit_global_asset_job_def()
    with dg.DagsterInstance.ephemeral() as instance:
        instance.add_dynamic_partitions(EVAL_SETS, [name])
        result = job.execute_in_process(
            instance=instance,
            partition_key=name,
            asset_selection=[dg.AssetKey("eval_set")],
            run_config={"ops": {"eval_set": {"config": config}}},
        )
        (event,) = result.asset_materializations_for_node("eval_set")
        return event.metadata


def test_selection_twin_and_sweep_are_partitions(store, settings):
    seal(store)
    points = [
        {"market_id": market_id(number), "at": CLOSE - day * DAY, "price": 0.4, "route": "clob", "step_s": DAY}
        for number in range(1, 13)
        for day in range(20, 0, -1)
    ]
    publish_table(store.partition("market_prices", MONTH), PRICES.frame(points), PRICES, code_version="1")
    metadata = materialise(store, settings, "q", size=4, seed=2)
    assert metadata["warnings"].value == ["within_archive: no archive month is sealed: nothing can be searched."]
    assert metadata["funnel"].records[-1].data["markets"] == 4
    assert sum(record.data["count"] for record in metadata["outcomes"].records) == 4
    seal_probe(store, dict.fromkeys(range(1, 13), "weak"), as_of="t0", at=T0)
    materialise(store, settings, "q-blind", twin_of="q")
    assert store.partition("eval_set", "q-blind").require().manifest.stats["config"]["blind"]
    materialise(store, settings, "q-l25", sweep_of="q")
    materialise(store, settings, "q-t5-20", sweep_of="q", points=5)
    ids = {found.question.id for found in load(store, "q")}
    for name in ("q-l25", "q-t5-20"):
        assert {found.question.id for found in load(store, name)} == ids
    assert [key for (key,) in store.sealed_keys("eval_set")] == ["q", "q-blind", "q-l25", "q-t5-20"], "only those"


@pytest.mark.parametrize(
    ("name", "config", "said"),
    [
        ("q-twin", {"twin_of": "q"}, "is the partition q-blind"),
        ("q-l33", {"sweep_of": "q"}, "q-l25, q-l50, q-l75, q-l100"),
        ("q-blind", {"twin_of": "q", "seed": 3}, "choose nothing beside"),
        ("q-l25", {"twin_of": "q", "sweep_of": "q"}, "choose nothing beside"),
        ("z", {"balanced": True, "price_band": [0.1]}, "two prices"),
    ],
)
def test_what_contradicts_is_refused(store, settings, name, config, said):
    seal(store)
    build(store, settings, name="q", policy="day_before_close", size=4)
    with pytest.raises(UsageError, match=said):
        seal_eval_set(store, settings, name=name, config=EvalSetConfig(**config))
