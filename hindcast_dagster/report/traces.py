"""What the traces of an eval set add to a report: rationales, the documents behind a question, and late ones counted.

One pass over the journal. Of a document only its id and its instant leave this module, never its text or its author.
"""

from collections import Counter, defaultdict
from dataclasses import dataclass, field
from typing import Final, NamedTuple

import polars as pl

from hindcast_dagster.forecast import records
from hindcast_dagster.forecast.records import TraceRecord
from hindcast_dagster.storage.store import Store

RATIONALE: Final = 1_200
"""Characters of a rationale that a report shows."""
RATIONALES: Final = 5_000
"""Above this many forecasts a report holds the rationales of run 1 only, so that the page stays openable."""


class Document(NamedTuple):
    """A document that forecasts of a question saw."""

    key: str
    created_at: int
    forecasts: int


@dataclass
class Seen:
    """What was said and seen, by question."""

    rationales: dict[tuple[str, str, str, int], str] = field(default_factory=dict)
    """(question, model, arm, run) -> rationale, cut to RATIONALE characters."""
    documents: dict[str, list[Document]] = field(default_factory=dict)
    """Question -> distinct documents, those that most forecasts saw first."""
    sightings: int = 0
    late_votes_withheld: int = 0
    late_votes_shown: int = 0
    late_texts: int = 0
    forecasts: int = 0


def read(store: Store, eval_set: str, forecasts: pl.DataFrame) -> Seen | None:
    """Return what the traces of the sealed `forecasts` hold, or None when no trace is there."""
    wanted = set(forecasts["forecast_id"])
    seen = Seen()
    counts: dict[str, Counter[str]] = defaultdict(Counter)
    instants: dict[str, int] = {}
    for record in records.traces(store, eval_set):
        if record.forecast_id in wanted and record.arm not in records.BASELINE_ARMS:
            _add(seen, record, counts[record.question_id], instants, first_only=len(wanted) > RATIONALES)
    for question, counted in counts.items():
        ranked = sorted(counted.items(), key=lambda item: (-item[1], item[0]))
        seen.documents[question] = [Document(key, instants[key], n) for key, n in ranked]
    return seen if seen.forecasts else None


def _add(seen: Seen, record: TraceRecord, counted: Counter[str], instants: dict[str, int], *, first_only: bool) -> None:
    seen.forecasts += 1
    if record.forecast.rationale and not (first_only and record.run != 1):
        cell = (record.question_id, record.model, record.arm, record.run)
        seen.rationales[cell] = record.forecast.rationale[:RATIONALE]
    distinct = {each.key: each for step in record.steps for each in step.seen}
    counted.update(distinct.keys())
    for each in distinct.values():
        instants[each.key] = each.created_at
        seen.sightings += 1
        late = each.engagement_as_of is None or each.engagement_as_of >= record.t0
        seen.late_votes_shown += late and each.engagement_shown
        seen.late_votes_withheld += late and not each.engagement_shown
        seen.late_texts += each.text_as_of >= record.t0
