"""Building a month: one dump file to one sealed partition with its ledger."""

import hashlib
import json
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any, Final

from hindcast_dagster import keys
from hindcast_dagster.contracts.documents import BY_KIND
from hindcast_dagster.corpus import dumps, health, ledger, memory, merge
from hindcast_dagster.corpus.dumps import Kind
from hindcast_dagster.corpus.ledger import Rejects
from hindcast_dagster.corpus.lines import Block, Lines
from hindcast_dagster.corpus.record import parse, parse_all
from hindcast_dagster.corpus.rules import REASONS, Rules
from hindcast_dagster.corpus.runs import Runs
from hindcast_dagster.corpus.scan import Scanner, Span, spans
from hindcast_dagster.corpus.seen import Seen
from hindcast_dagster.corpus.sieve import KIND_SAMPLE, Batch, Sieve
from hindcast_dagster.corpus.workspace import workspace
from hindcast_dagster.errors import InputRefused, NotReady
from hindcast_dagster.settings import Settings
from hindcast_dagster.storage import forgotten
from hindcast_dagster.storage.forgotten import Forgotten
from hindcast_dagster.storage.manifest import Check, Input, Manifest
from hindcast_dagster.storage.store import Partition, Store
from hindcast_dagster.storage.tables import DATA

CODE_VERSION: Final = "corpus/1"
DUMPS_TABLE: Final = "reddit_dumps"
REPORT_EVERY_S: Final = 0.5

Progress = Callable[[float, float | None, str], None]


def build(
    store: Store,
    settings: Settings,
    *,
    month: str,
    kind: str,
    dump: Path | None = None,
    progress: Progress | None = None,
) -> Manifest:
    """Filter one month's dump into the partition (`submissions` or `comments`, month) and return its manifest.

    `dump` overrides the file under `dumps/`. `progress` gets (compressed bytes read, file size, words). The same file
    and settings give the same data files. Raises `NoDump`, `InputRefused` for a file that is cut, damaged or of the
    other kind (nothing is sealed then, and an older partition stays), `NotReady` for too little memory or disk.
    """
    table: Kind = dumps.kind_of(kind)
    path = dumps.choose(store, month=keys.month(month), kind=table, dump=dump)
    memory.require(path)
    rules = Rules.of(settings.corpus, month=month, kind=table)
    record = forgotten.load(store)
    with workspace(store) as work, Rejects(work, hidden=lambda raw: record.named_in(raw, table)) as rejects:
        reading = _Reading(path, rules, work, rejects, progress=progress, record=record)
        reading.run()
        if not forgotten.unchanged(store, record):
            raise NotReady(f"Documents were forgotten while {path} was read: run the same command again.")
        return _seal(store.partition(table, month), reading, home=store.area("ledgers", table, month))


def _seal(partition: Partition, reading: "_Reading", *, home: Path) -> Manifest:
    """Publish what one whole pass over a dump has kept, and its rejects in `home`."""
    stats = reading.stats()
    name = rejects_name(stats)
    rules, sha256 = reading.rules, reading.lines.sha256
    contract = BY_KIND[rules.kind]
    with partition.draft() as draft:
        rows = merge.write(draft.path / DATA, reading.sieve.runs.finish(), contract, dump_sha256=sha256)
        reading.rejects.publish(home, name)
        manifest = draft.seal(
            rows=rows,
            schema_version=contract.schema_version,
            code_version=CODE_VERSION,
            inputs=[Input(table=DUMPS_TABLE, key=(rules.month, rules.kind), version=sha256)],
            checks=[Check(name="contract", passed=True, detail="nulls, unique key and order, while writing")],
            stats={**stats, "rejects": name},
        )
    ledger.keep_only(home, name)
    return manifest


