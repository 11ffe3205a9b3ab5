"""Time: instants, t0 and every date rule. The only module that does date arithmetic.

Inside the program an instant is an int, epoch seconds UTC; outside it is ISO 8601. A date means 00:00:00 UTC of that
date. t0 is a `Cutoff`, immutable and passed by hand: it never sits in shared state.
"""

import math
import re
import time
from dataclasses import dataclass
from datetime import UTC, date, datetime, timedelta
from typing import Final, Literal, NamedTuple, Self

from hindcast_dagster import keys
from hindcast_dagster.errors import UsageError

HOUR: Final = 3_600
DAY: Final = 86_400
EARLIEST: Final = 1_104_537_600  # 2005-01-01T00:00:00Z, before the first Reddit post
LATEST: Final = 4_102_444_800  # 2100-01-01T00:00:00Z; epoch milliseconds lie far above it

_DATE: Final = re.compile(r"[0-9]{4}-[0-9]{2}-[0-9]{2}")
_DATETIME: Final = re.compile(
    r"([0-9]{4}-[0-9]{2}-[0-9]{2})[T ]([0-9]{2}:[0-9]{2}(?::[0-9]{2}(?:\.[0-9]{1,9})?)?)"
    r"(Z|[+-][0-9]{2}(?::?[0-9]{2})?)",
    re.IGNORECASE,
)
_NUMBER: Final = re.compile(r"[0-9]{1,18}(?:\.[0-9]{1,9})?")


class InvalidInstant(UsageError):
    """A value that does not name one instant in UTC between 2005 and 2100."""


def now() -> int:
    """Return the present instant. For provenance (`made_at`, `fetched_at`) only; no result may depend on it."""
    return int(time.time())


def instant(value: object) -> int:
    """Return `value` as epoch seconds UTC, floored.

    Accepts an int or finite float of epoch seconds, digits as text, an ISO date (00:00:00 UTC), an ISO date and time
    with a zone, a `date`, or an aware `datetime`. Refuses None, NaN, bool, naive datetimes (they would shift with the
    host's zone) and everything outside 2005..2100, which catches milliseconds. Flooring is the safe direction: a row
    at second s is returned only if s < t0. Raises `InvalidInstant`.
    """
    if isinstance(value, Cutoff):
        return value.epoch
    seconds = _seconds(value)
    if not EARLIEST <= seconds < LATEST:
        hint = " It looks like milliseconds: divide by 1000." if EARLIEST <= seconds / 1000 < LATEST else ""
        raise InvalidInstant(f"{value!r} is not an instant between 2005 and 2100 (epoch seconds UTC).{hint}")
    return seconds


def _seconds(value: object) -> int:
    if isinstance(value, bool) or value is None:
        raise InvalidInstant(f"An instant is required, found {value!r}.")
    if isinstance(value, int):
        return value
    if isinstance(value, float):
        if not math.isfinite(value):
            raise InvalidInstant(f"{value!r} is not an instant.")
        return math.floor(value)
    if isinstance(value, datetime):
        return _from_datetime(value)
    if isinstance(value, date):
        return _from_datetime(datetime(value.year, value.month, value.day, tzinfo=UTC))
    if isinstance(value, str):
        return _from_text(value.strip())
    raise InvalidInstant(f"A {type(value).__name__} is not an instant.")


def _from_datetime(value: datetime) -> int:
    if value.tzinfo is None or value.utcoffset() is None:
        raise InvalidInstant(f"{value.isoformat()} has no zone: say UTC explicitly, for example {value.isoformat()}Z.")
    return (value - datetime(1970, 1, 1, tzinfo=UTC)) // timedelta(seconds=1)


def _from_text(text: str) -> int:
    if not text.isascii():
        raise InvalidInstant(f"{text!r} is not an instant.")
    if _NUMBER.fullmatch(text):
        return int(text.partition(".")[0])
    try:
        if _DATE.fullmatch(text):
            return _from_datetime(datetime.fromisoformat(text).replace(tzinfo=UTC))
        if found := _DATETIME.fullmatch(text):
            day, clock, zone = found.groups()
            whole_second = clock.partition(".")[0]  # a fraction is floored
            return _from_datetime(datetime.fromisoformat(f"{day}T{whole_second}{'+00:00' if zone in 'Zz' else zone}"))
        if _DATETIME.fullmatch(text + "Z"):
            raise InvalidInstant(f"{text!r} has no zone: write {text}Z for UTC.")
    except ValueError as error:
        raise InvalidInstant(f"{text!r} is not a real date: {error}.") from error
    raise InvalidInstant(f"{text!r} is not an instant: write YYYY-MM-DD, YYYY-MM-DDTHH:MM:SSZ or epoch seconds.")


@dataclass(frozen=True, order=True, slots=True)
class Cutoff:
    """t0: the instant at which a forecaster stands. Only what existed strictly before it may be seen."""

    epoch: int

    def __post_init__(self) -> None:
        object.__setattr__(self, "epoch", instant(self.epoch))

    @classmethod
    def of(cls, value: object) -> Self:
        """Return the cutoff that `value` names; raise `InvalidInstant` if it names none (see `instant`)."""
        return cls(instant(value))

    def admits(self, created_at: object) -> bool:
        """Return whether a row created at `created_at` (epoch seconds) existed before t0. Only an int can."""
        return isinstance(created_at, int) and not isinstance(created_at, bool) and EARLIEST <= created_at < self.epoch

    def clamp(self, value: object) -> "Cutoff":
        """Return the earlier of this cutoff and the one that a caller asked for: a tool call may never widen."""
        return self if value is None else min(self, Cutoff.of(value))

    @property
    def month(self) -> str:
        """The month of the last second before t0: the latest month that can hold an admitted row."""
        return month_of(self.epoch - 1)

    @property
    def iso(self) -> str:
        """ISO 8601 in UTC."""
        return iso(self.epoch)

    @property
    def date(self) -> str:
        """The UTC date of t0, YYYY-MM-DD."""
        return iso(self.epoch)[:10]


