"""Selections through `evalset.build`: balance, caps, funnel, the outcome-blind twin, vintages and the contamination view."""

import json

import pytest
from typer.testing import CliRunner

from hindcast_dagster.cli.main import app
from hindcast_dagster.clock import DAY, HOUR, Cutoff
from hindcast_dagster.contracts.coverage import COVERAGE
from hindcast_dagster.contracts.markets import MARKETS, PRICES
from hindcast_dagster.errors import InputRefused, NotReady, UsageError
from hindcast_dagster.evalset import lookback
from hindcast_dagster.evalset.build import build
from hindcast_dagster.evalset.config import Choice
from hindcast_dagster.evalset.contamination import view
from hindcast_dagster.evalset.portable import export, import_file
from hindcast_dagster.evalset.sweep import build_sweep, points
from hindcast_dagster.evalset.twin import build_twin
from hindcast_dagster.questions.load import load
from hindcast_dagster.settings import load as load_settings
from hindcast_dagster.storage.store import open_store
from hindcast_dagster.storage.tables import publish_table
from tests.leak_world import CLOSE, T0, market_row

MONTH = "2025-03"


def market_id(number):
    return f"0x{number:064x}"


def seal(store, count=12, *, prices=None):
    """Markets 1.. : every third Yes, two topics, events of three; market 0 was voided and market 99 has three outcomes."""
    rows = [
        market_row(market_id=market_id(0), outcome=None, excluded="void_50_50"),
        market_row(market_id=market_id(99), outcome=None, excluded="not_binary"),
    ]
    rows += [
        market_row(
            market_id=market_id(number), outcome="Yes" if number % 3 == 0 else "No", event_id=f"e{number // 3}",
            topic="Sports" if number % 2 else "Health",
        )
        for number in range(1, count + 1)
    ]  # fmt: skip
    points = [
        {"market_id": market_id(number), "at": T0 - HOUR, "price": (prices or {}).get(number, 0.5), "route": "clob",
         "step_s": 60}
        for number in range(1, count + 1)
    ]  # fmt: skip
    publish_table(store.partition("markets", MONTH), MARKETS.frame(rows), MARKETS, code_version="1")
    publish_table(store.partition("market_prices", MONTH), PRICES.frame(points), PRICES, code_version="1")


def seal_probe(store, qualities, *, as_of="close", at=CLOSE, contrast=None):
    counts = {
        f"{side}_{name}": 0 for side in ("yes", "no") for name in ("strong", "weak", "irrel", "contra", "unlabelled")
    }
    rows = [
        {
            "market_id": market_id(number), "as_of": as_of, "at": at, "judge": "evidence_count", "judge_version": "1",
            **counts, "yes_score": 0.0, "no_score": 0.0, "contrast": (contrast or {}).get(number, 0.5),
            "resolved_contrast": 0.5, "evidence_quality": quality, "documents": 1,
        }
        for number, quality in qualities.items()
    ]  # fmt: skip
    publish_table(store.partition("coverage_probe", MONTH), COVERAGE.frame(rows), COVERAGE, code_version="1")


def make(store, settings, name="q", **asked):
    return build(store, settings, name=name, policy="day_before_close", **asked)


def numbers(store, name="q"):
    return {int(found.question.id, 16) for found in load(store, name)}


def test_balanced_without_a_probe_takes_all_of_the_rarer_outcome(store, settings):
    seal(store)
    manifest = make(store, settings, choice=Choice(balanced=True))
    assert manifest.stats["outcomes"] == {"No": 4, "Yes": 4}
    assert manifest.stats["excluded"] == {"not_binary": 1, "not_needed_for_balance": 4, "void_50_50": 1}


def test_a_probe_keeps_what_it_calls_strong(store, settings):
    seal(store)
    seal_probe(store, {number: "strong" if number in {1, 2, 3, 6, 7} else "weak" for number in range(1, 13)})
    manifest = make(store, settings, size=6)
    assert {3, 6} <= numbers(store) <= {1, 2, 3, 6, 7}
    assert manifest.stats["excluded"] == {
        "evidence_weak": 7, "not_binary": 1, "not_needed_for_balance": 1, "void_50_50": 1,
    }  # fmt: skip
    assert manifest.stats["judge"] == "evidence_count"


