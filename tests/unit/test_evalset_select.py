"""The selection against brute force: balance of outcomes, water-filling of topics, caps, independence of order."""

from collections import Counter
from itertools import combinations, product

import polars as pl
import pytest
from hypothesis import given
from hypothesis import strategies as st

from hindcast_dagster.errors import InputRefused, UsageError
from hindcast_dagster.evalset.caps import Caps, rank
from hindcast_dagster.evalset.fill import per_event_quota, water_fill
from hindcast_dagster.evalset.funnel import PAPER, FunnelStep
from hindcast_dagster.evalset.select import select, select_blind

SCHEMA = {
    "id": pl.String, "event_id": pl.String, "outcome": pl.String, "topic": pl.String, "t0": pl.Int64,
    "close_at": pl.Int64, "price_at_t0": pl.Float64, "evidence_quality": pl.String, "contrast": pl.Float64,
    "resolved_contrast": pl.Float64,
}  # fmt: skip
DAY = 86_400
T0 = 1_700_000_000


def row(name, outcome="Yes", topic="Sports", **values):
    base = {
        "id": name, "event_id": None, "outcome": outcome, "topic": topic, "t0": T0, "close_at": T0 + 2 * DAY,
        "price_at_t0": 0.5, "evidence_quality": "strong", "contrast": 0.5, "resolved_contrast": 0.5,
    }  # fmt: skip
    return base | values


def pool(rows):
    return pl.DataFrame(rows, schema=SCHEMA, orient="row")


rows_of = st.lists(
    st.builds(
        dict,
        outcome=st.sampled_from(["Yes", "No", "No"]),
        topic=st.sampled_from(["Sports", "Crypto", "Health"]),
        event_id=st.sampled_from([None, "e1", "e2", "e3"]),
        evidence_quality=st.sampled_from(["strong", "strong", "weak", "none", None]),
        contrast=st.sampled_from([-0.9, -0.2, 0.0, 0.4, None]),
        price_at_t0=st.sampled_from([0.01, 0.5, 0.99, None]),
    ),
    max_size=9,
).map(lambda found: [row(f"m{index}", **values) for index, values in enumerate(found)])


def by_topic(frame, ids):
    return Counter(frame.filter(pl.col("id").is_in(list(ids)))["topic"])


def fullness(counts, topics):
    """The thing that lexicographic max-min maximises: counts sorted upwards."""
    return sorted(counts[topic] for topic in topics)


