"""What should run next, decided from the store alone: pure functions that sensors and schedules wrap.

Every request carries a key made of content, so that a tick that is repeated (a crash between the tick and its cursor,
a renamed file, a restarted daemon) asks for nothing twice.
"""

import hashlib
import re
from collections.abc import Collection, Mapping
from pathlib import Path
from typing import Final, NamedTuple

from hindcast_dagster.corpus.dumps import DumpFile, find
from hindcast_dagster.settings import Settings
from hindcast_dagster.storage.store import Store

_EDGE: Final = 1 << 20  # bytes read at either end: a dump of 500 GB cannot be hashed within a sensor's minute
_FORECASTS: Final = ("zero_shot_forecasts", "retrieval_forecasts")


class NewDump(NamedTuple):
    """A dump that a month has to be built from."""

    dump: DumpFile
    fingerprint: str
    changed: bool
    """The month was built from another file before."""


def fingerprint(path: Path) -> str:
    """Return a hash of a file's size, first and last MiB: cheap, and the same for a renamed file.

    The corpus stage computes the true sha256 when it reads the whole file.
    """
    size = path.stat().st_size
    with path.open("rb") as handle:
        head = handle.read(_EDGE)
        handle.seek(max(size - _EDGE, 0))
        tail = handle.read(_EDGE)
    return hashlib.sha256(b"%d:" % size + head + tail).hexdigest()[:32]


def new_dumps(store: Store, seen: Mapping[str, str], *, now: float, settle_s: float) -> list[NewDump]:
    """Return the dumps whose content differs from what `seen` ("<kind>/<month>" -> fingerprint) says was requested.

    A file that changed within the last `settle_s` seconds is still being copied and is left for the next tick. Of two
    files for one month none is taken: the command line says which are meant.
    """
    dumps = find(store)
    claimed = [(dump.kind, dump.month) for dump in dumps]
    found = []
    for dump in dumps:
        if claimed.count((dump.kind, dump.month)) > 1 or now - dump.path.stat().st_mtime < settle_s:
            continue
        mark = fingerprint(dump.path)
        before = seen.get(f"{dump.kind}/{dump.month}")
        if before != mark:
            found.append(NewDump(dump, mark, changed=before is not None))
    return found


class Vintage(NamedTuple):
    """The next vintage of an eval set."""

    name: str
    previous: str
    policy: str
    archive_end: str
    markets: int


def next_vintage(store: Store, settings: Settings) -> Vintage | None:
    """Return the next vintage of `automation.vintage_of` when enough markets have resolved since the last, else None.

    Vintages of `main` are `main-v2`, `main-v3`, ...; each takes the markets that resolved since the one before it.
    """
    base = settings.automation.vintage_of
    if base is None:
        return None
    names = _vintages(store, base)
    if not names:
        return None
    previous = names[-1]
    manifest = store.partition("eval_set", previous).require().manifest
    count = _resolved_since(store, previous)
    if count < settings.automation.vintage_min:
        return None
    config = manifest.stats.get("config", {})
    return Vintage(
        name=f"{base}-v{len(names) + 1}",
        previous=previous,
        policy=str(config.get("policy", "day_before_close")),
        archive_end=str(config.get("archive_end") or ""),
        markets=count,
    )


def _vintages(store: Store, base: str) -> list[str]:
    """Return the base and its vintages that are sealed, oldest first."""
    pattern = re.compile(re.escape(base) + r"-v([0-9]{1,6})")
    numbered = [
        (int(found[1]), key[0]) for key in store.sealed_keys("eval_set") if (found := pattern.fullmatch(key[0]))
    ]
    first = [base] if store.partition("eval_set", base).manifest() is not None else []
    return first + [name for _, name in sorted(numbered)]


def _resolved_since(store: Store, previous: str) -> int:
    from hindcast_dagster.evalset.build import resolved_by
    from hindcast_dagster.markets.read import all_markets

    markets = all_markets(store)
    already = resolved_by(store, previous)
    return markets.filter(~markets["market_id"].is_in(already) & markets["outcome"].is_not_null()).height


class Prediction(NamedTuple):
    """A model that should answer an eval set."""

    model: str
    eval_set: str


def wanted_predictions(store: Store, settings: Settings) -> list[Prediction]:
    """Return (model, vintage) pairs without predictions; empty unless spending is allowed and limited."""
    automation = settings.automation
    if not automation.spend or settings.llm.max_cost is None or automation.vintage_of is None:
        return []
    return [
        Prediction(model, name)
        for name in _vintages(store, automation.vintage_of)
        for model in automation.models
        if any(store.partition(table, model, name).manifest() is None for table in _FORECASTS)
    ]


def forecast_states(store: Store) -> dict[str, str]:
    """Return eval set -> hash of its own version and of every forecast partition that it has, for sets with any."""
    parts: dict[str, list[str]] = {}
    for table in _FORECASTS:
        for manifest in store.manifests(table):
            parts.setdefault(manifest.key[1], []).append(f"{table}/{manifest.key[0]}/{manifest.version}")
    for manifest in store.manifests("eval_set"):
        if manifest.key[0] in parts:
            parts[manifest.key[0]].append(manifest.version)
    return {name: hashlib.sha256("\n".join(sorted(found)).encode()).hexdigest()[:32] for name, found in parts.items()}


def unregistered(slugs: Collection[str], known: Collection[str]) -> list[str]:
    """Return the slugs that are not partitions yet, sorted."""
    return sorted(set(slugs) - set(known))
