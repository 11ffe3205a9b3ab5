"""The release bundle: what may be published so that others can check and regenerate the numbers.

Identifiers, instants, prices, forecasts, scores, manifests and commands. Columns are listed by name, so that a new
column of a contract is not published by accident; no post text, no author handle, no rationale and no market text.
"""

import hashlib
import json
import re
from importlib.resources import files
from pathlib import Path
from typing import Any, Final

import polars as pl

from hindcast_dagster.report import origin
from hindcast_dagster.report.absent import NotMeasured
from hindcast_dagster.report.gather import Gathered

QUESTIONS: Final = (
    "id", "source", "event_id", "topic", "duration", "open_at", "planned_close", "close_at", "t0", "outcome",
    "price_at_t0", "price_age_s", "price_route", "base_rate", "base_rate_n", "reference_rate", "reference_n",
)  # fmt: skip
FORECASTS: Final = (
    "forecast_id", "question_id", "t0", "model", "model_revision", "arm", "arm_version", "archive_snapshot", "run",
    "status", "prob_yes", "confidence", "parse_step", "rounds", "prior_yes", "evidence_quality", "yes_score",
    "no_score", "documents", "calls", "tokens_in", "tokens_out", "tokens_trimmed", "seconds", "cost",
)  # fmt: skip
SCORED: Final = (
    "question_id", "model", "arm", "run", "outcome", "prob_yes", "price_at_t0", "brier", "correct", "market_gap",
    "beyond_cutoff",
)  # fmt: skip
PARSE_STEPS: Final = ("first", "repair", "compact", "json_only")
_REVISION: Final = r"^[A-Za-z0-9._:/@+-]{1,100}$"
_ID: Final = re.compile(r"t[13]_[0-9a-z]{1,13}")


def write(gathered: Gathered, path: Path) -> None:
    """Write the bundle into the new folder `path`: every table as Parquet and CSV, manifests, datasheet, checksums."""
    path.mkdir()
    for name, frame in tables(gathered).items():
        frame.write_parquet(path / f"{name}.parquet", compression="zstd")
        frame.write_csv(path / f"{name}.csv")
    (path / "manifests.json").write_text(json.dumps(manifests(gathered), indent=1, sort_keys=True) + "\n")
    for name, found in gathered.origin.files.items():
        (path / name).write_text("\n".join(found) + "\n")
    (path / "README.md").write_text(datasheet(gathered), encoding="utf-8")
    sums = [f"{hashlib.sha256(each.read_bytes()).hexdigest()}  {each.name}" for each in sorted(path.iterdir())]
    (path / "SHA256SUMS").write_text("\n".join(sums) + "\n")


def tables(gathered: Gathered) -> dict[str, pl.DataFrame]:
    """Return the tables of the bundle by file name."""
    found = {
        "questions": gathered.given.questions.select(QUESTIONS),
        "forecasts": _named(gathered.given.forecasts.select(FORECASTS)),
        "scored": gathered.scored.select(SCORED),
        "cells": gathered.cells,
        "documents": _documents(gathered),
    }
    if not isinstance(gathered.comparisons, NotMeasured):
        found["comparisons"] = gathered.comparisons
    return found


def _named(forecasts: pl.DataFrame) -> pl.DataFrame:
    """Return forecasts without words that a custom arm or a server chose where ours, or a name, are expected."""
    name = pl.col("model_revision")
    return forecasts.with_columns(
        pl.when(pl.col("parse_step").is_in(PARSE_STEPS)).then(pl.col("parse_step")),
        pl.when(name.str.contains(_REVISION)).then(name),
    )


def _documents(gathered: Gathered) -> pl.DataFrame:
    """Return which documents forecasts of a question saw: prefixed ids and instants only."""
    schema = {"question_id": pl.String, "document": pl.String, "created_at": pl.Int64, "forecasts": pl.Int64}
    if isinstance(gathered.seen, NotMeasured):
        return pl.DataFrame(schema=schema)
    rows = [
        (question, *each)
        for question, found in gathered.seen.documents.items()
        for each in found
        if _ID.fullmatch(each.key)  # a custom arm writes what it likes into a trace of its own
    ]
    return pl.DataFrame(rows, schema=schema, orient="row").sort("question_id", "document")


def manifests(gathered: Gathered) -> dict[str, Any]:
    """Return versions and hashes of everything behind the numbers: identity only, never a partition's own words."""
    sources = sorted({*gathered.sources, *gathered.given.sources}, key=lambda each: (each.table, each.key))
    return {
        "eval_set": {
            "name": gathered.eval_set,
            "version": gathered.manifest.version,
            "schema": gathered.manifest.schema_version,
            "code": gathered.manifest.code_version,
            "policy": gathered.given.eval_set_stats.get("policy"),
            "archive_end": gathered.given.eval_set_stats.get("archive_end"),
            "excluded": gathered.given.eval_set_stats.get("excluded"),
        },
        "corpus": [each._asdict() for each in gathered.origin.months],
        "asked": [each._asdict() | {"settings": json.loads(each.settings)} for each in gathered.origin.asked],
        "made_from": [each.model_dump(mode="json") for each in sources],
        "pinned": [each.model_dump(mode="json") for each in gathered.manifest.pins],
    }


def datasheet(gathered: Gathered) -> str:
    """Return the bundle's README: contents, how it was made, limits, licence and ethics."""
    from jinja2 import Environment, StrictUndefined

    source = files(__package__).joinpath("web", "datasheet.md.j2").read_text(encoding="utf-8")
    template = Environment(undefined=StrictUndefined, trim_blocks=True, autoescape=False).from_string(source)  # noqa: S701 - Markdown, of names that are checked slugs
    return template.render(
        name=gathered.eval_set,
        sample=gathered.sample,
        questions=gathered.given.questions.height,
        forecasts=gathered.given.forecasts.height,
        columns={name: frame.columns for name, frame in tables(gathered).items()},
        heights={name: frame.height for name, frame in tables(gathered).items()},
        commands=origin.commands(gathered.origin),
        scope=origin.scope(gathered.origin),
        no_skill=[facts.name for facts in gathered.facts.values() if facts.no_skill],
    )
