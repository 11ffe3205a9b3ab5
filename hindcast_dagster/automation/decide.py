"""What should run next, decided from the store alone: pure functions that sensors and schedules wrap.

Every request carries a key made of content, so that a tick that is repeated (a crash between the tick and its cursor,
a renamed file, a restarted daemon) asks for nothing twice.
"""

import hashlib
import re
from collections.abc import Collection, Mapping
from pathlib import Path
from typing import Any, Final, NamedTuple

from hindcast_dagster.corpus.dumps import DumpFile, find
from hindcast_dagster.settings import Settings
from hindcast_dagster.storage.store import Store

_EDGE: Final = 1 << 20  # bytes read at either end: a dump of 500 GB cannot be hashed within a sensor's minute
FORECASTS: Final = ("zero_shot_forecasts", "retrieval_forecasts")
"""The tables of the arms that ask a model."""


class NewDump(NamedTuple):
    """A dump that a month has to be built from."""

    dump: DumpFile
    fingerprint: str
    before: str | None
    """The fingerprint that the month was requested with before, if it was."""

    @property
    def slot(self) -> str:
        """The month of a kind that this file is for, as cursors name it."""
        return f"{self.dump.kind}/{self.dump.month}"


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


def new_dumps(
    store: Store, seen: Mapping[str, str], *, now: float, settle_s: float, window: tuple[str, str]
) -> list[NewDump]:
    """Return the dumps whose content differs from what `seen` ("<kind>/<month>" -> fingerprint) says was requested.

    Months outside the `window` (first and last, both included) are no partitions and are left out.
    A file that changed within the last `settle_s` seconds is still being copied and is left for the next tick. Of two
    files for one month none is taken: the command line says which are meant. Without a word in `seen` (a fresh Dagster
    instance) a month that was sealed after its file was written counts as built: losing the history re-reads nothing.
    """
    dumps = find(store)
    claimed = [(dump.kind, dump.month) for dump in dumps]
    found = []
    for dump in dumps:
        if not window[0] <= dump.month <= window[1]:
            continue
        if claimed.count((dump.kind, dump.month)) > 1 or now - dump.path.stat().st_mtime < settle_s:
            continue
        before = seen.get(f"{dump.kind}/{dump.month}")
        if before is None and _built_since(store, dump):
            continue
        mark = fingerprint(dump.path)
        if before != mark:
            found.append(NewDump(dump, mark, before))
    return found


def _built_since(store: Store, dump: DumpFile) -> bool:
    manifest = store.partition(dump.kind, dump.month).manifest()
    return manifest is not None and manifest.made_at > dump.path.stat().st_mtime


class Vintage(NamedTuple):
    """The next vintage of an eval set."""

    name: str
    previous: str
    config: dict[str, Any]
    """What the asset `eval_set` is asked with: the policy of the set before, and its markets left out."""
    markets: int
    """Markets that have resolved since the set before."""
    run_key: str
    """Changes with the markets: a freeze that failed is tried again when there are other ones, and not before."""


def next_vintage(store: Store, settings: Settings) -> Vintage | None:
    """Return the next vintage of `automation.vintage_of` when `vintage_min` markets have resolved since, else None.

    Vintages of `main` are `main-v2`, `main-v3`, ...; each takes the markets that resolved since the one before it.
    """
    base = settings.automation.vintage_of
    if base is None:
        return None
    names = vintages(store, base)
    if not names:
        return None
    previous = names[-1]
    resolved = _resolved_since(store, previous)
    if len(resolved) < settings.automation.vintage_min:
        return None
    before = store.partition("eval_set", previous).require().manifest.stats.get("config", {})
    name = f"{base}-v{_number(base, previous) + 1}"
    return Vintage(
        name=name,
        previous=previous,
        config={
            "policy": str(before.get("policy", "day_before_close")),
            "archive_end": str(before.get("archive_end") or ""),
            "max_price_age_h": before.get("max_price_age_h"),
            "vintage": previous,
        },
        markets=len(resolved),
        run_key=f"{name}:{hashed(resolved)}",
    )


def _number(base: str, name: str) -> int:
    return 1 if name == base else int(name.removeprefix(f"{base}-v"))


def hashed(lines: list[str]) -> str:
    """Return a hash of lines in any order, for run keys and cursors."""
    return hashlib.sha256("\n".join(sorted(lines)).encode()).hexdigest()[:32]


def vintages(store: Store, base: str) -> list[str]:
    """Return the base and its vintages that are sealed, oldest first."""
    pattern = re.compile(re.escape(base) + r"-v([0-9]{1,6})")
    numbered = [
        (int(found[1]), key[0]) for key in store.sealed_keys("eval_set") if (found := pattern.fullmatch(key[0]))
    ]
    first = [base] if store.partition("eval_set", base).manifest() is not None else []
    return first + [name for _, name in sorted(numbered)]


def _resolved_since(store: Store, previous: str) -> list[str]:
    from hindcast_dagster.evalset.pool import resolved_by
    from hindcast_dagster.markets.read import all_markets

    markets = all_markets(store)
    already = resolved_by(store, previous)
    new = markets.filter(~markets["market_id"].is_in(already) & markets["outcome"].is_not_null())
    return [str(market) for market in new["market_id"]]


def evaluation_states(store: Store, settings: Settings) -> dict[str, str]:
    """Return eval set -> hash of its own version and of every forecast partition that it has.

    Only sets that a model has forecast, and the vintages of `automation.vintage_of`: those are scored with the
    baselines alone as soon as they are frozen, because that costs nothing.
    """
    base = settings.automation.vintage_of
    parts: dict[str, list[str]] = {name: [] for name in (vintages(store, base) if base else []) if name != base}
    for table in FORECASTS:
        for manifest in store.manifests(table):
            parts.setdefault(manifest.key[1], []).append(f"{table}/{manifest.key[0]}/{manifest.version}")
    for manifest in store.manifests("eval_set"):
        if manifest.key[0] in parts:
            parts[manifest.key[0]].append(manifest.version)
    return {name: hashed(found) for name, found in parts.items()}


def unregistered(slugs: Collection[str], known: Collection[str]) -> list[str]:
    """Return the slugs that are not partitions yet, sorted."""
    return sorted(set(slugs) - set(known))
