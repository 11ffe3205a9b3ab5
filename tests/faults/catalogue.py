"""The faults: each disturbs the bench in one way, and says how every run ended."""

import random
import shutil
import time
from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import Final

from hindcast_dagster.clock import DAY
from tests.faults import compare, damage, disks, process
from tests.faults.bench import Bench, Wrong, clear, must
from tests.faults.process import Child, Outcome
from tests.faults.stages import NOW, STAGES, Stage


@dataclass
class Row:
    """One fault in one stage: how many runs, how they ended, and what went wrong (nothing, one hopes)."""

    fault: str
    stage: str
    runs: int = 0
    ends: Counter[str] = field(default_factory=Counter)
    wrong: list[str] = field(default_factory=list)
    not_run: str = ""

    def count(self, outcome: Outcome) -> None:
        """Count how a disturbed run ended."""
        names = {0: "sealed", -9: "killed"}
        self.ends[names.get(outcome.code, f"exit {outcome.code}")] += 1

    def attempt(self, run: Callable[[], Outcome], *, name: str) -> None:
        """Count one run of the fault; what it must not do is kept as `wrong`."""
        self.runs += 1
        try:
            self.count(run())
        except Wrong as error:
            self.wrong.append(f"{name}: {error}")


def killed(bench: Bench, stage: Stage, seeds: int) -> Iterator[Row]:
    """Kill -9 at instants spread over the stage's own duration, then run it again."""
    row = Row("kill -9, run again", stage.name)
    for seed in range(seeds):
        share = (seed + random.Random(f"{stage.name}/{seed}").random()) / seeds

        def run(share: float = share) -> Outcome:
            bench.lay(stage)
            child = Child(bench.work(stage))
            time.sleep(share * bench.durations[stage.name])
            child.kill()
            outcome = child.wait()
            bench.nothing_lost(stage)
            must(bench.run(stage))
            bench.correct(stage)
            return outcome

        row.attempt(run, name=f"seed {seed}, at {share:.0%}")
    yield row


def full_disk(bench: Bench, stage: Stage, seeds: int) -> Iterator[Row]:
    """Run on disks that hold a growing share of what the stage writes; then make room and run again."""
    row = Row("full disk, then room", stage.name)
    for seed in range(seeds):
        share = (seed + random.Random(f"{stage.name}/{seed}").random()) / seeds * 1.2

        def run(share: float = share) -> Outcome:
            needed, grown = disks.pages(bench.state(stage)), disks.pages(bench.lay_after(stage))
            shutil.rmtree(bench.root)
            with disks.small(bench.root, pages=needed + 1 + int(share * max(grown - needed, 8))) as disk:
                bench.lay(stage)
                outcome = bench.run(stage)
                clear(outcome)
                bench.nothing_lost(stage)
                disk.enlarge()
                must(bench.run(stage))
                bench.correct(stage)
            return outcome

        row.attempt(run, name=f"seed {seed}, {share:.0%} of the room")
    yield row


def read_only(bench: Bench, stage: Stage, _seeds: int) -> Iterator[Row]:
    """Run on a root that is mounted read-only; then make it writable and run again."""
    row = Row("read-only data root", stage.name)

    def run() -> Outcome:
        bench.lay(stage)
        with disks.read_only(bench.root):
            outcome = bench.run(stage)
        clear(outcome, also=frozenset())
        if said := compare.difference(bench.look(), bench.before[stage.name]):
            raise Wrong(said)
        must(bench.run(stage))
        bench.correct(stage)
        return outcome

    row.attempt(run, name="read-only")
    yield row


def clock_jumps(bench: Bench, stage: Stage, seeds: int) -> Iterator[Row]:
    """Run while every look at the clock, ours and Python's, is up to ten years off."""
    row = Row("clock jumps", stage.name)
    wanted: compare.Digest = {}
    for seed in range(seeds):

        def run(seed: int = seed) -> Outcome:
            if not wanted:
                bench.lay_after(stage)
                wanted.update(bench.look(compare.without_clock))
            bench.lay(stage)
            rng = random.Random(seed)

            def work() -> None:
                jump = lambda: NOW + rng.randrange(-3650, 3650) * DAY  # noqa: E731
                time.time = lambda: float(jump())
                bench.work(stage, jump)()

            outcome = process.run(work)
            must(outcome)
            bench.correct(stage, reader=compare.without_clock, wanted=wanted)
            bench.look()
            return outcome

        row.attempt(run, name=f"seed {seed}")
    yield row


def two_at_once(bench: Bench, stage: Stage, seeds: int) -> Iterator[Row]:
    """Start the same stage twice, a random while apart."""
    row = Row("two runs at once", stage.name)
    for seed in range(seeds):
        apart = random.Random(f"{stage.name}/{seed}").random() * bench.durations[stage.name]

        def run(apart: float = apart) -> Outcome:
            bench.lay(stage)
            first = Child(bench.work(stage))
            time.sleep(apart)
            second = Child(bench.work(stage))
            outcomes = [first.wait(), second.wait()]
            for outcome in outcomes:
                clear(outcome)
            if all(outcome.code for outcome in outcomes):
                raise Wrong(f"both gave up: {outcomes[0].said}")
            bench.correct(stage)
            return max(outcomes, key=lambda outcome: outcome.code)

        row.attempt(run, name=f"seed {seed}")
    yield row


def damaged(bench: Bench, stage: Stage, seeds: int) -> Iterator[Row]:
    """Damage one file that the stage reads: it refuses or is right; made again from the damaged place, all is right."""
    for kind in damage.KINDS:
        row = Row(kind.name, stage.name)
        for table, seed in _targets(kind, stage, seeds):

            def run(table: str = table, seed: int = seed, kind: damage.Kind = kind) -> Outcome:
                rng = random.Random(f"{kind.name}/{stage.name}/{table}/{seed}")
                bench.lay(stage) if kind.before else bench.lay_after(stage)
                if not kind.hit(bench.root, table, rng):
                    return Outcome(0)
                outcome = bench.run(stage)
                clear(outcome)
                if outcome.code == 0:
                    bench.made(stage) if not (kind.leaves_out and table in stage.optional) else None
                else:
                    kind.remedy(bench.root, outcome.said)
                must(bench.make_again(stage, first=kind.first(stage, table)))
                bench.correct(stage)
                return outcome

            row.attempt(run, name=f"{table}, seed {seed}")
        if row.runs:
            yield row


def _targets(kind: damage.Kind, stage: Stage, seeds: int) -> list[tuple[str, int]]:
    """Return every table that a damage can hit, with its seeds; a short run (one seed) takes one table of each stage."""
    tables = kind.tables(stage)
    if seeds == 1 and tables:
        tables = (random.Random(f"{kind.name}/{stage.name}").choice(tables),)
    return [(table, seed) for table in tables for seed in range(seeds if kind.subtle else 1)]


FAULTS: Final = (killed, full_disk, read_only, clock_jumps, two_at_once, damaged)


def every(
    bench: Bench, seeds: dict[str, int], *, only: tuple[str, ...] = (), stages: tuple[str, ...] = ()
) -> Iterator[Row]:
    """Run every fault in every stage, or only those named; yields a row the moment it is known."""
    for fault in FAULTS:
        if only and fault.__name__ not in only:
            continue
        reason = disks.impossible(bench.scratch) if fault in {full_disk, read_only} else ""
        for stage in (each for each in STAGES if not stages or each.name in stages):
            if reason:
                yield Row(fault.__name__.replace("_", " "), stage.name, not_run=reason)
            else:
                yield from fault(bench, stage, seeds[fault.__name__])
