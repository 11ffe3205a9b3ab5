"""The watch and the gate: what is unusual is told as a table to act on, what breaks a contract is never sealed."""

from typing import Any

import pytest

from assets import shell
from hindcast_dagster.contracts.analysis import EFFECTS
from hindcast_dagster.contracts.documents import COMMENTS
from hindcast_dagster.contracts.markets import MARKETS, PRICES
from hindcast_dagster.contracts.scores import AUDIT
from hindcast_dagster.contracts.table import ContractBroken
from hindcast_dagster.operation import drift
from hindcast_dagster.scoring import build as scoring
from hindcast_dagster.settings import Settings, load
from hindcast_dagster.storage.manifest import Manifest
from hindcast_dagster.storage.store import Blocked, Store
from hindcast_dagster.storage.tables import publish_table
from tests import score_world


def month(store: Store, key: str, *, lines: int = 1_000, kept: int = 100) -> Manifest:
    stats = {"lines": lines, "kept": kept, "dropped": {}}
    return publish_table(store.partition("comments", key), COMMENTS.empty(), COMMENTS, code_version="1", stats=stats)


def market_month(store: Store, key: str, *, kept: int, no: int) -> Manifest:
    stats = {"markets": kept, "kept": kept, "no": no}
    return publish_table(store.partition("markets", key), MARKETS.empty(), MARKETS, code_version="1", stats=stats)


def what(found: list[drift.Finding]) -> list[str]:
    return [each.what for each in found]


class TestMonths:
    def test_a_month_like_its_neighbours_is_nothing_to_look_at(self, store: Store, settings: Settings) -> None:
        for key in ("2025-01", "2025-02", "2025-03"):
            manifest = month(store, key)
        assert drift.of(store, settings, manifest) == []

    def test_a_dump_a_third_as_long_and_a_pass_rate_of_a_third_are_told(self, store: Store, settings: Settings) -> None:
        for key in ("2025-01", "2025-02"):
            month(store, key)
        assert what(drift.of(store, settings, month(store, "2025-03", lines=300, kept=30))) == ["lines of the dump"]
        (found,) = drift.of(store, settings, month(store, "2025-03", kept=30))
        assert (found.what, found.found) == ("kept per line", "0.030")
        assert found.expected.startswith("0.050 to 0.200")
        assert "hindcast corpus ledger --month 2025-03 --kind comments" in found.do

    def test_a_broken_or_absent_neighbour_counts_for_nothing(self, store: Store, settings: Settings) -> None:
        month(store, "2025-02")
        (store.partition("comments", "2025-02").path / "manifest.json").write_text("{")
        assert drift.of(store, settings, month(store, "2025-03", lines=10, kept=1)) == []

    def test_a_bad_month_does_not_fail_its_neighbours_check(self, store: Store, settings: Settings) -> None:
        for key in ("2025-01", "2025-02", "2025-04"):
            good = month(store, key)
        bad = month(store, "2025-03", lines=100, kept=1)
        assert not shell.watch_result(store, settings, bad).passed
        assert shell.watch_result(store, settings, good).passed

    def test_the_share_of_no_and_the_factor_are_settings(self, store: Store, settings: Settings) -> None:
        market_month(store, "2025-01", kept=100, no=80)
        manifest = market_month(store, "2025-02", kept=100, no=60)
        (found,) = drift.of(store, settings, manifest)
        assert (found.what, found.found) == ("share of No", "60%")
        wide = load(data_root=str(store.root), checks={"share": 0.3})
        assert drift.of(store, wide, manifest) == []

    def test_few_markets_say_nothing(self, store: Store, settings: Settings) -> None:
        market_month(store, "2025-01", kept=10, no=10)
        assert drift.of(store, settings, market_month(store, "2025-02", kept=10, no=0)) == []


