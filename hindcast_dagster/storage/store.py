"""The store: every path from one root, and the partitions that lie in it.

`Store` is what the library and the assets talk to. Today its root is a local directory; an object store joins by
answering the same methods (data first, manifest last), which is why no caller ever builds a path below a partition.
"""

import contextlib
import shutil
import time
import uuid
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Final, Literal

from filelock import FileLock

from hindcast_dagster import keys
from hindcast_dagster.errors import InputRefused, NotReady, UsageError
from hindcast_dagster.storage.draft import Draft
from hindcast_dagster.storage.files import clear_errors, sha256_file, sync_directory, write_atomic
from hindcast_dagster.storage.manifest import Input, Manifest, parse_manifest

Area = Literal["dumps", "raw", "journal", "work", "reports", "exports", "ledgers"]
ABANDONED_AFTER_S: Final = 24 * 3600  # a draft this old belongs to a process that was killed


class NotSealed(NotReady):
    """A partition that is needed has not been made."""


def open_store(root: str | Path) -> "Store":
    """Open the store at a local path, which need not exist yet. Raises `UsageError` for anything else (s3://...)."""
    text = str(root)
    if "://" in text:
        raise UsageError(f"--data-root {text}: only a local path is supported so far.")
    if not text or "\x00" in text:
        raise UsageError("--data-root is empty or holds a NUL byte.")
    return Store(Path(text).expanduser().absolute())


class Store:
    """A local root. Creating one touches nothing on disk."""

    def __init__(self, root: Path) -> None:
        self.root = root

    def area(self, area: Area, *parts: str) -> Path:
        """Return a path in one of the areas that hold no partitions. `parts` are checked names, not paths."""
        for part in parts:
            if not part or part in {".", ".."} or any(ch in part for ch in "/\\\x00"):
                raise UsageError(f"{part!r} cannot be part of a path.")
        return self.root.joinpath(area, *parts)

    def partition(self, table: str, *key: str) -> "Partition":
        """Return the handle of one partition; it need not exist. Raises `UsageError` for an unusable key."""
        return Partition(
            self, keys.slug(table, what="table"), tuple(keys.slug(part, what="partition key") for part in key)
        )

    def sealed_keys(self, table: str) -> list[tuple[str, ...]]:
        """Return the keys of every sealed partition of a table, sorted."""
        base = self.root / "tables" / keys.slug(table, what="table")
        found = (path.parent.relative_to(base).parts for path in base.rglob("manifest.json"))
        return sorted(key for key in found if not any(part.startswith(("v-", ".")) for part in key))

    def tables(self) -> list[str]:
        """Return the names of all tables that hold anything."""
        base = self.root / "tables"
        return sorted(path.name for path in base.iterdir() if path.is_dir()) if base.is_dir() else []

    def manifests(self, table: str) -> Iterator[Manifest]:
        """Yield the manifest of every sealed partition of a table, in key order."""
        for key in self.sealed_keys(table):
            manifest = self.partition(table, *key).manifest()
            if manifest is not None:
                yield manifest

    def pinned(self, table: str, key: tuple[str, ...]) -> set[str]:
        """Return the versions of a partition that some sealed partition pins (eval sets pin archives and markets)."""
        return {
            pin.version
            for name in self.tables()
            for manifest in self.manifests(name)
            for pin in manifest.pins
            if pin.table == table and pin.key == key
        }


