"""Forecasts at rest: how one lies in the journal, and what other stages read back.

A journal file holds one finished forecast: its identity, its values and its whole trace. The sealed partitions are
derived from these files; the leak audit and `hindcast forecast show` read them directly.
"""

import hashlib
from collections.abc import Iterator
from dataclasses import dataclass, fields
from functools import cached_property
from typing import Any, Final

import polars as pl

from hindcast_dagster.contracts.forecasts import FORECASTS
from hindcast_dagster.errors import InputRefused, NotReady
from hindcast_dagster.forecast.forecaster import Forecast, Seen, Step, Trace
from hindcast_dagster.settings import Settings
from hindcast_dagster.storage.journal import Journal, identity_hash
from hindcast_dagster.storage.store import Store
from hindcast_dagster.storage.tables import read_table

JOURNAL_VERSION: Final = 1
SUFFIX: Final = "_forecasts"
BASELINES: Final = "market_baseline"
BASELINE_ARMS: Final = ("market_price", "constant_half", "base_rate", "reference_class", "evidence_count")
NO_MODEL: Final = "none"
SUPERSEDED: Final = "superseded"
"""Folder inside a journal for forecasts that an `--overwrite` replaced: kept, never read."""

SEEN: Final = tuple(field.name for field in fields(Seen))
"""The columns of a journaled document."""

_RELEASED: Final = frozenset(
    {"messages_sha256", "decoding", "finish_reason", "model_revision", "distances", "shown", "yes", "no", "quality",
     "step", "refusal"}
)  # fmt: skip
"""Texts and lists of a step that hold identifiers, hashes, numbers or words of ours."""

_VALUES: Final = tuple(field.name for field in fields(Forecast) if field.name != "trace")


@dataclass(frozen=True)
class Identity:
    """What a forecast is a forecast of: the resume unit (design, section 4)."""

    question_id: str
    question_sha256: str
    """Over everything that a prompt may contain of the question."""
    t0: int
    model: str
    model_revision: str | None
    arm: str
    arm_version: str
    """Hash over prompt versions, decoding and settings of the arm; a custom arm names its own."""
    archive_snapshot: str | None
    """None for an arm that does not read the archive."""
    run: int
    archive_mode: str | None = None
    """How the archive treats late texts and votes (`mode_of`); None with the snapshot."""

    @cached_property
    def forecast_id(self) -> str:
        """The sha256 that names the journal file."""
        return identity_hash(self.as_dict())

    def as_dict(self) -> dict[str, Any]:
        """Return the JSON values that are hashed and journaled."""
        return {name: getattr(self, name) for name in _IDENTITY}

    @property
    def base(self) -> tuple[str | None, ...]:
        """What must not change under one (arm, model, eval set) without an explicit overwrite."""
        return (self.model_revision, self.arm_version, self.archive_snapshot, self.archive_mode)


_IDENTITY: Final = tuple(field.name for field in fields(Identity))


def mode_of(settings: Settings) -> str:
    """Return the archive's mode and its treatment of late votes as one text."""
    return f"{settings.archive.mode}/{settings.archive.late_votes}"


@dataclass(frozen=True, slots=True)
class TraceRecord:
    """One journaled forecast as the leak audit, the replay and `forecast show` see it."""

    forecast_id: str
    eval_set: str
    identity: Identity
    forecast: Forecast
    """With its trace: `forecast.trace.steps`, each with what was asked and every document that was handed out."""
    cost: float | None
    made_at: int

    @property
    def question_id(self) -> str:
        """The question."""
        return self.identity.question_id

    @property
    def model(self) -> str:
        """Roster slug, or "none"."""
        return self.identity.model

    @property
    def arm(self) -> str:
        """The arm."""
        return self.identity.arm

    @property
    def run(self) -> int:
        """1.. ."""
        return self.identity.run

    @property
    def t0(self) -> int:
        """The instant at which the forecaster stood, epoch seconds."""
        return self.identity.t0

    @property
    def steps(self) -> list[Step]:
        """Every step, in order."""
        return self.forecast.trace.steps

    @property
    def message_hashes(self) -> tuple[str, ...]:
        """The sha256 of the prompt of every model call, in order."""
        return tuple(step.detail["messages_sha256"] for step in self.steps if step.kind == "call")


def journal_of(store: Store, *, arm: str, model: str, eval_set: str) -> Journal:
    """Return the journal of one (arm, model, eval set); the baselines share one per eval set."""
    if arm in BASELINE_ARMS:
        return Journal(store, BASELINES, eval_set)
    return Journal(store, arm + SUFFIX, model, eval_set)


def to_record(record: TraceRecord) -> dict[str, Any]:
    """Return the JSON object that the journal stores."""
    values = {name: getattr(record.forecast, name) for name in _VALUES}
    return {
        "journal_version": JOURNAL_VERSION,
        "eval_set": record.eval_set,
        "identity": record.identity.as_dict(),
        "forecast": values,
        "steps": [_step_out(step) for step in record.steps],
        "cost": record.cost,
        "made_at": record.made_at,
    }


