"""Forgetting documents (take-down requests): out of every table, index, journal and page, and never back in.

The record comes first (`storage.forgotten`), so a run that is killed is ended by the next one, and a build from the
same dump drops the documents again. What belongs here: the order of the work and the account of it. Dumps are not
touched: they are other people's files, and their hash is where every lineage begins; the account names them.
"""

from collections import Counter
from collections.abc import Callable, Iterable
from contextlib import ExitStack, suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final

from filelock import FileLock, Timeout

from hindcast_dagster import keys
from hindcast_dagster.archive import takedown as archive
from hindcast_dagster.corpus import dumps
from hindcast_dagster.corpus import takedown as corpus
from hindcast_dagster.corpus.workspace import require_idle
from hindcast_dagster.errors import HindcastError, NotReady, UsageError
from hindcast_dagster.operation import redact
from hindcast_dagster.settings import Settings
from hindcast_dagster.storage import forgotten
from hindcast_dagster.storage.files import remove_tree
from hindcast_dagster.storage.forgotten import PREFIXES, Forgotten, Instants
from hindcast_dagster.storage.store import NotSealed, Partition, Store

KINDS: Final = tuple(PREFIXES)
INDEXES: Final = tuple(archive.KINDS)

Progress = Callable[[float, float | None, str], None]


@dataclass
class Account:
    """What a take-down did, or (dry) what it would do."""

    asked: int
    new: int = 0
    """Documents that the record did not name before."""
    unknown: int = 0
    """Asked for, and in no sealed month: they are recorded all the same, and no later build lets them in."""
    rows: Counter[str] = field(default_factory=Counter)
    """Table -> rows that went, over all versions."""
    partitions: list[str] = field(default_factory=list)
    """Partitions that were sealed anew or rewritten."""
    rejected_lines: int = 0
    journal_units: int = 0
    reports: list[str] = field(default_factory=list)
    """Eval sets whose report and audit were removed because they may quote, then made again where that was possible."""
    remarks: list[str] = field(default_factory=list)
    failed: list[str] = field(default_factory=list)
    """Partitions that could not be cleaned: the take-down is not complete."""
    dumps: list[str] = field(default_factory=list)
    """Files under dumps/ of months that held the documents: the text is still in them."""
    dry_run: bool = False

    def as_dict(self) -> dict[str, Any]:
        """Return JSON values."""
        return {**vars(self), "rows": dict(sorted(self.rows.items()))}


def read_ids(path: Path) -> list[str]:
    """Return the prefixed ids of a file, one a line; `#` begins a remark. Raises `UsageError` naming the line."""
    try:
        lines = path.read_text(encoding="utf-8").splitlines()
    except (OSError, UnicodeDecodeError) as error:
        raise UsageError(f"--ids {path} cannot be read ({error}).") from error
    words = [(number, line.partition("#")[0].strip()) for number, line in enumerate(lines, start=1)]
    return sorted({_key(word, f"{path}, line {number}") for number, word in words if word})


def _key(word: str, where: str) -> str:
    if word[:3] not in {"t1_", "t3_"}:
        raise UsageError(f"{where}: {word!r} does not say what it is: write t3_<id> for a post, t1_<id> for a comment.")
    try:
        return word[:3] + keys.reddit_id(word)
    except UsageError as error:
        raise UsageError(f"{where}: {error}") from error


def forget(
    store: Store, settings: Settings, ids: Iterable[str], *, dry_run: bool = False, progress: Progress | None = None
) -> Account:
    """Forget documents by prefixed id; without any, what the record names already is looked for and removed again.

    Idempotent, and after kill -9 the same call ends the work. Raises `NotReady` while forecasts are being made (they
    would write down what is being removed).
    """
    wanted = sorted(set(ids))
    account = Account(asked=len(wanted), dry_run=dry_run)
    known = _instants(store, set(wanted))
    record = forgotten.load(store)
    account.new = sum(key not in record for key in wanted)
    account.unknown = sum(key not in known and record.instants(key) is None for key in wanted)
    if dry_run:
        record = record.adding(known | {key: None for key in wanted if key not in known})
    elif wanted:
        forgotten.add(store, {key: known.get(key) for key in wanted})
        record = forgotten.load(store)
    if len(record):
        if not dry_run:
            require_idle(store)
        with _nobody_forecasts(store, dry_run=dry_run):
            _Sweep(store, settings, record, account, progress).run()
    return account


def _instants(store: Store, wanted: set[str]) -> dict[str, Instants]:
    found: dict[str, Instants] = {}
    for kind in KINDS if wanted else ():
        for key in store.sealed_keys(kind):
            with suppress(HindcastError):  # one that is broken is told by the sweep
                found |= corpus.instants(store.partition(kind, *key).require(), wanted)
    return found


def _nobody_forecasts(store: Store, *, dry_run: bool) -> ExitStack:
    """Hold the lock of every journal of forecasts for as long as the work lasts."""
    stack = ExitStack()
    root = store.area("journal")
    for path in sorted(root.rglob(".lock")) if root.is_dir() and not dry_run else ():
        try:
            stack.enter_context(FileLock(path, timeout=0))
        except Timeout as error:
            stack.close()
            where = path.parent.relative_to(root)
            raise NotReady(
                f"Forecasts are being made ({where}): wait for them, or stop them, then run it again."
            ) from error
    return stack


