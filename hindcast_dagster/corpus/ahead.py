"""Working ahead: one step of a pipeline in a thread of its own, a bounded number of results in front of the next.

Decoding and searching let go of the interpreter, so the steps overlap; a bounded queue keeps memory flat.
"""

import queue
import sys
import threading
from collections.abc import Callable, Generator, Iterator
from contextlib import contextmanager, suppress
from typing import Final, Generic, NamedTuple, Self, TypeVar

T = TypeVar("T")
_SWITCH_S: Final = 0.0005  # at the default 5 ms a busy thread starves the decoder


class _End(NamedTuple):
    error: BaseException | None


class Ahead(Generic[T]):
    """Runs `make()` in a thread that begins now; iterating takes its results in order, and its error at the end.

    Leave its context to end the thread: the generator is closed in it.
    """

    def __init__(self, make: Callable[[], Generator[T, None, None]], *, most: int) -> None:
        self._made: queue.Queue[T | _End] = queue.Queue(most)
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._work, args=(make,), daemon=True)
        self._thread.start()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._stop.set()
        self._thread.join()

    def __iter__(self) -> Iterator[T]:
        while not isinstance(item := self._made.get(), _End):
            yield item
        if item.error is not None:
            raise item.error

    def _work(self, make: Callable[[], Generator[T, None, None]]) -> None:
        error: BaseException | None = None
        try:
            steps = make()
            try:
                for item in steps:
                    if not self._put(item):
                        return
            finally:
                steps.close()
        except BaseException as raised:  # noqa: BLE001 - it is raised again in the thread that iterates
            error = raised
        self._put(_End(error))

    def _put(self, item: "T | _End") -> bool:
        while not self._stop.is_set():
            with suppress(queue.Full):
                self._made.put(item, timeout=0.2)
                return True
        return False


@contextmanager
def quick_turns() -> Iterator[None]:
    """Let threads take turns at the interpreter ten times as often as usual while the body runs."""
    interval = sys.getswitchinterval()
    sys.setswitchinterval(_SWITCH_S)
    try:
        yield
    finally:
        sys.setswitchinterval(interval)
