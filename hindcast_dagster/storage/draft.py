"""A draft: a partition that is being written and that nobody can see yet."""

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

from hindcast_dagster import clock
from hindcast_dagster.storage.files import sha256_file, sync_tree
from hindcast_dagster.storage.manifest import Check, File, Input, Manifest, content_version


class Draft:
    """Write data files into `path`, then `seal` once."""

    def __init__(
        self, *, table: str, key: tuple[str, ...], path: Path, publish: Callable[[Path, Manifest, bytes], None]
    ) -> None:
        self.table, self.key, self.path = table, key, path
        self._publish = publish

    def seal(
        self,
        *,
        rows: int,
        schema_version: str,
        code_version: str,
        inputs: Sequence[Input] = (),
        pins: Sequence[Input] = (),
        checks: Sequence[Check] = (),
        stats: dict[str, Any] | None = None,
        identity: dict[str, str] | None = None,
    ) -> Manifest:
        """Publish the draft and return its manifest.

        The version is the hash of the files' content, or of `identity` (named values that determine the content) for
        formats whose file names are not reproducible.
        """
        files = () if identity is not None else self._files()
        parts = {file.path: file.sha256 for file in files} if identity is None else identity
        manifest = Manifest(
            table=self.table,
            key=self.key,
            version=content_version({"": schema_version, **parts}),
            rows=rows,
            schema_version=schema_version,
            code_version=code_version,
            inputs=tuple(sorted(inputs, key=lambda item: (item.table, item.key, item.version))),
            pins=tuple(sorted(pins, key=lambda item: (item.table, item.key, item.version))),
            checks=tuple(checks),
            files=files,
            stats=stats or {},
            made_at=clock.now(),
        )
        data = manifest.to_json()
        (self.path / "manifest.json").write_bytes(data)
        sync_tree(self.path)
        self._publish(self.path, manifest, data)
        return manifest

    def _files(self) -> tuple[File, ...]:
        found = sorted(path for path in self.path.rglob("*") if path.is_file())
        return tuple(
            File(path=path.relative_to(self.path).as_posix(), bytes=path.stat().st_size, sha256=sha256_file(path))
            for path in found
        )