class Partition:
    """One partition of one table: a directory with a manifest and the version that it names."""

    def __init__(self, store: Store, table: str, key: tuple[str, ...]) -> None:
        self.store, self.table, self.key = store, table, key
        self.path = store.root.joinpath("tables", table, *key)

    @property
    def name(self) -> str:
        """Table and key as a person reads them."""
        return f"{self.table} {' / '.join(self.key)}"

    def manifest(self) -> Manifest | None:
        """Return the manifest, or None when the partition is not sealed. Raises `InputRefused` for a broken one."""
        path = self.path / "manifest.json"
        try:
            data = path.read_bytes()
        except FileNotFoundError:
            return None
        return parse_manifest(data, where=str(path))

    def require(self, *, made_by: str = "") -> "Sealed":
        """Return the sealed partition; raise `NotSealed` naming it, and the command that makes it, otherwise."""
        manifest = self.manifest()
        if manifest is None:
            remedy = f": make it with `{made_by}`" if made_by else ""
            raise NotSealed(f"{self.name} is not sealed in {self.store.root}{remedy}.")
        return self._sealed(manifest)

    def at_version(self, version: str) -> "Sealed":
        """Return a pinned version, which may be older than the current one. Raises `NotSealed` when it is gone."""
        manifest = self.manifest()
        if manifest is not None and manifest.version == version:
            return self._sealed(manifest)
        path = self._directory(version) / "manifest.json"
        if not path.is_file():
            raise NotSealed(f"{self.name} at version {version[:12]} is no longer in {self.store.root}; rebuild it.")
        return self._sealed(parse_manifest(path.read_bytes(), where=str(path)))

    def _sealed(self, manifest: Manifest) -> "Sealed":
        path = self._directory(manifest.version)
        if not path.is_dir():
            raise NotSealed(f"{self.name}: its data ({path}) is missing although the manifest is there; rebuild it.")
        return Sealed(manifest, path)

    def _directory(self, version: str) -> Path:
        return self.path / f"v-{version[:32]}"

    @contextlib.contextmanager
    def draft(self) -> Iterator[Draft]:
        """Open a draft: write files into `draft.path`, then call `draft.seal(...)`.

        Sealing is atomic: until its last rename readers see the older partition, or none. Leaving without sealing, by
        an error or on purpose, removes the draft. A version with the same content that is already there is kept.
        """
        with clear_errors(self.path):
            self.path.mkdir(parents=True, exist_ok=True)
            self._sweep()
            path = self.path / f".draft-{uuid.uuid4().hex}"
            path.mkdir()
            draft = Draft(table=self.table, key=self.key, path=path, publish=self._publish)
            try:
                yield draft
            finally:
                shutil.rmtree(path, ignore_errors=True)

    def _publish(self, draft: Path, manifest: Manifest, data: bytes) -> None:
        """Move the draft to its version directory, then name it in the manifest. One publisher at a time."""
        with FileLock(self.path / ".lock"):
            home = self._directory(manifest.version)
            previous = self.manifest_or_none()
            if home.is_dir() and _intact(home, manifest):
                write_atomic(home / "manifest.json", data)
            else:
                if home.is_dir():  # damaged after it was sealed: this build repairs it
                    home.rename(self.path / f".draft-{uuid.uuid4().hex}")
                draft.rename(home)
                sync_directory(self.path)
            write_atomic(self.path / "manifest.json", data)
            kept = {manifest.version} | ({previous.version} if previous else set())
            self.prune(keep=kept)

    def manifest_or_none(self) -> Manifest | None:
        """Return the manifest, or None when there is none or it is broken (a rebuild repairs it)."""
        try:
            return self.manifest()
        except InputRefused:
            return None

    def prune(self, *, keep: Iterable[str], dry_run: bool = False) -> list[Path]:
        """Remove versions that are neither in `keep` nor pinned, so that rebuilds do not grow the disk; return them.

        With `dry_run` they are only returned.

        The version before the current one stays until the next rebuild, for readers that still hold it.
        """
        wanted = {self._directory(version).name for version in {*keep, *self.store.pinned(self.table, self.key)}}
        gone = [path for path in sorted(self.path.glob("v-*")) if path.is_dir() and path.name not in wanted]
        for path in () if dry_run else gone:
            shutil.rmtree(path, ignore_errors=True)
        return gone

    def discard(self, version: str) -> None:
        """Remove a damaged version, so that the next draft with that content is written anew."""
        with FileLock(self.path / ".lock"):
            shutil.rmtree(self._directory(version), ignore_errors=True)

    def _sweep(self) -> None:
        for path in self.path.glob(".draft-*"):
            with contextlib.suppress(FileNotFoundError):
                if time.time() - path.stat().st_mtime > ABANDONED_AFTER_S:
                    shutil.rmtree(path, ignore_errors=True)


def _intact(home: Path, manifest: Manifest) -> bool:
    """Return whether the files of a version are what its manifest says (True where it lists none)."""
    return all((home / file.path).is_file() and sha256_file(home / file.path) == file.sha256 for file in manifest.files)


class Sealed:
    """A sealed partition version: immutable."""

    def __init__(self, manifest: Manifest, path: Path) -> None:
        self.manifest, self.path = manifest, path

    @property
    def as_input(self) -> Input:
        """This version as an input or a pin of another partition."""
        return self.manifest.as_input

    def file(self, name: str) -> Path:
        """Return the path of one data file; raise `NotSealed` when it is missing."""
        path = self.path / name
        if not path.exists():
            raise NotSealed(
                f"{self.manifest.table} {' / '.join(self.manifest.key)} has lost its file {name}; rebuild it."
            )
        return path
