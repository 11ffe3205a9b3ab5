"""What the controls show: the retrieval arm and each control on the same pairs of question and run.

Leak inflation is the unsealed control's accuracy minus the arm's; the placebo's distance to zero-shot is what retrieval
owes to its prompt; the paper control's distance is what strict mode costs or saves, in documents and in Brier. Means
of pairs, by model and by topic; intervals belong to the comparisons of `scoring`.
"""

from collections.abc import Iterator
from typing import Any, Final

import polars as pl

from hindcast_dagster.contracts.forecasts import FORECASTS
from hindcast_dagster.contracts.questions import EVAL_SET
from hindcast_dagster.contracts.scores import CONTROLS
from hindcast_dagster.errors import NotReady
from hindcast_dagster.forecast.records import SUFFIX
from hindcast_dagster.leakage.controls import ARM, KINDS, TABLE
from hindcast_dagster.questions.load import frozen
from hindcast_dagster.storage.manifest import Manifest
from hindcast_dagster.storage.store import Sealed, Store
from hindcast_dagster.storage.tables import publish_table, read_table

CODE_VERSION: Final = "1"
ALL: Final = ""


def build(store: Store, *, eval_set: str) -> Manifest:
    """Seal table `control_effects` of an eval set. Raises `NotReady` when no control has run beside its arm."""
    questions = frozen(store, eval_set)
    truth = read_table(questions, EVAL_SET).select(
        "topic", question_id="id", y=(pl.col("outcome") == "Yes").cast(pl.Float64)
    )
    pairs = list(_pairs(store, eval_set))
    if not pairs:
        raise NotReady(
            f"No control of {eval_set} has run beside the retrieval arm: run `hindcast control unsealed --model M "
            f"--eval-set {eval_set}` first."
        )
    table = CONTROLS.frame(
        [row for kind, model, arm, control in pairs for row in _rows(kind, model, arm, control, truth)]
    )
    return publish_table(
        store.partition(CONTROLS.name, eval_set),
        table,
        CONTROLS,
        code_version=CODE_VERSION,
        inputs=[questions.as_input, *(part.as_input for _, _, arm, control in pairs for part in (arm, control))],
    )


def _pairs(store: Store, eval_set: str) -> Iterator[tuple[str, str, Sealed, Sealed]]:
    for kind, model, name in store.sealed_keys(TABLE):
        arm = store.partition(ARM + SUFFIX, model, name)
        if name == eval_set and kind in KINDS and arm.manifest() is not None:
            yield kind, model, arm.require(), store.partition(TABLE, kind, model, name).require()


def _rows(kind: str, model: str, arm: Sealed, control: Sealed, truth: pl.DataFrame) -> Iterator[dict[str, Any]]:
    """Yield the effect over all topics, then by topic, on the pairs that both answered."""
    pairs = (
        _answers(arm, "p", "documents")
        .join(_answers(control, "c", "documents_control"), on=["question_id", "run"])
        .join(truth, on="question_id")
    ).with_columns(accuracy=_correct("p"), accuracy_control=_correct("c"), brier=_brier("p"), brier_control=_brier("c"))
    names = ("accuracy", "accuracy_control", "brier", "brier_control", "documents", "documents_control")
    means = [pl.len().alias("n"), pl.col(names).mean()]
    if pairs.height:
        yield {"kind": kind, "model": model, "topic": ALL} | pairs.select(means).row(0, named=True)
    for row in pairs.group_by("topic").agg(means).iter_rows(named=True):
        yield {"kind": kind, "model": model} | row


def _answers(sealed: Sealed, name: str, documents: str) -> pl.DataFrame:
    rows = read_table(sealed, FORECASTS).filter(pl.col("prob_yes").is_not_null())
    seen = pl.col("documents").cast(pl.Float64).alias(documents)
    return rows.select("question_id", "run", pl.col("prob_yes").alias(name), seen)


def _correct(name: str) -> pl.Expr:
    return ((pl.col(name) > 0.5).cast(pl.Float64) == pl.col("y")).cast(pl.Float64)  # noqa: PLR2004 - paper, 4.2


def _brier(name: str) -> pl.Expr:
    return (pl.col(name) - pl.col("y")) ** 2
