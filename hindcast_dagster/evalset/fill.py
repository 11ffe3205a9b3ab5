"""The two balancing algorithms of a selection, on plain counts and queues.

What belongs here: water-filling over topics and the split of a per-event cap over outcomes, each exact (the tests hold
them against brute force). What does not: what a market is; see `select`.
"""

import heapq
from collections.abc import Callable, Mapping, Sequence
from typing import NamedTuple


class Split(NamedTuple):
    """How many markets of each outcome one event gives."""

    yes: int
    no: int


def water_fill(queues: Mapping[str, Sequence[str]], n: int, *, tie: Callable[[str], str]) -> list[str]:
    """Take n items, each time from the queue that has given least; return them in the order of taking.

    The counts per queue are lexicographic max-min: no other choice of n items has a larger smallest count, then a
    larger second smallest, and so on. Queues that have given equally many are tied, and the one whose next item has
    the smallest `tie` goes first. Taking n + 1 adds one item to taking n.
    """
    heap = [(0, tie(queue[0]), name) for name, queue in queues.items() if queue]
    heapq.heapify(heap)
    taken: list[str] = []
    while heap and len(taken) < n:
        given, _, name = heapq.heappop(heap)
        taken.append(queues[name][given])
        if given + 1 < len(queues[name]):
            heapq.heappush(heap, (given + 1, tie(queues[name][given + 1]), name))
    return taken


def per_event_quota(events: Sequence[tuple[int, int]], cap: int) -> list[Split]:
    """Split a cap per event over outcomes so that min(sum of Yes, sum of No) is as large as possible.

    `events` are (Yes, No) markets per event, in the order in which ties are decided. Every event gives as many as it
    can, min(cap, Yes + No), so trading one Yes for one No keeps the total: start with as many of the rarer outcome as
    fit and trade until the two sums meet.
    """
    rare_first = sum(yes for yes, _ in events) <= sum(no for _, no in events)
    rare, common = (0, 1) if rare_first else (1, 0)
    given = [[min(event[rare], cap), 0] for event in events]
    for event, split in zip(events, given, strict=True):
        split[1] = min(event[common], cap - split[0])
    surplus = sum(split[0] for split in given) - sum(split[1] for split in given)
    for event, split in zip(events, given, strict=True):
        trade = max(min(surplus // 2, split[0], event[common] - split[1]), 0)
        split[0] -= trade
        split[1] += trade
        surplus -= 2 * trade
    return [Split(*(split if rare_first else reversed(split))) for split in given]
