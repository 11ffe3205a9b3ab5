"""Parquet tables inside partitions, held against their contract on the way in and on the way out."""

from collections.abc import Sequence
from typing import Any, Final

import polars as pl

from hindcast_dagster.contracts.table import Contract
from hindcast_dagster.errors import InputRefused
from hindcast_dagster.storage.draft import Draft
from hindcast_dagster.storage.files import sha256_file
from hindcast_dagster.storage.manifest import Check, Input, Manifest
from hindcast_dagster.storage.store import Partition, Sealed

DATA: Final = "data.parquet"
ROW_GROUP: Final = 50_000


def write_table(draft: Draft, frame: pl.DataFrame, contract: Contract, *, name: str = DATA) -> None:
    """Check `frame` and write it into a draft as zstd Parquet. Raises `ContractBroken`."""
    contract.check(frame).write_parquet(
        draft.path / name, compression="zstd", row_group_size=ROW_GROUP, statistics=True
    )


def publish_table(
    partition: Partition,
    frame: pl.DataFrame,
    contract: Contract,
    *,
    code_version: str,
    inputs: Sequence[Input] = (),
    pins: Sequence[Input] = (),
    checks: Sequence[Check] = (),
    stats: dict[str, Any] | None = None,
) -> Manifest:
    """Seal a partition that is one table."""
    with partition.draft() as draft:
        write_table(draft, frame, contract)
        return draft.seal(
            rows=frame.height,
            schema_version=contract.schema_version,
            code_version=code_version,
            inputs=inputs,
            pins=pins,
            checks=checks,
            stats=stats,
        )


def restore_table(partition: Partition, frame: pl.DataFrame, contract: Contract, *, manifest: Manifest) -> Manifest:
    """Put the lost or damaged data of an immutable partition back under its old manifest, with `made_at` of now.

    Raises `InputRefused` when `frame` is not, byte for byte, what had been sealed: then it is gone.
    """
    with partition.draft() as draft:
        write_table(draft, frame, contract)
        if {file.sha256 for file in manifest.files} != {sha256_file(draft.path / DATA)}:
            raise InputRefused(
                f"{partition.name} has lost its data, and what it was made from has changed since: restore "
                f"{partition.path} from a copy, or take another name."
            )
        return draft.seal(
            rows=manifest.rows,
            schema_version=manifest.schema_version,
            code_version=manifest.code_version,
            inputs=manifest.inputs,
            pins=manifest.pins,
            checks=manifest.checks,
            stats=manifest.stats,
        )


def scan_table(sealed: Sealed, contract: Contract, *, name: str = DATA) -> pl.LazyFrame:
    """Return a lazy scan of a sealed table. Raises `InputRefused` when it has another contract version."""
    found = sealed.manifest.schema_version
    if name == DATA and found != contract.schema_version:
        raise InputRefused(f"{sealed.path} holds {found}, this program reads {contract.schema_version}: rebuild it.")
    return pl.scan_parquet(sealed.file(name))


def read_table(sealed: Sealed, contract: Contract, *, name: str = DATA) -> pl.DataFrame:
    """Read a sealed table whole and check it. Raises `InputRefused` for a corrupt file or a broken contract."""
    lazy = scan_table(sealed, contract, name=name)
    try:
        frame = lazy.collect()
    except (pl.exceptions.PolarsError, OSError) as error:
        raise InputRefused(f"{sealed.path / name} cannot be read ({error}): rebuild that partition.") from error
    return contract.check(frame)
