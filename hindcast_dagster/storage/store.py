"""The store: every path from one root, and the partitions that lie in it.

`Store` is what the library and the assets talk to. Today its root is a local directory; an object store joins by
answering the same methods (data first, manifest last), which is why no caller ever builds a path below a partition.
"""

import contextlib
import os
import re
import shutil
import uuid
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from typing import Final, Literal

from filelock import FileLock

from hindcast_dagster import keys
from hindcast_dagster.errors import InputRefused, NotReady, UsageError
from hindcast_dagster.storage.draft import Draft
from hindcast_dagster.storage.files import (
    clear_errors,
    is_unchanged,
    remove_tree,
    sha256_file,
    sync_directory,
    sync_tree,
    write_atomic,
)
from hindcast_dagster.storage.lease import Lease, remove_unless_held
from hindcast_dagster.storage.manifest import Input, Manifest, parse_manifest

Area = Literal["dumps", "raw", "journal", "work", "reports", "exports", "ledgers", "forgotten", "benchmarks"]
_VERSION: Final = re.compile(r"v-[0-9a-f]{32}")
"""The directory of one version. Anything else below a table may be a key: an eval set may be called v-next."""


class NotSealed(NotReady):
    """A partition that is needed has not been made."""


_PATTERN: Final = re.compile(r"[*?\[\]{}]")
"""Polars and DuckDB take a path with one of these for many files, and might read another root's."""


def open_store(root: str | Path) -> "Store":
    """Open the store at a local path, which need not exist yet. Raises `UsageError` for anything else (s3://...)."""
    text = str(root)
    if "://" in text:
        raise UsageError(f"--data-root {text}: only a local path is supported so far.")
    if not text or "\x00" in text:
        raise UsageError("--data-root is empty or holds a NUL byte.")
    path = Path(text).expanduser().absolute()
    if found := _PATTERN.search(str(path)):
        raise UsageError(f"--data-root {path}: the readers of tables take {found.group()} for a pattern; rename it.")
    return Store(path)


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
        for part in key:
            if _VERSION.fullmatch(keys.slug(part, what="partition key")):
                raise UsageError(f"{part!r} looks like the version of a partition: choose another name.")
        return Partition(self, keys.slug(table, what="table"), key)

    def sealed_keys(self, table: str) -> list[tuple[str, ...]]:
        """Return the keys of every sealed partition of a table, sorted. Never enters a version: one may be going."""
        base = self.root / "tables" / keys.slug(table, what="table")
        found = []
        for folder, inside, files in os.walk(base):
            inside[:] = [name for name in inside if not name.startswith(".") and not _VERSION.fullmatch(name)]
            if "manifest.json" in files:
                found.append(Path(folder).relative_to(base).parts)
        return sorted(found)

    def begun_keys(self, table: str) -> list[str]:
        """Return the one-part keys under which anything of a table lies, sealed or not, sorted."""
        base = self.root / "tables" / keys.slug(table, what="table")
        return sorted(path.name for path in base.iterdir() if path.is_dir()) if base.is_dir() else []

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
            for each in self.sealed_keys(name)
            for pin in self.partition(name, *each).pins()
            if pin.table == table and pin.key == key
        }


