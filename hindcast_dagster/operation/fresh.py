"""Which partitions are sealed and still right, so that a backfill does only what is missing.

Cheap by design: manifests and file sizes are read, a dump is hashed only when its time or size says that it may have
changed. A backfill leaves alone what is fresh here; what is not is handed to the stage, which decides itself.
"""

from typing import Final, NamedTuple

from hindcast_dagster.archive.build import CODE_VERSION as ARCHIVE_CODE
from hindcast_dagster.archive.build import TABLES as INDEX_OF
from hindcast_dagster.corpus import dumps
from hindcast_dagster.corpus.rules import CODE_VERSION, Rules
from hindcast_dagster.settings import Settings
from hindcast_dagster.storage.files import sha256_file
from hindcast_dagster.storage.manifest import Manifest
from hindcast_dagster.storage.store import Store

FRESH: Final = ""


class Need(NamedTuple):
    """Why a partition has to be made; `FRESH` when it has not."""

    table: str
    why: str


def history(store: Store, settings: Settings, *, kind: str, month: str) -> Need:
    """Return what a month of submissions or comments needs, corpus first."""
    if why := _corpus(store, settings, kind, month):
        return Need(kind, why)
    return Need(INDEX_OF[kind], _index(store, settings, kind, month))


def _corpus(store: Store, settings: Settings, kind: str, month: str) -> str:
    manifest = store.partition(kind, month).manifest_or_none()
    if manifest is None:
        return "not sealed"
    if manifest.code_version != CODE_VERSION:
        return f"made by {manifest.code_version}, now {CODE_VERSION}"
    rules = Rules.of(settings.corpus, month=month, kind=dumps.kind_of(kind))
    if manifest.stats.get("rules") != rules.used():
        return "other filters or lists"
    return _dump(store, manifest, kind, month)


def _dump(store: Store, manifest: Manifest, kind: str, month: str) -> str:
    """Say whether the dump has changed; one that was removed since leaves the sealed month as it is."""
    found = [each.path for each in dumps.find(store) if (each.month, each.kind) == (month, kind)]
    if len(found) != 1:
        return FRESH
    stat = found[0].stat()
    same_size = stat.st_size == manifest.stats.get("dump_bytes")
    if same_size and stat.st_mtime < manifest.made_at:
        return FRESH
    changed = not same_size or sha256_file(found[0]) != manifest.stats.get("dump_sha256")
    return "the dump has changed" if changed else FRESH


def _index(store: Store, settings: Settings, kind: str, month: str) -> str:
    manifest = store.partition(INDEX_OF[kind], month).manifest_or_none()
    if manifest is None:
        return "not sealed"
    if manifest.code_version != ARCHIVE_CODE:
        return f"made by {manifest.code_version}, now {ARCHIVE_CODE}"
    model = manifest.stats.get("embedding", {}).get("model")
    if kind == "submissions" and model != settings.embedding.model:
        return f"embedded by {model}, the setting is {settings.embedding.model}"
    return stale(store, manifest)


def stale(store: Store, manifest: Manifest) -> str:
    """Name the first input that has another version now; pinned inputs are meant to stay as they were."""
    pinned = {(pin.table, pin.key) for pin in manifest.pins}
    for item in manifest.inputs:
        if (item.table, item.key) in pinned:
            continue
        current = store.partition(item.table, *item.key).manifest_or_none() if _is_table(store, item.table) else None
        if current is not None and current.version != item.version:
            return f"{item.table} {' / '.join(item.key)} was made again"
    return FRESH


def _is_table(store: Store, table: str) -> bool:
    return table in store.tables()


def closed_month(store: Store, *, month: str, judge: str | None, as_of: str) -> Need:
    """Return what a close month needs, as far as the disk knows: what the listing brings is seen when it is walked."""
    for table in ("markets", "market_prices"):
        manifest = store.partition(table, month).manifest_or_none()
        if why := "not sealed" if manifest is None else stale(store, manifest):
            return Need(table, why)
    return Need("coverage_probe", _probe(store, month, judge, as_of) if judge else FRESH)


def _probe(store: Store, month: str, judge: str | None, as_of: str) -> str:
    manifest = store.partition("coverage_probe", month).manifest_or_none()
    if manifest is None or f"{judge}/{as_of}" not in manifest.stats.get("probes", {}):
        return f"not probed by {judge} as of {as_of}"
    return stale(store, manifest)


def predictions(store: Store, settings: Settings, *, arm: str, model: str, eval_set: str, runs: int | None) -> Need:
    """Return what an arm of a model on an eval set needs."""
    table = f"{arm}_forecasts"
    manifest = store.partition(table, model, eval_set).manifest_or_none()
    if manifest is None:
        return Need(table, "not sealed")
    missing = manifest.stats.get("missing") or manifest.stats.get("statuses", {}).get("failed", 0)
    if missing or manifest.stats.get("stopped"):
        return Need(table, f"{missing} forecasts are missing")
    wanted = settings.forecast.runs if runs is None else runs
    if manifest.stats.get("runs", 0) < wanted:
        return Need(table, f"{manifest.stats.get('runs', 0)} of {wanted} runs")
    return Need(table, stale(store, manifest))
