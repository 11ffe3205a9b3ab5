"""What every asset does around its call of the library: checks, metadata, the link to the paper."""

import base64
import time
from collections.abc import Sequence
from typing import Any, Final

import dagster as dg
import pyarrow as pa

from hindcast_dagster.contracts.table import Contract
from hindcast_dagster.contracts.words import describe
from hindcast_dagster.operation import drift
from hindcast_dagster.settings import Settings
from hindcast_dagster.storage import timings
from hindcast_dagster.storage.manifest import Manifest
from hindcast_dagster.storage.store import Store
from hindcast_dagster.storage.tables import DATA

OWNERS: Final = ["team:hindcast"]
CONTRACT_CHECK: Final = "contract"
WATCH_CHECK: Final = "watch"
_SCALAR: Final = (str, int, float)  # bool is an int
_SMALL: Final = 40  # rows of a table that is shown as metadata; the event log keeps them for ever


def column_schema(contract: Contract, *, without: Sequence[str] = ()) -> dg.TableSchema:
    """Return a contract's columns as Dagster shows them."""
    return dg.TableSchema(columns=[_column(field, contract) for field in contract.schema if field.name not in without])


def _column(field: pa.Field, contract: Contract) -> dg.TableColumn:
    constraints = dg.TableColumnConstraints(nullable=field.nullable, unique=(field.name,) == contract.primary_key)
    said = describe(contract.name, field.name) or None
    return dg.TableColumn(name=field.name, type=str(field.type), description=said, constraints=constraints)


def contract_spec(asset: str) -> dg.AssetCheckSpec:
    """Return the blocking check that every table carries: its expectation suite."""
    return dg.AssetCheckSpec(
        name=CONTRACT_CHECK, asset=asset, blocking=True, description="The expectation suite of the table's contract."
    )


def contract_result(store: Store, manifest: Manifest, contract: Contract) -> dg.AssetCheckResult:
    """Run the suite over the sealed partition that was just made (not over other partitions of the asset)."""
    import polars as pl

    from hindcast_dagster.contracts.suites import run_suite

    sealed = store.partition(manifest.table, *manifest.key).look()
    verdicts = run_suite(contract, pl.scan_parquet(sealed.file(DATA)))
    failed = [verdict for verdict in verdicts if not verdict.passed]
    records = [dg.TableRecord({"expectation": v.name, "passed": v.passed, "detail": v.detail}) for v in verdicts]
    where = " / ".join(manifest.key)
    said = f"{len(verdicts) - len(failed)} of {len(verdicts)} expectations hold for {where}"
    if not verdicts:
        said = f"{where} has the columns and types of its contract, which expects nothing further"
    elif not manifest.rows:
        said += ", which has no rows"
    return dg.AssetCheckResult(
        check_name=CONTRACT_CHECK,
        passed=not failed,
        description=f"{said}; broken: {', '.join(v.name for v in failed)}." if failed else f"{said}.",
        metadata={"expectations": dg.MetadataValue.table(records)} if records else {},
    )


def watch_spec(asset: str) -> dg.AssetCheckSpec:
    """Return the check that every table with something to watch carries: what is unusual, with what to do about it."""
    said = "Unusual beside its neighbours, stale or incomplete: a warning, with what to do. Stops nothing."
    return dg.AssetCheckSpec(name=WATCH_CHECK, asset=asset, description=said)


def watch_result(store: Store, settings: Settings, manifest: Manifest) -> dg.AssetCheckResult:
    """Look at the partition that was just made; the months beside it count only by the numbers of their manifests."""
    found = drift.of(store, settings, manifest)
    where = " / ".join(manifest.key)
    said = "; ".join(f"{each.what}: {each.found}, expected {each.expected}" for each in found)
    return dg.AssetCheckResult(
        check_name=WATCH_CHECK,
        passed=not found,
        severity=dg.AssetCheckSeverity.WARN,
        description=f"{where}: {said or 'nothing unusual'}.",
        metadata={"findings": rows_table([each._asdict() for each in found])} if found else {},
    )


def sealed_spec(asset: str, name: str, description: str, *, blocking: bool = True) -> dg.AssetCheckSpec:
    """Return a check whose verdict was sealed with the partition: the manifest is the gate, the UI shows it."""
    return dg.AssetCheckSpec(name=name, asset=asset, blocking=blocking, description=description)