class Blocked(InputRefused):
    """A partition is sealed and a check that it must pass failed: nothing may be made from it."""


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
        """Return the sealed partition for making something from it.

        Raises `NotSealed` naming it and the command that makes it, and `Blocked` when it failed a blocking check: this
        is the gate, whoever starts what and in which order.
        """
        sealed = self.look(made_by=made_by)
        if (failed := sealed.manifest.blocked) is not None:
            raise Blocked(f"{self.name} failed its check {failed.name} ({failed.detail}): nothing is made from it.")
        return sealed

    def look(self, *, made_by: str = "") -> "Sealed":
        """Return the sealed partition for looking at it, also one that failed a check. Raises `NotSealed`."""
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
            path = self.path / f".draft-{uuid.uuid4().hex}"
            with FileLock(self.path / ".lock"):  # nobody sweeps between a draft's creation and its lease
                self._sweep()
                path.mkdir()
                lease = Lease(path)
            draft = Draft(table=self.table, key=self.key, path=path, publish=self._publish)
            try:
                with clear_errors(path):  # as long as the draft fills the disk
                    yield draft
            finally:
                del lease
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

    def intact(self) -> Manifest | None:
        """Return the manifest when the partition is sealed and each file that it lists is as it was sealed, else None.

        What builds a partition asks here before it leaves one as it is: a damaged one has to be made again.
        """
        manifest = self.manifest_or_none()
        return manifest if manifest is not None and _intact(self._directory(manifest.version), manifest) else None

    def mended(self) -> Manifest | None:
        """Return the manifest; a broken one is first put back from its copy beside the data, if there is just one."""
        try:
            return self.manifest()
        except InputRefused:
            copies = sorted(self.path.glob("v-*/manifest.json"))
            if len(copies) != 1:
                raise
            data = copies[0].read_bytes()
            manifest = parse_manifest(data, where=str(copies[0]))
            write_atomic(self.path / "manifest.json", data)
            return manifest

    def manifest_or_none(self) -> Manifest | None:
        """Return the manifest, or None when there is none or it is broken (a rebuild repairs it)."""
        try:
            return self.manifest()
        except InputRefused:
            return None

    def prune(self, *, keep: Iterable[str], dry_run: bool = False) -> list[Path]:
        """Remove versions that are neither in `keep` nor pinned, so that rebuilds do not grow the disk; return them.

        With `dry_run` they are only returned. One that a reader holds (see `lease`) stays until the next call.

        The version before the current one stays until the next rebuild, for readers that are about to open it.
        """
        wanted = {self._directory(version).name for version in {*keep, *self.store.pinned(self.table, self.key)}}
        gone = [path for path in sorted(self.path.glob("v-*")) if path.is_dir() and path.name not in wanted]
        return gone if dry_run else [path for path in gone if remove_unless_held(path)]

    def discard(self, version: str) -> None:
        """Remove a damaged version, so that the next draft with that content is written anew."""
        with FileLock(self.path / ".lock"):
            shutil.rmtree(self._directory(version), ignore_errors=True)

    def pins(self) -> tuple[Input, ...]:
        """Return what the partition pins; where its manifest is broken, what any version on disk pins: never less."""
        manifest = self.manifest_or_none()
        if manifest is not None:
            return manifest.pins
        found: list[Input] = []
        for path in self.path.glob("v-*/manifest.json"):
            with contextlib.suppress(InputRefused):
                found += parse_manifest(path.read_bytes(), where=str(path)).pins
        return tuple(found)

    def versions(self) -> list[str]:
        """Return the first 32 digits of every version that lies on disk, sorted."""
        return sorted(path.name.removeprefix("v-") for path in self.path.glob("v-*") if path.is_dir())

    def drop_versions(self, *, keep: Iterable[str]) -> None:
        """Remove each version that is neither in `keep` nor pinned, whoever reads it: for documents that have to go."""
        wanted = {self._directory(version).name for version in {*keep, *self.store.pinned(self.table, self.key)}}
        for path in self.path.glob("v-*"):
            if path.name not in wanted:
                remove_tree(path)

    def rewrite(self, version: str, write: Callable[[Path, Manifest], Manifest]) -> None:
        """Replace the content of a version and keep its name, for a document that has to go while somebody pins it.

        This is the one exception to "a version never changes". `write` gets an empty folder and the manifest, fills the
        one and returns the other with what has changed. Killed half-way, the next call (or `settle`) ends it.
        """
        with FileLock(self.path / ".lock"):
            self._settle()
            home = self._directory(version)
            manifest = parse_manifest((home / "manifest.json").read_bytes(), where=str(home))
            path = self.path / f".draft-{uuid.uuid4().hex}"
            path.mkdir()
            try:
                changed = write(path, manifest)
                (path / "manifest.json").write_bytes(changed.to_json())
                sync_tree(path)
                path.rename(self.path / f".ready-{home.name}")
            finally:
                shutil.rmtree(path, ignore_errors=True)
            sync_directory(self.path)
            self._settle()

    def settle(self) -> None:
        """End a `rewrite` that was killed between its renames."""
        if any(self.path.glob(".ready-v-*")):
            with FileLock(self.path / ".lock"):
                self._settle()

    def _settle(self) -> None:
        for ready in sorted(self.path.glob(".ready-v-*")):
            home = self.path / ready.name.removeprefix(".ready-")
            if home.is_dir():
                gone = self.path / f".draft-{uuid.uuid4().hex}"
                home.rename(gone)
                ready.rename(home)
                shutil.rmtree(gone, ignore_errors=True)
            else:
                ready.rename(home)
            sync_directory(self.path)
            current = self.manifest_or_none()
            if current is not None and self._directory(current.version) == home:
                write_atomic(self.path / "manifest.json", (home / "manifest.json").read_bytes())

    def unseal(self) -> None:
        """Remove the partition with all its versions. What was made from it stays and names what it was made from."""
        if not self.path.is_dir():
            return
        with FileLock(self.path / ".lock"):
            (self.path / "manifest.json").unlink(missing_ok=True)
            for path in [*self.path.glob("v-*"), *self.path.glob(".draft-*"), *self.path.glob(".ready-*")]:
                remove_tree(path)

    def drop_drafts(self) -> bool:
        """Remove every draft, also a young one (nobody may be writing here); return whether there was any."""
        found = list(self.path.glob(".draft-*"))
        for path in found:
            remove_tree(path)
        return bool(found)

    def _sweep(self) -> None:
        """Remove the drafts of processes that were killed: nobody holds their lease, whatever the clock says."""
        for path in self.path.glob(".draft-*"):
            remove_unless_held(path)


def _intact(home: Path, manifest: Manifest) -> bool:
    """Return whether the files of a version are what its manifest says (True where it lists none)."""
    return home.is_dir() and all(
        (home / file.path).is_file() and sha256_file(home / file.path) == file.sha256 for file in manifest.files
    )


class Sealed:
    """A sealed partition version: immutable."""

    def unforged(self) -> "Sealed":
        """Return this. Raises `InputRefused` when files and manifest were changed together under the old version."""
        if not self.manifest.names_its_files:
            raise InputRefused(f"{self.path} is not what was sealed: its files are not those of its version.")
        return self

    def __init__(self, manifest: Manifest, path: Path) -> None:
        self.manifest, self.path = manifest, path

    @property
    def as_input(self) -> Input:
        """This version as an input or a pin of another partition."""
        return self.manifest.as_input

    def file(self, name: str) -> Path:
        """Return the path of one data file, whose content is what was sealed: formats do not notice every wrong byte.

        Raises `NotSealed` when it is missing and `InputRefused` when it was changed.
        """
        path = self.path / name
        if not path.exists():
            raise NotSealed(
                f"{self.manifest.table} {' / '.join(self.manifest.key)} has lost its file {name}; rebuild it."
            )
        for listed in self.manifest.files:
            if listed.path == name and not is_unchanged(path, listed.sha256):
                raise InputRefused(f"{path} cannot be read (it is not what was sealed): rebuild that partition.")
        return path
