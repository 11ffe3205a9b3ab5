"""A month: the parsed lines of a dump, judged, sorted and sealed. `build` begins; this does the work."""

import time
from collections.abc import Iterable
from pathlib import Path
from typing import Any, Final

from hindcast_dagster.contracts.documents import BY_KIND
from hindcast_dagster.corpus import health, ledger, merge
from hindcast_dagster.corpus.dumps import TABLE as DUMPS_TABLE
from hindcast_dagster.corpus.ledger import Rejects
from hindcast_dagster.corpus.lines import Lines
from hindcast_dagster.corpus.reading import Page, Progress
from hindcast_dagster.corpus.record import Parser, Span
from hindcast_dagster.corpus.rules import CODE_VERSION, REASONS, Rules
from hindcast_dagster.corpus.runs import Runs
from hindcast_dagster.corpus.scan import spans
from hindcast_dagster.corpus.seen import Seen
from hindcast_dagster.corpus.sieve import KIND_SAMPLE, Batch, Sieve
from hindcast_dagster.corpus.workspace import workspace
from hindcast_dagster.errors import InputRefused, NotReady
from hindcast_dagster.storage import forgotten
from hindcast_dagster.storage.forgotten import Forgotten
from hindcast_dagster.storage.manifest import Check, Input, Manifest
from hindcast_dagster.storage.store import Partition, Store
from hindcast_dagster.storage.tables import DATA

REPORT_EVERY_S: Final = 0.5


def seal(
    store: Store, rules: Rules, lines: Lines, ready: Iterable[Page], *, record: Forgotten, progress: Progress | None
) -> Manifest:
    """Judge every line of `ready`, the pages of `lines`, and publish the month. See `build.build`."""
    kind, month = rules.kind, rules.month
    with workspace(store) as work, Rejects(work, hidden=lambda raw: record.named_in(raw, kind)) as rejects:
        reading = _Reading(lines, rules, work, rejects, progress=progress, record=record)
        reading.run(ready)
        if not forgotten.unchanged(store, record):
            raise NotReady(f"Documents were forgotten while {lines.path} was read: run the same command again.")
        return _publish(store.partition(kind, month), reading, home=store.area("ledgers", kind, month))


def _publish(partition: Partition, reading: "_Reading", *, home: Path) -> Manifest:
    """Publish what one whole pass over a dump has kept, and its rejects in `home`."""
    stats = reading.stats()
    name = ledger.rejects_name(stats)
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
        self, lines: Lines, rules: Rules, work: Path, rejects: Rejects, *, progress: Progress | None, record: Forgotten
    ) -> None:
        self.lines = lines
        self.rules = rules
        self.rejects = rejects
        self.sieve = Sieve(rules, seen=Seen(work), runs=Runs(work), rejects=rejects, forgotten=record)
        self.replaced = 0
        self._parser = Parser(rules.kind)
        self._progress, self._size = progress, lines.path.stat().st_size
        self._started = self._reported = time.monotonic()

    def run(self, ready: Iterable[Page]) -> None:
        """Read every line."""
        for page in ready:
            self._page(page)
            self.sieve.refuse_other_kind(enough=KIND_SAMPLE)
            self._report(page)
        self.sieve.refuse_other_kind(enough=1)
        if (strays := self.sieve.dropped["outside_month"]) and not self.sieve.inside:
            raise InputRefused(
                f"{self.lines.path} holds no {self.rules.kind} of {self.rules.month}, and {strays:,} of other months: "
                "name the month that the file is of. Nothing was sealed."
            )

    def _page(self, page: Page) -> None:
        data, start, end, _ = page.block
        found = page.candidates
        parsed = self._parser.every(data, start, end, count=page.lines) if found is None else None
        if parsed is None:
            chosen = spans(data, start, end) if found is None else found
            parsed = self._parser.some(data, chosen)
            self._foreign(page, chosen)
            batch = Batch(data, page.first_line, parsed.records, lambda: chosen)
        else:
            batch = Batch(data, page.first_line, parsed.records, lambda: spans(data, start, end))
        self.replaced += parsed.replaced
        self.sieve.take(batch)

    def _foreign(self, page: Page, found: list[Span]) -> None:
        """Count the lines that the scan rejected unparsed; keep the first of them as they were."""
        self.sieve.dropped["other_subreddit"] += page.lines - len(found)
        if page.lines > len(found) and self.rejects.wants("other_subreddit"):
            block, parsed = page.block, {number for number, _, _ in found}
            for number, begin, stop in spans(block.data, block.start, block.end):
                if number not in parsed:
                    self.rejects.add("other_subreddit", line=page.first_line + number, raw=block.data[begin:stop])

    def _report(self, page: Page) -> None:
        now = time.monotonic()
        if self._progress is None or now - self._reported < REPORT_EVERY_S:
            return
        self._reported = now
        lines = page.first_line + page.lines - 1
        speed = self.lines.content / 1e6 / max(now - self._started, 1e-9)
        words = f"{lines:,} lines, {speed:,.0f} MB/s, {self.sieve.runs.count:,} kept"
        self._progress(page.block.position, self._size, words)

    def stats(self) -> dict[str, Any]:
        """Return the ledger as it is kept in the manifest."""
        dropped = {reason: self.sieve.dropped[reason] for reason in REASONS if self.sieve.dropped[reason]}
        kept = self.sieve.runs.count
        assert self.lines.count == kept + sum(dropped.values())
        measured = self.sieve.measures.numbers(kept=kept, strays=dropped.get("outside_month", 0))
        numbers = {"lines": self.lines.count, **measured}
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
            "rules": self.rules.used(),
        }
