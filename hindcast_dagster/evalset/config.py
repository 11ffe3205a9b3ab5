"""What was asked for when an eval set was built: its identity. A known name with another configuration is refused."""

from collections.abc import Sequence
from dataclasses import asdict, dataclass
from typing import Any, Final, Required, Self, TypedDict, Unpack

from hindcast_dagster import clock, keys
from hindcast_dagster.clock import Cutoff, T0Policy
from hindcast_dagster.errors import UsageError
from hindcast_dagster.evalset.caps import Caps
from hindcast_dagster.evalset.evidence import AUTO, parse_keep

TWIN_SUFFIX: Final = "-blind"
"""`<name>-blind` is the outcome-blind twin of the eval set `<name>`."""


@dataclass(frozen=True, slots=True)
class Choice:
    """How a selection chooses beyond size, seed and evidence. All off: the paper's."""

    balanced: bool = False
    """Without a size: as many as the rarer outcome allows."""
    blind: bool = False
    """By |evidence| at t0, without the outcome: the twin of a balanced set."""
    per_event: int | None = None
    price_band: tuple[float, float] | None = None
    min_lead_h: float | None = None

    def caps(self, keep: tuple[str, ...] | None) -> Caps:
        """Return the caps of the selection. Raises `UsageError` for caps without meaning."""
        lead = None if self.min_lead_h is None else int(self.min_lead_h * clock.HOUR)
        return Caps(keep=keep, per_event=self.per_event, price_band=self.price_band, min_lead_s=lead)

    def as_stats(self) -> dict[str, Any]:
        """Return what is switched on, as JSON values."""
        band = None if self.price_band is None else list(self.price_band)
        return {
            name: value for name, value in (asdict(self) | {"price_band": band}).items() if value not in (None, False)
        }


def price_band(prices: Sequence[float]) -> tuple[float, float] | None:
    """Return two prices as a band; None for none. Raises `UsageError` for any other number of prices."""
    if not prices:
        return None
    if len(prices) != 2:  # noqa: PLR2004 - low and high
        raise UsageError(f"A price band is two prices, for example 0.02 and 0.98; found {len(prices)}.")
    return prices[0], prices[1]


class Asked(TypedDict, total=False):
    """What a caller may ask of an eval set, unchecked: the keyword arguments of `evalset.build.build`.

    The markets are all of them, those of `market_ids`, those with closed_from <= close < closed_to (a date as
    `closed_to` is meant with its whole day), or those that resolved since the eval set `vintage` was built. `size` asks
    for a selection balanced by outcome and topic among the markets whose evidence `keep` names (auto: strong where the
    probe is sealed, any where nothing is); `choice` adds caps, a balance without a size, or a selection blind to
    outcomes. `archive_end` caps every t0. `topics_by` names a model of the roster that sorts the questions whose tags
    told no topic.
    """

    policy: Required[T0Policy | str]
    archive_end: object
    market_ids: Sequence[str] | None
    closed_from: object
    closed_to: object
    vintage: str | None
    max_price_age_h: float | None
    size: int | None
    seed: int
    keep: str
    choice: Choice | None
    topics_by: str | None


@dataclass(frozen=True, slots=True)
class Config:
    """The checked configuration of one eval set. Build it with `of`, which refuses contradictions."""

    policy: T0Policy
    archive_end: Cutoff | None
    market_ids: tuple[str, ...] | None
    closed_from: int | None
    closed_to: int | None
    """Exclusive, epoch seconds."""
    vintage: str | None
    max_price_age_h: float | None
    size: int | None
    seed: int
    keep: str
    choice: Choice = Choice()
    topics_by: str | None = None
    """Roster slug of the model that sorts questions without a topic; None: they stay Other."""

    @property
    def selects(self) -> bool:
        """A selection is asked for; without one every market that can be asked is taken."""
        return self.size is not None or self.choice.balanced

    @classmethod
    def of(cls, **asked: Unpack[Asked]) -> Self:
        """Check and normalise what is asked for. Raises `UsageError`."""
        market_ids, vintage, size = asked.get("market_ids"), asked.get("vintage"), asked.get("size")
        closed_from, closed_to = asked.get("closed_from"), asked.get("closed_to")
        max_price_age_h, keep = asked.get("max_price_age_h"), asked.get("keep", AUTO)
        policy, archive_end, topics_by = asked["policy"], asked.get("archive_end"), asked.get("topics_by")
        window = closed_from is not None or closed_to is not None
        if sum((market_ids is not None, window, vintage is not None)) > 1:
            raise UsageError("Choose the markets in one way: by id, by close window, by vintage, or all of them.")
        start = None if closed_from is None else clock.instant(closed_from)
        end = None if closed_to is None else clock.until(closed_to)
        if start is not None and end is not None and start >= end:
            raise UsageError(f"The close window ends ({clock.iso(end)}) before it begins ({clock.iso(start)}).")
        if max_price_age_h is not None and not 0 < max_price_age_h < float("inf"):
            raise UsageError(f"The greatest price age must be above 0 hours, found {max_price_age_h}.")
        parse_keep(keep)
        choice = asked.get("choice") or Choice()
        choice.caps(None)
        selects = size is not None or choice.balanced
        if not selects and choice != Choice():
            raise UsageError(
                "A cap or a blind selection needs --size N or --balanced: without them nothing is selected."
            )
        if choice.blind and size is None:
            raise UsageError("A blind selection needs a size: that of the set whose twin it is.")
        return cls(
            policy=T0Policy.parse(policy) if isinstance(policy, str) else policy,
            archive_end=None if archive_end is None else Cutoff.of(archive_end),
            market_ids=None if market_ids is None else tuple(sorted({keys.condition_id(m) for m in market_ids})),
            closed_from=start,
            closed_to=end,
            vintage=None if vintage is None else keys.slug(vintage, what="eval set name"),
            max_price_age_h=max_price_age_h,
            size=size,
            seed=asked.get("seed", 0) if selects else 0,
            keep=keep if selects else AUTO,
            choice=choice,
            topics_by=None if topics_by is None else keys.slug(topics_by, what="model"),
        )

    def as_stats(self) -> dict[str, Any]:
        """Return JSON values: what two builds of one name are compared by."""
        return (
            {
                "policy": str(self.policy),
                "archive_end": self.archive_end.iso if self.archive_end else None,
                "market_ids": list(self.market_ids) if self.market_ids is not None else None,
                "closed_from": None if self.closed_from is None else clock.iso(self.closed_from),
                "closed_to": None if self.closed_to is None else clock.iso(self.closed_to),
                "vintage": self.vintage,
                "max_price_age_h": self.max_price_age_h,
                "size": self.size,
                "seed": self.seed,
                "keep": self.keep,
            }
            | self.choice.as_stats()
            | ({"topics_by": self.topics_by} if self.topics_by else {})
        )

    @classmethod
    def of_stats(cls, stats: dict[str, Any]) -> Self:
        """Return the configuration that a manifest holds (`as_stats` read back). Raises `UsageError`."""
        band = stats.get("price_band")
        chosen = {name: stats[name] for name in ("balanced", "blind", "per_event", "min_lead_h") if name in stats}
        copied = ("market_ids", "closed_from", "closed_to", "vintage", "max_price_age_h", "size", "archive_end")
        return cls.of(
            policy=stats["policy"],
            seed=stats.get("seed", 0),
            keep=stats.get("keep", AUTO),
            choice=Choice(price_band=None if band is None else (band[0], band[1]), **chosen),
            topics_by=stats.get("topics_by"),
            **{name: stats.get(name) for name in copied},
        )
