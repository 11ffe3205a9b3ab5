"""The sieve: holds parsed lines against the rules in order, and counts what became of each."""

from collections import Counter
from collections.abc import Callable
from typing import Any, Final, NamedTuple

from hindcast_dagster.corpus import values
from hindcast_dagster.corpus.health import Measures
from hindcast_dagster.corpus.ledger import Rejects
from hindcast_dagster.corpus.record import Record
from hindcast_dagster.corpus.rules import Rules
from hindcast_dagster.corpus.runs import Runs
from hindcast_dagster.corpus.scan import Span
from hindcast_dagster.corpus.seen import Seen
from hindcast_dagster.errors import InputRefused
from hindcast_dagster.storage.forgotten import PREFIXES, Forgotten

KIND_SAMPLE: Final = 100  # records that decide whether a dump is of the other kind


class Batch(NamedTuple):
    """Parsed lines of one block."""

    data: bytes
    first_line: int
    """Number, from 1, of the block's first line in the file."""
    records: list[Record | None]
    spans: Callable[[], list[Span]]
    """Where the line of each record lies in `data`; called only when somebody wants to see one."""


_Known = tuple[Record, str, int]
"""A record that has passed the rules on identity, its id, and when it was created."""


class Sieve:
    """Takes batches in file order; afterwards `dropped`, `runs` and `measures` hold the result."""

    def __init__(
        self, rules: Rules, *, seen: Seen, runs: Runs, rejects: Rejects, forgotten: Forgotten | None = None
    ) -> None:
        self.rules, self.runs, self.rejects = rules, runs, rejects
        self._forgotten, self._prefix = forgotten or None, PREFIXES[rules.kind]
        self._seen = seen
        self.dropped: Counter[str] = Counter()
        self.measures = Measures(rules.start, rules.end)
        self.deleted_later = 0
        self.inside = False
        """A record of the month itself was seen."""
        self._of_kind = self._of_other = 0
        self._scores: list[int | None] = []
        self._ages: list[int | None] = []

    def take(self, batch: Batch) -> None:
        """Judge every record of a batch; keep the rows that pass."""
        reasons: list[Any] = [self._identity(record) for record in batch.records]
        places = [i for i, found in enumerate(reasons) if type(found) is tuple]
        repeats = self._seen.repeats([reasons[i][1] for i in places])
        for nth, i in enumerate(places):
            reasons[i] = "duplicate" if nth in repeats else self._content(reasons[i])
        self.measures.count(self._scores, self._ages)
        self._scores.clear()
        self._ages.clear()
        dropped = Counter(reasons)
        dropped.pop(None, None)
        self.dropped.update(dropped)
        if wanted := {reason for reason in dropped if self.rejects.wants(reason)}:
            self._show(batch, reasons, wanted)

    def _identity(self, record: Record | None) -> _Known | str:
        """Return why a record has no usable time, subreddit or id; or the record with its id and time."""
        if record is None or (created := values.epoch(record.created_utc)) is None:
            return "bad_record"
        if not self.rules.in_scope(record.subreddit):
            return "other_subreddit"
        if self._of_kind < KIND_SAMPLE:
            self._note_kind(record)
        name = values.bare_id(record.id)
        return (record, name, created) if name else "no_id"

    def _content(self, known: _Known) -> str | None:
        """Return why a first occurrence is dropped; None: it is kept, as a row."""
        record, _, created = known
        rules = self.rules
        if not rules.start <= created < rules.end:
            return "outside_month"
        self.inside = True
        self.measures.seen_at(record.subreddit, created)
        if reason := rules.gone(record):
            return reason
        score, read_at = values.whole(record.score), values.engagement_as_of(record, created)
        self._scores.append(score)
        self._ages.append(None if read_at is None else read_at - created)
        if score is None:
            return "score_unknown"
        if score < rules.limits.min_score:
            return "low_score"
        return rules.comments(record) or self._text(known, score)

    def _text(self, known: _Known, score: int) -> str | None:
        """Return why a record's text is too little; None: it is kept, as a row."""
        record, name, created = known
        title, text = self.rules.texts(record)
        if reason := self.rules.length(title, text):
            return reason
        row = self.rules.row(record, id=name, created=created, score=score, title=title, text=text)
        self.deleted_later += row.deleted_later
        if row.deleted_later and self.rules.limits.drop_deleted_later:
            return "deleted_later"
        if self._forgotten is not None and self._prefix + name in self._forgotten:  # last: the other counts stay
            return "forgotten"
        self.runs.add(row)
        return None

    def _show(self, batch: Batch, reasons: list[Any], wanted: set[str]) -> None:
        places = [i for i, reason in enumerate(reasons) if reason in wanted]
        spans = batch.spans()
        for i in places:
            number, start, end = spans[i]
            self.rejects.add(reasons[i], line=batch.first_line + number, raw=batch.data[start:end])

    def _note_kind(self, record: Record) -> None:
        mine, other = record.body, record.title
        if self.rules.kind == "submissions":
            mine, other = other, mine
        if mine is None and other is not None:
            self._of_other += 1
        else:
            self._of_kind += 1

    def refuse_other_kind(self, *, enough: int) -> None:
        """Raise `InputRefused` when `enough` records were looked at and all are of the other kind.

        A file's name does not prove its content.
        """
        if not self._of_kind and self._of_other >= enough:
            other = "submissions" if self.rules.kind == "comments" else "comments"
            raise InputRefused(f"The dump holds {other}, not {self.rules.kind}: correct --kind or --dump.")
