"""Concurrency and back-pressure: how many calls of one backend are under way at once.

The limit falls by half when the server says that it is too much (429, 503) and rises by one for each limit's worth of
answers: additive increase, multiplicative decrease, as in congestion control. After such an answer nobody starts before
the time that the server asked for.
"""

import asyncio
from collections import deque
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager


class Gate:
    """Slots for calls. Belongs to one event loop from its first use on."""

    def __init__(self, limit: int) -> None:
        self.most = limit
        self.limit = float(limit)
        self.busy = 0
        self._quiet_until = 0.0
        self._waiting: deque[asyncio.Future[None]] = deque()

    @asynccontextmanager
    async def slot(self) -> AsyncIterator[None]:
        """Wait for a slot and hold it; first come, first served."""
        await self._enter()
        try:
            yield
        finally:
            self.busy -= 1
            self._wake()

    async def _enter(self) -> None:
        if self._waiting or self.busy >= int(self.limit):
            place = asyncio.get_running_loop().create_future()
            self._waiting.append(place)
            try:
                await place
            except asyncio.CancelledError:
                if place.done() and not place.cancelled():  # the slot was given at the same moment: hand it on
                    self.busy -= 1
                    self._wake()
                raise
        else:
            self.busy += 1
        await self._quiet()

    async def _quiet(self) -> None:
        """Wait until the server wants to hear from us again; the slot is given back when that wait is cancelled."""
        loop = asyncio.get_running_loop()
        try:
            # this waits for a time, which may be moved meanwhile, not for a condition
            while (wait := self._quiet_until - loop.time()) > 0:  # noqa: ASYNC110
                await asyncio.sleep(wait)
        except asyncio.CancelledError:
            self.busy -= 1
            self._wake()
            raise

    def _wake(self) -> None:
        while self._waiting and self.busy < int(self.limit):
            place = self._waiting.popleft()
            if not place.done():
                self.busy += 1
                place.set_result(None)

    def pressed(self, wait_s: float) -> None:
        """Note that the server is overloaded: halve the limit, and start nothing for `wait_s` seconds."""
        loop = asyncio.get_running_loop()
        if loop.time() >= self._quiet_until:  # answers to calls that were already under way press once, not each
            self.limit = max(1.0, self.limit / 2)
        self._quiet_until = max(self._quiet_until, loop.time() + wait_s)

    def eased(self) -> None:
        """Note an answer: the limit grows back, by one for each limit's worth of answers."""
        self.limit = min(float(self.most), self.limit + 1 / self.limit)
        self._wake()
