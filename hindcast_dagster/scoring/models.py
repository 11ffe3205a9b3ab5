"""What the roster says about a model, as far as scores need it: family, knowledge cutoff, whether it has any skill."""

from importlib import import_module
from importlib.util import find_spec
from typing import Any, NamedTuple

from hindcast_dagster.scoring.inputs import BASELINE
from hindcast_dagster.settings import Settings


class ModelFacts(NamedTuple):
    """Facts about a model; unknown ones are None."""

    slug: str
    family: str
    name: str
    cutoff: int | None
    """Knowledge cutoff, epoch seconds: the first instant that the model cannot have read about."""
    no_skill: bool
    """An embedded toy: its forecasts prove that everything runs, and nothing else."""


def facts(settings: Settings, slugs: list[str]) -> dict[str, ModelFacts]:
    """Return the facts of each model; one that the roster does not name is a family of its own, cutoff unknown."""
    listed = _roster(settings)
    return {slug: _facts(slug, listed.get(slug)) for slug in slugs}


def _roster(settings: Settings) -> dict[str, Any]:
    if find_spec("hindcast_dagster.llm.roster") is None:
        return {}
    entries = import_module("hindcast_dagster.llm.roster").load(settings)
    return {entry.slug: entry for entry in (entries.values() if isinstance(entries, dict) else entries)}


def _facts(slug: str, entry: Any) -> ModelFacts:
    if slug == BASELINE or entry is None:
        return ModelFacts(
            slug, "Baselines" if slug == BASELINE else slug.partition("-")[0].capitalize(), slug, None, no_skill=False
        )
    return ModelFacts(
        slug=slug,
        family=getattr(entry, "family", None) or slug.partition("-")[0].capitalize(),
        name=getattr(entry, "name", None) or slug,
        cutoff=getattr(entry, "knowledge_cutoff", None),
        no_skill=bool(getattr(entry, "no_skill", False)),
    )
