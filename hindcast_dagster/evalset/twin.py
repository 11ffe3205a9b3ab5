"""The outcome-blind twin of an eval set: same markets to choose from, same t0, same size, chosen by |evidence| at t0.

Keeping the markets whose corpus supports the side that came true favours retrieval. The twin shows by how much: it is
selected as somebody at t0 would have to, who knows what the archive says and not what happened.
"""

from typing import Final

from hindcast_dagster.clock import T0Policy
from hindcast_dagster.errors import UsageError
from hindcast_dagster.evalset.build import Progress, build
from hindcast_dagster.evalset.config import Choice
from hindcast_dagster.evalset.evidence import ANY
from hindcast_dagster.questions.load import frozen
from hindcast_dagster.settings import Settings
from hindcast_dagster.storage.manifest import Manifest
from hindcast_dagster.storage.store import Store

SUFFIX: Final = "-blind"


def name_of(eval_set: str) -> str:
    """Return the name of the twin of an eval set."""
    return eval_set + SUFFIX


def build_twin(store: Store, settings: Settings, *, name: str, progress: Progress | None = None) -> Manifest:
    """Build the twin of the eval set `name` as `<name>-blind` and return its manifest.

    It needs the probe at t0 of the same markets (`hindcast coverage probe --eval-set NAME --as-of t0` covers the set
    itself; the pool needs the close window). Raises `UsageError` for a set that is no selection, `NotReady` without
    the probe.
    """
    manifest = frozen(store, name).manifest
    config = manifest.stats["config"]
    if manifest.stats.get("selection") is None or config.get("blind"):
        raise UsageError(f"{name} is no balanced selection (--size or --balanced), so it has no twin.")
    band = config.get("price_band")
    return build(
        store,
        settings,
        name=name_of(name),
        policy=T0Policy.parse(config["policy"]),
        archive_end=config["archive_end"],
        market_ids=config["market_ids"],
        closed_from=config["closed_from"],
        closed_to=config["closed_to"],
        vintage=config["vintage"],
        max_price_age_h=config["max_price_age_h"],
        size=manifest.rows,
        seed=config["seed"],
        keep=ANY,
        choice=Choice(
            blind=True,
            per_event=config.get("per_event"),
            price_band=None if band is None else (band[0], band[1]),
            min_lead_h=config.get("min_lead_h"),
        ),
        progress=progress,
    )
