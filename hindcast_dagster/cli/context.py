"""What every command shares: the root options, the store and settings, progress, and the one way to print a result."""

import json
import os
import re
import sys
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from functools import cached_property
from typing import Any, Final

from rich.console import Console, ConsoleOptions, RenderableType
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn, TimeRemainingColumn
from rich.segment import Segment
from rich.text import Text

from hindcast_dagster.settings import Settings, load
from hindcast_dagster.storage.store import Store, open_store

PIPED_WIDTH: Final = 200
"""Columns of a table that goes into a file or another program: nothing is cut to a window that is not there."""
LINE_S: Final = 10.0
"""Seconds between two lines of progress where there is no terminal to draw a bar on."""

BEAT_S: Final = 1.0
"""Seconds between two looks at whether a line is due."""
_OBEYED: Final = re.compile("[\x00-\x08\x0b-\x1f\x7f-\x9f\u200e\u200f\u202a-\u202e\u2066-\u2069]")
"""Escapes, bells and direction marks: what a terminal would obey."""


def inert(text: str) -> str:
    """Return a text without what a terminal would obey: titles, posts, replies and errors are other people's words."""
    return _OBEYED.sub("", text)


class Inert(Console):
    """A console that prints texts as texts. Its own colours are added later and stay."""

    def render(self, renderable: RenderableType, options: ConsoleOptions | None = None) -> Iterator[Segment]:
        """Yield what `Console` would, made inert."""
        for part in super().render(renderable, options):
            yield part if part.control or _OBEYED.search(part.text) is None else Segment(inert(part.text), part.style)


@dataclass
class Context:
    """The options that are accepted before and after a subcommand, and what follows from them."""

    data_root: str | None = None
    json: bool = False

    @cached_property
    def settings(self) -> Settings:
        """The settings for this data root. Raises `UsageError`."""
        return load(data_root=self.data_root)

    @cached_property
    def store(self) -> Store:
        """The store at the data root. Raises `UsageError`."""
        return open_store(self.settings.data_root)

    @cached_property
    def err(self) -> Console:
        """Where progress and remarks go: stderr."""
        return Inert(stderr=True, highlight=False)

    @cached_property
    def out(self) -> Console:
        """Where results for a person go: stdout."""
        piped = None if sys.stdout.isatty() or "COLUMNS" in os.environ else PIPED_WIDTH
        return Inert(highlight=False, width=piped)

    def emit(self, document: dict[str, Any], *, text: Any = None) -> None:
        """Print a result: with --json exactly one JSON document, else `text` (a string or a rich renderable)."""
        if self.json:
            sys.stdout.write(json.dumps(document, ensure_ascii=False, allow_nan=False) + "\n")
        else:
            found = json.dumps(document, indent=1, ensure_ascii=False) if text is None else text
            # a name or a path in brackets is no mark-up; a table brings its own
            self.out.print(Text(found) if isinstance(found, str) else found)

    @contextmanager
    def progress(self, what: str, *, total: float | None = None) -> Iterator["Bar"]:
        """Show a progress bar with ETA on stderr while the body runs; without a terminal, a line every ten seconds."""
        if not self.err.is_terminal:
            with Lines(self.err, what, total).beating() as lines:
                yield lines
            return
        columns = (
            TextColumn("{task.description}"),
            BarColumn(),
            MofNCompleteColumn(),
            TimeElapsedColumn(),
            TimeRemainingColumn(),
        )
        with Progress(*columns, console=self.err, transient=True) as progress:
            yield Bar(progress, what, total)


class Bar:
    """One progress bar; call it with what is done so far, and optionally the total and a word."""

    def __init__(self, progress: Progress, what: str, total: float | None) -> None:
        self._progress, self._what = progress, what
        self._task = progress.add_task(what, total=total)
        self.done = 0.0
        """What was done at the last call."""

    def __call__(self, done: float, total: float | None = None, word: str = "") -> None:
        """Move the bar to `done`."""
        self.done = done
        said = f"{self._what} {word}".rstrip()
        self._progress.update(self._task, completed=done, total=total, description=said)


class Lines(Bar):
    """Progress as plain lines, for logs and pipes."""

    def __init__(self, console: Console, what: str, total: float | None) -> None:
        self._console, self._what, self._total, self._word = console, what, total, ""
        self._started = self._told = time.monotonic()
        self._first: float | None = None
        self.done = 0.0

    def __call__(self, done: float, total: float | None = None, word: str = "") -> None:
        """Move on to `done`; print a line when the last one is ten seconds old."""
        self.done, self._word, self._total = done, word, self._total if total is None else total
        self._first = done if self._first is None else self._first
        self.tell()

    def tell(self) -> None:
        """Print a line when the last one is ten seconds old."""
        now = time.monotonic()
        if now - self._told < LINE_S:
            return
        self._told, made = now, self.done - (self._first or 0.0)
        parts = [f"{self.done:g} of {self._total:g}" if self._total else f"{self.done:g}"]
        parts.append(f"{now - self._started:.0f} s")
        if self._total and made > 0:
            parts.append(f"about {(now - self._started) / made * (self._total - self.done):.0f} s left")
        parts += [self._word] if self._word else []
        self._console.print(f"{self._what}: {', '.join(parts)}", markup=False, soft_wrap=True)

    @contextmanager
    def beating(self) -> Iterator["Lines"]:
        """Go on telling while nothing moves: one slow reply looks like a dead process otherwise."""
        over = threading.Event()

        def beat() -> None:
            while not over.wait(BEAT_S):
                self.tell()

        thread = threading.Thread(target=beat, name="progress", daemon=True)
        thread.start()
        try:
            yield self
        finally:
            over.set()
            thread.join()
