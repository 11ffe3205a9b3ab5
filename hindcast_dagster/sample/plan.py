"""Which markets a sample world has: their stories, closes, outcomes, and the kind of discussion planted around each."""

import random
from dataclasses import dataclass, replace
from hashlib import sha256
from typing import Final

from hindcast_dagster import clock
from hindcast_dagster.clock import DAY, HOUR, T0Policy
from hindcast_dagster.errors import UsageError
from hindcast_dagster.questions.question import Outcome
from hindcast_dagster.sample import prices
from hindcast_dagster.sample.model import Kind, PriceHabit, SampleMarket, Status
from hindcast_dagster.sample.names import Names
from hindcast_dagster.sample.stories import Story, stories, stream

MAX_MONTHS: Final = 60

# (kind, outcome) of the single markets, in turn. Facts point to the outcome; hype mostly to nothing, as in the paper
# (section 6.3: pre-release hype reads as evidence for Yes, and most of those markets resolve No).
_SINGLES: Final[tuple[tuple[Kind, Outcome], ...]] = (
    ("fact", "Yes"), ("hype", "No"), ("fact", "No"), ("silence", "Yes"), ("contradiction", "No"),
    ("fact", "Yes"), ("hype", "No"), ("silence", "No"), ("contradiction", "Yes"),
)  # fmt: skip
_CHART: Final[tuple[tuple[Kind, Outcome], ...]] = (
    ("hype", "No"), ("fact", "Yes"), ("hype", "No"), ("hype", "Yes"), ("silence", "No"), ("hype", "No"),
)  # fmt: skip
_LEGS: Final[tuple[tuple[Kind, Kind, Kind, Kind], ...]] = (  # the first leg wins
    ("fact", "hype", "silence", "contradiction"),
    ("silence", "hype", "fact", "contradiction"),
    ("contradiction", "fact", "hype", "silence"),
)
_SPECIALS: Final[tuple[tuple[Status, int], ...]] = (  # and the month that holds it, modulo the number of months
    ("up_down", 0), ("void_50_50", 1), ("no_close_time", 1), ("disputed", 2), ("provisional", 3),
    ("unsettled_price", 3), ("three_way", 4), ("open", -1), ("open", -1),
)  # fmt: skip
_OPEN_DAYS: Final = (4, 45, 20, 90, 9, 60, 30)
_EARLY: Final = frozenset({"bill", "mainnet", "model", "celebrity", "ceasefire", "drug", "merger", "mission"})
_SWAPPED_EVERY: Final = 5  # one market in five lists No first
_OPEN_SINCE: Final = 25 * DAY  # when a market opened that is still open at the end of the world
_FIRST_CLOSE_DAY: Final = 11  # so that even the first month holds a discussion before t0
_LAST_CLOSE_DAY: Final = 25  # so that even the last month holds what people say afterwards


_MONTH_NAMES: Final = (
    "January", "February", "March", "April", "May", "June",
    "July", "August", "September", "October", "November", "December",
)  # fmt: skip


@dataclass(frozen=True, slots=True)
class _Slot:
    """A market to be made: its story and month, and what is planted."""

    story: Story
    month: int
    kind: Kind
    outcome: Outcome | None
    group: str = ""
    """Legs of one event, and the markets of one series, share it."""
    status: Status = "resolved"


def markets(*, seed: int, months: list[str], names: Names) -> tuple[SampleMarket, ...]:
    """Return the markets of a world, in the order in which they are numbered; their names come from `names`."""
    if not 1 <= len(months) <= MAX_MONTHS:
        raise UsageError(f"A sample world has 1 to {MAX_MONTHS} months, not {len(months)}.")
    rng = stream(seed, "markets")
    maker = _Maker(seed=seed, months=months, rng=rng, names=names)
    return tuple(maker.make(number, slot) for number, slot in enumerate(_slots(len(months))))


def _slots(count: int) -> list[_Slot]:
    by_shape = {
        shape: [story for story in stories() if story.shape == shape] for shape in ("event", "series", "single")
    }
    singles, chart = by_shape["single"], by_shape["series"][0]
    slots, single, event = [], 0, 0
    for month in range(count):
        if month % 2 == 0:
            story, legs = by_shape["event"][event % 3], _LEGS[event % 3]
            group = f"event {event}"
            slots += [_Slot(story, month, kind, "Yes" if leg == 0 else "No", group) for leg, kind in enumerate(legs)]
            event += 1
        slots.append(_Slot(chart, month, *_CHART[month % len(_CHART)], group="series"))
        for _ in range(2 if month % 2 == 0 else 4):
            slots.append(_Slot(singles[single % len(singles)], month, *_SINGLES[single % len(_SINGLES)]))
            single += 1
    specials = [
        _Slot(singles[(single + index) % len(singles)], where % count, "fact", None, status=status)
        for index, (status, where) in enumerate(_SPECIALS)
    ]
    return slots + specials


