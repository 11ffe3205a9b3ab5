"""Reading the questions of a sealed eval set."""

from typing import Any, Final

from hindcast_dagster.clock import Cutoff
from hindcast_dagster.contracts.questions import EVAL_SET
from hindcast_dagster.questions.question import Question, ResolvedQuestion
from hindcast_dagster.storage.store import Sealed, Store
from hindcast_dagster.storage.tables import read_table

TABLE: Final = "eval_set"


def frozen(store: Store, eval_set: str) -> Sealed:
    """Return the sealed eval set. Raises `NotSealed`, naming the command that makes one; `InputRefused` if forged."""
    made_by = f"hindcast evalset build {eval_set} --t0 POLICY --all"
    return store.partition(TABLE, eval_set).require(made_by=made_by).unforged()


def load(store: Store, eval_set: str) -> list[ResolvedQuestion]:
    """Return the questions of an eval set, sorted by id. Raises `NotSealed` when there is no such set."""
    return [resolved(row) for row in read_table(frozen(store, eval_set), EVAL_SET).iter_rows(named=True)]


def resolved(row: dict[str, Any]) -> ResolvedQuestion:
    """Return one row of the contract EVAL_SET as a resolved question."""
    return ResolvedQuestion(
        question=Question(
            id=row["id"],
            source=row["source"],
            event_id=row["event_id"],
            text=row["text"],
            criteria=row["criteria"],
            options=tuple(row["options"]),
            t0=Cutoff(row["t0"]),
            planned_close=row["planned_close"],
            topic=row["topic"],
            duration=row["duration"],
            tags=tuple(row["tags"]),
            price_at_t0=row["price_at_t0"],
            base_rate=row["base_rate"],
            reference_rate=row["reference_rate"],
        ),
        outcome=row["outcome"],
        close_at=row["close_at"],
        price_age_s=row["price_age_s"],
        flags=tuple(row["flags"]),
    )
