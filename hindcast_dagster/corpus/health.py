"""Month health: whether the votes of a month were read late enough for the floors on votes to mean anything.

Scores are read by a second fetch about 36 hours after a post. Where that fetch failed (2024-03: 3 % of submissions) or
did not exist, nearly every row still has score 1 and the floors silently empty the month. A verdict never blocks
sealing; building an index on a hollow month does, unless it is accepted by name.
"""

import heapq
import math
import re
from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Any, Final, Literal, NamedTuple

from hindcast_dagster import clock
from hindcast_dagster.clock import DAY, HOUR
from hindcast_dagster.corpus import ledger
from hindcast_dagster.corpus.dumps import Kind, kind_of
from hindcast_dagster.storage.store import Store

Verdict = Literal["ok", "hollow", "unknown"]

SETTLED_AFTER: Final = 12 * HOUR  # real second fetches: 35 to 96 hours; real first fetches: seconds
MIN_ROWS: Final = 200  # fewer living rows say nothing about a month
MIN_SETTLED: Final = 0.5  # 2024-01 has 0.80 and is sound, 2024-03 has 0.03
MIN_SETTLED_TO_NEIGHBOURS: Final = 0.6
MIN_PASS_TO_NEIGHBOURS: Final = 0.25
MAX_UNVOTED: Final = 0.9  # share of rows with score 1: about half in a sound month, 0.97 in a hollow one
MAX_SUBREDDITS: Final = 5_000  # whose hours are watched
MAX_GAPS: Final = 50
GAP_CHANCE: Final = 0.01  # that a report names a silence at all where rows come at random
_SILENCE: Final = re.compile(rb"\x00{%d,}" % (DAY // HOUR))


class Health(NamedTuple):
    """The verdict on one month, the numbers that it rests on, and what to do."""

    verdict: Verdict
    numbers: dict[str, Any]
    advice: str

    def as_dict(self) -> dict[str, Any]:
        """Return JSON values."""
        return {"verdict": self.verdict, "numbers": self.numbers, "advice": self.advice}


@dataclass(slots=True)
class Measures:
    """What is counted while a month is read. Living rows: those that reached the rules on votes."""

    start: int
    end: int
    living: int = 0
    """Rows that have an author and a text."""
    known: int = 0
    settled: int = 0
    unvoted: int = 0
    scored: int = 0
    score_sum: int = 0
    hours: dict[str, bytearray] = field(default_factory=dict)
    """Per subreddit a byte for each hour of the month: 1 where it has a row."""

    def count(self, scores: list[int | None], ages: list[int | None]) -> None:
        """Count living rows: their scores, and how many seconds after each post its votes were read."""
        known = [score for score in scores if score is not None]
        read = [age for age in ages if age is not None]
        self.living += len(scores)
        self.scored += len(known)
        self.score_sum += sum(known)
        self.unvoted += known.count(1)
        self.known += len(read)
        self.settled += sum(map(SETTLED_AFTER.__le__, read))

    def seen_in(self, hour: int, subreddits: Iterable[str]) -> None:
        """Note that subreddits have a row in this hour of the month."""
        for subreddit in subreddits:
            hours = self.hours.get(subreddit)
            if hours is None:
                if len(self.hours) >= MAX_SUBREDDITS:
                    continue
                hours = self.hours[subreddit] = bytearray((self.end - self.start) // HOUR)
            hours[hour] = 1

    def numbers(self, *, kept: int, strays: int) -> dict[str, Any]:
        """Return the measures of the finished month as JSON values."""
        return {
            "living": self.living,
            "settled_share": share(self.settled, self.known),
            "pass_rate": share(kept, self.living),
            "mean_score": share(self.score_sum, self.scored),
            "unvoted_share": share(self.unvoted, self.scored),
            "strays": strays,
            "gaps": self._gaps(),
        }

    def _gaps(self) -> list[dict[str, Any]]:
        """Return the silences of a day or more that are no chance, per subreddit, longest first.

        Where a share p of the hours has a row, chance alone gives H p (1 - p)^L silences of L hours in a month of H.
        A silence is told when all subreddits together would have fewer than `GAP_CHANCE` as long by chance.
        """
        likely = GAP_CHANCE / max(len(self.hours), 1)
        found = heapq.nsmallest(
            MAX_GAPS,
            (
                (-length, name, first)
                for name, hours in self.hours.items()
                for first, length in _silences(hours)
                if _by_chance(hours, length) < likely
            ),
        )
        return [
            {"subreddit": name, "from": clock.iso(self.start + first * HOUR), "hours": -shortness}
            for shortness, name, first in found
        ]


def _by_chance(hours: bytearray, length: int) -> float:
    """Return how many silences of `length` hours a month with so many busy hours has by chance."""
    busy = hours.count(1)
    silent = 1 - busy / len(hours)
    return busy * math.exp(length * math.log(silent)) if busy else math.inf


def _silences(hours: bytearray) -> list[tuple[int, int]]:
    """Return (first hour, length) of each run of zeros that is at least a day long."""
    return [(run.start(), run.end() - run.start()) for run in _SILENCE.finditer(hours)]


def share(part: int, whole: int) -> float | None:
    """Return part of whole as the measures hold it; None of nothing."""
    return round(part / whole, 6) if whole else None


def check(store: Store, month: str, kind: str) -> Health:
    """Return the health of a sealed month, held against the sealed months beside it. Raises `NotSealed`."""
    table = kind_of(kind)
    numbers = _numbers(ledger.read(store, month, table))
    near = [_neighbour(store, clock.shift_month(month, by), table) for by in (-1, 1)]
    return judge(numbers, [found for found in near if found is not None])


def _numbers(found: ledger.Ledger) -> dict[str, Any]:
    return dict(found.stats["health"]["numbers"])


def _neighbour(store: Store, month: str, kind: Kind) -> dict[str, Any] | None:
    manifest = store.partition(kind, month).manifest()
    numbers = _numbers(ledger.of_manifest(manifest)) if manifest else None
    return numbers if numbers and judge(numbers, []).verdict != "hollow" else None


def judge(numbers: dict[str, Any], neighbours: list[dict[str, Any]]) -> Health:
    """Return the verdict on a month's numbers, given those of the sound months beside it (none: on its own)."""
    problems = _alone(numbers) + _beside(numbers, neighbours)
    shown = {**numbers, "neighbours": len(neighbours)}
    if problems:
        return Health("hollow", shown, f"{'; '.join(problems)}. {_REMEDY}")
    if is_empty(numbers):
        return Health("unknown", shown, f"{_EMPTY} Nothing in it can be judged; see whether the file is the right one.")
    if numbers["living"] < MIN_ROWS:
        return Health("unknown", shown, f"Only {numbers['living']} living rows: too few to judge.")
    if numbers["settled_share"] is None and not neighbours:
        return Health("unknown", shown, "No row says when its votes were read, and no neighbouring month is sealed.")
    return Health("ok", shown, _gap_advice(numbers))


def is_empty(numbers: dict[str, Any]) -> bool:
    """Return whether the dump of a month held no line at all, which is legal and rarely meant."""
    return numbers.get("lines") == 0


_EMPTY: Final = "The dump holds no line at all: the month is sealed as an empty one."
_REMEDY: Final = (
    "The floors on votes empty such a month: fetch a later edition of the dump, or accept it by name with "
    "`hindcast archive build --accept-hollow`."
)


def _alone(numbers: dict[str, Any]) -> list[str]:
    if numbers["living"] < MIN_ROWS:
        return []
    said = []
    if (settled := numbers["settled_share"]) is not None and settled < MIN_SETTLED:
        said.append(f"only {settled:.1%} of the votes were read {SETTLED_AFTER // HOUR} hours or more after the post")
    if (unvoted := numbers["unvoted_share"]) is not None and unvoted > MAX_UNVOTED:
        said.append(f"{unvoted:.1%} of the rows have a score of exactly 1 (mean {numbers['mean_score']:.2f})")
    return said


def _beside(numbers: dict[str, Any], neighbours: list[dict[str, Any]]) -> list[str]:
    if numbers["living"] < MIN_ROWS:
        return []
    said = []
    for name, least, word in (
        ("settled_share", MIN_SETTLED_TO_NEIGHBOURS, "of the votes were read late enough"),
        ("pass_rate", MIN_PASS_TO_NEIGHBOURS, "of the living rows pass the filters"),
    ):
        others = [found[name] for found in neighbours if found[name]]
        mean = sum(others) / len(others) if others else 0.0
        if mean and numbers[name] is not None and numbers[name] < least * mean:
            said.append(f"{numbers[name]:.1%} {word}, against {mean:.1%} in the months beside it")
    return said


def _gap_advice(numbers: dict[str, Any]) -> str:
    gaps = numbers["gaps"]
    if not gaps:
        return ""
    worst = gaps[0]
    longest = f"r/{worst['subreddit']}, {worst['hours']} hours from {worst['from']}"
    return f"{len(gaps)} silences of a day or more; the longest: {longest}."