@given(rows_of, st.integers(0, 3), st.one_of(st.none(), st.integers(2, 8)))
def test_selection_is_the_best_of_all_subsets(rows, seed, size):
    frame = pool(rows)
    strong = frame.filter(pl.col("evidence_quality") == "strong")
    found = select(frame, size=size, seed=seed)
    sides = {side: strong.filter(pl.col("outcome") == side) for side in ("Yes", "No")}
    n = min(sides["Yes"].height, sides["No"].height, 99 if size is None else size // 2)
    for side in sides.values():
        taken = [market for market in found.ids if market in set(side["id"])]
        assert len(taken) == n
        topics = set(side["topic"])
        best = max((fullness(by_topic(side, chosen), topics) for chosen in combinations(side["id"], n)), default=[])
        assert fullness(by_topic(side, taken), topics) == best


@given(rows_of, st.randoms(use_true_random=False), st.integers(0, 3))
def test_order_of_the_pool_does_not_matter(rows, random, seed):
    shuffled = list(rows)
    random.shuffle(shuffled)
    caps = Caps(per_event=1, price_band=(0.02, 0.98))
    assert select(pool(rows), seed=seed, caps=caps) == select(pool(shuffled), seed=seed, caps=caps)
    blind = {"size": 3, "seed": seed, "caps": Caps(keep=None)}
    assert select_blind(pool(rows), **blind) == select_blind(pool(shuffled), **blind)


@given(rows_of, st.integers(0, 3))
def test_every_market_is_taken_or_has_a_reason(rows, seed):
    caps = Caps(per_event=1, price_band=(0.02, 0.98), min_lead_s=DAY)
    for found in (select(pool(rows), seed=seed, caps=caps), select_blind(pool(rows), size=2, seed=seed, caps=caps)):
        assert set(found.ids) | set(found.dropped) == {market["id"] for market in rows}
        assert not set(found.ids) & set(found.dropped)
        assert sum(found.excluded.values()) + len(found.ids) == len(rows)
        assert found.funnel[-1].markets == len(found.ids)
        counts = [step.markets for step in found.funnel]
        assert counts == sorted(counts, reverse=True)


@given(rows_of, st.integers(2, 6), st.integers(0, 3))
def test_a_larger_set_contains_the_smaller(rows, size, seed):
    frame = pool(rows)
    assert set(select(frame, size=size, seed=seed).ids) <= set(select(frame, size=size + 2, seed=seed).ids)


@given(rows_of, st.integers(0, 6), st.integers(0, 3), st.lists(st.sampled_from(["Yes", "No"]), min_size=9, max_size=9))
def test_the_twin_is_blind_to_outcomes(rows, size, seed, other):
    caps = Caps(keep=("strong", "weak"), per_event=2)
    flipped = [market | {"outcome": side, "resolved_contrast": -1.0} for market, side in zip(rows, other, strict=False)]
    assert (
        select_blind(pool(rows), size=size, seed=seed, caps=caps).ids
        == select_blind(pool(flipped), size=size, seed=seed, caps=caps).ids
    )


def test_the_twin_takes_the_most_evidence_of_each_topic():
    frame = pool(
        [
            row("a", contrast=-0.9),
            row("b", contrast=0.1),
            row("c", contrast=0.3),
            row("d", topic="Health", contrast=0.0),
        ]
    )
    found = select_blind(frame, size=2)
    assert found.ids == ("a", "d")
    assert found.excluded == {"less_evidence": 2}


def test_the_twin_refuses_a_cap_that_knows_the_outcome():
    with pytest.raises(UsageError, match="outcome-blind"):
        select_blind(pool([]), size=2, caps=Caps(min_resolved_contrast=0.0))


@given(st.lists(st.tuples(st.integers(0, 3), st.integers(0, 3)), max_size=4), st.integers(1, 3))
def test_event_cap_costs_the_least_balance(events, cap):
    splits = per_event_quota(events, cap)
    for (yes, no), split in zip(events, splits, strict=True):
        assert 0 <= split.yes <= yes
        assert 0 <= split.no <= no
        assert split.yes + split.no == min(cap, yes + no)
    options = [[(y, n) for y in range(yes + 1) for n in range(no + 1) if y + n <= cap] for yes, no in events]
    best = max(min(sum(y for y, _ in chosen), sum(n for _, n in chosen)) for chosen in product(*options))
    assert min(sum(split.yes for split in splits), sum(split.no for split in splits)) == best


def test_event_cap_keeps_the_rare_outcome_of_each_event_only_as_far_as_balance_needs():
    legs = [row(f"{event}{leg}", "Yes" if leg == 0 else "No", event_id=event) for event in "abcd" for leg in range(4)]
    found = select(pool(legs), caps=Caps(per_event=1))
    outcomes = pool(legs).filter(pl.col("id").is_in(list(found.ids)))
    assert Counter(outcomes["outcome"]) == {"Yes": 2, "No": 2}
    assert outcomes["event_id"].n_unique() == 4
    assert found.excluded == {"event_cap": 12}


@given(st.dictionaries(st.sampled_from("abcd"), st.integers(0, 4)), st.integers(0, 12), st.integers(0, 5))
def test_water_filling_against_brute_force(sizes, n, seed):
    queues = {name: [f"{name}{index}" for index in range(size)] for name, size in sizes.items()}
    taken = water_fill(queues, n, tie=lambda item: rank(item, seed))
    counts = Counter(item[0] for item in taken)
    total = min(n, sum(sizes.values()))
    assert len(taken) == total
    legal = [quota for quota in product(*(range(size + 1) for size in sizes.values())) if sum(quota) == total]
    assert sorted(counts[name] for name in sizes) == max(sorted(quota) for quota in legal)
    for name, queue in queues.items():
        assert [item for item in taken if item[0] == name] == queue[: counts[name]]


def test_reasons_name_the_first_cap_that_a_market_fails():
    frame = pool(
        [
            row("keeps", price_at_t0=0.02),
            row("other", "No", price_at_t0=0.98),
            row("weak", evidence_quality="weak", price_at_t0=0.99),
            row("silent", evidence_quality=None),
            row("sure", price_at_t0=0.981),
            row("unpriced", price_at_t0=None),
            row("soon", close_at=T0 + DAY - 1),
            row("against", resolved_contrast=0.0),
            row("unread", resolved_contrast=None),
            row("spare", "No"),
        ]
    )
    caps = Caps(price_band=(0.02, 0.98), min_lead_s=DAY, min_resolved_contrast=0.0)
    found = select(frame, caps=caps, seed=3)
    spare = ({"other", "spare"} - set(found.ids)).pop()
    assert found.dropped == {
        "weak": "evidence_weak", "silent": "evidence_unknown", "sure": "decided", "unpriced": "no_price",
        "soon": "short_lead", "against": "unsupported", "unread": "unsupported", spare: "not_needed_for_balance",
    }  # fmt: skip
    assert [step.step for step in found.funnel] == [
        "pool", "evidence strong", "supports the resolved side", "price in [0.02, 0.98]", "lead of 86400 s", "selected",
    ]  # fmt: skip


def test_funnel_counts_events_and_share_of_no():
    frame = pool([row("a", event_id="e"), row("b", "No", event_id="e"), row("c", "No"), row("d", "No", event_id="c")])
    assert FunnelStep.of("pool", frame) == ("pool", 4, 3, 0.75, None)
    assert FunnelStep.of("none", frame.clear()) == ("none", 0, 0, None, None)
    assert [step.markets for step in PAPER] == [7_913, 3_427, 216]
    assert round(PAPER[1].no_share, 2) == 0.83


def test_stats_are_json_values():
    import json

    found = select(pool([row("a"), row("b", "No"), row("c", "No", "Health")]), size=2)
    stats = json.loads(json.dumps(found.as_stats()))
    assert stats["selected"] == 2
    assert {"outcome": "Yes", "topic": "Sports", "available": 1, "taken": 1} in stats["taken"]
    assert stats["excluded"] == {"not_needed_for_balance": 1}
    assert Caps(price_band=(0.1, 0.9)).as_stats()["price_band"] == [0.1, 0.9]


def test_without_a_probe_no_evidence_is_asked_for():
    frame = pool([row("a"), row("b", "No")]).drop("evidence_quality", "contrast", "resolved_contrast")
    assert select(frame, caps=Caps(keep=None)).ids == ("a", "b")
    with pytest.raises(InputRefused, match="evidence_quality"):
        select(frame)


def test_what_is_refused():
    with pytest.raises(InputRefused, match="repeats the market a"):
        select(pool([row("a"), row("a", "No")]))
    with pytest.raises(InputRefused, match="outcome None"):
        select(pool([row("a", None)]))
    with pytest.raises(UsageError, match="size 1"):
        select(pool([]), size=1)
    for bad in ({"keep": ("great",)}, {"per_event": 0}, {"price_band": (0.9, 0.1)}):
        with pytest.raises(UsageError):
            Caps(**bad)


def test_an_empty_pool_gives_an_empty_set():
    found = select(pool([]))
    assert (found.ids, found.dropped, found.taken) == ((), {}, ())


def test_seed_decides_the_picks():
    frame = pool([row("y")] + [row(f"n{index}", "No") for index in range(20)])
    assert len({select(frame, seed=seed).ids for seed in range(10)}) > 3