def to_release(record: TraceRecord) -> dict[str, Any]:
    """Return the journal object without what may quote a post: replies, rationale, and queries in a model's words.

    What is left is identifiers, times, numbers and hashes, enough to regenerate the rest (paper, ethics statement).
    """
    values = to_record(record)
    kept = {name: value for name, value in values["forecast"].items() if name not in {"rationale", "extra"}}
    steps = [step | {"detail": released(step["detail"])} for step in values["steps"]]
    return values | {"forecast": kept, "steps": steps}


def released(detail: dict[str, Any]) -> dict[str, Any]:
    """Return the details of a step without what may quote a post."""
    return {
        name: value for name, value in detail.items() if not isinstance(value, str | list | dict) or name in _RELEASED
    }


def from_record(unit: str, values: dict[str, Any]) -> TraceRecord:
    """Read a journal object. Raises `InputRefused` when it is damaged, edited or from a later version."""
    try:
        if values["journal_version"] != JOURNAL_VERSION:
            raise InputRefused(f"Journal file {unit[:12]} has version {values['journal_version']!r}: upgrade.")
        identity = Identity(**values["identity"])
        steps = [_step_in(step) for step in values["steps"]]
        forecast = Forecast(**values["forecast"], trace=Trace(steps))
        record = TraceRecord(unit, values["eval_set"], identity, forecast, values["cost"], values["made_at"])
    except (KeyError, TypeError, ValueError) as error:
        raise InputRefused(f"Journal file {unit}.json is damaged ({error!r}): delete it and run again.") from error
    if identity.forecast_id != unit:
        raise InputRefused(f"Journal file {unit}.json does not hold the forecast that its name says: delete it.")
    return record


def records_in(journal: Journal) -> Iterator[TraceRecord]:
    """Yield every finished forecast of a journal."""
    for unit, values in journal.records():
        yield from_record(unit, values)


def partitions(store: Store, eval_set: str) -> list[tuple[str, tuple[str, ...]]]:
    """Return (table, key) of every sealed partition of forecasts of an eval set, baselines first."""
    found: list[tuple[str, tuple[str, ...]]] = [
        (BASELINES, key) for key in store.sealed_keys(BASELINES) if key == (eval_set,)
    ]
    for table in store.tables():
        if table.endswith(SUFFIX):  # (model, eval set); `scored_forecasts` has one-part keys and falls out
            found += [(table, key) for key in store.sealed_keys(table) if len(key) == 2 and key[1] == eval_set]  # noqa: PLR2004
    return found


def all_forecasts(store: Store, eval_set: str) -> pl.DataFrame:
    """Return the forecasts of every sealed arm and model of an eval set (contract FORECASTS, no fixed order)."""
    frames = [
        read_table(store.partition(table, *key).require(), FORECASTS) for table, key in partitions(store, eval_set)
    ]
    return pl.concat([FORECASTS.empty(), *frames]).sort(FORECASTS.order)


def traces(store: Store, eval_set: str) -> Iterator[TraceRecord]:
    """Yield every journaled forecast of an eval set, sealed or not: what nobody sealed can leak too."""
    for journal in _journals(store, eval_set):
        yield from records_in(journal)


def digest(store: Store, eval_set: str) -> str:
    """Return one hash over all that `traces` reads: an audit is of these bytes and says nothing about others."""
    return hashlib.sha256("".join(journal.digest() for journal in _journals(store, eval_set)).encode()).hexdigest()


def _journals(store: Store, eval_set: str) -> Iterator[Journal]:
    yield Journal(store, BASELINES, eval_set)
    root = store.area("journal")
    for folder in sorted(root.glob(f"*{SUFFIX}")) if root.is_dir() else ():
        for model in sorted(path.name for path in folder.iterdir() if (path / eval_set).is_dir()):
            yield Journal(store, folder.name, model, eval_set)


def find(store: Store, *, arm: str, model: str, eval_set: str, question_id: str, run: int) -> TraceRecord:
    """Return one forecast. Raises `NotReady` naming what is missing."""
    for record in records_in(journal_of(store, arm=arm, model=model, eval_set=eval_set)):
        if (record.arm, record.question_id, record.run) == (arm, question_id, run):
            return record
    raise NotReady(
        f"No forecast of {question_id} by {arm} / {model}, run {run}, in {eval_set}: "
        f"make it with `hindcast forecast run --arm {arm} --model {model} --eval-set {eval_set}`."
    )


def _step_out(step: Step) -> dict[str, Any]:
    """Documents lie as rows in the order of `SEEN`: a trace holds hundreds of them."""
    seen = [[getattr(found, name) for name in SEEN] for found in step.seen]
    return {"kind": step.kind, "name": step.name, "detail": step.detail, "seen": seen}


def _step_in(values: dict[str, Any]) -> Step:
    seen = [Seen(**dict(zip(SEEN, found, strict=True))) for found in values["seen"]]
    return Step(kind=values["kind"], name=values["name"], detail=values["detail"], seen=seen)
