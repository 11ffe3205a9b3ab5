"""Building a month: one dump file to one sealed partition with its ledger.

What is imported here is light: the dump is being decoded while `month`, which does the work, is still being loaded.
"""

from pathlib import Path
from typing import Final

from hindcast_dagster import keys
from hindcast_dagster.corpus import dumps, memory
from hindcast_dagster.corpus.ahead import Ahead, quick_turns
from hindcast_dagster.corpus.dumps import Kind
from hindcast_dagster.corpus.lines import Lines
from hindcast_dagster.corpus.reading import Progress, pages
from hindcast_dagster.corpus.rules import Rules
from hindcast_dagster.settings import Settings
from hindcast_dagster.storage import forgotten
from hindcast_dagster.storage.manifest import Manifest
from hindcast_dagster.storage.store import Store

_AHEAD: Final = 8  # pages that are ready to be parsed


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
    lines = Lines(path)
    with quick_turns(), Ahead(lambda: pages(lines, rules.kept), most=_AHEAD) as ready:
        from hindcast_dagster.corpus.month import seal

        return seal(store, rules, lines, ready, record=record, progress=progress)
