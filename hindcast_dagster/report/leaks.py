"""What the leakage controls of an eval set measured, as far as anybody ran them: read for the report."""

from typing import Any, Final, NamedTuple

import polars as pl

from hindcast_dagster.contracts.scores import CONTROLS, SELECTION
from hindcast_dagster.leakage import controls, detective, recall
from hindcast_dagster.report.absent import NotMeasured
from hindcast_dagster.storage.manifest import Input, Manifest
from hindcast_dagster.storage.store import Sealed, Store
from hindcast_dagster.storage.tables import read_table

_COMMANDS: Final = {
    "unsealed": ("What a leaky archive would have bought", "hindcast control unsealed --model M --eval-set {}"),
    "placebo": ("Another market's evidence", "hindcast control placebo --model M --eval-set {}"),
    "paper": ("Paper mode against strict mode", "hindcast control paper --model M --eval-set {}"),
    "selection": ("Selection effects", "hindcast control selection --eval-set {}"),
    "detective": ("Leak detective", "hindcast control detective --model OTHER --eval-set {}"),
    "recall": ("Outcome recall", "hindcast control recall --model M --eval-set {}"),
}


class Leaks(NamedTuple):
    """Everything that was measured, and what was not."""

    effects: pl.DataFrame
    """Contract CONTROLS: each control beside the retrieval arm; empty where none ran."""
    late: dict[str, dict[str, int]]
    """Model -> documents with late texts and with late votes that its paper control was shown."""
    selection: pl.DataFrame
    """Contract SELECTION: every cell with and without early closers, decided markets, strong evidence."""
    detectives: list[dict[str, Any]]
    """One summary per detective: `model`, and the numbers of its manifest."""
    recalls: list[dict[str, Any]]
    """One summary per model that was asked what happened."""
    not_measured: list[NotMeasured]
    sources: tuple[Input, ...]


def read(store: Store, eval_set: str, *, made_from: tuple[Input, ...]) -> Leaks:
    """Read what is sealed. Effects and selection count only if they were made from `made_from`: these forecasts."""
    effects = _fresh(store, CONTROLS.name, eval_set, made_from)
    selection = _fresh(store, SELECTION.name, eval_set, made_from)
    table = CONTROLS.empty() if effects is None else read_table(effects, CONTROLS)
    ran = _of_set(store, controls.TABLE, eval_set)
    detectives, recalls = (_of_set(store, name, eval_set) for name in (detective.TABLE, recall.TABLE))
    missing = {str(kind) for kind in controls.KINDS} - set(table["kind"])
    missing |= {"selection"} if selection is None else set()
    missing |= {name for name, found in (("detective", detectives), ("recall", recalls)) if not found}
    parts = [each.as_input for each in (effects, selection) if each is not None]
    return Leaks(
        effects=table,
        late={
            each.key[1]: each.stats["late"] for each in ran if each.key[0] == controls.PAPER and "late" in each.stats
        },
        selection=SELECTION.empty() if selection is None else read_table(selection, SELECTION),
        detectives=[{"model": each.key[0], **each.stats} for each in detectives],
        recalls=[{"model": each.key[0], "questions": each.rows, **each.stats} for each in recalls],
        not_measured=[
            NotMeasured(what, command.format(eval_set))
            for name, (what, command) in _COMMANDS.items()
            if name in missing
        ],
        sources=(*parts, *(each.as_input for each in (*detectives, *recalls))),
    )


def _of_set(store: Store, table: str, eval_set: str) -> list[Manifest]:
    return [manifest for manifest in store.manifests(table) if manifest.key[-1] == eval_set]


def _fresh(store: Store, table: str, eval_set: str, made_from: tuple[Input, ...]) -> Sealed | None:
    """Return a table of this set, unless it was made from other forecasts than those that the report shows."""
    partition = store.partition(table, eval_set)
    manifest = partition.manifest()
    if manifest is None:
        return None
    now = {(each.table, each.key): each.version for each in made_from}
    stale = any(now.get((each.table, each.key), each.version) != each.version for each in manifest.inputs)
    return None if stale else partition.require()