def test_the_funnel_is_told_from_the_listing_on(store, settings):
    seal(store)
    seal_probe(store, {number: "strong" if number <= 6 else "none" for number in range(1, 13)})
    manifest = make(store, settings, choice=Choice(balanced=True, per_event=1))
    steps = [(step["step"], step["markets"], step["no_share"]) for step in manifest.stats["funnel"]]
    assert steps == [
        ("markets", 14, 0.666667),
        ("binary markets", 13, 0.666667),
        ("resolved Yes or No", 12, 0.666667),
        ("with a t0 and a price", 12, 0.666667),
        ("evidence strong", 6, 0.666667),
        ("at most 1 per event", 3, 0.333333),
        ("selected", 2, 0.5),
    ]


def test_caps_are_part_of_the_sets_identity(store, settings):
    seal(store, prices={3: 0.99, 6: 0.01})
    chosen = Choice(balanced=True, price_band=(0.02, 0.98), min_lead_h=24)
    manifest = make(store, settings, choice=chosen)
    assert manifest.stats["excluded"]["decided"] == 2
    assert numbers(store).isdisjoint({3, 6})
    assert make(store, settings, choice=chosen) == manifest
    with pytest.raises(InputRefused, match="price_band"):
        make(store, settings, choice=Choice(balanced=True, min_lead_h=24))


def test_building_twice_gives_the_same_set(store, settings, tmp_path):
    from hindcast_dagster.storage.store import open_store

    other = open_store(tmp_path / "other")
    manifests = []
    for root in (store, other):
        seal(root)
        manifests.append(make(root, settings, size=4, seed=7))
    assert manifests[0].without_time() == manifests[1].without_time()


def test_twin_has_the_same_size_and_follows_the_evidence_at_t0(store, settings):
    seal(store)
    make(store, settings, size=4)
    with pytest.raises(NotReady, match="--eval-set q --pool --model"):
        build_twin(store, settings, name="q")
    strength = {number: number / 20 * (-1) ** number for number in range(1, 13)}
    seal_probe(store, dict.fromkeys(range(1, 13), "weak"), as_of="t0", at=T0, contrast=strength)
    manifest = build_twin(store, settings, name="q")
    assert manifest.key == ("q-blind",)
    assert numbers(store, "q-blind") == {9, 10, 11, 12}, "two of each topic, those with most evidence"
    assert manifest.stats["config"]["blind"] is True
    with pytest.raises(UsageError, match="no balanced selection"):
        build_twin(store, settings, name="q-blind")


def test_twin_ignores_what_was_probed_at_another_instant(store, settings):
    seal(store)
    make(store, settings, size=4)
    seal_probe(store, dict.fromkeys(range(1, 13), "strong"), as_of="t0", at=T0 - DAY)
    with pytest.raises(NotReady, match="no_contrast 12"):
        build_twin(store, settings, name="q")


def test_a_next_vintage_takes_what_resolved_since_and_leaves_the_first_alone(store, settings):
    seal(store, count=6)
    first = make(store, settings, size=2)
    seal(store, count=12)
    second = make(store, settings, name="q2", vintage="q", size=4)
    assert numbers(store, "q2") <= set(range(7, 13))
    assert second.stats["config"]["vintage"] == "q"
    assert store.partition("eval_set", "q").manifest() == first


@pytest.mark.parametrize(
    "asked", [{"choice": Choice(per_event=1)}, {"choice": Choice(balanced=True, blind=True)}, {"size": 1}]
)
def test_what_has_no_meaning_is_refused(store, settings, asked):
    seal(store)
    with pytest.raises(UsageError):
        make(store, settings, **asked)


