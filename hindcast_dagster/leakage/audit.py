"""The leak audit of an eval set: every document of every trace looked up again and held against its t0.

What belongs here: the partition `leak_audit`. It reads the journal (sealed or not: what nobody sealed can leak too),
the frozen questions and the Parquet corpus, and shares no code with the archive that it audits.
"""

from collections import Counter
from collections.abc import Collection, Iterator
from typing import Any, Final

import polars as pl

from hindcast_dagster.contracts.forecasts import FORECASTS
from hindcast_dagster.contracts.questions import EVAL_SET
from hindcast_dagster.contracts.scores import AUDIT
from hindcast_dagster.errors import NotReady
from hindcast_dagster.forecast import records
from hindcast_dagster.forecast.fields import fingerprint
from hindcast_dagster.forecast.records import TraceRecord
from hindcast_dagster.forecast.rows import SIGHTINGS, Sightings
from hindcast_dagster.leakage.corpus import Facts, Lookup, look_up
from hindcast_dagster.leakage.questions import of_questions, sources, unverified
from hindcast_dagster.leakage.violations import (
    LATE_KINDS,
    Frozen,
    Violation,
    of_row,
    of_trace,
    other_sightings,
    untraced,
)
from hindcast_dagster.questions.load import frozen, resolved
from hindcast_dagster.settings import Settings
from hindcast_dagster.storage import forgotten
from hindcast_dagster.storage.forgotten import Forgotten
from hindcast_dagster.storage.manifest import Check, Input, Manifest
from hindcast_dagster.storage.store import Sealed, Store
from hindcast_dagster.storage.tables import publish_table, read_table

TABLE: Final = AUDIT.name
CODE_VERSION: Final = "1"
PAPER: Final = "paper"
IMPORT: Final = "import"
JOURNAL: Final = "journal"
"""What the manifest calls the hash over the journals that were audited."""


class Count:
    """What was audited: every forecast, every sighting of a document, and a hash over all of it."""

    def __init__(self) -> None:
        self.forecasts = 0
        self.sightings = 0
        self.imported = 0
        """Forecasts that were made elsewhere: nobody knows what they saw."""
        self.modes: set[str] = set()
        self.gone: frozenset[str] = frozenset()
        """Documents that were forgotten after a forecaster saw them (take-down)."""
        self._gone_forecasts = 0
        self._late: dict[str, set[str]] = {kind: set() for kind in sorted(LATE_KINDS)}

    def add(self, record: TraceRecord) -> None:
        """Count one forecast."""
        seen = [seen.key for step in record.steps for seen in step.seen]
        self.forecasts += 1
        self.sightings += len(seen)
        self.imported += any(step.name == IMPORT for step in record.steps)
        self._gone_forecasts += not self.gone.isdisjoint(seen)
        self.modes |= {mode_of(record)} if mode_of(record) else set()

    def permitted(self, violation: Violation, mode: str) -> bool:
        """Count a late text or late votes; return whether the mode of its forecast permits it (paper does)."""
        if violation.kind not in LATE_KINDS:
            return False
        self._late[violation.kind].add(str(violation.document))
        return mode == PAPER

    def forgotten(self, lookup: Lookup) -> dict[str, int]:
        """Documents of traces that were forgotten since, the forecasts that saw them, and those without instants."""
        unproved = sum(key not in lookup.facts for key in self.gone)
        return {"documents": len(self.gone), "forecasts": self._gone_forecasts, "unproved": unproved}

    @property
    def late(self) -> dict[str, int]:
        """Documents that were shown with a late text, or with late votes: the difference between paper and strict."""
        return {kind: len(documents) for kind, documents in self._late.items()}


def mode_of(record: TraceRecord) -> str:
    """Return strict or paper, as the archive stood when the forecast was made; "" when it read no archive."""
    return (record.identity.archive_mode or "").partition("/")[0]


def build(store: Store, settings: Settings, *, eval_set: str) -> Manifest:
    """Audit an eval set and seal the findings; the table is empty and `stats["clean"]` true when nothing leaked.

    What counts is the mode under which each forecast was made, not today's setting. In paper mode texts and votes of
    after t0 are counted (`stats["late"]`) and are no violations, as in the paper.
    Raises `NotReady` when the set is not sealed or nobody has forecast it: what was not audited is not clean.
    """
    sealed, read = frozen(store, eval_set), records.digest(store, eval_set)  # first: what is written later is not read
    questions, pins = read_table(sealed, EVAL_SET), sealed.manifest.pins
    keys = {seen.key for record in records.traces(store, eval_set) for step in record.steps for seen in step.seen}
    lookup, gone, count = *recalled(look_up(store, keys, pins=pins), keys, forgotten.load(store)), Count()
    markets = sources(store, pins)
    found = list(of_questions(questions, markets))
    count.gone = gone
    found += _of_traces(store, eval_set, questions, lookup, count)
    if not count.forecasts:
        raise NotReady(
            f"Nobody has forecast {eval_set}, so there is nothing to audit: run `hindcast forecast run --arm zero_shot "
            f"--model M --eval-set {eval_set}` first."
        )
    stats = {
        "mode": "+".join(sorted(count.modes)) or settings.archive.mode,
        "forecasts": count.forecasts,
        "documents": len(keys),
        "sightings": count.sightings,
        "unverified": unverified(questions, markets),
        "imported": count.imported,
        "forgotten": count.forgotten(lookup),
        JOURNAL: read,
        "late": count.late,
    }
    inputs = [sealed.as_input, *lookup.months, *_sealed_forecasts(store, eval_set)]
    return _publish(store, eval_set, found, stats, inputs)


