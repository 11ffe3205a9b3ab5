"""The bench: the toy world before and after every stage, and a place where one copy of it is disturbed."""

import os
import shutil
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from hindcast_dagster.sample.server import serve
from hindcast_dagster.storage.store import open_store
from tests.faults import compare, process, stages
from tests.faults.process import Outcome
from tests.faults.stages import STAGES, Stage

CLEAR = frozenset({3, 4})
"""Exit codes of a clear refusal."""


class Bench:
    """States of the toy world by stage, made once by undisturbed runs."""

    def __init__(self, scratch: Path, url: str) -> None:
        self.scratch, self.url = scratch, url
        self.root = scratch / "root"
        """Where every run happens, so that no path can differ between two of them."""
        self.durations: dict[str, float] = {}
        self.before: dict[str, compare.Digest] = {}
        self.after: dict[str, compare.Digest] = {}
        self._make()

    def _make(self) -> None:
        self.root.mkdir(parents=True)
        must(process.run(lambda: stages.write_dumps(self.root)))
        for stage in STAGES:
            shutil.copytree(self.root, self.state(stage))
            self.before[stage.name] = self.look()
            began = time.monotonic()
            must(self.run(stage))
            self.durations[stage.name] = time.monotonic() - began
            self.after[stage.name] = self.look()

    def state(self, stage: Stage) -> Path:
        """Return the folder with the data root as it is before a stage."""
        return self.scratch / "before" / stage.name.replace(" ", "-")

    def lay(self, stage: Stage) -> Path:
        """Put the state before a stage in place; whatever lay there is gone (a mount point is kept)."""
        if not self.root.is_mount():
            shutil.rmtree(self.root, ignore_errors=True)
        shutil.copytree(self.state(stage), self.root, dirs_exist_ok=True)
        return self.root

    def lay_after(self, stage: Stage) -> Path:
        """Put the state after a stage in place."""
        following = STAGES[STAGES.index(stage) + 1 :]
        if following:
            return self.lay(following[0])
        self.lay(stage)
        must(self.run(stage))
        return self.root

    def work(self, stage: Stage, now: Callable[[], int] | None = None) -> Callable[[], Any]:
        """Return a stage as the work of a child."""

        def work() -> None:
            stages.stand_still(now) if now else stages.stand_still()
            stage.run(open_store(self.root), stages.settings(self.root, self.url))

        return work

    def run(self, stage: Stage) -> Outcome:
        """Run a stage undisturbed."""
        return process.run(self.work(stage))

    def make_again(self, stage: Stage, *, first: str) -> Outcome:
        """Run the stage that is, or that seals, `first`, and then `stage`: what an error's remedy comes to."""
        for each in (each for each in STAGES if each is stage or first in {each.name, *each.seals}):
            outcome = self.run(each)
            if outcome.code:
                break
        return outcome

    def look(self, reader: compare.Reader = compare.digest) -> compare.Digest:
        """Return what the root holds; raises `Wrong` when a sealed partition is not whole."""
        outcome = process.run(lambda: reader(self.root))
        if outcome.code:
            raise Wrong(f"a sealed partition cannot be read: {outcome.said}")
        found: compare.Digest = outcome.value
        return found

    def nothing_lost(self, stage: Stage) -> None:
        """Hold a disturbed root against the states before and after the stage. Raises `Wrong`."""
        if said := compare.never_lost(self.look(), self.before[stage.name], self.after[stage.name]):
            raise Wrong(said)

    def made(self, stage: Stage) -> None:
        """Hold what the stage seals, and nothing else, against an undisturbed run. Raises `Wrong`."""
        outcome = process.run(lambda: compare.digest(self.root, tables=stage.seals))
        if outcome.code:
            raise Wrong(f"what the stage sealed cannot be read: {outcome.said}")
        wanted = self.after[stage.name]
        if said := compare.difference(outcome.value, {name: wanted[name] for name in outcome.value if name in wanted}):
            raise Wrong(said)

    def correct(self, stage: Stage, *, reader: compare.Reader = compare.digest, wanted: Any = None) -> None:
        """Hold the root against an undisturbed run of the stage. Raises `Wrong`."""
        if said := compare.difference(self.look(reader), self.after[stage.name] if wanted is None else wanted):
            raise Wrong(said)


class Wrong(Exception):
    """A fault has lost or falsified something, or ended in no clear error."""


def must(outcome: Outcome) -> None:
    """Raise `Wrong` unless a run that nobody disturbed ended well."""
    if outcome.code:
        raise Wrong(f"an undisturbed run ended with {outcome.code}: {outcome.said}")


def clear(outcome: Outcome, *, also: frozenset[int] = frozenset({0})) -> None:
    """Raise `Wrong` unless a run ended well or with a clear error."""
    if outcome.code not in CLEAR | also:
        raise Wrong(f"ended with {outcome.code}: {outcome.said}")
    if outcome.code in CLEAR and ("\n" in outcome.said or len(outcome.said) > 600):
        raise Wrong(f"said more than one sentence: {outcome.said}")


@contextmanager
def bench(scratch: Path) -> Iterator[Bench]:
    """Make a bench below `scratch`; the markets are served by a process of its own while the body runs."""
    read, write = os.pipe()
    server = os.fork()
    if server == 0:
        _serve(read, write)
    os.close(write)
    try:
        with os.fdopen(read) as pipe:
            url = pipe.readline().strip()
        yield Bench(scratch, url)
    finally:
        os.kill(server, 9)
        os.waitpid(server, 0)


def _serve(read: int, write: int) -> None:
    """Serve until the parent ends the process or is gone."""
    parent = os.getppid()
    try:
        os.close(read)
        with serve(stages.world()) as url:
            os.write(write, f"{url}\n".encode())
            os.close(write)
            while os.getppid() == parent:
                time.sleep(0.5)
    finally:
        os._exit(0)
