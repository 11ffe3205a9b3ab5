"""What an operator should look at in a partition that was just sealed: findings with what to do, nothing that stops.

A partition is read by itself; of the months beside it only the numbers in their manifests count, and one that is broken
or not there is left out, so that a bad month never fails its neighbour's check.
"""

from collections.abc import Callable, Iterator
from statistics import mean
from typing import Any, Final, NamedTuple

from hindcast_dagster import clock
from hindcast_dagster.settings import Settings
from hindcast_dagster.storage.manifest import Manifest
from hindcast_dagster.storage.store import Store

FEW: Final = 50  # rows or markets below which a share or a factor says nothing
HOUR_S: Final = 3_600


class Finding(NamedTuple):
    """One line of a table that a person can act on."""

    what: str
    found: str
    expected: str
    do: str


def of(store: Store, settings: Settings, manifest: Manifest) -> list[Finding]:
    """Return the findings of a partition; empty where nothing is worth a look, or nothing is looked at."""
    look = _LOOKS.get(manifest.table)
    return list(look(store, settings, manifest)) if look is not None else []


def beside(store: Store, manifest: Manifest, read: Callable[[Manifest], float | None]) -> list[float]:
    """Return a number of the sealed months beside this one, as far as they are there, readable and large enough."""
    found = []
    for by in (-2, -1, 1, 2):
        near = store.partition(manifest.table, clock.shift_month(manifest.key[0], by)).manifest_or_none()
        value = read(near) if near is not None else None
        if value is not None:
            found.append(value)
    return found


def _documents(store: Store, settings: Settings, manifest: Manifest) -> Iterator[Finding]:
    do = f"compare the dump's size and source: hindcast corpus ledger --month {manifest.key[0]} --kind {manifest.table}"
    yield from _factor(store, settings, manifest, "rows", read=lambda each: float(each.rows), do=do)
    yield from _factor(store, settings, manifest, "lines of the dump", read=lambda each: each.stats.get("lines"), do=do)
    yield from _factor(store, settings, manifest, "kept per line", read=_kept_share, do=do)


def _kept_share(manifest: Manifest) -> float | None:
    lines = manifest.stats.get("lines")
    return manifest.stats["kept"] / lines if lines and lines >= FEW else None


def _factor(
    store: Store,
    settings: Settings,
    manifest: Manifest,
    what: str,
    *,
    read: Callable[[Manifest], float | None],
    do: str,
) -> Iterator[Finding]:
    """Yield a finding when a number is further than the factor from the mean of the months beside."""
    own, near = read(manifest), beside(store, manifest, read)
    usual = mean(near) if near else 0.0
    if own is None or usual <= 0 or (what == "rows" and usual < FEW):
        return
    factor = settings.checks.drift
    if not usual / factor <= own <= usual * factor:
        yield Finding(what, _shown(own), f"{_shown(usual / factor)} to {_shown(usual * factor)} (months beside it)", do)


def _shown(value: float) -> str:
    return f"{value:,.0f}" if value >= 10 else f"{value:.3f}"  # noqa: PLR2004 - a count or a share


def _markets(store: Store, settings: Settings, manifest: Manifest) -> Iterator[Finding]:
    month = manifest.key[0]
    do = f"look at them: hindcast markets list --closed-from {month}-01 --closed-to {month}-28"
    yield from _factor(store, settings, manifest, "rows", read=lambda each: float(each.rows), do=do)
    for what, read in (("share of No", _no_share), ("share excluded", _excluded_share)):
        own, near = read(manifest), beside(store, manifest, read)
        if own is not None and near and abs(own - mean(near)) > settings.checks.share:
            expected = f"{mean(near):.0%} +- {settings.checks.share:.0%} (months beside it)"
            yield Finding(what, f"{own:.0%}", expected, do)


def _no_share(manifest: Manifest) -> float | None:
    kept, no = manifest.stats.get("kept", 0), manifest.stats.get("no")
    return no / kept if no is not None and kept >= FEW else None


def _excluded_share(manifest: Manifest) -> float | None:
    count = manifest.stats.get("markets", 0)
    return 1 - manifest.stats["kept"] / count if count >= FEW else None


