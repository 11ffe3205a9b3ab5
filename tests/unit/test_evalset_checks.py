"""What an eval set refuses to overlook: months that nobody probed, markets without a probe, t0s beyond the archive."""

import json

import pytest
from typer.testing import CliRunner

from hindcast_dagster.cli.main import app
from hindcast_dagster.clock import DAY, month_start
from hindcast_dagster.contracts.coverage import COVERAGE
from hindcast_dagster.contracts.markets import MARKETS, PRICES
from hindcast_dagster.errors import NotReady
from hindcast_dagster.evalset.build import build
from hindcast_dagster.evalset.checks import warnings
from hindcast_dagster.evalset.config import Choice, Config
from hindcast_dagster.evalset.pool import span_of
from hindcast_dagster.evalset.twin import build_twin
from hindcast_dagster.questions.load import load
from hindcast_dagster.storage.tables import publish_table
from tests.leak_world import market_row

MONTHS = ("2025-01", "2025-02", "2025-03")
COUNTS = {f"{side}_{name}": 0 for side in ("yes", "no") for name in ("strong", "weak", "irrel", "contra", "unlabelled")}


def market_id(number):
    return f"0x{number:064x}"


def seal_markets(store):
    """Four markets a month, numbered 1..12, Yes and No in turn, each with one price five days before it closes."""
    for index, month in enumerate(MONTHS):
        numbers = range(4 * index + 1, 4 * index + 5)
        closes = {number: month_start(month) + 20 * DAY + number for number in numbers}
        rows = [
            market_row(
                market_id=market_id(number), outcome="Yes" if number % 2 else "No", event_id=f"e{number}",
                close_at=close, open_at=close - 30 * DAY,
            )
            for number, close in closes.items()
        ]  # fmt: skip
        prices = [
            {"market_id": market_id(number), "at": close - 5 * DAY, "price": 0.4, "route": "clob", "step_s": 60}
            for number, close in closes.items()
        ]
        publish_table(store.partition("markets", month), MARKETS.frame(rows), MARKETS, code_version="1")
        publish_table(store.partition("market_prices", month), PRICES.frame(prices), PRICES, code_version="1")


def seal_probe(store, month, numbers, *, judge="evidence_count", as_of="close", at=None):
    rows = [
        {
            "market_id": market_id(number), "as_of": as_of, "at": (at or {}).get(market_id(number), 1_700_000_000),
            "judge": judge, "judge_version": "1", **COUNTS, "yes_score": 0.0, "no_score": 0.0, "contrast": 0.5,
            "resolved_contrast": 0.5, "evidence_quality": "strong", "documents": 1,
        }
        for number in numbers
    ]  # fmt: skip
    publish_table(store.partition("coverage_probe", month), COVERAGE.frame(rows), COVERAGE, code_version="1")


def seal_archive(store, *months):
    for month in months:
        with store.partition("submission_index", month).draft() as draft:
            (draft.path / "x").write_text(month)
            draft.seal(rows=0, schema_version="x/1", code_version="1")


def make(store, settings, name="q", **asked):
    return build(store, settings, name=name, **({"policy": "day_before_close", "size": 4} | asked))


def test_auto_keeps_everything_only_where_nothing_is_probed(store, settings):
    seal_markets(store)
    manifest = make(store, settings)
    assert manifest.stats["evidence"] == "any, because no market of the pool is probed"
    assert manifest.stats["judge"] is None


def test_auto_refuses_a_pool_of_which_some_months_are_probed(store, settings):
    seal_markets(store)
    seal_probe(store, "2025-02", range(5, 9))
    with pytest.raises(NotReady) as refused:
        make(store, settings)
    said = str(refused.value)
    assert "coverage_probe 2025-01, 2025-03: not probed" in said
    command = (
        "hindcast coverage probe --closed-from 2025-01-01 --closed-to 2025-03-31 --model evidence_count --as-of close"
    )
    assert command in said
    assert store.sealed_keys("eval_set") == []
    assert make(store, settings, keep="any").rows == 4, "the way out that the message names"
    assert make(store, settings, name="feb", closed_from="2025-02-01", closed_to="2025-02-28").stats["judge"]


def test_a_month_that_only_another_judge_probed_counts_as_unprobed(store, settings):
    seal_markets(store)
    seal_probe(store, "2025-01", range(1, 5))
    seal_probe(store, "2025-02", range(5, 9))
    seal_probe(store, "2025-03", range(9, 13), judge="qwen3-8b")
    with pytest.raises(NotReady, match=r"2025-03: not probed as of the close by evidence_count"):
        make(store, settings)


