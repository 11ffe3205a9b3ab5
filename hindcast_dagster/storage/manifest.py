"""The manifest: what a sealed partition is, what it was made from, and what was checked.

A partition is sealed exactly when its manifest exists and is valid. Two builds from identical input give manifests
that are equal apart from `made_at`.
"""

import hashlib
import json
from typing import Any, Final

from pydantic import BaseModel, ConfigDict, Field, ValidationError

from hindcast_dagster.errors import InputRefused
from hindcast_dagster.storage.remedy import remedy

MANIFEST_VERSION: Final = 2
"""1: the first. 2: a check may block (`Check.blocking`); a manifest of version 1 is read as one whose checks do not."""


class Input(BaseModel):
    """One thing that a partition was made from: another partition's version, or a file's sha256."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    table: str
    key: tuple[str, ...]
    version: str


class Check(BaseModel):
    """The verdict of one check at sealing time."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    name: str
    passed: bool
    detail: str = ""
    blocking: bool = Field(default=False, description="A partition that failed it is refused by whatever needs it.")


class File(BaseModel):
    """One data file of a partition, relative to its version directory."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    path: str
    bytes: int
    sha256: str


class Manifest(BaseModel):
    """A sealed partition. `version` names the directory that holds its data and identifies its content."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    manifest_version: int = MANIFEST_VERSION
    table: str
    key: tuple[str, ...]
    version: str
    rows: int = Field(ge=0)
    schema_version: str
    code_version: str
    inputs: tuple[Input, ...] = ()
    pins: tuple[Input, ...] = Field(default=(), description="Partition versions that must outlive a rebuild.")
    checks: tuple[Check, ...] = ()
    files: tuple[File, ...] = Field(default=(), description="Empty where file names are not reproducible (LanceDB).")
    stats: dict[str, Any] = Field(default_factory=dict, description="Ledger, counts, settings: JSON values.")
    made_at: int

    @property
    def blocked(self) -> Check | None:
        """The first blocking check that failed, or None."""
        return next((check for check in self.checks if check.blocking and not check.passed), None)

    @property
    def names_its_files(self) -> bool:
        """The version is the hash of the files that are listed: data and manifest were not changed together.

        Not so for a version that a take-down rewrote under its name, which only months of documents ever are.
        """
        listed = {file.path: file.sha256 for file in self.files}
        return not listed or content_version({"": self.schema_version, **listed}) == self.version

    @property
    def as_input(self) -> Input:
        """This partition as an input or a pin of another."""
        return Input(table=self.table, key=self.key, version=self.version)

    def to_json(self) -> bytes:
        """Return canonical JSON: sorted keys, so that equal manifests are equal bytes."""
        return (json.dumps(self.model_dump(mode="json"), sort_keys=True, indent=1, ensure_ascii=False) + "\n").encode()

    def without_time(self) -> dict[str, Any]:
        """Return everything but `made_at`, for comparing two builds."""
        return self.model_dump(mode="json", exclude={"made_at"})


def parse_manifest(data: bytes, *, where: str) -> Manifest:
    """Read a manifest of this version or an older one.

    Raises `InputRefused` naming the file, and the command that makes the partition again, when it is truncated, foreign
    or of a later version.
    """
    try:
        values = json.loads(data)
        return Manifest.model_validate(_upgraded(values, where) if isinstance(values, dict) else values)
    except (ValueError, ValidationError) as error:
        reason = error.errors()[0]["msg"] if isinstance(error, ValidationError) else str(error)
        raise InputRefused(f"{where} is not a readable manifest ({reason}): {_again(data)}.") from error


def _upgraded(values: dict[str, Any], where: str) -> dict[str, Any]:
    """Return a manifest's values as this version has them."""
    found = values.get("manifest_version")
    if found == 1:  # what version 2 added has a default
        return {**values, "manifest_version": MANIFEST_VERSION}
    if isinstance(found, int) and found > MANIFEST_VERSION:
        raise InputRefused(
            f"{where} has manifest version {found}; this program reads up to {MANIFEST_VERSION}: upgrade it."
        )
    if found != MANIFEST_VERSION:
        raise InputRefused(
            f"{where} has manifest version {found!r}; this program reads 1 to {MANIFEST_VERSION}: "
            f"{_again(json.dumps(values).encode())}."
        )
    return values


def _again(data: bytes) -> str:
    """Return how to make the partition of a manifest again, as far as what is left of it tells."""
    try:
        values = json.loads(data)
        return remedy(str(values["table"]), tuple(str(part) for part in values["key"]))
    except (ValueError, KeyError, TypeError):
        return "rebuild that partition"


def content_version(parts: dict[str, str]) -> str:
    """Return the content hash of named parts (file path or logical name -> sha256 or value), order-independent."""
    text = json.dumps(parts, sort_keys=True, ensure_ascii=False)
    return hashlib.sha256(text.encode()).hexdigest()
