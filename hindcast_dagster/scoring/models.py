"""What the roster says about a model, as far as scores need it: family, knowledge cutoff, whether it has any skill."""

from typing import NamedTuple

from hindcast_dagster.llm import roster
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
    listed: bool
    """The roster names it."""


def facts(settings: Settings, slugs: list[str]) -> dict[str, ModelFacts]:
    """Return the facts of each model; one that the roster does not name is a family of its own, cutoff unknown."""
    entries = {entry.slug: entry for entry in roster.load(settings)}
    return {slug: _facts(slug, entries.get(slug)) for slug in slugs}


def _facts(slug: str, entry: roster.Entry | None) -> ModelFacts:
    if slug == BASELINE:
        return ModelFacts(slug, "Baselines", "No model", None, no_skill=False, listed=True)
    if entry is None:
        return ModelFacts(slug, slug.partition("-")[0].capitalize(), slug, None, no_skill=False, listed=False)
    return ModelFacts(slug, entry.family, entry.name, entry.knowledge_cutoff, no_skill=entry.no_skill, listed=True)
