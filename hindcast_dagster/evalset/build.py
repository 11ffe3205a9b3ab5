"""Building an eval set: the frozen list of (market, t0) that forecasters answer, with price, outcome and pins.

What belongs here: putting pool and selection together, sealing. An eval set is immutable: building a name again
returns it, building it with another configuration is refused.
"""

from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from typing import Final, NamedTuple, Unpack

import polars as pl
from filelock import FileLock

from hindcast_dagster import keys
from hindcast_dagster.contracts.questions import EVAL_SET
from hindcast_dagster.errors import InputRefused, NotReady
from hindcast_dagster.evalset.checks import verdicts
from hindcast_dagster.evalset.classify import classified
from hindcast_dagster.evalset.config import TWIN_SUFFIX, Asked, Config
from hindcast_dagster.evalset.describe import describe
from hindcast_dagster.evalset.evidence import ANY, AUTO, STRONG, Evidence, complete, parse_keep, probed
from hindcast_dagster.evalset.funnel import funnel
from hindcast_dagster.evalset.pool import Progress, archive_pins, askable, candidates, months_of
from hindcast_dagster.evalset.select import Selection, select, select_blind
from hindcast_dagster.markets import read
from hindcast_dagster.markets.build import TABLE as MARKETS_TABLE
from hindcast_dagster.markets.prices import TABLE as PRICES_TABLE
from hindcast_dagster.questions.load import TABLE
from hindcast_dagster.settings import Settings
from hindcast_dagster.storage.files import clear_errors
from hindcast_dagster.storage.manifest import Input, Manifest
from hindcast_dagster.storage.store import Partition, Store
from hindcast_dagster.storage.tables import publish_table, restore_table

CODE_VERSION: Final = "eval_set/1"
_SAID: Final = 3


def build(
    store: Store, settings: Settings, *, name: str, progress: Progress | None = None, **asked: Unpack[Asked]
) -> Manifest:
    """Seal the eval set `name` over the sealed markets and return its manifest; `Asked` tells what may be asked for.

    The manifest pins every market month, the price months of the candidates and every sealed archive month; its
    `stats` hold configuration, funnel, exclusions by reason, flags, the distribution of close - t0 and shares; its
    `checks` what nobody must overlook.

    Raises `InputRefused` when the name exists with another configuration or an id is unknown, `NotReady` when markets,
    prices or a part of the probe are missing, `UsageError` for arguments that contradict each other.
    """
    return seal(store, settings, name=name, config=Config.of(**asked), progress=progress)


def seal(store: Store, settings: Settings, *, name: str, config: Config, progress: Progress | None = None) -> Manifest:
    """Do what `build` does, for a configuration that is checked already."""
    partition = store.partition(TABLE, keys.slug(name, what="eval set name"))
    if (standing := _standing(partition, config)) is not None:
        return standing
    with alone(store, name):
        return _standing(partition, config) or _made(store, settings, name=name, config=config, progress=progress)


@contextmanager
def alone(store: Store, name: str) -> Iterator[None]:
    """Hold the name of an eval set while it is made: of two at once the later finds what the earlier has sealed."""
    path = store.area("work", f"{name}.eval-set.lock")
    with clear_errors(path.parent):
        path.parent.mkdir(parents=True, exist_ok=True)
        lock = FileLock(path)
        lock.acquire()
    try:
        yield
    finally:
        lock.release()


def _standing(partition: Partition, config: Config) -> Manifest | None:
    """Return the sealed and undamaged set of this configuration. Raises `InputRefused` for one of another."""
    existing = partition.mended()
    if existing is not None:
        _refuse_other(existing, config)
    return existing if existing is not None and partition.intact() is not None else None


