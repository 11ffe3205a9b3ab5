"""What was asked for when an eval set was built: its identity. A known name with another configuration is refused."""

from collections.abc import Sequence
from dataclasses import asdict, dataclass
from typing import Any

from hindcast_dagster import clock, keys
from hindcast_dagster.clock import Cutoff, T0Policy
from hindcast_dagster.errors import UsageError
from hindcast_dagster.evalset.caps import Caps
from hindcast_dagster.evalset.evidence import AUTO, parse_keep


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


@dataclass(frozen=True, slots=True)
class Config:
    """The configuration of one eval set. Build it with `of`, which refuses contradictions."""

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
    def of(
        cls,
        *,
        policy: T0Policy | str,
        archive_end: object = None,
        market_ids: Sequence[str] | None = None,
        closed_from: object = None,
        closed_to: object = None,
        vintage: str | None = None,
        max_price_age_h: float | None = None,
        size: int | None = None,
        seed: int = 0,
        keep: str = AUTO,
        choice: Choice | None = None,
        topics_by: str | None = None,
    ) -> "Config":
        """Check and normalise the arguments of `evalset.build.build`. Raises `UsageError`."""
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
        choice = choice or Choice()
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
            seed=seed if selects else 0,
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
