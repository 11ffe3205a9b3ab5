"""The people who post: a fixed crowd of pseudonyms, most of whom come back, and how their posts are scored."""

import random
from typing import Final

from hindcast_dagster.clock import HOUR
from hindcast_dagster.sample.names import author
from hindcast_dagster.sample.stories import stream

BOTS: Final = ("AutoModerator", "RemindMeBot", "sample_summary_bot")
_CROWD: Final = 600


class Crowd:
    """Authors and the engagement of their posts. A few post a lot, most rarely, as in any forum."""

    def __init__(self, seed: int) -> None:
        rng = stream(seed, "crowd")
        self._authors = sorted({author(rng) for _ in range(_CROWD)})
        rng.shuffle(self._authors)

    def author(self, rng: random.Random) -> str:
        """Return an author; the first of the crowd come up most often."""
        return self._authors[int(len(self._authors) * rng.random() ** 2)]

    @staticmethod
    def score(rng: random.Random) -> int:
        """Return a score that passes the floor of 5; the median is about 40."""
        return 5 + int(rng.lognormvariate(3.4, 1.4))

    @staticmethod
    def second_fetch(rng: random.Random, created_at: int) -> int:
        """Return when the second retrieval read score and text: about 36 hours later (field notes, section 1)."""
        return created_at + int(rng.triangular(33, 43, 36) * HOUR)