def test_the_command_of_the_refusal_probes_what_lacks(store, settings, monkeypatch):
    """The printed command runs as it stands, and the set can be built after it."""
    from hindcast_dagster.coverage import probe
    from tests.toy_archive import ToyArchive

    seal_markets(store)
    seal_probe(store, "2025-02", range(5, 9))
    monkeypatch.setattr(probe, "_archive", lambda *_: ToyArchive([]))
    with pytest.raises(NotReady) as refused:
        make(store, settings)
    words = str(refused.value).split("`")[1].split()
    ran = CliRunner().invoke(app, ["--data-root", str(store.root), *words[1:]])
    assert ran.exit_code == 0, ran.output
    with pytest.raises(NotReady, match="evidence_none 12"):  # an empty archive: probed, and nothing found
        make(store, settings)


def test_markets_that_a_probed_month_lacks_are_a_warning(store, settings):
    seal_markets(store)
    seal_archive(store, "2025-01", "2025-03")
    for month, numbers in zip(MONTHS, (range(1, 5), range(5, 8), range(9, 13)), strict=True):
        seal_probe(store, month, numbers)
    manifest = make(store, settings)
    assert manifest.stats["excluded"]["evidence_unknown"] == 1
    assert warnings(manifest.checks) == [
        "probe_complete: 1 of 12 markets of the pool were not probed by evidence_count as of close."
    ]


@pytest.mark.parametrize(
    ("sealed", "passed", "said"),
    [
        ((), False, "no archive month is sealed"),
        (("2024-05", "2024-06"), False, "4 of 4 questions stand after the archive's end"),
        (("2025-06",), False, "all 4 questions stand before its first post"),
        (("2025-01",), True, "2 of 4 questions stand after the archive's end"),
        (("2024-12", "2025-03"), True, "0 of 4 questions stand after"),
    ],
)
def test_a_set_beyond_the_archive_says_so(store, settings, sealed, passed, said):
    seal_markets(store)
    seal_archive(store, *sealed)
    chosen = [market_id(number) for number in (1, 2, 11, 12)]
    manifest = make(store, settings, market_ids=chosen, size=None)
    check = next(check for check in manifest.checks if check.name == "within_archive")
    assert (check.passed, said in check.detail) == (passed, True), check.detail


def test_the_warning_is_printed_and_the_questions_listed_page_by_page(store, settings):
    seal_markets(store)
    seal_archive(store, "2024-05")
    command = ["--data-root", str(store.root), "evalset"]
    built = CliRunner().invoke(app, [*command, "build", "q", "--t0", "day_before_close", "--all"])
    assert built.exit_code == 0
    assert "Warning: within_archive: 12 of 12 questions stand after" in " ".join(built.stderr.split())
    first = load(store, "q")[0].question
    shown = CliRunner().invoke(app, [*command, "show", "q", "--limit", "5"], env={"COLUMNS": "200"}).stdout
    assert "questions 1-5 of 12" in shown
    assert "--offset 5" in shown
    assert first.id[:12] in shown
    assert first.t0.date in shown
    page = CliRunner().invoke(app, [*command, "show", "q", "--offset", "10"], env={"COLUMNS": "200"}).stdout
    assert "questions 11-12 of 12" in page
    beyond = CliRunner().invoke(app, [*command, "show", "q", "--offset", "99"], env={"COLUMNS": "200"}).stdout
    assert "none listed" in beyond
    document = json.loads(CliRunner().invoke(app, ["--json", *command, "show", "q", "--limit", "1"]).stdout)
    assert len(document["questions"]) == 12
    assert document["warnings"]


def test_a_configuration_is_read_back_from_its_manifest(store, settings):
    seal_markets(store)
    asked = {
        "policy": "lookback:0.5", "archive_end": "2025-06-01", "closed_from": "2025-01-01", "closed_to": "2025-03-31",
        "max_price_age_h": 9999.0, "size": 4, "seed": 3, "keep": "any",
        "choice": Choice(balanced=True, per_event=2, price_band=(0.1, 0.9), min_lead_h=1.5),
    }  # fmt: skip
    config = Config.of(**asked)
    assert Config.of_stats(config.as_stats()) == config
    assert Config.of_stats(json.loads(json.dumps(config.as_stats()))).as_stats() == config.as_stats()


def test_a_pool_is_every_market_that_could_be_asked_at_the_sets_own_t0(store, settings):
    """The twin's probe: with a cap on t0 (the paper's archive end) no window probe stands at the right instant."""
    seal_markets(store)
    make(store, settings, archive_end="2025-02-16T12:00:00Z", max_price_age_h=9999.0, policy="days_before:4")
    span = span_of(store, settings, "q")
    assert {month: len(ids) for month, ids in span.months.items()} == {"2025-01": 4, "2025-02": 4}
    chosen = {found.question.id: found.question.t0 for found in load(store, "q")}
    assert set(chosen) < set(span.at)
    assert all(span.at[market] == t0 for market, t0 in chosen.items())
    for month in ("2025-01", "2025-02"):
        numbers = [int(market, 16) for market in span.months[month]]
        seal_probe(store, month, numbers, as_of="t0", at={market: t0.epoch for market, t0 in span.at.items()})
    twin = build_twin(store, settings, name="q")
    assert twin.rows == 4
    assert all(check.passed for check in twin.checks if check.name == "probe_complete")