def iso(epoch: int) -> str:
    """Return epoch seconds as `YYYY-MM-DDTHH:MM:SSZ`."""
    return datetime.fromtimestamp(epoch, tz=UTC).strftime("%Y-%m-%dT%H:%M:%SZ")


def day_start(epoch: int) -> int:
    """Return 00:00:00 UTC of the day that holds `epoch`."""
    return epoch - epoch % DAY


def until(value: object) -> int:
    """Return the first instant after what `value` names as the last: a date written out is meant with its whole day.

    `until("2025-12-31")` is 2026-01-01T00:00:00Z; anything that is not a date is that instant itself (see `instant`).
    """
    whole_day = (isinstance(value, str) and bool(_DATE.fullmatch(value.strip()))) or (
        isinstance(value, date) and not isinstance(value, datetime)
    )
    return instant(value) + DAY * whole_day


def month_of(epoch: int) -> str:
    """Return the UTC month key `YYYY-MM` of an instant."""
    return iso(epoch)[:7]


def month_start(month: str) -> int:
    """Return the first second of a month."""
    year, number = _year_month(month)
    return _from_datetime(datetime(year, number, 1, tzinfo=UTC))


def month_end(month: str) -> int:
    """Return the first second after a month."""
    return month_start(shift_month(month, 1))


def shift_month(month: str, by: int) -> str:
    """Return the month `by` months later (earlier when negative)."""
    year, number = _year_month(month)
    years, index = divmod(year * 12 + number - 1 + by, 12)
    return f"{years:04d}-{index + 1:02d}"


def months(first: str, last: str) -> list[str]:
    """Return every month from `first` to `last`, both included; empty when `last` is earlier."""
    start, end = _year_month(first), _year_month(last)
    count = (end[0] - start[0]) * 12 + end[1] - start[1] + 1
    return [shift_month(first, step) for step in range(max(count, 0))]


def _year_month(month: str) -> tuple[int, int]:
    checked = keys.month(month)
    return int(checked[:4]), int(checked[5:])


class T0(NamedTuple):
    """The resolved t0 of one market: what retrieval, price, prompt and record all use."""

    cutoff: Cutoff
    capped: bool
    """The archive end lowered it."""
    at_close: bool
    """The policy put it on the last second before the close (lookback 1)."""


@dataclass(frozen=True, slots=True)
class T0Policy:
    """How t0 follows from a market's life. Parse one with `T0Policy.parse`; `str()` gives the canonical text back."""

    kind: Literal["day_before_close", "lookback", "days_before", "fixed"]
    value: float = 0.0
    """lookback: a fraction in (0, 1]; days_before: days; fixed: epoch seconds."""

    @classmethod
    def parse(cls, text: str) -> Self:
        """Read `day_before_close`, `lookback:F`, `days_before:N` or `fixed:T`; raise `UsageError` for anything else."""
        kind, colon, argument = text.strip().partition(":")
        if kind == "day_before_close" and not colon:
            return cls("day_before_close")
        if kind == "fixed" and argument:
            return cls("fixed", instant(argument))
        if kind == "lookback" and _NUMBER.fullmatch(argument) and 0 < float(argument) <= 1:
            return cls("lookback", float(argument))
        if kind == "days_before" and re.fullmatch(r"[0-9]{1,4}", argument) and int(argument) > 0:
            return cls("days_before", int(argument))
        raise UsageError(
            f"{text!r} is not a t0 policy: write day_before_close, lookback:F (0 < F <= 1), days_before:N or fixed:T."
        )

    def __str__(self) -> str:
        """Return the canonical text."""
        if self.kind == "day_before_close":
            return self.kind
        if self.kind == "fixed":
            return f"fixed:{iso(int(self.value))}"
        return f"{self.kind}:{self.value!r}" if self.kind == "lookback" else f"{self.kind}:{int(self.value)}"

    def resolve(self, *, open_at: int | None, close_at: int, archive_end: Cutoff | None = None) -> T0 | None:
        """Return the t0 of a market that opened at `open_at` and closed at `close_at`, or None if there is none.

        None: the policy needs an opening time that is unknown, or the t0 is not strictly before the close, or lies
        outside 2005..2100. `archive_end` caps every policy and is applied last (paper, section 4.2: the day before
        close, capped at 2026-01-31). `day_before_close` is 00:00 UTC of the calendar day before the closing day.
        """
        raw = self._raw(open_at=open_at, close_at=close_at)
        if raw is None or not EARLIEST <= raw < LATEST:
            return None
        capped = archive_end is not None and archive_end.epoch < raw
        epoch = archive_end.epoch if capped and archive_end is not None else raw
        if epoch >= close_at:
            return None
        at_close = self.kind == "lookback" and self.value == 1 and not capped
        return T0(cutoff=Cutoff(epoch), capped=capped, at_close=at_close)

    def _raw(self, *, open_at: int | None, close_at: int) -> int | None:
        if self.kind == "fixed":
            return int(self.value)
        if self.kind == "day_before_close":
            return day_start(close_at) - DAY
        if self.kind == "days_before":
            return close_at - int(self.value) * DAY
        if open_at is None or open_at >= close_at:
            return None
        if self.value == 1:
            return close_at - 1
        return math.floor(open_at + self.value * (close_at - open_at))
