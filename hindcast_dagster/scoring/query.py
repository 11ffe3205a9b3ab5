"""SQL over the sealed tables: every table is a view, and nothing else can be reached.

A query comes from a person or a program and is not trusted: one SELECT only, in a DuckDB that may open exactly the
Parquet files behind the views, cannot load extensions and cannot change its own settings.
"""

import math
import re
from collections.abc import Sequence
from datetime import date, datetime, time
from decimal import Decimal
from pathlib import Path
from typing import Any, Final, NamedTuple

from hindcast_dagster.errors import InputRefused, UsageError
from hindcast_dagster.scoring.sql_errors import sentence
from hindcast_dagster.storage.store import NotSealed, Sealed, Store

DATA: Final = "data"
CONFIG: Final = {
    "autoinstall_known_extensions": "false",
    "autoload_known_extensions": "false",
    "python_enable_replacements": "false",  # else `from x` reads the caller's Python variables
}

Part = tuple[Sealed, str]
"""A partition, and the name of one of its Parquet files."""

_TIMES: Final = (date, datetime, time)


class Answer(NamedTuple):
    """The result of a query: plain JSON values, at most as many rows as asked for."""

    columns: list[str]
    rows: list[tuple[Any, ...]]
    truncated: bool

    def document(self) -> dict[str, Any]:
        """Return the answer as one JSON object; rows are objects by column name (a repeated name keeps its last)."""
        rows = [dict(zip(self.columns, row, strict=True)) for row in self.rows]
        return {"columns": self.columns, "rows": rows, "truncated": self.truncated}


def run(store: Store, query: str, *, limit: int = 200) -> Answer:
    """Run one SELECT over the views.

    Raises `UsageError` for anything else and for what DuckDB refuses, `NotSealed` or `InputRefused` when the query
    names a table of which a file is missing or was changed: a view never leaves out a partition silently.
    """
    import duckdb

    found = views(store, query)
    with duckdb.connect(":memory:", config=dict(CONFIG)) as connection:
        try:
            _refuse_other_statements(duckdb.extract_statements(query))
            _make_views(connection, {name: parts for name, parts in found.items() if _whole(name, parts, query)})
            answered = connection.execute(query)
            columns = [column[0] for column in answered.description or []]
            rows = answered.fetchmany(limit + 1)
        except duckdb.Error as error:
            raise UsageError(sentence(str(error), views=found)) from error
    kept = [tuple(_plain(value) for value in row) for row in rows[:limit]]
    return Answer(columns, kept, truncated=len(rows) > limit)


def _refuse_other_statements(statements: Sequence[Any]) -> None:
    if len(statements) != 1 or statements[0].type.name != "SELECT":
        found = ", ".join(each.type.name for each in statements) or "nothing"
        raise UsageError(f"`hindcast sql` runs exactly one SELECT; found {found}.")


def _whole(name: str, parts: list[Part], query: str) -> bool:
    """Tell whether every file of a view is there; raise what is wrong with them when the query names the view."""
    if _names(query, re.escape(name)):
        for sealed, file in parts:
            sealed.file(file)
    return all((sealed.path / file).exists() for sealed, file in parts)


def _make_views(connection: Any, found: dict[str, list[Part]]) -> None:
    allowed: list[str] = []
    for name, parts in sorted(found.items()):
        paths = [str(sealed.path / file) for sealed, file in parts]
        selects = [
            f"SELECT {_keys(sealed)} * FROM read_parquet({_text(path)})"  # noqa: S608 - quoted by _text, own paths
            for (sealed, _), path in zip(parts, paths, strict=True)
        ]
        connection.execute(f"CREATE VIEW {_name(name)} AS {' UNION ALL BY NAME '.join(selects)}")
        allowed.extend(paths)
    connection.execute(f"SET allowed_paths = [{', '.join(map(_text, allowed))}]")
    connection.execute("SET enable_external_access = false")
    connection.execute("SET lock_configuration = true")


def views(store: Store, query: str) -> dict[str, list[Part]]:
    """Return what each view reads: `<table>` for its rows, `<table>_<file>` for further files of its partitions.

    A table with a manifest that cannot be read is left out as a whole; raises when the query names it.
    """
    found: dict[str, list[Part]] = {}
    for table in store.tables():
        try:
            parts = [_files(store.partition(table, *key).require()) for key in store.sealed_keys(table)]
        except (NotSealed, InputRefused):
            if _names(query, rf"{re.escape(table)}(?:_\w+)?"):
                raise
            continue
        for sealed, files in parts:
            for path in files:
                name = table if path.stem == DATA else f"{table}_{path.stem}"
                found.setdefault(name, []).append((sealed, str(path)))
    return found


def _files(sealed: Sealed) -> tuple[Sealed, list[Path]]:
    """Return a partition with the names of its own Parquet files."""
    paths = [Path(file.path) for file in sealed.manifest.files]
    return sealed, [path for path in paths if path.suffix == ".parquet" and len(path.parts) == 1]


def _names(query: str, pattern: str) -> bool:
    """Return whether a query names a view. One that computes names, or reads files by theirs, may name any."""
    return re.search(rf"\b{pattern}\b|\bquery(?:_table)?\s*\(|parquet", query, re.IGNORECASE) is not None


def _keys(sealed: Sealed) -> str:
    return "".join(f"{_text(part)} AS key_{n}, " for n, part in enumerate(sealed.manifest.key, start=1))


def _text(value: object) -> str:
    """Quote a value as an SQL string."""
    return "'" + str(value).replace("'", "''") + "'"


def _name(value: str) -> str:
    """Quote a name."""
    return '"' + value.replace('"', '""') + '"'


def _plain(value: Any) -> Any:
    """Return a value that JSON can hold: NaN and infinities become null, dates ISO text, bytes hex."""
    if isinstance(value, float | Decimal):
        return float(value) if math.isfinite(value) else None
    if isinstance(value, list | tuple):
        return [_plain(each) for each in value]
    if isinstance(value, dict):
        return {str(key): _plain(each) for key, each in value.items()}
    if value is None or isinstance(value, bool | int | str):
        return value
    return value.hex() if isinstance(value, bytes) else value.isoformat() if isinstance(value, _TIMES) else str(value)
