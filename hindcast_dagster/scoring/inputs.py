"""What a score is made from: the questions of an eval set, every forecast of them, and the versions of both."""

from dataclasses import dataclass
from typing import Any, Final

import polars as pl

from hindcast_dagster.contracts.forecasts import FORECASTS
from hindcast_dagster.contracts.questions import EVAL_SET
from hindcast_dagster.errors import InputRefused
from hindcast_dagster.forecast import records
from hindcast_dagster.questions.load import frozen
from hindcast_dagster.storage.manifest import Input
from hindcast_dagster.storage.store import Sealed, Store
from hindcast_dagster.storage.tables import read_table

BASELINE: Final = "none"
"""The model name of forecasters that ask no model."""
ZERO_SHOT: Final = "zero_shot"
RETRIEVAL: Final = "retrieval"
MARKET: Final = "market_price"


@dataclass(frozen=True)
class Inputs:
    """Questions (contract EVAL_SET), forecasts (contract FORECASTS) and what they were read from."""

    eval_set: str
    questions: pl.DataFrame
    forecasts: pl.DataFrame
    eval_set_stats: dict[str, Any]
    planned: dict[tuple[str, str], int]
    """Runs that a cell was asked for, where its partition says so: (model, arm) -> runs."""
    sources: tuple[Input, ...]


def load(store: Store, eval_set: str) -> Inputs:
    """Read an eval set and every sealed forecast of it.

    Raises `NotSealed` when the eval set is not there and `InputRefused` when a forecast answers a question that is
    not in it, or at another t0: such a forecast would be scored against the wrong outcome or price.
    """
    sealed = frozen(store, eval_set)
    questions = read_table(sealed, EVAL_SET)
    parts = forecast_partitions(store, eval_set)
    frames = [read_table(part, FORECASTS) for part in parts]
    forecasts = pl.concat([FORECASTS.empty(), *frames]).sort(FORECASTS.order)
    _refuse_strangers(questions, forecasts, eval_set)
    return Inputs(
        eval_set=eval_set,
        questions=questions,
        forecasts=forecasts,
        eval_set_stats=dict(sealed.manifest.stats),
        planned=_planned(parts, frames),
        sources=tuple(part.as_input for part in (sealed, *parts)),
    )


def _planned(parts: list[Sealed], frames: list[pl.DataFrame]) -> dict[tuple[str, str], int]:
    planned: dict[tuple[str, str], int] = {}
    for part, frame in zip(parts, frames, strict=True):
        runs = part.manifest.stats.get("runs")
        if isinstance(runs, int):
            planned |= {
                (str(model), str(arm)): runs for model, arm in frame.select("model", "arm").unique().iter_rows()
            }
    return planned


def forecast_partitions(store: Store, eval_set: str) -> list[Sealed]:
    """Return every sealed forecast partition of an eval set: the baselines and any `<arm>_forecasts`."""
    return [store.partition(table, *key).require().unforged() for table, key in records.partitions(store, eval_set)]


def _refuse_strangers(questions: pl.DataFrame, forecasts: pl.DataFrame, eval_set: str) -> None:
    known = questions.select("id", "t0")
    strangers = forecasts.join(known, left_on=["question_id", "t0"], right_on=["id", "t0"], how="anti")
    if strangers.height:
        row = strangers.row(0, named=True)
        raise InputRefused(
            f"{strangers.height} forecasts of {row['model']}/{row['arm']} answer what eval set {eval_set} does not "
            f"ask, for example {row['question_id']} at t0 {row['t0']}: run `hindcast forecast run` again for that cell."
        )
    repeated = forecasts.filter(forecasts.select("question_id", "model", "arm", "run").is_duplicated())
    if repeated.height:
        row = repeated.row(0, named=True)
        raise InputRefused(
            f"Two sealed partitions hold run {row['run']} of {row['model']}/{row['arm']} on {row['question_id']}: "
            "remove one of them with `hindcast gc` or import it under another arm name."
        )
