"""Write the dumps of a sample world where the corpus stage looks for them, and never over anything else."""

import json
from collections.abc import Iterable
from hashlib import sha256
from pathlib import Path
from typing import Any, Final

from hindcast_dagster.errors import InputRefused
from hindcast_dagster.sample.world import DumpKind, World
from hindcast_dagster.storage.files import sha256_file, write_atomic
from hindcast_dagster.storage.store import Store

MARKER: Final = "SAMPLE_WORLD.json"
_PREFIX: Final[dict[DumpKind, str]] = {"submissions": "RS", "comments": "RC"}
_WINDOW_LOG: Final = 31  # 2 GiB, as the published monthly files: many readers refuse it, and ours must not
_LEVEL: Final = 3


def write(store: Store, world: World) -> None:
    """Write `RS_YYYY-MM.zst` and `RC_YYYY-MM.zst` of every month into the dumps area, and a marker that names them.

    Files that are there already with the same content are left alone. A file that an older sample world wrote (the
    marker knows its hash) is replaced; any other file of that name is somebody's data: `InputRefused`, nothing written.
    """
    names = {dump_name(kind, month): (kind, month) for kind, month in sorted(world.posts)}
    ours = _hashes(store.area("dumps", MARKER))
    present = {name: sha256_file(path) for name in names if (path := store.area("dumps", name)).is_file()}
    foreign = [name for name, found in present.items() if ours.get(name) != found]
    made = {name: compress(world.lines(kind, month)) for name, (kind, month) in names.items()}
    hashes = {name: sha256(data).hexdigest() for name, data in made.items()}
    for name in foreign:
        if present[name] != hashes[name]:
            raise InputRefused(
                f"{store.area('dumps', name)} is there already and is no part of the sample world: "
                "give the sample world a --data-root of its own."
            )
    for name, data in made.items():
        if present.get(name) != hashes[name]:
            write_atomic(store.area("dumps", name), data)
    _mark(store.area("dumps", MARKER), world, ours | hashes)


def dump_name(kind: DumpKind, month: str) -> str:
    """Return the file name of a dump, as they are published."""
    return f"{_PREFIX[kind]}_{month}.zst"


def compress(lines: Iterable[bytes]) -> bytes:
    """Return lines as one zstd frame with a 2 GiB window, without a content size, with a checksum."""
    import zstandard

    parameters = zstandard.ZstdCompressionParameters.from_level(
        _LEVEL, window_log=_WINDOW_LOG, write_checksum=1, write_content_size=0
    )
    frame = zstandard.ZstdCompressor(compression_params=parameters).compressobj()
    chunks = [frame.compress(line + b"\n") for line in lines]
    return b"".join([*chunks, frame.flush()])


def _hashes(marker: Path) -> dict[str, str]:
    """Return the sha256 of every file that a sample world has written here; empty without a readable marker."""
    try:
        found = json.loads(marker.read_bytes())["files"]
    except (OSError, ValueError, KeyError, TypeError):
        return {}
    return {str(name): str(value) for name, value in found.items()} if isinstance(found, dict) else {}


def _mark(marker: Path, world: World, hashes: dict[str, str]) -> None:
    document: dict[str, Any] = {
        "notice": world.notice,
        "seed": world.seed,
        "months": list(world.months),
        "files": dict(sorted(hashes.items())),
    }
    data = json.dumps(document, indent=1).encode() + b"\n"
    if not marker.is_file() or marker.read_bytes() != data:
        write_atomic(marker, data)