class _Sweep:
    """One pass over everything. Reports go first: nothing tells afterwards which of them quoted whom."""

    def __init__(
        self, store: Store, settings: Settings, record: Forgotten, account: Account, progress: Progress | None
    ) -> None:
        self.store, self.settings, self.record, self.account = store, settings, record, account
        self.progress = progress
        self._months: set[tuple[str, str]] = set()

    def run(self) -> None:
        units = list(redact.units(self.store, self.record))
        affected = sorted({unit.eval_set for unit in units if unit.eval_set and not unit.clean})
        self._reports(affected)
        self._journals([unit for unit in units if not unit.clean])
        tables = [*((table, corpus) for table in KINDS), *((table, archive) for table in INDEXES)]
        found = [
            (self.store.partition(table, key), how) for table, how in tables for key in self.store.begun_keys(table)
        ]
        for number, (partition, how) in enumerate(found):
            if self.progress is not None:
                self.progress(number, len(found), partition.name)
            try:
                self._partition(partition, how)
            except HindcastError as error:  # the others must not wait for this one
                self.account.failed.append(f"{partition.name}: {error}")
        self._dumps()
        if not self.account.dry_run:
            self._again(affected)

    def _partition(self, partition: Partition, how: Any) -> None:
        """Clean every version of a partition: the current one by sealing it anew, pinned ones in place."""
        dry = self.account.dry_run
        if not dry:
            partition.settle()
        sealed = partition.manifest() is not None
        gone = self._current(partition, how) if sealed else 0
        for version in sorted(self.store.pinned(partition.table, partition.key)):
            with suppress(NotSealed):
                gone += self._pinned(partition, version, how)
        stale = not dry and self._clean_aside(partition, how, touched=bool(gone))
        if gone or stale:
            self.account.rows[partition.table] += gone
            self.account.partitions.append(partition.name)
            self._months.add((archive.KINDS.get(partition.table, partition.table), partition.key[0]))

    def _pinned(self, partition: Partition, version: str, how: Any) -> int:
        if self.account.dry_run:
            return len(how.held(partition.at_version(version), self.record))
        return int(how.rewrite_pinned(partition, version, self.record))

    def _current(self, partition: Partition, how: Any) -> int:
        if self.account.dry_run:
            return len(how.held(partition.require(), self.record))
        if how is archive:
            return archive.reseal(self.store, partition, self.record)
        return corpus.reseal(partition, self.record)

    def _clean_aside(self, partition: Partition, how: Any, *, touched: bool) -> bool:
        """Remove what lies beside the versions: older ones that still hold a document, drafts, rejects, vectors."""
        current = partition.manifest()
        kept = {*self.store.pinned(partition.table, partition.key), *([current.version] if current else [])}
        old = [version for version in partition.versions() if version not in {each[:32] for each in kept}]
        stale = touched or any(self._holds(partition, version, how) for version in old)
        if stale:
            partition.drop_versions(keep=kept)
        stale = partition.drop_drafts() or stale
        if how is corpus:
            lines = corpus.clean_rejects(self.store, partition, self.record)
            self.account.rejected_lines += lines
        elif stale:
            archive.drop_work(self.store, partition.key[0])
        return stale and not touched

    def _holds(self, partition: Partition, version: str, how: Any) -> bool:
        """Return whether an older version holds a document; one that cannot be read is taken to hold it."""
        try:
            return bool(how.held(partition.at_version(version), self.record))
        except (HindcastError, OSError):
            return True

    def _journals(self, units: list[redact.Unit]) -> None:
        self.account.journal_units = len(units)
        for unit in () if self.account.dry_run else units:
            redact.redact(unit)

    def _reports(self, eval_sets: list[str]) -> None:
        for name in eval_sets:
            report, page = self.store.partition("report", name), self.store.area("reports", name)
            if report.manifest_or_none() is None and not page.is_dir():
                continue
            self.account.reports.append(name)
            if not self.account.dry_run:
                report.unseal()
                remove_tree(page)

    def _again(self, eval_sets: list[str]) -> None:
        """Audit the affected eval sets and make their reports again; what fails is said, the text is gone anyway."""
        from hindcast_dagster.leakage import audit
        from hindcast_dagster.report import build as reports

        for name in eval_sets:
            try:
                if self.store.partition(audit.TABLE, name).manifest() is not None:
                    audit.build(self.store, self.settings, eval_set=name)
                if name in self.account.reports:
                    reports.build(self.store, self.settings, eval_set=name)
            except HindcastError as error:
                self.account.remarks.append(f"{name}: {error} Then `hindcast report --eval-set {name}`.")

    def _dumps(self) -> None:
        """Name the dumps of every month that held a forgotten document, by what its ledger says too."""
        for kind in KINDS:
            for (month,) in self.store.sealed_keys(kind):
                manifest = self.store.partition(kind, month).manifest_or_none()
                if manifest is not None and manifest.stats.get("dropped", {}).get("forgotten"):
                    self._months.add((kind, month))
        found = dumps.find(self.store)
        self.account.dumps = [str(each.path) for each in found if (each.kind, each.month) in self._months]
