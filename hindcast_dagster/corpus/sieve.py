"""The sieve: holds parsed lines against the rules in order, and counts what became of each."""

from collections import Counter
from collections.abc import Callable
from typing import Final, NamedTuple

from hindcast_dagster.clock import EARLIEST, HOUR, LATEST
from hindcast_dagster.corpus import values
from hindcast_dagster.corpus.health import Measures
from hindcast_dagster.corpus.ledger import Rejects
from hindcast_dagster.corpus.record import Record, Span
from hindcast_dagster.corpus.rules import Rules
from hindcast_dagster.corpus.runs import Runs
from hindcast_dagster.corpus.seen import Seen
from hindcast_dagster.errors import InputRefused
from hindcast_dagster.storage.forgotten import PREFIXES, Forgotten

KIND_SAMPLE: Final = 100  # records that decide whether a dump is of the other kind
_SMALL: Final = 1 << 53


class Batch(NamedTuple):
    """Parsed lines of one block."""

    data: bytes
    first_line: int
    """Number, from 1, of the block's first line in the file."""
    records: list[Record | None]
    spans: Callable[[], list[Span]]
    """Where the line of each record lies in `data`; called only when somebody wants to see one."""


_Reasons = list[str | None]
"""Why each record of a batch is dropped; None: it is kept, or not judged yet."""
_Known = tuple[int, Record, str, int]
"""A record that has passed the rules on identity: its place in the batch, itself, its id, and when it was created."""


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

    def take(self, batch: Batch) -> None:
        """Judge every record of a batch; keep the rows that pass."""
        reasons: _Reasons = [None] * len(batch.records)
        known = self._identified(batch.records, reasons)
        for nth in self._seen.repeats([name for _, _, name, _ in known]):
            reasons[known[nth][0]] = "duplicate"
        for found in self._popular(self._living(known, reasons), reasons):
            reasons[found[0]] = self._text(found)
        dropped = Counter(reasons)
        dropped.pop(None, None)
        self.dropped.update({reason: count for reason, count in dropped.items() if reason})
        if wanted := {reason for reason in dropped if reason and self.rejects.wants(reason)}:
            self._show(batch, reasons, wanted)

    # The next three loops meet every record of a month with --all-subreddits. What nearly all records look like is
    # tested in place; `values` and `rules` have the last word on anything else.

    def _identified(self, records: list[Record | None], reasons: _Reasons) -> list[_Known]:
        """Return the records that have a usable time, subreddit and id, and say why the others have not."""
        kept, in_scope = self.rules.kept, self.rules.in_scope
        plain = values.are_bare([None if record is None else record.id for record in records])
        known: list[_Known] = []
        for place, record in enumerate(records):
            created = record.created_utc if record is not None else None
            if type(created) is not int or not EARLIEST <= created < LATEST:
                created = values.epoch(created)
            if record is None or created is None:
                reasons[place] = "bad_record"
                continue
            name = record.subreddit
            if (kept is not None or type(name) is not str or not name) and not in_scope(name):
                reasons[place] = "other_subreddit"
                continue
            if self._of_kind < KIND_SAMPLE:
                self._note_kind(record)
            own = record.id if plain else values.bare_id(record.id)
            if own is None:
                reasons[place] = "no_id"
                continue
            known.append((place, record, own, created))
        return known

    def _living(self, known: list[_Known], reasons: _Reasons) -> list[_Known]:
        """Return the records of the month that have author and text, and say why the others have not."""
        rules = self.rules
        start, end, gone, no_bots = rules.start, rules.end, rules.gone, not rules.bots
        comments = rules.kind == "comments"
        hour, busy = 0, dict[str, None]()  # the subreddits of records that follow each other within one hour, in order
        living: list[_Known] = []
        for found in known:
            place, record, _, created = found
            if reasons[place] is not None:
                continue
            if not start <= created < end:
                reasons[place] = "outside_month"
                continue
            if (created - start) // HOUR != hour:
                self.measures.seen_in(hour, busy)
                hour, busy = (created - start) // HOUR, {}
            busy[record.subreddit] = None
            author, text = record.author, record.body if comments else record.selftext
            plain = no_bots and type(author) is str and type(text) is str and author not in {"", "[deleted]"}
            if (plain and text[:1].isalnum()) or (reason := gone(record)) is None:  # no stub begins with a letter
                living.append(found)
            else:
                reasons[place] = reason
        self.inside = self.inside or bool(busy)
        self.measures.seen_in(hour, busy)
        return living

    def _popular(self, living: list[_Known], reasons: _Reasons) -> list[_Known]:
        """Return the records with enough votes and answers, and say what the others lack; measure all of them."""
        least = self.rules.limits.min_score
        submissions, comments = self.rules.kind == "submissions", self.rules.comments
        engagement_as_of, whole = values.engagement_as_of, values.whole
        scores: list[int | None] = []
        ages: list[int | None] = []
        popular: list[_Known] = []
        for found in living:
            place, record, _, created = found
            read_at = record.meta.retrieved_2nd_on
            if type(read_at) is not int or not created <= read_at < LATEST:
                read_at = engagement_as_of(record, created)
            ages.append(None if read_at is None else read_at - created)
            score = record.score
            if type(score) is not int or not -_SMALL < score < _SMALL:
                score = whole(score)
            scores.append(score)
            if score is None:
                reasons[place] = "score_unknown"
            elif score < least:
                reasons[place] = "low_score"
            elif submissions and (reason := comments(record)):
                reasons[place] = reason
            else:
                popular.append(found)
        self.measures.count(scores, ages)
        return popular

    def _text(self, known: _Known) -> str | None:
        """Return why a record's text is too little; None: it is kept, as a row."""
        _, record, name, created = known
        title, text = self.rules.texts(record)
        if reason := self.rules.length(title, text):
            return reason
        score = values.whole(record.score)
        assert score is not None
        row = self.rules.row(record, id=name, created=created, score=score, title=title, text=text)
        self.deleted_later += row.deleted_later
        if row.deleted_later and self.rules.limits.drop_deleted_later:
            return "deleted_later"
        if self._forgotten is not None and self._prefix + name in self._forgotten:  # last: the other counts stay
            return "forgotten"
        self.runs.add(row)
        return None

    def _show(self, batch: Batch, reasons: _Reasons, wanted: set[str]) -> None:
        spans = batch.spans()
        for (number, start, end), reason in zip(spans, reasons, strict=True):
            if reason in wanted:
                self.rejects.add(reason, line=batch.first_line + number, raw=batch.data[start:end])

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
