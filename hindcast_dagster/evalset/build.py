"""Building an eval set: the frozen list of (market, t0) that forecasters answer, with price, outcome and pins.

What belongs here: choosing the candidates, making their rows, sealing. An eval set is immutable: building a name again
returns it, building it with another configuration is refused.
"""

import collections
from collections.abc import Callable, Iterable, Sequence
from typing import Any, Final

import polars as pl

from hindcast_dagster import clock, keys
from hindcast_dagster.clock import T0Policy
from hindcast_dagster.contracts.markets import PRICES
from hindcast_dagster.contracts.questions import EVAL_SET
from hindcast_dagster.errors import InputRefused, NotReady
from hindcast_dagster.evalset.classify import classified
from hindcast_dagster.evalset.config import Choice, Config
from hindcast_dagster.evalset.describe import describe
from hindcast_dagster.evalset.evidence import ANY, AUTO, STRONG, Evidence, parse_keep, probed
from hindcast_dagster.evalset.funnel import funnel
from hindcast_dagster.evalset.rates import Rates
from hindcast_dagster.evalset.row import Context, make
from hindcast_dagster.evalset.select import Selection, select, select_blind
from hindcast_dagster.markets import read
from hindcast_dagster.markets.build import TABLE as MARKETS_TABLE
from hindcast_dagster.markets.prices import TABLE as PRICES_TABLE
from hindcast_dagster.questions.load import TABLE, frozen
from hindcast_dagster.settings import Settings
from hindcast_dagster.storage.manifest import Input, Manifest
from hindcast_dagster.storage.store import Store
from hindcast_dagster.storage.tables import publish_table, read_table

CODE_VERSION: Final = "eval_set/1"
ARCHIVE_TABLES: Final = ("submission_index", "comment_index")

Progress = Callable[[float, float | None, str], None]


def build(
    store: Store,
    settings: Settings,
    *,
    name: str,
    policy: T0Policy | str,
    archive_end: object = None,
    market_ids: Sequence[str] | None = None,
    closed_from: object = None,
    closed_to: object = None,
    vintage: str | None = None,
    max_price_age_h: float | None = None,
    size: int | None = None,
    seed: int = 0,
    keep: str = AUTO,
    choice: Choice | None = None,
    topics_by: str | None = None,
    progress: Progress | None = None,
) -> Manifest:
    """Seal the eval set `name` over the sealed markets and return its manifest.

    Markets: all of them, those of `market_ids`, those with closed_from <= close < closed_to (a date as `closed_to`
    is meant with its whole day), or those that resolved since the eval set `vintage` was built. `archive_end` caps
    every t0. `size` asks for a selection balanced by outcome and topic among the markets whose evidence `keep`
    names (auto: strong where the probe is sealed, else any); `choice` adds caps, a balance without a size, or a
    selection blind to outcomes. `topics_by` names a model of the roster that sorts the questions whose tags told no
    topic. The manifest pins every market month, the price months of the candidates and every sealed archive month;
    its `stats` hold configuration, exclusions by reason, flags, the distribution of close - t0 and shares.

    Raises `InputRefused` when the name exists with another configuration or an id is unknown, `NotReady` when
    markets or prices are missing, `UsageError` for arguments that contradict each other.
    """
    config = Config.of(
        policy=policy,
        archive_end=archive_end,
        market_ids=market_ids,
        closed_from=closed_from,
        closed_to=closed_to,
        vintage=vintage,
        max_price_age_h=max_price_age_h,
        size=size,
        seed=seed,
        keep=keep,
        choice=choice,
        topics_by=topics_by,
    )
    partition = store.partition(TABLE, keys.slug(name, what="eval set name"))
    existing = partition.manifest()
    if existing is not None:
        return _same(existing, config)
    markets = read.all_markets(store)
    if markets.is_empty():
        raise NotReady(f"No market is sealed in {store.root}: run `hindcast markets fetch` first.")
    chosen = candidates(store, markets, config)
    archive = archive_pins(store)
    frame, excluded = askable(store, settings, config, markets=markets, chosen=chosen, progress=progress)
    sorting = classified(store, settings, frame, slug=config.topics_by) if config.topics_by else None
    pool = sorting.frame if sorting else frame
    frame, selection, probe = _selected(store, pool, config)
    if selection is not None:
        excluded.update(selection.excluded)
    if frame.is_empty():
        said = ", ".join(f"{reason} {count}" for reason, count in sorted(excluded.items())) or "no market was chosen"
        raise NotReady(f"The eval set {name} would be empty ({said}): nothing was sealed.")
    pins = [*_pins(store, MARKETS_TABLE, read.months(store)), *_pins(store, PRICES_TABLE, _months(chosen)), *archive]
    return publish_table(
        partition,
        frame,
        EVAL_SET,
        code_version=CODE_VERSION,
        inputs=[*pins, *(probe.inputs if probe else ())],
        pins=pins,
        stats=config.as_stats()
        | {"config": config.as_stats(), "candidates": chosen.height}
        | {"selection": selection.as_stats() if selection else None, "judge": probe.judge if probe else None}
        | {"funnel": funnel(chosen, pool, selection.funnel if selection else ())}
        | ({"topics_by_model": {"asked": sorting.asked, "answered": sorting.answered}} if sorting else {})
        | describe(frame, excluded),
    )


