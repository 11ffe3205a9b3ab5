"""The outcome-blind twin of an eval set: same markets to choose from, same t0, same size, chosen by |evidence| at t0.

Keeping the markets whose corpus supports the side that came true favours retrieval. The twin shows by how much: it is
selected as somebody at t0 would have to, who knows what the archive says and not what happened.
"""

from dataclasses import replace

from hindcast_dagster.errors import UsageError
from hindcast_dagster.evalset.build import seal
from hindcast_dagster.evalset.config import TWIN_SUFFIX, Config
from hindcast_dagster.evalset.evidence import ANY
from hindcast_dagster.evalset.pool import Progress
from hindcast_dagster.questions.load import TABLE, frozen
from hindcast_dagster.settings import Settings
from hindcast_dagster.storage.manifest import Manifest
from hindcast_dagster.storage.store import Store


def name_of(eval_set: str) -> str:
    """Return the name of the twin of an eval set."""
    return eval_set + TWIN_SUFFIX


def build_twin(store: Store, settings: Settings, *, name: str, progress: Progress | None = None) -> Manifest:
    """Build the twin of the eval set `name` as `<name>-blind` and return its manifest.

    It needs the probe at t0 of the whole pool (`hindcast coverage probe --eval-set NAME --pool --as-of t0`). Raises
    `UsageError` for a set that is no selection, `NotReady` without the probe.
    """
    blind = _blind(frozen(store, name).manifest)
    if blind is None:
        raise UsageError(f"{name} is no balanced selection (--size or --balanced), so it has no twin.")
    return seal(store, settings, name=name_of(name), config=blind, progress=progress)


def other_of(store: Store, name: str) -> str | None:
    """Return the twin of an eval set, or the set whose twin it is; None without one. A name alone proves nothing."""
    chosen = name.removesuffix(TWIN_SUFFIX)
    ours, twin = (store.partition(TABLE, each).manifest() for each in (chosen, name_of(chosen)))
    config = None if ours is None else _blind(ours)
    if config is None or twin is None or twin.stats.get("config") != config.as_stats():
        return None
    return chosen if name != chosen else name_of(chosen)


def _blind(manifest: Manifest) -> Config | None:
    """Return the configuration of the twin of a set; None for a set that is no selection, or is a twin itself."""
    config = manifest.stats.get("config") or {}
    if manifest.stats.get("selection") is None or config.get("blind") or "policy" not in config:
        return None
    given = Config.of_stats(config)
    return replace(given, size=manifest.rows, keep=ANY, choice=replace(given.choice, balanced=False, blind=True))
