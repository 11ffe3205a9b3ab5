"""Which models to ask about which vintages, and for how much money: decided from what is sealed and what was promised.

The ceiling holds over any seven days and all models together. A request is a promise of its share until it is sealed;
from then on what it really cost counts. Nothing here asks a model.
"""

from collections.abc import Mapping
from typing import Final, NamedTuple

from hindcast_dagster import clock
from hindcast_dagster.automation.decide import FORECASTS, vintages
from hindcast_dagster.settings import Settings
from hindcast_dagster.storage.manifest import Manifest
from hindcast_dagster.storage.store import Store

WEEK_S: Final = 7 * clock.DAY
SHARES: Final[dict[str, float]] = {"zero_shot_forecasts": 0.1, "retrieval_forecasts": 0.9}
"""How a promise is split between the arms: one call per question beside a whole research loop."""


class Promise(NamedTuple):
    """Money that was set aside for a request."""

    at: int
    usd: float


class Prediction(NamedTuple):
    """A model that should answer an eval set, for at most `usd` over both arms."""

    model: str
    eval_set: str
    usd: float
    run_key: str

    @property
    def slot(self) -> str:
        """The request as cursors name it."""
        return f"{self.model}/{self.eval_set}"


def allowed(settings: Settings) -> bool:
    """Say whether anything may be asked: `spend` is on, with a ceiling, for models, about vintages of a set."""
    found = settings.automation
    return found.spend and found.max_cost is not None and bool(found.models) and found.vintage_of is not None


def unpriced(settings: Settings) -> list[str]:
    """Return the models that no ceiling can hold for, having no price. Raises `UsageError` for an unknown slug."""
    from hindcast_dagster.llm.roster import load

    roster = load(settings)
    return [slug for slug in settings.automation.models if roster.get(slug).price is None]


def wanted(store: Store, settings: Settings, promised: Mapping[str, Promise], *, now: int) -> list[Prediction]:
    """Return the predictions to request now: an arm is missing or stopped at its limit, and a week has passed.

    Only vintages are asked about: whoever froze the base set asks it by hand, knowing how large it is. What is left of
    the ceiling is split evenly between the requests. Empty when nothing is left, or nothing is allowed.
    """
    base, ceiling = settings.automation.vintage_of, settings.automation.max_cost
    if not allowed(settings) or base is None or ceiling is None:
        return []
    without_price = set(unpriced(settings))
    pairs = [
        (model, name)
        for name in vintages(store, base)
        for model in settings.automation.models
        if name != base and model not in without_price
    ]
    missing = [pair for pair in pairs if not _finished(store, *pair) and not _recent(promised.get("/".join(pair)), now)]
    left = ceiling - sum(committed(store, model, name, promised, now=now) for model, name in pairs)
    if not missing or left < 0 or (left == 0 and ceiling > 0):
        return []
    week = now // WEEK_S
    return [
        Prediction(model, name, left / len(missing), run_key=f"{model}:{name}:{_version(store, name)}:{week}")
        for model, name in missing
    ]


def committed(store: Store, model: str, eval_set: str, promised: Mapping[str, Promise], *, now: int) -> float:
    """Return what counts against the ceiling for one model and set: the promise until both arms are sealed, then cost.

    A partition's whole cost counts in the week of its sealing, also what was spent on it earlier: never too little.
    """
    found = [store.partition(table, model, eval_set).manifest() for table in FORECASTS]
    promise = promised.get(f"{model}/{eval_set}")
    spent = sum(_cost(manifest) for manifest in found if manifest is not None and now - manifest.made_at < WEEK_S)
    if promise is None or not _recent(promise, now):
        return spent
    answered = all(manifest is not None and manifest.made_at >= promise.at for manifest in found)
    return spent if answered else max(spent, promise.usd)


def _finished(store: Store, model: str, eval_set: str) -> bool:
    found = (store.partition(table, model, eval_set).manifest() for table in FORECASTS)
    return all(manifest is not None and not manifest.stats.get("stopped") for manifest in found)


def _recent(promise: Promise | None, now: int) -> bool:
    return promise is not None and now - promise.at < WEEK_S


def _cost(manifest: Manifest) -> float:
    return float(manifest.stats.get("cost") or 0.0)


def _version(store: Store, eval_set: str) -> str:
    return store.partition("eval_set", eval_set).require().manifest.version[:12]