def test_contamination_view_counts_every_model_of_the_roster(store, settings):
    seal(store)
    make(store, settings)
    exposures = {found.model: found for found in view(store, settings, "q")}
    assert len(exposures) >= 10
    for found in exposures.values():
        assert found.after + found.before + found.unknown == 12
        if found.knowledge_until is None:
            assert found.unknown == 12
        else:
            known = Cutoff.of(found.knowledge_until).epoch + DAY
            assert (found.after, found.before) == ((12, 0) if known <= T0 else (0, 12))


def test_command_line(store, settings):
    seal(store)
    command = ["--data-root", str(store.root), "--json", "evalset"]
    built = CliRunner().invoke(
        app,
        [*command, "build", "q", "--t0", "day_before_close", "--all", "--balanced", "--price-band", "0.02,0.98"],
    )
    assert built.exit_code == 0, built.output
    document = json.loads(built.stdout)
    assert document["funnel"][-1]["step"] == "selected"
    assert {"model", "after", "before", "unknown", "knowledge_until"} == set(document["contamination"][0])
    seal_probe(store, dict.fromkeys(range(1, 13), "weak"), as_of="t0", at=T0)
    twin = json.loads(CliRunner().invoke(app, [*command, "twin", "q"]).stdout)
    assert twin["name"] == "q-blind"
    assert len(twin["questions"]) == len(document["questions"])
    bad = CliRunner().invoke(app, [*command, "build", "z", "--t0", "day_before_close", "--all", "--price-band", "low"])
    assert isinstance(bad.exception, UsageError)


def seal_lives(store):
    """Markets 1 and 2 have prices all their lives (20 days), market 3 only two days before its close."""
    seal(store, count=3)
    points = [
        {"market_id": market_id(number), "at": CLOSE - day * DAY, "price": 0.1 * number, "route": "clob", "step_s": DAY}
        for number, days in {1: range(1, 21), 2: range(1, 21), 3: (2,)}.items()
        for day in sorted(days, reverse=True)
    ]
    publish_table(store.partition("market_prices", MONTH), PRICES.frame(points), PRICES, code_version="1")
    make(store, settings_of(store), max_price_age_h=None)


def settings_of(store):
    return load_settings(data_root=str(store.root))


def test_a_sweep_is_sets_over_exactly_the_same_markets(store, settings):
    seal_lives(store)
    found = build_sweep(store, settings, name="q")
    assert [manifest.key[0] for manifest in found.sets.values()] == ["q-l25", "q-l50", "q-l75", "q-l100"]
    opened = CLOSE - 20 * DAY
    for fraction, manifest in found.sets.items():
        assert numbers(store, manifest.key[0]) == {1, 2}
        t0s = {one.question.t0.epoch for one in load(store, manifest.key[0])}
        assert t0s == {CLOSE - 1 if fraction == 1 else opened + int(fraction * 20 * DAY)}
    assert found.left_out == 1
    assert build_sweep(store, settings, name="q") == found


def test_a_sweep_of_markets_that_are_not_here_says_where_they_are(store, settings, tmp_path):
    seal_lives(store)
    elsewhere = open_store(tmp_path / "elsewhere")
    import_file(elsewhere, export(store, name="q").path)
    asked = r"None of the 3 markets of q is sealed .*markets fetch --closed-from 2025-03-01 --closed-to 2025-03-31`"
    with pytest.raises(NotReady, match=asked):
        build_sweep(elsewhere, settings_of(elsewhere), name="q")
    with pytest.raises(NotReady, match=asked):
        lookback.plan(elsewhere, settings_of(elsewhere), lookback.Order("q"))


def test_a_trajectory_by_command(store, settings):
    seal_lives(store)
    command = ["--data-root", str(store.root), "--json", "evalset", "sweep", "q", "--points", "5"]
    document = json.loads(CliRunner().invoke(app, command).stdout)
    assert [one["name"] for one in document["sets"]] == ["q-t5-20", "q-t5-40", "q-t5-60", "q-t5-80", "q-t5-100"]
    assert document["left_out"] == 1
    with pytest.raises(UsageError, match="1 to 100"):
        points(0)
