"""Taking forgotten documents out of a sealed month, without its dump.

The month that comes out is the one that a rebuild from the dump would give: same rows, same bytes, same ledger. What
belongs here: the corpus months and the rejected lines beside them. The rest of a take-down is in `operation.forget`.
"""

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import polars as pl
import pyarrow.parquet as pq
import zstandard

from hindcast_dagster.contracts.documents import BY_KIND
from hindcast_dagster.corpus import health, ledger, merge
from hindcast_dagster.storage.files import sha256_file, write_atomic
from hindcast_dagster.storage.forgotten import PREFIXES, Forgotten, Instants
from hindcast_dagster.storage.manifest import File, Manifest
from hindcast_dagster.storage.store import Partition, Sealed, Store
from hindcast_dagster.storage.tables import DATA


def held(sealed: Sealed, record: Forgotten) -> set[str]:
    """Return the bare ids of forgotten documents that a version still holds."""
    prefix = PREFIXES[sealed.manifest.table]
    ids = pl.scan_parquet(sealed.file(DATA)).select("id").collect()["id"]
    return {name for name in ids if prefix + name in record}


def instants(sealed: Sealed, keys: set[str]) -> dict[str, Instants]:
    """Return the instants of those prefixed ids that a version holds."""
    prefix = PREFIXES[sealed.manifest.table]
    wanted = [key.removeprefix(prefix) for key in keys if key.startswith(prefix)]
    rows = pl.scan_parquet(sealed.file(DATA)).filter(pl.col("id").is_in(wanted))
    found = rows.select("id", *Instants._fields).collect()
    return {prefix + name: Instants(*times) for name, *times in found.iter_rows()}


def reseal(partition: Partition, record: Forgotten) -> int:
    """Seal the current version without its forgotten documents; return how many went."""
    sealed = partition.require()
    gone = held(sealed, record)
    if gone:
        _reseal(partition, sealed, gone)
    return len(gone)


def _reseal(partition: Partition, sealed: Sealed, gone: set[str]) -> None:
    old = sealed.manifest
    stats = _without(old.stats, len(gone))
    with partition.draft() as draft:
        rows = _write(draft.path / DATA, sealed, gone)
        draft.seal(
            rows=rows,
            schema_version=old.schema_version,
            code_version=old.code_version,
            inputs=old.inputs,
            checks=old.checks,
            stats=stats,
        )


def _write(path: Path, sealed: Sealed, gone: set[str]) -> int:
    contract = BY_KIND[sealed.manifest.table]
    dump_sha256 = str(sealed.manifest.stats.get("dump_sha256", ""))
    return merge.write_sorted(path, _kept(sealed.file(DATA), gone), contract, dump_sha256=dump_sha256)


def _kept(path: Path, gone: set[str]) -> Iterator[pl.DataFrame]:
    with pq.ParquetFile(path) as file:
        for number in range(file.num_row_groups):
            frame = pl.DataFrame(pl.from_arrow(file.read_row_group(number)))
            kept = frame.filter(~pl.col("id").is_in(list(gone))).drop("dump_sha256")
            if kept.height:
                yield kept


def _without(stats: dict[str, Any], count: int) -> dict[str, Any]:
    """Return a ledger in which `count` kept lines were dropped as forgotten."""
    if "kept" not in stats:
        return stats
    dropped = {**stats["dropped"], "forgotten": stats["dropped"].get("forgotten", 0) + count}
    changed: dict[str, Any] = {**stats, "kept": stats["kept"] - count, "dropped": dropped}
    if isinstance(numbers := stats.get("health", {}).get("numbers"), dict):
        numbers = {name: value for name, value in numbers.items() if name != "neighbours"}
        rate = health.share(changed["kept"], numbers["living"])
        changed["health"] = health.judge({**numbers, "pass_rate": rate}, []).as_dict()
    if "rejects" in stats:
        changed.pop("rejects")
        changed["rejects"] = ledger.rejects_name(changed)
    return changed


def rewrite_pinned(partition: Partition, version: str, record: Forgotten) -> int:
    """Take forgotten documents out of a version that somebody pins; it keeps its name. Returns how many went."""
    sealed = partition.at_version(version)
    gone = held(sealed, record)

    def write(path: Path, old: Manifest) -> Manifest:
        rows = _write(path / DATA, sealed, gone)
        data = File(path=DATA, bytes=(path / DATA).stat().st_size, sha256=sha256_file(path / DATA))
        stats = {**old.stats, "forgotten": old.stats.get("forgotten", 0) + len(gone)}
        return old.model_copy(update={"rows": rows, "files": (data,), "stats": stats})

    if gone:
        partition.rewrite(version, write)
    return len(gone)


def clean_rejects(store: Store, partition: Partition, record: Forgotten) -> int:
    """Take forgotten documents out of the rejected lines beside a month; return how many lines went.

    The file gets the name that the current manifest gives it; files of other builds go.
    """
    (month,) = partition.key
    home = store.area("ledgers", partition.table, month)
    manifest = partition.manifest_or_none()
    name = str(manifest.stats.get("rejects", "")) if manifest is not None else ""
    gone = 0
    for path in sorted(home.glob("rejects-*.jsonl.zst")) if home.is_dir() else ():
        lines = zstandard.ZstdDecompressor().stream_reader(path.read_bytes()).read().splitlines(keepends=True)
        kept = [line for line in lines if not record.named_in(_raw(line), partition.table)]
        gone += len(lines) - len(kept)
        target = home / name if name and not (home / name).is_file() else path
        if len(kept) < len(lines) or target != path:
            write_atomic(target, zstandard.ZstdCompressor().compress(b"".join(kept)))
            if target != path:
                path.unlink()
    if name and home.is_dir():
        ledger.keep_only(home, name)
    return gone


def _raw(line: bytes) -> bytes:
    return str(json.loads(line).get("raw", "")).encode("utf-8", "surrogatepass")
