"""The sieve: holds parsed lines against the rules in order, and counts what became of each."""

from collections import Counter
from typing import Final, NamedTuple

from hindcast_dagster.corpus import values
from hindcast_dagster.corpus.health import Measures
from hindcast_dagster.corpus.ledger import Rejects
from hindcast_dagster.corpus.record import Record
from hindcast_dagster.corpus.rules import Rules
from hindcast_dagster.corpus.seen import Seen
from hindcast_dagster.corpus.spill import Runs
from hindcast_dagster.errors import InputRefused

KIND_SAMPLE: Final = 100  # records that decide whether a dump is of the other kind


class Batch(NamedTuple):
    """Parsed lines of one block: `spans` are (number in the block from 0, start, end) in `data`."""

    data: bytes
    first_line: int
    """Number, from 1, of the block's first line in the file."""
    spans: list[tuple[int, int, int]]
    records: list[Record | None]


class Sieve:
    """Takes batches in file order; afterwards `dropped`, `runs` and `measures` hold the result."""

    def __init__(self, rules: Rules, *, seen: Seen, runs: Runs, rejects: Rejects) -> None:
        self.rules, self.runs, self.rejects = rules, runs, rejects
        self._seen = seen
        self.dropped: Counter[str] = Counter()
        self.measures = Measures(rules.start, rules.end)
        self.deleted_later = 0
        self._in_scope: dict[str, bool] = {}
        self._of_kind = self._of_other = 0

    def take(self, batch: Batch) -> None:
        """Judge every record of a batch; keep the rows that pass."""
        reasons = [self._identity(record) for record in batch.records]
        standing = [i for i, reason in enumerate(reasons) if reason is None]
        ids = [values.bare_id(batch.records[i].id) or "" for i in standing]  # type: ignore[union-attr]
        for i, name, repeated in zip(standing, ids, self._seen.repeats(ids), strict=True):
            record = batch.records[i]
            assert record is not None
            reasons[i] = "duplicate" if repeated else self._content(record, name)
        dropped = Counter(reasons)
        dropped.pop(None, None)
        self.dropped.update(dropped)  # type: ignore[arg-type]
        if any(self.rejects.wants(reason) for reason in dropped if reason):
            self._show(batch, reasons)

    def _identity(self, record: Record | None) -> str | None:
        if record is None or values.epoch(record.created_utc) is None:
            return "bad_record"
        name = record.subreddit
        if not isinstance(name, str):
            return "other_subreddit"
        known = self._in_scope.get(name)
        if known is None:
            known = self._in_scope[name] = self.rules.in_scope(name)
        if not known:
            return "other_subreddit"
        if self._of_kind + self._of_other < KIND_SAMPLE:
            self._check_kind(record)
        return None if values.bare_id(record.id) else "no_id"

    def _content(self, record: Record, name: str) -> str | None:
        """Judge a first occurrence; keep it if nothing speaks against it."""
        rules, measures = self.rules, self.measures
        created = values.epoch(record.created_utc)
        assert created is not None
        if not rules.start <= created < rules.end:
            return "outside_month"
        measures.seen_at(record.subreddit, created)
        if reason := rules.gone(record):
            return reason
        score = values.whole(record.score)
        measures.living_row(created=created, score=score, read_at=values.engagement_as_of(record))
        if (reason := rules.engagement(record, score)) or score is None:
            return reason
        comment = rules.kind == "comments"
        title = "" if comment else values.unescaped(record.title)
        text = values.unescaped(record.body if comment else record.selftext)
        if reason := rules.length(title, text):
            return reason
        row = rules.row(record, id=name, created=created, score=score, title=title, text=text)
        self.deleted_later += row.deleted_later
        if row.deleted_later and rules.limits.drop_deleted_later:
            return "deleted_later"
        self.runs.add(row)
        return None

    def _show(self, batch: Batch, reasons: list[str | None]) -> None:
        for (number, start, end), reason in zip(batch.spans, reasons, strict=True):
            if reason and self.rejects.wants(reason):
                self.rejects.add(reason, line=batch.first_line + number, raw=batch.data[start:end])

    def _check_kind(self, record: Record) -> None:
        """Refuse a dump of the other kind early: a file's name does not prove its content."""
        comment = record.body is not None and record.title is None
        if comment == (self.rules.kind == "comments"):
            self._of_kind += 1
        else:
            self._of_other += 1

    def refuse_other_kind(self, *, enough: int) -> None:
        """Raise `InputRefused` when at least `enough` records were looked at and all are of the other kind."""
        if not self._of_kind and self._of_other >= enough:
            other = "submissions" if self.rules.kind == "comments" else "comments"
            raise InputRefused(f"The dump holds {other}, not {self.rules.kind}: correct --kind or --dump.")