def sealed_result(manifest: Manifest, name: str, rows: Sequence[dict[str, Any]] = ()) -> dg.AssetCheckResult:
    """Return the verdict that a manifest holds, with rows that say what to act on."""
    check = next(each for each in manifest.checks if each.name == name)
    table = {"findings": rows_table(rows)} if rows and not check.passed else {}
    return dg.AssetCheckResult(
        check_name=name,
        passed=check.passed,
        description=check.detail,
        severity=dg.AssetCheckSeverity.ERROR,
        metadata=table,
    )


def published(
    store: Store,
    manifest: Manifest,
    *,
    contract: Contract | None = None,
    checks: Sequence[dg.AssetCheckResult] = (),
    settings: Settings | None = None,
    began: float | None = None,
    work: tuple[int, int] | None = None,
    **metadata: Any,
) -> dg.MaterializeResult:
    """Return what Dagster records of a sealed partition: rows, bytes, version, schema, checks, and `metadata`.

    What the manifest counted is shown as it is there: numbers, counts by reason and rows as small tables.
    With `settings` the table is watched (`watch_spec`); `began` (`time.monotonic`) tells how long the stage took, and
    `work` how many forecasts it asked for and how many it found finished.
    """
    path = store.partition(manifest.table, *manifest.key).look().path
    size = sum(file.stat().st_size for file in path.rglob("*") if file.is_file())
    shown: dict[str, Any] = {
        **_counted(manifest.stats),
        "dagster/row_count": manifest.rows,
        "bytes": size,
        "version": manifest.version[:12],
        "sealed_in": dg.MetadataValue.path(str(path)),
        **metadata,
    }
    if began is not None:
        shown["stage_seconds"] = seconds = round(time.monotonic() - began, 2)
        asked, found_finished = work or (None, None)
        timings.add(store, manifest, seconds=seconds, asked=asked, reused=found_finished)
    found = list(checks)
    if settings is not None:
        found.append(watch_result(store, settings, manifest))
    if contract is not None:
        shown["dagster/column_schema"] = column_schema(contract)
        found.append(contract_result(store, manifest, contract))
    return dg.MaterializeResult(metadata=shown, check_results=found, data_version=dg.DataVersion(manifest.version))


def _counted(stats: dict[str, Any]) -> dict[str, Any]:
    """Return what a manifest counted as metadata; what is nested deeper is in the manifest."""
    shown: dict[str, Any] = {}
    for name, value in stats.items():
        if isinstance(value, _SCALAR):
            shown[name] = value
        elif isinstance(value, dict) and value and all(isinstance(each, int | float) for each in value.values()):
            shown[name] = counts_table(value)
        elif isinstance(value, list) and value and all(isinstance(each, dict) for each in value):
            shown[name] = rows_table([{k: v for k, v in each.items() if isinstance(v, _SCALAR)} for each in value])
    return shown


def counts_table(counts: dict[str, Any], *, name: str = "of") -> dg.TableMetadataValue:
    """Return counts by what they are of as a small table, largest first."""
    ordered = sorted(counts.items(), key=lambda item: (-item[1], item[0]))[:_SMALL]
    return dg.MetadataValue.table(
        [dg.TableRecord({name: key, "count": round(value, 4)}) for key, value in ordered],
        schema=dg.TableSchema(columns=[dg.TableColumn(name, "string"), dg.TableColumn("count", "number")]),
    )


def pictures(drawn: dict[str, bytes]) -> dg.MarkdownMetadataValue:
    """Return small PNGs by name as one entry that the UI opens."""
    parts = [
        f"### {name.replace('_', ' ')}\n![{name}](data:image/png;base64,{base64.b64encode(png).decode()})"
        for name, png in drawn.items()
    ]
    return dg.MetadataValue.md("\n\n".join(parts))


def rows_table(rows: Sequence[dict[str, Any]]) -> dg.TableMetadataValue:
    """Return rows of a small table as metadata; floats are rounded for reading."""
    records = [
        dg.TableRecord({key: round(value, 4) if isinstance(value, float) else value for key, value in row.items()})
        for row in rows[:_SMALL]
    ]
    return dg.MetadataValue.table(records, schema=None if records else dg.TableSchema(columns=[]))
