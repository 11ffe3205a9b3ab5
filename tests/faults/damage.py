"""Damage to files at rest: what is hit, how, which stage reads it, and what the error's remedy comes to."""

import random
import re
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Final, NamedTuple

from tests.faults.stages import Stage

INDEXES: Final = ("submission_index", "comment_index")
SHORT: Final = 200


class Kind(NamedTuple):
    """One kind of damage. `before`: it hits what the stage reads; else what an earlier run of the stage has left."""

    name: str
    hit: Callable[[Path, str, random.Random], bool]
    tables: Callable[[Stage], tuple[str, ...]]
    before: bool = True
    subtle: bool = False
    """It depends on where it hits: worth more than one seed."""
    leaves_out: bool = False
    """Something is not there, rather than wrong."""
    remedy: Callable[[Path, str], None] = lambda _root, _said: None

    def first(self, stage: Stage, table: str) -> str:
        """Return the stage or table from which on things are made again."""
        return table if table in stage.reads else stage.name


def manifest_cut(root: Path, table: str, rng: random.Random) -> bool:
    """Truncate the manifest of one partition."""
    return _cut(_one(_manifests(root, table), rng), rng)


def partition_gone(root: Path, table: str, rng: random.Random) -> bool:
    """Remove one partition, or only its manifest, or only its data."""
    manifest = _one(_manifests(root, table), rng)
    versions = list(manifest.parent.glob("v-*"))
    for path in rng.choice(([manifest.parent], [manifest], versions)):
        shutil.rmtree(path) if path.is_dir() else path.unlink()
    return True


def parquet_flipped(root: Path, table: str, rng: random.Random) -> bool:
    """Flip bits of one byte of one Parquet file."""
    return _flip(_one(_files(root, table, "*.parquet"), rng), rng)


def parquet_cut(root: Path, table: str, rng: random.Random) -> bool:
    """Truncate one Parquet file."""
    return _cut(_one(_files(root, table, "*.parquet"), rng), rng)


def index_damaged(root: Path, table: str, rng: random.Random) -> bool:
    """Flip a byte of, truncate or remove one file of an archive month: LanceDB's, a column's or a vector file."""
    folder = rng.choice([path for path in root.glob(f"tables/{table}/*/v-*/*") if path.is_dir()])
    path = _one([each for each in folder.rglob("*") if each.is_file()], rng)
    how = rng.choice((_flip, _flip, _cut, lambda found, _rng: found.unlink() is None))
    return bool(how(path, rng))


def journal_cut(root: Path, table: str, rng: random.Random) -> bool:
    """Truncate one finished unit of a journal, and take the sealed table away so that the journal is read."""
    shutil.rmtree(root / "tables" / table)
    return _cut(_one(sorted((root / "journal" / table).rglob("*.json")), rng), rng)


def journal_read_cut(root: Path, table: str, rng: random.Random) -> bool:
    """Truncate one finished unit of a journal that the stage reads."""
    return _cut(_one(sorted((root / "journal" / table).rglob("*.json")), rng), rng)


def raw_damaged(root: Path, _table: str, rng: random.Random) -> bool:
    """Truncate or flip a stored answer of the market APIs, and take the tables away so that it is read."""
    for table in ("markets", "market_prices"):
        shutil.rmtree(root / "tables" / table)
    path = _one(sorted(each for each in (root / "raw").rglob("*.zst") if each.stat().st_size), rng)
    return rng.choice((_cut, _flip))(path, rng)


def dump_damaged(root: Path, table: str, rng: random.Random) -> bool:
    """Truncate or flip a dump."""
    prefix = "RS" if table == "submissions" else "RC"
    path = _one(sorted((root / "dumps").glob(f"{prefix}_*.zst")), rng)
    shutil.copy(path, path.with_name("good"))
    return rng.choice((_cut, _flip))(path, rng)


def restore_dump(root: Path, _said: str) -> None:
    """Put the dump back, as one fetches it again."""
    for path in (root / "dumps").glob("*.zst"):
        if (root / "dumps" / "good").is_file() and str(path) in _said:
            (root / "dumps" / "good").replace(path)


def delete_named(root: Path, said: str) -> None:
    """Do what the error says: delete the file that it names."""
    for found in re.findall(rf"{re.escape(str(root))}\S+?\.(?:json|zst|log)\b", said):
        Path(found).unlink(missing_ok=True)


def _manifests(root: Path, table: str) -> list[Path]:
    return sorted(p for p in root.glob(f"tables/{table}/**/manifest.json") if not p.parent.name.startswith("v-"))


def _files(root: Path, table: str, pattern: str) -> list[Path]:
    return sorted(root.glob(f"tables/{table}/**/v-*/{pattern}"))


def _one(paths: list[Path], rng: random.Random) -> Path:
    return rng.choice(paths)


def _cut(path: Path, rng: random.Random) -> bool:
    data = path.read_bytes()
    path.write_bytes(data[: rng.randrange(len(data))] if data else b"")
    return bool(data)


def _flip(path: Path, rng: random.Random) -> bool:
    data = bytearray(path.read_bytes())
    if data:
        data[rng.randrange(len(data))] ^= rng.randrange(1, 256)
        path.write_bytes(data)
    return bool(data)


def _parquet(stage: Stage) -> tuple[str, ...]:
    return tuple(table for table in stage.reads if table not in INDEXES)


def _indexes(stage: Stage) -> tuple[str, ...]:
    return tuple(table for table in stage.reads if table in INDEXES)


def _own_parquet(stage: Stage) -> tuple[str, ...]:
    return tuple(table for table in stage.seals if table not in {*INDEXES, "report"})


def _own_indexes(stage: Stage) -> tuple[str, ...]:
    return tuple(table for table in stage.seals if table in INDEXES)


def _named(**by_stage: tuple[str, ...]) -> Callable[[Stage], tuple[str, ...]]:
    return lambda stage: by_stage.get(stage.name, ())


_JOURNALS: Final = ("market_baseline", "zero_shot_forecasts", "retrieval_forecasts")

KINDS: Final = (
    Kind("truncated manifest", manifest_cut, lambda stage: stage.reads),
    Kind("missing partition", partition_gone, lambda stage: stage.reads, leaves_out=True),
    Kind("own manifest truncated, made again", manifest_cut, lambda stage: stage.seals, before=False),
    Kind("own partition lost, made again", partition_gone, lambda stage: stage.seals, before=False),
    Kind("own Parquet flipped, made again", parquet_flipped, _own_parquet, before=False),
    Kind("own archive file damaged, made again", index_damaged, _own_indexes, before=False, subtle=True),
    Kind("corrupt Parquet: a byte flipped", parquet_flipped, _parquet, subtle=True),
    Kind("corrupt Parquet: truncated", parquet_cut, _parquet),
    Kind("corrupt archive file (LanceDB, column, vector)", index_damaged, _indexes, subtle=True),
    Kind(
        "truncated journal, found when resuming",
        journal_cut,
        _named(coverage=("coverage_probe",), forecasts=_JOURNALS),
        before=False,
        subtle=True,
        remedy=delete_named,
    ),
    Kind(
        "truncated journal, read",
        journal_read_cut,
        _named(audit=_JOURNALS, report=_JOURNALS),
        remedy=delete_named,
    ),
    Kind("corrupt raw log", raw_damaged, _named(markets=("raw",)), before=False, subtle=True, remedy=delete_named),
    Kind("corrupt dump", dump_damaged, _named(corpus=("submissions", "comments")), subtle=True, remedy=restore_dump),
)