def test_stale_prices_of_an_eval_set_are_told(store: Store, settings: Settings) -> None:
    rows = [score_world.question(n, price_age_s=3_600 * (100 if n < 3 else 1)) for n in range(10)]
    score_world.seal_questions(store, rows)
    manifest = store.partition("eval_set", "small").require().manifest
    (found,) = drift.of(store, settings, manifest)
    assert (found.what, found.found) == ("prices at t0", "3 of 10")


def test_forecasts_that_are_missing_failed_or_unread_are_told_with_the_command(
    store: Store, settings: Settings
) -> None:
    stats: dict[str, Any] = {
        "arm": "zero_shot",
        "missing": 4,
        "stopped": True,
        "statuses": {"ok": 90, "unparsed": 9, "failed": 1},
        "calls": {"forecast": {"calls": 100, "cut": 20}},
    }
    manifest = Manifest(
        table="zero_shot_forecasts", key=("m", "small"), version="0" * 64, rows=100, schema_version="forecasts/1",
        code_version="1", stats=stats, made_at=0,
    )  # fmt: skip
    found = drift.of(store, settings, manifest)
    assert what(found) == [
        "forecasts missing", "forecasts failed", "replies without a forecast", "replies cut by max_tokens",
    ]  # fmt: skip
    assert found[0].found == "4 (the money limit stopped it)"
    assert found[0].do == "hindcast forecast run --arm zero_shot --model m --eval-set small"
    shown = shell.watch_result(store, settings, manifest)
    assert not shown.passed
    assert shown.severity.value == "WARN"
    assert len(shown.metadata["findings"].records) == 4


class TestSanity:
    def scored(self, store: Store, count: int, price: float) -> Manifest:
        questions = [score_world.question(n, price_at_t0=price) for n in range(count)]
        score_world.seal_questions(store, questions)
        score_world.seal_baselines(store, questions)
        return scoring.build_scored(store, load(data_root=str(store.root)), eval_set="small")

    def test_a_market_worse_than_a_coin_stops_everything_after_it(self, store: Store) -> None:
        manifest = self.scored(store, 24, 0.2)
        check = next(check for check in manifest.checks if check.name == scoring.SANE)
        assert check.blocking
        assert not check.passed
        assert "0.6400 over 24 questions" in check.detail
        with pytest.raises(Blocked, match="scored_forecasts small failed its check market_beats_a_coin"):
            scoring.build_tables(store, load(data_root=str(store.root)), eval_set="small")
        shown = shell.sealed_result(manifest, scoring.SANE, [{"question_id": "x"}])
        assert not shown.passed
        assert len(shown.metadata["findings"].records) == 1

    def test_a_few_questions_prove_nothing(self, store: Store) -> None:
        manifest = self.scored(store, 5, 0.2)
        assert manifest.blocked is None
        assert scoring.build_tables(store, load(data_root=str(store.root)), eval_set="small").rows

    def test_a_market_that_knows_something_passes(self, store: Store) -> None:
        assert self.scored(store, 24, 0.7).blocked is None


class TestContract:
    """The expectations are held before sealing, so that launching a later asset alone cannot get around them."""

    def price(self, **values: Any) -> dict[str, Any]:
        return {"market_id": "m", "at": 1_700_000_000, "price": 0.5, "route": "clob", "step_s": 60} | values

    @pytest.mark.parametrize(
        ("values", "said"),
        [
            ({"price": 1.5}, r"1 values of price are not in \[0, 1\], for example \[1.5\]"),
            ({"price": -0.1}, r"not in \[0, 1\]"),
            ({"price": float("nan")}, r"not in \[0, 1\]"),
            ({"route": "guess"}, "not one of clob, data, for example"),
        ],
    )
    def test_a_value_outside_is_never_sealed(self, values: dict[str, Any], said: str) -> None:
        with pytest.raises(ContractBroken, match=said):
            PRICES.frame([self.price(**values)])

    def test_what_the_check_says_is_true_of_a_table_without_rows_too(self, store: Store) -> None:
        cases = [
            (AUDIT, "4 of 4 expectations hold for small, which has no rows."),
            (EFFECTS, "small has the columns and types of its contract, which expects nothing further."),
        ]
        for contract, said in cases:
            manifest = publish_table(
                store.partition(contract.name, "small"), contract.empty(), contract, code_version="1"
            )
            shown = shell.contract_result(store, manifest, contract)
            assert shown.passed
            assert shown.description == said

    def test_the_edges_are_inside(self) -> None:
        assert PRICES.frame([self.price(price=0.0), self.price(price=1.0, at=1_700_000_001)]).height == 2