def _made(store: Store, settings: Settings, *, name: str, config: Config, progress: Progress | None) -> Manifest:
    partition = store.partition(TABLE, name)
    existing = partition.mended()
    read_from = _pins(store, MARKETS_TABLE, read.months(store))
    markets = read.all_markets(store)
    if markets.is_empty():
        raise NotReady(f"No market is sealed in {store.root}: run `hindcast markets fetch` first.")
    chosen = candidates(store, markets, config)
    read_from += _pins(store, PRICES_TABLE, months_of(chosen))
    archive = archive_pins(store)
    frame, excluded = askable(store, settings, config, markets=markets, chosen=chosen, progress=progress)
    sorting = classified(store, settings, frame, slug=config.topics_by) if config.topics_by else None
    pool = sorting.frame if sorting else frame
    unasked = dict(excluded)
    found = _selected(store, pool, name, config)
    selection = found.selection
    if selection is not None:
        excluded.update(selection.excluded)
    if found.frame.is_empty():
        said = ", ".join(f"{reason} {count}" for reason, count in sorted(excluded.items())) or "no market was chosen"
        raise NotReady(f"The eval set {name} would be empty ({said}): nothing was sealed.")
    if existing is not None:
        return restore_table(partition, found.frame, EVAL_SET, manifest=existing)
    now = [*_pins(store, MARKETS_TABLE, read.months(store)), *_pins(store, PRICES_TABLE, months_of(chosen))]
    if now != read_from:
        raise NotReady(f"Markets were fetched while {name} was made, so it was not sealed: run the same command again.")
    pins = [*read_from, *archive]
    return publish_table(
        partition,
        found.frame,
        EVAL_SET,
        code_version=CODE_VERSION,
        inputs=[*pins, *(found.evidence.inputs if found.evidence else ())],
        pins=pins,
        checks=verdicts(found.frame, archive, found.evidence, pool),
        stats=config.as_stats()
        | {"config": config.as_stats(), "candidates": chosen.height}
        | {"selection": selection.as_stats() if selection else None, "evidence": _told(config, found)}
        | {"judge": found.evidence.judge if found.evidence else None}
        | {"funnel": funnel(chosen, pool, selection.funnel if selection else (), unasked)}
        | ({"topics_by_model": {"asked": sorting.asked, "answered": sorting.answered}} if sorting else {})
        | describe(found.frame, excluded),
    )


def _told(config: Config, found: "_Chosen") -> str:
    """Say in words what evidence was asked for."""
    if not config.selects:
        return "not asked for: nothing is selected"
    if config.choice.blind:
        return "largest |contrast| at t0, whatever it says"
    if found.kept is not None:
        return " or ".join(found.kept)
    return "any, because no market of the pool is probed" if config.keep == AUTO else "any"


def _refuse_other(existing: Manifest, config: Config) -> None:
    before, asked = existing.stats.get("config"), config.as_stats()
    if before == asked:
        return
    before = before if isinstance(before, dict) else {}
    differs = next(name for name in sorted(asked | before) if before.get(name) != asked.get(name))
    found, wanted = _short(before.get(differs)), _short(asked.get(differs))
    raise InputRefused(
        f"The eval set {existing.key[0]} exists with another configuration ({differs} is {found}, not {wanted}). "
        "Eval sets are immutable: choose another name."
    )


def _short(value: object) -> str:
    """Return a value of a configuration for a sentence: a set may name a thousand markets."""
    return f"{len(value)} values" if isinstance(value, list) and len(value) > _SAID else repr(value)


class _Chosen(NamedTuple):
    frame: pl.DataFrame
    selection: Selection | None
    evidence: Evidence | None
    kept: tuple[str, ...] | None
    """Evidence qualities that were kept; None: all."""


def _selected(store: Store, frame: pl.DataFrame, name: str, config: Config) -> _Chosen:
    if not config.selects:
        return _Chosen(frame, None, None, None)
    if config.choice.blind:
        return _selected_blind(store, frame, name, config)
    months, asked = months_of(frame), parse_keep(config.keep)
    probe = None if config.keep == ANY else probed(store, months)
    if asked is not None or probe is not None:  # auto without any probe keeps everything, and says so
        probe = complete(probe, months)
    kept = asked if asked is not None else STRONG if probe is not None else None
    pool = frame if probe is None else frame.join(probe.frame, on="id", how="left")
    selection = select(pool, size=config.size, seed=config.seed, caps=config.choice.caps(kept))
    return _Chosen(frame.filter(pl.col("id").is_in(list(selection.ids))), selection, probe, kept)


def _selected_blind(store: Store, frame: pl.DataFrame, name: str, config: Config) -> _Chosen:
    """Select on what the probe saw at this very t0; a market that was probed at another instant has no contrast."""
    assert config.size is not None
    months = months_of(frame)
    probe = complete(probed(store, months, as_of="t0"), months, as_of="t0", pool_of=name.removesuffix(TWIN_SUFFIX))
    pool = frame.join(probe.frame, left_on=["id", "t0"], right_on=["id", "at"], how="left")
    kept = parse_keep(config.keep)
    selection = select_blind(pool, size=config.size, seed=config.seed, caps=config.choice.caps(kept))
    return _Chosen(frame.filter(pl.col("id").is_in(list(selection.ids))), selection, probe, kept)


def _pins(store: Store, table: str, months: Iterable[str]) -> list[Input]:
    return [store.partition(table, month).require(made_by="hindcast markets fetch").as_input for month in months]
