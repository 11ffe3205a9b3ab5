"""Finding arms: the built-in ones, those that packages register, and a class named on the command line.

A custom arm is any object with `arm`, `version` and `forecast`. Its class (or a function that makes it) is called with
`model` and `settings` if it names such parameters, and with nothing otherwise.
"""

import importlib
import inspect
import sys
from collections.abc import Callable
from importlib.metadata import entry_points
from pathlib import Path
from typing import Any, Final

from hindcast_dagster import keys
from hindcast_dagster.errors import UsageError
from hindcast_dagster.forecast.forecaster import Forecaster
from hindcast_dagster.forecast.records import BASELINE_ARMS
from hindcast_dagster.llm.protocol import ChatModel
from hindcast_dagster.settings import Settings

GROUP: Final = "hindcast.forecasters"
BUILT_IN: Final = {
    "zero_shot": "hindcast_dagster.forecast.zero_shot:ZeroShot",
    "retrieval": "hindcast_dagster.forecast.retrieval:Retrieval",
}
RESERVED: Final = frozenset({*BASELINE_ARMS, "scored"})
"""Names that no arm may have: `scored_forecasts` is the table of scores."""
_VERSION_LENGTH: Final = 200

Factory = Callable[..., Any]


def factory(arm: str) -> Factory:
    """Return what makes an arm: a built-in name, an entry point of the group `hindcast.forecasters`, or `module:Class`.

    A module is also looked for in the working directory. Raises `UsageError` for an unknown arm or a broken import.
    """
    if ":" in arm:
        return _imported(arm)
    if arm in BUILT_IN:
        return _imported(BUILT_IN[arm])
    registered = {found.name: found for found in entry_points(group=GROUP)}
    if arm in registered:
        return _checked(arm, registered[arm].load())
    known = ", ".join(sorted(BUILT_IN.keys() | registered.keys()))
    raise UsageError(f"There is no arm {arm!r}; known: {known}. A class of your own is named module:Class.")


def takes_model(made_by: Factory) -> bool:
    """Return whether an arm wants a model of the roster."""
    return "model" in _parameters(made_by)


def make(made_by: Factory, *, model: ChatModel | None, settings: Settings, name: str | None = None) -> Forecaster:
    """Make the arm and check that it answers the interface. Raises `UsageError` naming what is missing.

    `name` replaces the arm's own, so that one arm under two settings has two places in the tables.
    """
    given = {"model": model, "settings": settings}
    try:
        arm = made_by(**{name: value for name, value in given.items() if name in _parameters(made_by)})
    except TypeError as error:
        raise UsageError(f"{_called(made_by)} cannot be made into a forecaster: {error}.") from error
    if not isinstance(arm, Forecaster):
        lacks = [name for name in ("arm", "version", "forecast") if not hasattr(arm, name)]
        raise UsageError(f"{_called(made_by)} is no forecaster: it lacks {', '.join(lacks)} (docs/forecasters.md).")
    if name is not None:
        arm.arm = name
    keys.slug(arm.arm, what="arm name")
    if arm.arm in RESERVED:
        raise UsageError(f"The arm name {arm.arm!r} is taken by Hindcast: choose another.")
    if not isinstance(arm.version, str) or not 0 < len(arm.version) <= _VERSION_LENGTH:
        raise UsageError(f"{_called(made_by)}.version must be a text of 1-{_VERSION_LENGTH} characters.")
    return arm


def _imported(path: str) -> Factory:
    module, _, name = path.partition(":")
    here = str(Path.cwd())
    added = here not in sys.path
    if added:
        sys.path.append(here)
    try:
        found = getattr(importlib.import_module(module), name)
    except (ImportError, AttributeError, ValueError) as error:
        raise UsageError(f"The arm {path!r} cannot be imported: {error}.") from error
    finally:
        if added:
            sys.path.remove(here)
    return _checked(path, found)


def _checked(path: str, found: Any) -> Factory:
    if callable(found):
        return found  # type: ignore[no-any-return]
    raise UsageError(f"The arm {path!r} is neither a class nor a function that makes one.")


def _parameters(made_by: Factory) -> frozenset[str]:
    try:
        return frozenset(inspect.signature(made_by).parameters)
    except (TypeError, ValueError):
        return frozenset()


def _called(made_by: Factory) -> str:
    return getattr(made_by, "__qualname__", repr(made_by))