class _Reading:
    """One pass over one dump."""

    def __init__(
        self, path: Path, rules: Rules, work: Path, rejects: Rejects, *, progress: Progress | None, record: Forgotten
    ) -> None:
        self.lines = Lines(path)
        self.rules = rules
        self.rejects = rejects
        self.sieve = Sieve(rules, seen=Seen(work), runs=Runs(work), rejects=rejects, forgotten=record)
        self.replaced = 0
        self._scanner = None if rules.kept is None else Scanner(frozenset(name.encode() for name in rules.kept))
        self._progress, self._size = progress, path.stat().st_size
        self._started = self._reported = time.monotonic()

    def run(self) -> None:
        """Read every line."""
        for block in self.lines:
            self._block(block)
            self.sieve.refuse_other_kind(enough=KIND_SAMPLE)
            self._report(block.position)
        self.sieve.refuse_other_kind(enough=1)
        if (strays := self.sieve.dropped["outside_month"]) and not self.sieve.inside:
            raise InputRefused(
                f"{self.lines.path} holds no {self.rules.kind} of {self.rules.month}, and {strays:,} of other months: "
                "name the month that the file is of. Nothing was sealed."
            )

    def _block(self, block: Block) -> None:
        data, start, end, _ = block
        first = self.lines.count + 1
        if self._scanner is None:
            parsed = parse_all(data, start, end)
            count = len(parsed.records)
            batch = Batch(data, first, parsed.records, lambda: spans(data, start, end))
        else:
            count, found = self._scanner.scan(data, start, end)
            parsed = parse(data, found)
            batch = Batch(data, first, parsed.records, lambda: found)
            self._foreign(block, first, count, found)
        self.replaced += parsed.replaced
        self.lines.count += count
        self.sieve.take(batch)

    def _foreign(self, block: Block, first: int, count: int, found: list[Span]) -> None:
        """Count the lines that the scan rejected unparsed; keep the first of them as they were."""
        self.sieve.dropped["other_subreddit"] += count - len(found)
        if count > len(found) and self.rejects.wants("other_subreddit"):
            parsed = {number for number, _, _ in found}
            for number, begin, stop in spans(block.data, block.start, block.end):
                if number not in parsed:
                    self.rejects.add("other_subreddit", line=first + number, raw=block.data[begin:stop])

    def _report(self, position: int) -> None:
        now = time.monotonic()
        if self._progress is None or now - self._reported < REPORT_EVERY_S:
            return
        self._reported = now
        speed = self.lines.content / 1e6 / max(now - self._started, 1e-9)
        words = f"{self.lines.count:,} lines, {speed:,.0f} MB/s, {self.sieve.runs.count:,} kept"
        self._progress(position, self._size, words)

    def stats(self) -> dict[str, Any]:
        """Return the ledger as it is kept in the manifest."""
        dropped = {reason: self.sieve.dropped[reason] for reason in REASONS if self.sieve.dropped[reason]}
        kept = self.sieve.runs.count
        assert self.lines.count == kept + sum(dropped.values())
        numbers = self.sieve.measures.numbers(kept=kept, strays=dropped.get("outside_month", 0))
        return {
            "lines": self.lines.count,
            "bytes": self.lines.content,
            "kept": kept,
            "dropped": dropped,
            "surrogates": self.replaced,
            "deleted_later": self.sieve.deleted_later,
            "dump_sha256": self.lines.sha256,
            "dump_bytes": self.lines.size,
            "health": health.judge(numbers, []).as_dict(),
            "rules": rules_used(self.rules),
        }


def rules_used(rules: Rules) -> dict[str, Any]:
    """Return the limits and lists of a build, lists as they were and not as file names."""
    limits = rules.limits.model_dump(mode="json", exclude={"subreddits_file", "bots_file"})
    bots = hashlib.sha256("\n".join(sorted(rules.bots)).encode()).hexdigest() if rules.bots else None
    return {**limits, "subreddits": sorted(rules.kept) if rules.kept is not None else None, "bots_sha256": bots}


def rejects_name(stats: dict[str, Any]) -> str:
    """Return the file name of the rejects of a build, made of its ledger."""
    return f"rejects-{hashlib.sha256(json.dumps(stats, sort_keys=True).encode()).hexdigest()[:32]}.jsonl.zst"
