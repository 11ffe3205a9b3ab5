"""The view that an arm without an archive gets: it stands at t0 and refuses every question."""

from collections.abc import Sequence
from typing import Any, NoReturn

from hindcast_dagster.archive.protocol import LookupAnswer, SearchAnswer
from hindcast_dagster.clock import Cutoff
from hindcast_dagster.errors import UsageError


class Nowhere:
    """No archive at t0. It answers `ArchiveView`, and every tool raises `UsageError`."""

    def __init__(self, cutoff: Cutoff) -> None:
        self._cutoff = cutoff

    @property
    def cutoff(self) -> Cutoff:
        """t0."""
        return self._cutoff

    @property
    def subreddits(self) -> tuple[str, ...]:
        """None."""
        return ()

    def search_database(self, query: str, **options: Any) -> SearchAnswer:
        """Refuse."""
        del query, options
        self._refuse()

    def search_many(self, queries: Sequence[str], **options: Any) -> list[SearchAnswer]:
        """Refuse."""
        del queries, options
        self._refuse()

    def getpostcoreinfo(self, post_id: str, **options: Any) -> LookupAnswer:
        """Refuse."""
        del post_id, options
        self._refuse()

    def getcommentcoreinfo(self, comment_id: str, **options: Any) -> LookupAnswer:
        """Refuse."""
        del comment_id, options
        self._refuse()

    def getpostcommentslist(self, post_id: str, **options: Any) -> LookupAnswer:
        """Refuse."""
        del post_id, options
        self._refuse()

    def getauthorhistorylist(self, author: str, **options: Any) -> LookupAnswer:
        """Refuse."""
        del author, options
        self._refuse()

    def _refuse(self) -> NoReturn:
        raise UsageError("This arm says that it does not read the archive (uses_archive = False), and asked it.")
