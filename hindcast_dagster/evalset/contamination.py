"""The contamination view: per model of the roster, how many questions of a set lie after all that it may have read.

What belongs here: counting. Whether a contaminated question is asked at all is `forecast.contamination`'s business.
"""

from collections import Counter
from typing import NamedTuple

from hindcast_dagster.llm import roster
from hindcast_dagster.questions.load import load
from hindcast_dagster.settings import Settings
from hindcast_dagster.storage.store import Store


class Exposure(NamedTuple):
    """One model and one eval set."""

    model: str
    knowledge_until: str | None
    """ISO date; None: nobody published one."""
    after: int
    """Questions whose t0 lies after the model's knowledge cutoff: it cannot have read the outcome."""
    before: int
    unknown: int


def view(store: Store, settings: Settings, eval_set: str) -> list[Exposure]:
    """Return the exposure of every model of the roster, in its order. Raises `NotSealed` without the eval set."""
    t0s = [resolved.question.t0 for resolved in load(store, eval_set)]
    return [_exposure(entry, Counter(entry.contamination(t0) for t0 in t0s)) for entry in roster.load(settings)]


def _exposure(entry: roster.Entry, said: Counter[roster.Contamination]) -> Exposure:
    until = entry.knowledge_until.isoformat() if entry.knowledge_until else None
    return Exposure(entry.slug, until, said["after_cutoff"], said["before_cutoff"], said["no_cutoff"])