def _prices(store: Store, settings: Settings, manifest: Manifest) -> Iterator[Finding]:
    del store
    series, empty = manifest.stats.get("series", 0), manifest.stats.get("no_price_history", 0)
    if series and empty / series > settings.checks.stale_prices:
        do = "fetch again later (hindcast markets fetch), or ask the other route (polymarket.price_route)"
        limit = f"at most {settings.checks.stale_prices:.0%}"
        yield Finding("series without history", f"{empty} of {series}", limit, do)


def _probe(store: Store, settings: Settings, manifest: Manifest) -> Iterator[Finding]:
    del store, settings
    for name, probe in manifest.stats.get("probes", {}).items():
        blocks, lost = probe.get("blocks", 0), probe.get("unlabelled", 0)
        if blocks >= FEW and lost > blocks / 10:
            yield Finding(
                f"blocks without a label ({name})", f"{lost} of {blocks}", "at most 10 %", "try another judge"
            )


def _eval_set(store: Store, settings: Settings, manifest: Manifest) -> Iterator[Finding]:
    import polars as pl

    from hindcast_dagster.contracts.questions import EVAL_SET
    from hindcast_dagster.storage.tables import read_table

    frame = read_table(store.partition(manifest.table, *manifest.key).look(), EVAL_SET)
    if not frame.height:
        yield Finding("questions", "0", "at least one", "widen the choice: hindcast evalset build --help")
        return
    late = settings.polymarket.stale_price_hours
    bad = frame.filter(pl.col("price_age_s").is_null() | (pl.col("price_age_s") > late * HOUR_S)).height
    if bad > settings.checks.stale_prices * frame.height:
        expected = f"at most {settings.checks.stale_prices:.0%} older than {late:.0f} h or absent"
        yield Finding(
            "prices at t0", f"{bad} of {frame.height}", expected, "build it with --max-price-age, or fetch prices"
        )
    no = frame.select((pl.col("outcome") == "No").mean()).item()
    if frame.height >= FEW and not settings.checks.share <= no <= 1 - settings.checks.share:
        expected = f"{settings.checks.share:.0%} to {1 - settings.checks.share:.0%}"
        yield Finding("share of No", f"{no:.0%}", expected, "balance it: hindcast evalset build --size N")


def _forecasts(store: Store, settings: Settings, manifest: Manifest) -> Iterator[Finding]:
    del store, settings
    stats, (model, name) = manifest.stats, manifest.key[-2:]
    arm = stats.get("arm", manifest.table.removesuffix("_forecasts"))
    do = f"hindcast forecast run --arm {arm} --model {model} --eval-set {name}"
    if missing := stats.get("missing", 0):
        why = "the money limit stopped it" if stats.get("stopped") else "asked for and not made"
        yield Finding("forecasts missing", f"{missing} ({why})", "0", do)
    statuses = stats.get("statuses", {})
    if failed := statuses.get("failed", 0):
        yield Finding("forecasts failed", str(failed), "0", f"{do}: they are tried again")
    unparsed, every = statuses.get("unparsed", 0), sum(statuses.values())
    if unparsed * 216 > 3 * every:
        show = f"look at one: hindcast forecast show QUESTION --eval-set {name} --model {model} --arm {arm}"
        yield Finding("replies without a forecast", f"{unparsed} of {every}", "at most 3 in 216 (paper, B.3)", show)
    for kind, calls in stats.get("calls", {}).items():
        if calls.get("cut", 0) * 20 > calls["calls"]:
            cut = f"{calls['cut']} of {calls['calls']} {kind} replies"
            yield Finding("replies cut by max_tokens", cut, "at most 5 %", f"raise decoding.{kind}.max_tokens")


_LOOKS: Final[dict[str, Any]] = {
    "submissions": _documents,
    "comments": _documents,
    "markets": _markets,
    "market_prices": _prices,
    "coverage_probe": _probe,
    "eval_set": _eval_set,
    "zero_shot_forecasts": _forecasts,
    "retrieval_forecasts": _forecasts,
    "belief_forecasts": _forecasts,
}
TABLES: Final = tuple(_LOOKS)
