"""A job: one arm, one model, one eval set; what is to be forecast and what is already there."""

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import cached_property
from typing import NamedTuple

from filelock import FileLock, Timeout

from hindcast_dagster.archive.protocol import Archive, ArchiveView
from hindcast_dagster.errors import NotReady, UsageError
from hindcast_dagster.forecast import fields, records
from hindcast_dagster.forecast.forecaster import Forecaster
from hindcast_dagster.forecast.nowhere import Nowhere
from hindcast_dagster.forecast.records import Identity, TraceRecord
from hindcast_dagster.questions.question import Question
from hindcast_dagster.storage.journal import Journal


class Unit(NamedTuple):
    """One forecast to be made."""

    question: Question
    run: int
    identity: Identity


@dataclass(frozen=True)
class Job:
    """All of it. `questions` are those that are asked for; `every` holds all ids of the eval set."""

    arm: Forecaster
    arm_name: str
    model: str
    revision: str | None
    eval_set: str
    questions: tuple[Question, ...]
    every: frozenset[str]
    runs: int
    journal: Journal
    archive: Archive | None
    archive_mode: str
    done: dict[str, TraceRecord] = field(default_factory=dict)
    """Finished forecasts of this identity, by id: never asked again."""

    def view(self, question: Question) -> ArchiveView:
        """Return the archive at the question's t0; an arm without an archive gets a view that refuses to be asked."""
        return self.archive.at(question.t0) if self.archive is not None else Nowhere(question.t0)

    @cached_property
    def units(self) -> tuple[Unit, ...]:
        """Every forecast that is asked for: run 1 of all questions first, then run 2, and so on."""
        runs = range(1, self.runs + 1)
        return tuple(Unit(question, run, self.identity(question, run)) for run in runs for question in self.questions)

    def identity(self, question: Question, run: int) -> Identity:
        """Return the identity of one forecast (design, section 4)."""
        return Identity(
            question_id=question.id,
            question_sha256=fields.fingerprint(question),
            t0=question.t0.epoch,
            model=self.model,
            model_revision=self.revision,
            arm=self.arm.arm,
            arm_version=self.arm.version,
            archive_snapshot=self.archive.snapshot if self.archive is not None else None,
            archive_mode=self.archive_mode if self.archive is not None else None,
            run=run,
        )

    def pending(self) -> list[Unit]:
        """Return the forecasts that nobody has made. A `failed` one counts as not made: it is tried again."""
        return [unit for unit in self.units if unit.identity.forecast_id not in self.done]


@contextmanager
def alone(job: Job) -> Iterator[None]:
    """Hold the job for this process: two at once would pay for every forecast twice. Raises `NotReady`.

    The lock is the operating system's: it goes with its process, also after kill -9.
    """
    job.journal.path.mkdir(parents=True, exist_ok=True)
    lock = FileLock(job.journal.path / ".lock")
    try:
        lock.acquire(timeout=0)
    except Timeout as error:
        raise NotReady(
            f"Another process is making the forecasts of {job.arm.arm} / {job.model} on {job.eval_set}: wait for it."
        ) from error
    try:
        yield
    finally:
        lock.release()


def take_stock(job: Job, *, overwrite: bool, dry: bool = False) -> None:
    """Read the journal into `job.done`; refuse forecasts of another version under the same names.

    `overwrite` moves those into the folder `superseded` of the journal instead (not when `dry`). Raises `UsageError`.
    """
    base = job.identity(job.questions[0], 1).base if job.questions else None
    for record in list(records.records_in(job.journal)):
        if base is not None and record.identity.base != base:
            if not overwrite:
                raise UsageError(_changed(job, record, base))
            if not dry:
                _set_aside(job.journal, record.forecast_id)
        elif record.forecast.status != "failed":
            job.done[record.forecast_id] = record


def _set_aside(journal: Journal, unit: str) -> None:
    folder = journal.path / records.SUPERSEDED
    folder.mkdir(exist_ok=True)
    (journal.path / f"{unit}.json").rename(folder / f"{unit}.json")


def _changed(job: Job, record: TraceRecord, base: tuple[str | None, ...]) -> str:
    names = ("model revision", "prompts or settings of the arm", "archive snapshot", "archive mode")
    pairs = zip(names, record.identity.base, base, strict=True)
    what = "; ".join(f"{name}: {old} is now {new}" for name, old, new in pairs if old != new)
    return (
        f"{job.eval_set} already has forecasts by {job.arm.arm} / {job.model} that were made otherwise ({what}). "
        "Give the new ones another name, or replace the old ones with --overwrite."
    )
