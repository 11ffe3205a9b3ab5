"""What a data root holds, as values that can be compared: two runs of a stage must agree on all of them."""

import hashlib
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any, Final

from hindcast_dagster.storage.files import sha256_file
from hindcast_dagster.storage.store import Store, open_store

LANCE: Final = "lance"
SUMS: Final = "checksums.json"
"""Lists the files of a LanceDB table, whose names are random."""
NOTED: Final = frozenset({"fetched_at", "made_at"})
"""When a thing was fetched or made: all that a clock may change."""

Digest = dict[str, Any]


def digest(root: Path, *, tables: tuple[str, ...] | None = None) -> Digest:
    """Return name -> content of all sealed partitions, journals, reports and ledgers, without `made_at`.

    `tables` narrows it to the partitions of some tables.

    Raises `AssertionError` for a sealed partition whose files are not what its manifest says.
    """
    store = open_store(root)
    found: Digest = {}
    for table in store.tables() if tables is None else tables:
        for key in store.sealed_keys(table):
            found["/".join(("tables", table, *key))] = _partition(store, table, key)
    for area in ("journal", "reports", "ledgers") if tables is None else ():
        for path in sorted((root / area).rglob("*")):
            if path.is_file() and not path.name.startswith("."):
                found[path.relative_to(root).as_posix()] = sha256_file(path)
    return found


def _partition(store: Store, table: str, key: tuple[str, ...]) -> Digest:
    sealed = store.partition(table, *key).require()
    files = {
        path.relative_to(sealed.path).as_posix(): sha256_file(path)
        for path in sorted(sealed.path.rglob("*"))
        if path.is_file() and path.relative_to(sealed.path).parts[0] not in {LANCE, SUMS, "manifest.json"}
        and not path.name.startswith(".")
    }  # fmt: skip
    for file in sealed.manifest.files:
        assert files.get(file.path) == file.sha256, f"{sealed.path / file.path} is not what its manifest says"
    if (sealed.path / LANCE).is_dir():
        files[LANCE] = _lance(sealed.path / LANCE, int(sealed.manifest.stats["lance_version"]))
    return {"manifest": sealed.manifest.without_time(), "files": files}


def _lance(path: Path, version: int) -> str:
    """Return a hash over all rows of a LanceDB table, in the order of their row number."""
    import lancedb

    table = lancedb.connect(path).open_table("rows")
    table.checkout(version)
    rows = table.to_arrow().sort_by("row")
    return hashlib.sha256(json.dumps(rows.to_pylist(), default=str).encode()).hexdigest()


def without_clock(root: Path) -> Digest:
    """Return all rows of all tables and all journals, without the columns that a clock may change."""
    import polars as pl

    found: Digest = {}
    for path in sorted(root.glob("tables/**/*.parquet")):
        frame = pl.read_parquet(path)
        kept = frame.drop([name for name in frame.columns if name in NOTED])
        name = "/".join(part for part in path.relative_to(root).parts if not part.startswith("v-"))
        found[name] = hashlib.sha256(kept.write_json().encode()).hexdigest()
    for path in sorted(root.glob("journal/**/*.json")):
        record = json.loads(path.read_bytes())
        found[path.relative_to(root).as_posix()] = {name: record[name] for name in sorted(record) if name not in NOTED}
    return found


def difference(found: Digest, wanted: Digest) -> str:
    """Return the first few places where two digests differ, or "" when they agree."""
    names = sorted(name for name in found.keys() | wanted.keys() if found.get(name) != wanted.get(name))
    said = [f"{name}: {_how(found.get(name), wanted.get(name))}" for name in names[:3]]
    return "; ".join(said) + (f"; and {len(names) - 3} more" if len(names) > 3 else "")


def _how(found: Any, wanted: Any) -> str:
    if found is None or wanted is None:
        return "is missing" if found is None else "should not be there"
    if isinstance(found, dict) and isinstance(wanted, dict):
        names = [name for name in wanted if found.get(name) != wanted[name]] or ["more than it should hold"]
        return f"{names[0]} ({_how(found.get(names[0]), wanted.get(names[0]))})"
    return f"{str(found)[:80]} instead of {str(wanted)[:80]}"


def never_lost(found: Digest, before: Digest, after: Digest) -> str:
    """Return what a disturbed run has lost or made wrong: each entry must be as it was, or as it should become."""
    lost = [f"{name} is lost" for name in before if name not in found]
    wrong = [name for name in found if found[name] not in _allowed(name, before, after)]
    return "; ".join([*lost, *(f"{name} is wrong: {_how(found[name], after.get(name))}" for name in wrong)][:3])


def _allowed(name: str, *states: Digest) -> list[Any]:
    return [state[name] for state in states if name in state]


Reader = Callable[[Path], Digest]