def askable(
    store: Store,
    settings: Settings,
    config: Config,
    *,
    markets: pl.DataFrame,
    chosen: pl.DataFrame,
    progress: Progress | None = None,
) -> tuple[pl.DataFrame, collections.Counter[str]]:
    """Return `chosen` of all `markets` as questions (contract EVAL_SET), and those that cannot be asked by reason."""
    context = Context(
        config=config,
        settings=settings,
        rates=Rates(
            markets.select("close_at", "outcome", "series").iter_rows(named=True),
            at_least=settings.questions.base_rate_min,
        ),
        archive_until=max((clock.month_end(pin.key[0]) for pin in archive_pins(store)), default=0),
    )
    return _questions(store, chosen, context, progress)


def candidates(store: Store, markets: pl.DataFrame, config: Config) -> pl.DataFrame:
    """Return the markets that the configuration asks for, excluded ones included (they are counted)."""
    if config.market_ids is not None:
        known = set(markets["market_id"])
        if missing := [market for market in config.market_ids if market not in known]:
            raise InputRefused(f"{len(missing)} markets of the list are not sealed here, for example {missing[0]}.")
        return markets.filter(pl.col("market_id").is_in(list(config.market_ids)))
    if config.vintage is not None:
        return markets.filter(~pl.col("market_id").is_in(resolved_by(store, config.vintage)))
    found = markets
    if config.closed_from is not None:
        found = found.filter(pl.col("close_at") >= config.closed_from)
    if config.closed_to is not None:
        found = found.filter(pl.col("close_at") < config.closed_to)
    return found


def resolved_by(store: Store, eval_set: str) -> list[str]:
    """Return the markets with an outcome in the snapshot that an eval set pins: its next vintage leaves them out.

    An imported set pins no markets; of it only its questions are known, so all that closed by their last close count.
    """
    sealed = frozen(store, eval_set)
    pins = [pin for pin in sealed.manifest.pins if pin.table == MARKETS_TABLE]
    if pins:
        known = read.all_markets(store, pins=pins)
    else:
        last = read_table(sealed, EVAL_SET)["close_at"].max()
        known = read.all_markets(store).filter(pl.col("close_at") <= last)
    return known.filter(pl.col("outcome").is_not_null())["market_id"].to_list()


def _same(existing: Manifest, config: Config) -> Manifest:
    before, asked = existing.stats.get("config"), config.as_stats()
    if before == asked:
        return existing
    before = before if isinstance(before, dict) else {}
    differs = next(name for name in sorted(asked | before) if before.get(name) != asked.get(name))
    raise InputRefused(
        f"The eval set {existing.key[0]} exists with another configuration ({differs} is {before.get(differs)!r}, not "
        f"{asked.get(differs)!r}). Eval sets are immutable: choose another name."
    )


def _questions(
    store: Store, chosen: pl.DataFrame, context: Context, progress: Progress | None
) -> tuple[pl.DataFrame, collections.Counter[str]]:
    rows: list[dict[str, Any]] = []
    excluded: collections.Counter[str] = collections.Counter()
    done = 0
    for month in _months(chosen):
        inside = chosen.filter(
            (pl.col("close_at") >= clock.month_start(month)) & (pl.col("close_at") < clock.month_end(month))
        )
        series = {
            key[0]: one for key, one in read.month_prices(store, month).partition_by("market_id", as_dict=True).items()
        }
        for market in inside.iter_rows(named=True):
            made = make(market, series.get(market["market_id"], PRICES.empty()), context)
            if made.row is None:
                excluded[str(made.excluded)] += 1
            else:
                rows.append(made.row)
        done += inside.height
        if progress:
            progress(done, chosen.height, "markets")
    return EVAL_SET.frame(rows), excluded


def _selected(
    store: Store, frame: pl.DataFrame, config: Config
) -> tuple[pl.DataFrame, Selection | None, Evidence | None]:
    if not config.selects:
        return frame, None, None
    if config.choice.blind:
        return _selected_blind(store, frame, config)
    asked = parse_keep(config.keep)
    probe = None if config.keep == ANY else probed(store, _months(frame), required=config.keep != AUTO)
    kept = asked if asked is not None else STRONG if probe is not None else None
    pool = frame if probe is None else frame.join(probe.frame, on="id", how="left")
    selection = select(pool, size=config.size, seed=config.seed, caps=config.choice.caps(kept))
    return frame.filter(pl.col("id").is_in(list(selection.ids))), selection, probe


def _selected_blind(
    store: Store, frame: pl.DataFrame, config: Config
) -> tuple[pl.DataFrame, Selection | None, Evidence | None]:
    """Select on what the probe saw at this very t0; a market that was probed at another instant has no contrast."""
    probe = probed(store, _months(frame), required=True, as_of="t0")
    assert probe is not None
    assert config.size is not None
    pool = frame.join(probe.frame, left_on=["id", "t0"], right_on=["id", "at"], how="left")
    caps = config.choice.caps(parse_keep(config.keep))
    selection = select_blind(pool, size=config.size, seed=config.seed, caps=caps)
    return frame.filter(pl.col("id").is_in(list(selection.ids))), selection, probe


def _months(chosen: pl.DataFrame) -> list[str]:
    return sorted({clock.month_of(close) for close in chosen["close_at"] if close is not None})


def _pins(store: Store, table: str, months: Iterable[str]) -> list[Input]:
    return [store.partition(table, month).require(made_by="hindcast markets fetch").as_input for month in months]


def archive_pins(store: Store) -> list[Input]:
    """Return every sealed archive month at its present version."""
    return [manifest.as_input for table in ARCHIVE_TABLES for manifest in store.manifests(table)]