def recalled(lookup: Lookup, keys: Collection[str], record: Forgotten) -> tuple[Lookup, frozenset[str]]:
    """Return the look-up with the instants that the record of take-downs kept, and which documents were forgotten.

    A forgotten document is judged by the instants that the corpus gave when it was taken out, so forgetting hides no
    leak; one without instants proves nothing either way and is counted as such.
    """
    gone = frozenset(key for key in keys if key not in lookup.facts and key in record)
    kept = {key: Facts(*instants) for key in gone if (instants := record.instants(key)) is not None}
    return lookup._replace(facts={**lookup.facts, **kept}), gone


def _of_traces(
    store: Store, eval_set: str, questions: pl.DataFrame, lookup: Lookup, count: Count
) -> Iterator[Violation]:
    """Hold every trace against the corpus, and the sealed forecasts against the traces."""
    known = {row["id"]: _frozen(row) for row in questions.iter_rows(named=True)}
    parts = [
        _Part(store.partition(table, *key).require().unforged()) for table, key in records.partitions(store, eval_set)
    ]
    at = {forecast_id: part for part in parts for forecast_id in part.rows}
    for record in records.traces(store, eval_set):
        count.add(record)
        found = [
            violation
            for violation in of_trace(record, known.get(record.question_id), lookup.facts)
            if not (violation.kind == "unknown_document" and violation.document in count.gone)
            and not count.permitted(violation, mode_of(record))
        ]
        if record.forecast_id in at:
            found += at[record.forecast_id].of(record, sound=not found)
        yield from found
    for part in parts:
        yield from part.rest()


class _Part:
    """A sealed partition of forecasts that is held against its traces, which come in the order of their ids."""

    def __init__(self, sealed: Sealed) -> None:
        self.rows = {row["forecast_id"]: row for row in read_table(sealed, FORECASTS).iter_rows(named=True)}
        self._manifest, self._sightings, self._sound = sealed.manifest, Sightings(), True

    def of(self, record: TraceRecord, *, sound: bool) -> list[Violation]:
        """Return where the row of a record and its trace differ; `sound`: nothing else was found about the trace."""
        self._sightings.add(record)
        found = list(of_row(record, self.rows.pop(record.forecast_id)))
        self._sound = self._sound and sound and not found
        return found

    def rest(self) -> Iterator[Violation]:
        """Yield the rows whose trace is gone; and, where all else is as it should be, that a document was exchanged."""
        yield from (untraced(row) for row in self.rows.values())
        told = self._manifest.stats.get(SIGHTINGS)
        if self._sound and not self.rows and told is not None and told != self._sightings.sha256:
            yield other_sightings(self._manifest)


def _frozen(row: dict[str, Any]) -> Frozen:
    return Frozen(t0=row["t0"], fingerprint=fingerprint(resolved(row).question), price=row["price_at_t0"])


def _sealed_forecasts(store: Store, eval_set: str) -> list[Input]:
    return [store.partition(table, *key).require().as_input for table, key in records.partitions(store, eval_set)]


def _publish(
    store: Store, eval_set: str, found: list[Violation], stats: dict[str, Any], inputs: list[Input]
) -> Manifest:
    distinct = list({violation.key: violation for violation in found}.values())
    table = AUDIT.frame([violation._asdict() for violation in distinct])
    by_kind = dict(sorted(Counter(violation.kind for violation in distinct).items()))
    said = "; ".join(f"{kind}: {number}" for kind, number in by_kind.items()) or f"{stats['documents']} documents"
    if gone := stats["forgotten"]["documents"]:
        said += f", {gone} of them forgotten since"
    return publish_table(
        store.partition(TABLE, eval_set),
        table,
        AUDIT,
        code_version=CODE_VERSION,
        inputs=inputs,
        checks=[Check(name="nothing_leaked", passed=not distinct, detail=said)],
        stats=stats | {"by_kind": by_kind, "clean": not distinct},
    )


def report(store: Store, eval_set: str) -> dict[str, Any]:
    """Return the sealed audit in the shape of `hindcast audit --json`. Raises `NotSealed`."""
    sealed = store.partition(TABLE, eval_set).require(made_by=f"hindcast audit --eval-set {eval_set}")
    rows = read_table(sealed, AUDIT).rename({"question_id": "question"})
    stats = sealed.manifest.stats
    names = ("forecasts", "documents", "sightings", "unverified", "imported", "mode", "late", "by_kind", "clean")
    gone = stats.get("forgotten", {"documents": 0, "forecasts": 0, "unproved": 0})
    return {
        "eval_set": eval_set,
        **{name: stats[name] for name in names},
        "forgotten": gone,
        "violations": rows.to_dicts(),
    }