@pytest.mark.slow
def test_in_dagster_a_failed_gate_stops_the_run_and_whoever_launches_the_next_asset_alone(store: Store) -> None:
    import dagster as dg

    from hindcast_dagster.definitions import build_definitions

    questions = [score_world.question(n, price_at_t0=0.2) for n in range(24)]
    score_world.seal_questions(store, questions)
    score_world.seal_baselines(store, questions)
    job = build_definitions(load(data_root=str(store.root))).resolve_implicit_global_asset_job_def()
    with dg.DagsterInstance.ephemeral() as instance:
        instance.add_dynamic_partitions("eval_sets", ["small"])

        def launch(*names: str) -> dg.ExecuteInProcessResult:
            chosen = [dg.AssetKey(name) for name in names]
            return job.execute_in_process(
                instance=instance, partition_key="small", asset_selection=chosen, raise_on_error=False
            )

        both = launch("scored_forecasts", "score_tables")
        verdicts = {each.check_name: each for each in both.get_asset_check_evaluations()}
        assert verdicts["contract"].passed
        gate = verdicts["market_beats_a_coin"]
        assert not gate.passed
        findings = gate.metadata["findings"].records
        assert len(findings) == 10
        assert str(findings[0].data["do"]).startswith("hindcast markets show 0x")
        assert store.partition("score_tables", "small").manifest() is None
        (made,) = both.asset_materializations_for_node("scored_forecasts")
        assert made.metadata["stage_seconds"].value > 0
        assert made.metadata["bytes"].value > 0
        alone = launch("score_tables")
        assert not alone.success
        assert store.partition("score_tables", "small").manifest() is None


@pytest.mark.slow
def test_in_dagster_forecasts_tell_what_they_cost_and_how_much_was_there(
    store: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    import dagster as dg

    from hindcast_dagster.definitions import build_definitions
    from hindcast_dagster.llm import open as opening
    from tests.forecast_world import Script, question, seal_eval_set

    seal_eval_set(store, [question(n) for n in (1, 2)])
    monkeypatch.setattr(opening, "open_model", lambda *_: Script(slug="qwen3-8b"))
    job = build_definitions(load(data_root=str(store.root))).resolve_implicit_global_asset_job_def()
    with dg.DagsterInstance.ephemeral() as instance:
        instance.add_dynamic_partitions("eval_sets", ["small"])
        instance.add_dynamic_partitions("models", ["qwen3-8b"])

        def launch(runs: int) -> dict[str, Any]:
            result = job.execute_in_process(
                instance=instance,
                partition_key=dg.MultiPartitionKey({"model": "qwen3-8b", "eval_set": "small"}),
                asset_selection=[dg.AssetKey("zero_shot_forecasts")],
                run_config={"ops": {"zero_shot_forecasts": {"config": {"runs": runs}}}},
            )
            (made,) = result.asset_materializations_for_node("zero_shot_forecasts")
            return {name: value.value for name, value in made.metadata.items()}

        first, second = launch(1), launch(2)
    assert (first["forecasts"], first["calls"], first["reused"]) == (2, 2, 0.0)
    assert (second["forecasts"], second["calls"], second["reused"]) == (4, 4, 0.5)
    assert second["tokens_in"] > first["tokens_in"] > 0
    assert second["stage_seconds"] > 0
    assert second["dagster/row_count"] == 4