class _Maker:
    """Turns slots into markets. Keeps what legs and series share."""

    def __init__(self, *, seed: int, months: list[str], rng: random.Random, names: Names) -> None:
        self._seed, self._months, self._rng, self._names = seed, months, rng, names
        self._shared: dict[str, tuple[dict[str, str], int, int]] = {}
        self._taken_days: dict[int, int] = {}

    def make(self, number: int, slot: _Slot) -> SampleMarket:
        """Return one market."""
        rng, story = self._rng, slot.story
        own = self._names_of(story, tuple(story.names) + tuple(story.numbers))
        close_at = self._close(slot)
        days = _OPEN_DAYS[number % len(_OPEN_DAYS)]
        open_at = close_at - days * DAY - rng.randint(0, 20) * HOUR
        if slot.status == "open":
            open_at = clock.month_end(self._months[-1]) - _OPEN_SINCE
        own, open_at, close_at = self._share(slot, own, open_at, close_at)
        early = story.key in _EARLY and (slot.outcome == "Yes" or number % 4 == 0)
        planned = clock.day_start(close_at) + (rng.randint(12, 50) * DAY if early else 0)
        own["by"] = _day_name(planned)
        resolved = T0Policy.parse("day_before_close").resolve(open_at=open_at, close_at=close_at)
        assert resolved is not None
        market_id = "0x" + self._hash("condition", number)
        market = SampleMarket(
            number=number,
            market_id=market_id,
            gamma_id=str(self._gamma_id(number)),
            story=story,
            slots=own,
            question=_fill(story.question, own),
            rules=_fill(story.rules, own),
            addendum="",
            event_id=str(70_000 + (int(slot.group[6:]) if slot.group.startswith("event") else 1_000 + number)),
            event_title=_fill(story.group, own) if story.shape == "event" else _fill(story.question, own),
            series=_fill(story.group, own) if story.shape == "series" else None,
            leg=story.shape == "event",
            open_at=open_at,
            planned_close=planned,
            close_at=close_at,
            t0=resolved.cutoff.epoch,
            outcome=slot.outcome,
            status=slot.status,
            kind=slot.kind,
            yes_first=number % _SWAPPED_EVERY != 3,  # noqa: PLR2004 - any fixed remainder would do
            yes_token=str(int(self._hash("yes", number), 16)),
            no_token=str(int(self._hash("no", number), 16)),
            habit=_habit(number, slot),
            prices=(),
        )
        return replace(market, addendum=_addendum(market), prices=self._prices(market))

    def _names_of(self, story: Story, slots: tuple[str, ...]) -> dict[str, str]:
        numbers = {slot: str(self._rng.randint(*story.numbers[slot])) for slot in slots if slot in story.numbers}
        return {slot: self._names.take(kind) for slot, kind in story.names.items()} | numbers

    def _share(self, slot: _Slot, own: dict[str, str], open_at: int, close_at: int) -> tuple[dict[str, str], int, int]:
        """Legs of an event share its names, opening and close; the markets of a series share the name of the series."""
        if not slot.group:
            return own, open_at, close_at
        first, first_open, first_close = self._shared.setdefault(slot.group, (own, open_at, close_at))
        common = {name: first[name] for name in ("x", "o") if name == "x" or slot.story.key != "cup"}
        if slot.story.shape == "series":
            return own | common, open_at, close_at
        return own | common, first_open, first_close

    def _close(self, slot: _Slot) -> int:
        if slot.status == "open":
            return clock.month_end(self._months[-1]) + self._rng.randint(10, 60) * DAY
        turn = self._taken_days[slot.month] = self._taken_days.get(slot.month, -1) + 1
        span = _LAST_CLOSE_DAY - _FIRST_CLOSE_DAY + 1
        day = _FIRST_CLOSE_DAY + turn * 4 % span  # 4 and 15 share no factor: the closes spread over the fortnight
        return clock.month_start(self._months[slot.month]) + (day - 1) * DAY + self._rng.randint(1 * HOUR, 23 * HOUR)

    def _prices(self, market: SampleMarket) -> tuple[tuple[int, float], ...]:
        end = market.close_at if market.status != "open" else clock.month_end(self._months[-1])
        return prices.history(
            stream(self._seed, "prices", market.number),
            open_at=market.open_at,
            close_at=end,
            t0=min(market.t0, end),
            outcome=market.outcome,
            kind=market.kind,
            leg=market.leg,
            habit=market.habit,
        )

    def _hash(self, what: str, number: int) -> str:
        return sha256(f"sample world/{self._seed}/{what}/{number}".encode()).hexdigest()

    def _gamma_id(self, number: int) -> int:
        """Ids that do not order markets by time: 7919 is a prime and keeps them distinct."""
        return 600_000 + (number * 7_919) % 99_991


def _habit(number: int, slot: _Slot) -> PriceHabit:
    """One market in twelve has a stale last price, one an empty CLOB history, and one in twenty no history at all."""
    if slot.status != "resolved" or slot.story.shape == "event":
        return "normal"
    if number % 20 == 15:  # noqa: PLR2004 - any fixed remainder would do
        return "none"
    return {5: "stale", 9: "clob_empty"}.get(number % 12, "normal")  # type: ignore[return-value]


def _addendum(market: SampleMarket) -> str:
    """Every third resolved market has a note, added on the day after its close, that states the outcome."""
    if market.outcome is None or market.number % 3:
        return ""
    day = clock.iso(market.close_at + DAY)[:10]
    said = f"the reporting consensus is that this market resolves to {market.outcome}"
    if market.number % 2:
        return f"\n\nAdditional context (added {day}): {said}."
    return f"\n\nUpdate {day} (UTC): {said[0].upper()}{said[1:]}."


def _fill(text: str, slots: dict[str, str]) -> str:
    for name, value in slots.items():
        text = text.replace("{" + name + "}", value)
    return text


def _day_name(epoch: int) -> str:
    text = clock.iso(epoch)
    return f"{_MONTH_NAMES[int(text[5:7]) - 1]} {int(text[8:10])}, {text[:4]}"
