"""Forecasts that somebody else made: a CSV of probabilities, journaled and sealed like those of an arm.

The file is untrusted. It is read whole or refused whole, with the line and what was found there.
"""

import csv
import hashlib
import io
import re
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any, ClassVar, Final, NamedTuple

from hindcast_dagster import clock, keys
from hindcast_dagster.archive.protocol import ArchiveView
from hindcast_dagster.errors import InputRefused, UsageError
from hindcast_dagster.forecast.arms import BUILT_IN, RESERVED
from hindcast_dagster.forecast.contamination import Contamination
from hindcast_dagster.forecast.forecaster import Forecast, Step, Trace
from hindcast_dagster.forecast.job import Job, take_stock
from hindcast_dagster.forecast.records import NO_MODEL, TraceRecord, journal_of, to_record
from hindcast_dagster.forecast.seal import seal
from hindcast_dagster.llm.parse import integer, probability
from hindcast_dagster.questions.load import frozen, load
from hindcast_dagster.questions.question import Question
from hindcast_dagster.storage.files import read_bounded
from hindcast_dagster.storage.manifest import Manifest
from hindcast_dagster.storage.store import Store

COLUMNS: Final = ("question", "run", "probability")
MAX_BYTES: Final = 64 * 2**20
MAX_RUN: Final = 1000


class Given(NamedTuple):
    """One line of the file."""

    line: int
    question: str
    run: int
    probability: float


@dataclass
class Imported:
    """Stands where an arm stands; it cannot forecast."""

    arm: str
    version: str
    uses_archive: ClassVar[bool] = False

    def forecast(self, question: Question, archive: ArchiveView, *, run: int) -> Forecast:
        """Refuse: these forecasts were made elsewhere."""
        del archive, run
        raise UsageError(f"{self.arm} was imported and cannot forecast {question.id}.")


def build(
    store: Store, *, path: Path, eval_set: str, arm: str = "imported", model: str = "external", overwrite: bool = False
) -> Manifest:
    """Import a CSV with the columns question, run, probability, and seal it as `<arm>_forecasts` of (model, eval set).

    Probabilities follow the rule of `llm.parse.probability` (0.65, .65 or 65%). Raises `InputRefused` naming the line
    for anything else, for an unknown question, for a repeated (question, run), and when the same names already hold
    other numbers and `overwrite` is not set.
    """
    if arm in RESERVED or arm in BUILT_IN or model == NO_MODEL:
        raise UsageError(f"{model} / {arm} is a name of Hindcast's own forecasters: choose another --arm or --model.")
    sealed = frozen(store, eval_set)
    questions = {found.question.id: found.question for found in load(store, eval_set)}
    given = _read(path, questions)
    job = Job(
        arm=Imported(keys.slug(arm, what="arm name"), _version(given)),
        arm_name=arm,
        model=keys.slug(model, what="model"),
        revision=None,
        eval_set=eval_set,
        questions=tuple(questions.values()),
        every=frozenset(questions),
        runs=max((line.run for line in given), default=1),
        journal=journal_of(store, arm=arm, model=model, eval_set=eval_set),
        archive=None,
        archive_mode="",
    )
    try:
        take_stock(job, overwrite=overwrite)
    except UsageError as error:
        raise InputRefused(str(error)) from error
    for line in given:
        _keep(job, line, questions[line.question], name=path.name)
    return seal(store, job, sealed.as_input, Contamination(), stopped=False)


def _keep(job: Job, line: Given, question: Question, *, name: str) -> None:
    identity = job.identity(question, line.run)
    if identity.forecast_id in job.done:
        return
    step = Step(kind="note", name="import", detail={"file": name, "line": line.line})
    forecast = Forecast(prob_yes=line.probability, trace=Trace([step]))
    record = TraceRecord(identity.forecast_id, job.eval_set, identity, forecast, cost=None, made_at=clock.now())
    job.journal.write(record.forecast_id, to_record(record))
    job.done[record.forecast_id] = record


def _version(given: list[Given]) -> str:
    text = "\n".join(f"{line.question},{line.run},{line.probability!r}" for line in sorted(given, key=_by_question))
    return f"import-{hashlib.sha256(text.encode()).hexdigest()[:16]}"


def _by_question(line: Given) -> tuple[str, int]:
    return line.question, line.run


def _read(path: Path, questions: dict[str, Question]) -> list[Given]:
    try:
        text = io.StringIO(read_bounded(path, MAX_BYTES).decode("utf-8-sig"), newline="")
        given = list(_lines(csv.DictReader(text, strict=True), path, questions))
    except OSError as error:
        raise UsageError(f"{path} cannot be read: {error.strerror or error}.") from error
    except (UnicodeDecodeError, csv.Error) as error:
        raise InputRefused(f"{path} is not a CSV in UTF-8: {error}.") from error
    if not given:
        raise InputRefused(f"{path} holds no forecast.")
    return given


def _lines(reader: "csv.DictReader[str]", path: Path, questions: dict[str, Question]) -> Iterator[Given]:
    header = [(name or "").strip().lower() for name in reader.fieldnames or ()]
    if sorted(header) != sorted(COLUMNS):
        raise InputRefused(f"{path} must have the columns {', '.join(COLUMNS)}, found {', '.join(header) or 'none'}.")
    reader.fieldnames = header
    seen: set[tuple[str, int]] = set()
    for row in reader:
        found = _given(row, reader.line_num, path, questions)
        if (found.question, found.run) in seen:
            raise InputRefused(f"{path}, line {found.line}: {found.question} run {found.run} stands there twice.")
        seen.add((found.question, found.run))
        yield found


def _given(row: dict[str, Any], line: int, path: Path, questions: dict[str, Question]) -> Given:
    values = {name: (row.get(name) or "").strip() for name in COLUMNS}
    whole = re.sub(r"\.0+$", "", values["run"])  # how spreadsheets and data frames write a whole number
    run, value = integer(whole, 1, MAX_RUN), probability(values["probability"])
    wrong = (
        f"question {values['question']!r} is not in the eval set" if values["question"] not in questions
        else f"run {values['run']!r} is not a number from 1 to {MAX_RUN}" if run is None
        else f"probability {values['probability']!r} is not a number from 0 to 1 or a percentage" if value is None
        else "more fields than columns" if None in row
        else ""
    )  # fmt: skip
    if wrong or run is None or value is None:
        raise InputRefused(f"{path}, line {line}: {wrong}.")
    return Given(line, values["question"], run, value)
