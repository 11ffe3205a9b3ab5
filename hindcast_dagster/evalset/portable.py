"""Moving an eval set: one JSON file with the questions and what they were made from, without any post text.

What belongs here: writing that file and reading it back as untrusted input: its format, its hash, the contract of every
row, and what a row must mean (t0 before the close, a price that is not older than the market).
"""

import collections
import hashlib
import json
from pathlib import Path
from typing import Any, Final, NamedTuple

import polars as pl
from pydantic import NonNegativeInt, TypeAdapter, ValidationError

from hindcast_dagster import keys
from hindcast_dagster.clock import EARLIEST, LATEST, Cutoff, T0Policy
from hindcast_dagster.contracts.markets import OUTCOMES
from hindcast_dagster.contracts.questions import EVAL_SET
from hindcast_dagster.contracts.table import ContractBroken
from hindcast_dagster.errors import HindcastError, InputRefused, UsageError
from hindcast_dagster.evalset.build import CODE_VERSION, alone
from hindcast_dagster.evalset.checks import within_archive
from hindcast_dagster.evalset.describe import describe
from hindcast_dagster.evalset.pool import archive_pins
from hindcast_dagster.questions.load import TABLE, frozen
from hindcast_dagster.storage.files import read_bounded, write_atomic
from hindcast_dagster.storage.manifest import Input, Manifest
from hindcast_dagster.storage.store import Store
from hindcast_dagster.storage.tables import publish_table, read_table

FORMAT: Final = "hindcast-eval-set/1"
MAX_BYTES: Final = 512 * 2**20
_ID: Final = 200


class Exported(NamedTuple):
    """What was written."""

    path: Path
    questions: int
    sha256: str
    """Of the questions, as the file states it."""


def export(store: Store, *, name: str, out: Path | None = None) -> Exported:
    """Write an eval set to `out` (default: `exports/<name>.eval-set.json`). Raises `NotSealed` for an unknown name."""
    sealed = frozen(store, name)
    questions = read_table(sealed, EVAL_SET).to_dicts()
    sha256 = _hash(questions)
    document = {
        "format": FORMAT,
        "name": name,
        "schema": EVAL_SET.schema_version,
        "stats": sealed.manifest.stats,
        "pins": [pin.model_dump(mode="json") for pin in sealed.manifest.pins],
        "sha256": sha256,
        "questions": questions,
    }
    path = out or store.area("exports", f"{name}.eval-set.json")
    write_atomic(path.absolute(), (json.dumps(document, indent=1, ensure_ascii=False, sort_keys=True) + "\n").encode())
    return Exported(path, len(questions), sha256)


def import_file(store: Store, path: Path) -> Manifest:
    """Seal the eval set that a file holds. It pins the archive months that are sealed here.

    Raises `InputRefused` for a file that is not one, whose hash does not fit, that breaks the contract, or whose name
    exists with other content; importing the same file twice returns what is there.
    """
    document = _read(path)
    name, questions = _checked(document, path)
    try:
        frame = EVAL_SET.frame(questions)
    except UnicodeEncodeError as error:
        raise InputRefused(f"{path} holds half a character (a lone surrogate).") from error
    except ContractBroken as error:
        raise InputRefused(f"{path}: {error}") from error
    _check_expectations(frame, path)
    if _hash(frame.to_dicts()) != document["sha256"]:
        raise InputRefused(f"{path} holds values of other types, or in another order, than an export writes.")
    with alone(store, name):
        return _kept(store, document, frame, path=path)


def _kept(store: Store, document: dict[str, Any], frame: pl.DataFrame, *, path: Path) -> Manifest:
    name = document["name"]
    partition = store.partition(TABLE, name)
    existing = partition.manifest()
    if existing is not None:
        if _hash(read_table(partition.require(), EVAL_SET).to_dicts()) == document["sha256"]:
            return existing
        raise InputRefused(
            f"The eval set {name} exists with other content. Eval sets are immutable: {path} is refused."
        )
    pins = archive_pins(store)
    return publish_table(
        partition,
        frame,
        EVAL_SET,
        code_version=CODE_VERSION,
        inputs=pins,
        pins=pins,
        checks=[within_archive(frame, pins)],
        stats=_stats(document, frame, path),
    )


