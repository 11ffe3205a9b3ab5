"""A Dagster job in which two steps stand at different instants at the same time, through one archive resource."""

import json
import time
from typing import Any

import dagster as dg

from resources.archive import ArchiveResource
from resources.store import StorageRoot

EARLY, LATE = "2026-01-10", "2026-01-20"
PASSES = 40


class Stand(dg.Config):
    t0: str


def read(name: str, t0: str, root: StorageRoot, archive: ArchiveResource) -> None:
    """Look the same author up again and again until the other step has begun too, and write down what was seen."""
    work = root.store().area("work")
    work.mkdir(parents=True, exist_ok=True)
    (work / f"{name}.started").touch()
    opened = archive.open()
    views = [opened.at(t0), archive.at(t0)]
    deadline = time.monotonic() + 60
    while not (work / ("late.started" if name == "early" else "early.started")).exists():
        assert time.monotonic() < deadline, "the other step never ran beside this one"
        time.sleep(0.01)
    seen = [document.created_at for _ in range(PASSES) for view in views for document in author(view)]
    (work / f"{name}.json").write_text(json.dumps({"cutoff": views[0].cutoff.epoch, "seen": seen}))


def author(view: Any) -> tuple[Any, ...]:
    return view.getauthorhistorylist("pseudonym_1", posts=50, comments=50).documents


@dg.op
def early(config: Stand, root: StorageRoot, archive: ArchiveResource) -> None:
    read("early", config.t0, root, archive)


@dg.op
def late(config: Stand, root: StorageRoot, archive: ArchiveResource) -> None:
    read("late", config.t0, root, archive)


def make_job() -> dg.JobDefinition:
    root = StorageRoot()

    @dg.job(
        executor_def=dg.multiprocess_executor.configured({"max_concurrent": 2, "start_method": {"spawn": {}}}),
        resource_defs={"root": root, "archive": ArchiveResource(root=root)},
    )
    def two_cutoffs() -> None:
        early()
        late()

    return two_cutoffs


CONFIG = {"ops": {"early": {"config": {"t0": EARLY}}, "late": {"config": {"t0": LATE}}}}
