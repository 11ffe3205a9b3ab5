"""Runs a judge over subjects, with a journal: what is finished is on disk, and is never asked again.

What belongs here: concurrency, resume, and the identity of one probe. What does not: months and tables; see `probe`.
"""

import asyncio
from collections.abc import Callable, Sequence
from typing import Any

from hindcast_dagster.archive.protocol import Archive
from hindcast_dagster.coverage.judge import Finding, Judge
from hindcast_dagster.coverage.subjects import AsOf, Subject
from hindcast_dagster.llm.purse import Purse
from hindcast_dagster.llm.roster import Price
from hindcast_dagster.storage.journal import Journal, identity_hash

Progress = Callable[[int, int, str], None]


def identity(subject: Subject, *, as_of: AsOf, judge: Judge, archive: str) -> dict[str, Any]:
    """Return what a probe is a probe of: one finished unit of the journal.

    `archive` names the versions of the month tables that the cutoff admits, so a later month does not probe anew. The
    outcome is not part of it: a revised outcome turns the contrast, it does not change what the corpus said.
    """
    question = subject.question
    return {
        "market": question.id,
        "text": question.text,
        "criteria": question.criteria,
        "as_of": as_of,
        "at": question.t0.epoch,
        "judge": judge.name,
        "judge_version": judge.version,
        "archive": archive,
    }


async def findings(
    subjects: Sequence[Subject],
    *,
    as_of: AsOf,
    archive: Archive,
    judge: Judge,
    journal: Journal,
    snapshot: Callable[[Subject], str],
    concurrency: int,
    purse: Purse,
    progress: Progress | None = None,
) -> list[Finding | None]:
    """Return the finding of every subject, in order; asks the judge only for those that the journal lacks.

    None stands for a subject that the money did not reach. When the judge fails for one subject, those in flight still
    finish and are kept, no other is begun, and the first error is raised: the next run asks only for the rest.
    """
    slots = asyncio.Semaphore(concurrency)
    done = 0
    errors: list[BaseException] = []

    async def asked(subject: Subject, unit: str, known: dict[str, Any]) -> Finding | None:
        waited = slots.locked()
        async with slots:
            if (waited and errors) or not await purse.reserve():
                return None
            cost = None
            try:
                finding = await judge.read(subject.question, archive.at(subject.question.t0))
                cost = cost_of(finding, purse.price)
            except BaseException as error:
                errors.append(error)
                raise
            finally:
                purse.settle(cost)
        journal.write(unit, {"identity": known, "finding": finding.as_record()})
        return finding

    async def one(subject: Subject) -> Finding | None:
        nonlocal done
        known = identity(subject, as_of=as_of, judge=judge, archive=snapshot(subject))
        unit = identity_hash(known)
        record = journal.read(unit)
        finding = await asked(subject, unit, known) if record is None else Finding.of_record(record["finding"])
        done += finding is not None
        if progress is not None and finding is not None:
            progress(done, len(subjects), subject.question.text[:60])
        return finding

    results = await asyncio.gather(*(one(subject) for subject in subjects), return_exceptions=True)
    if errors:
        raise errors[0]
    for result in results:
        if isinstance(result, BaseException):
            raise result
    return [result for result in results if not isinstance(result, BaseException)]


def cost_of(finding: Finding, price: Price | None) -> float | None:
    """Return what the calls of a probe cost in US dollars; None without a price."""
    if price is None:
        return None
    spent = finding.economics
    return price.of(tokens_in=spent.get("tokens_in", 0), tokens_out=spent.get("tokens_out", 0))