def _stats(document: dict[str, Any], frame: pl.DataFrame, path: Path) -> dict[str, Any]:
    """Describe the questions anew; of what the file states only what can be checked is taken over."""
    stated = document.get("stats")
    stated = stated if isinstance(stated, dict) else {}
    excluded, end = stated.get("excluded", {}), stated.get("archive_end")
    try:
        origin = [Input.model_validate(pin).model_dump(mode="json") for pin in document.get("pins") or []]
        counts = TypeAdapter(dict[str, NonNegativeInt]).validate_python(excluded, strict=True)
        policy = str(T0Policy.parse(str(stated.get("policy"))))
        until = None if end is None else Cutoff.of(end).iso
    except (ValidationError, TypeError, UsageError) as error:
        raise InputRefused(
            f"{path} states pins, exclusions, a policy or an archive end that are none: {error}."
        ) from error
    made = {"policy": policy, "archive_end": until}
    return (
        describe(frame, collections.Counter(counts))
        | made
        | {"config": made | {"imported": document["sha256"]}, "imported": True}
        | {"origin": {"sha256": document["sha256"], "pins": origin}}
    )


def _hash(questions: list[dict[str, Any]]) -> str:
    text = json.dumps(questions, sort_keys=True, ensure_ascii=False)
    return hashlib.sha256(text.encode(errors="surrogatepass")).hexdigest()


def _read(path: Path) -> dict[str, Any]:
    try:
        document = json.loads(read_bounded(path, MAX_BYTES), parse_constant=_no_constant)
    except OSError as error:
        raise UsageError(f"{path} cannot be read: {error.strerror}.") from error
    except (ValueError, RecursionError) as error:
        raise InputRefused(f"{path} is not JSON: {error}.") from error
    if not isinstance(document, dict) or document.get("format") != FORMAT:
        raise InputRefused(f"{path} is not an exported eval set (its format is not {FORMAT}).")
    return document


def _no_constant(name: str) -> Any:
    raise ValueError(f"{name} is not JSON")


def _checked(document: dict[str, Any], path: Path) -> tuple[str, list[dict[str, Any]]]:
    questions = document.get("questions")
    if document.get("schema") != EVAL_SET.schema_version:
        raise InputRefused(f"{path} holds {document.get('schema')!r}, this program reads {EVAL_SET.schema_version}.")
    if not isinstance(questions, list) or not all(isinstance(row, dict) for row in questions):
        raise InputRefused(f"{path} has no list of questions.")
    if document.get("sha256") != _hash(questions):
        raise InputRefused(f"{path} was changed after it was written: its questions do not fit its sha256.")
    try:
        name = keys.slug(document.get("name"), what="eval set name")
        for row in questions:
            _check_row(row)
    except HindcastError as error:
        raise InputRefused(f"{path}: {error}") from error
    return name, questions


def _check_row(row: dict[str, Any]) -> None:
    """Refuse a question that the contract's types cannot catch."""
    where = f"question {row.get('id')!r:.80}"
    if not isinstance(row.get("id"), str) or not row["id"].isprintable() or not 0 < len(row["id"]) <= _ID:
        raise InputRefused(f"{where}: its id is not a text of 1 to {_ID} characters.")
    t0, close = row.get("t0"), row.get("close_at")
    for name in ("open_at", "planned_close", "close_at", "t0"):
        if row.get(name) is not None and not _instant(row[name]):
            raise InputRefused(f"{where}: its {name} is no instant between 2005 and 2100.")
    if not isinstance(t0, int) or not isinstance(close, int) or not t0 < close:
        raise InputRefused(f"{where}: its t0 is not before its close.")
    for name in ("base_rate", "reference_rate"):
        if not isinstance(row.get(name), int | float) or not 0 <= row[name] <= 1:
            raise InputRefused(f"{where}: its {name} is not a number from 0 to 1.")
    options = row.get("options")
    if not isinstance(options, list) or len({each for each in options if isinstance(each, str)}) != len(OUTCOMES):
        raise InputRefused(f"{where}: it has not two options.")
    age = row.get("price_age_s")
    if age is not None and not (isinstance(age, int) and age >= 0):
        raise InputRefused(f"{where}: its price was read after t0.")


def _instant(value: object) -> bool:
    return isinstance(value, int) and not isinstance(value, bool) and EARLIEST <= value <= LATEST


def _check_expectations(frame: pl.DataFrame, path: Path) -> None:
    """Hold the frame against the vocabularies and ranges of the contract; the frame itself has checked the rest."""
    for expectation in EVAL_SET.expectations:
        found, arguments = pl.col(str(expectation.arguments.get("column"))), expectation.arguments
        if expectation.name == "ExpectColumnValuesToBeInSet":
            wrong = frame.filter(found.is_not_null() & ~found.is_in(arguments["value_set"]))
        elif expectation.name == "ExpectColumnValuesToBeBetween":
            wrong = frame.filter(~found.is_between(arguments["min_value"], arguments["max_value"]))
        else:
            continue
        if wrong.height:
            value = wrong[arguments["column"]][0]
            raise InputRefused(f"{path}: question {wrong['id'][0]}: {arguments['column']} is {value!r}.")
