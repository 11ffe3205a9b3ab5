"""The listing walk: every closed market of Gamma, page by page, stored before the next page is asked for.

What belongs here: GET /markets/keyset with its habits (docs/markets.md): `closed` must be sent, pages are capped, the
answer's `next_cursor` goes back as `after_cursor`, a repeated cursor would walk for ever. An unfinished walk is
continued where its log ends, so a killed run asks for at most the page in flight again.
"""

from collections.abc import Callable, Iterator
from typing import Any, Final, NamedTuple

from hindcast_dagster import clock
from hindcast_dagster.markets.http import Answer, Client
from hindcast_dagster.markets.rawlog import RawLog, digest

Progress = Callable[[float, float | None, str], None]

PAGE_LIMIT: Final = 100
RESUME_WITHIN_S: Final = clock.DAY  # pages of an older unfinished walk describe another day's markets


class Walk(NamedTuple):
    """A finished walk."""

    log: RawLog
    started_at: int
    pages: int


class _State(NamedTuple):
    started_at: int
    base_url: str
    cursor: str | None
    """The page to ask for next; None is the first."""
    seen: set[str]
    """Every cursor that was answered."""
    pages: int
    finished: bool


def walk(log: RawLog, client: Client, *, progress: Progress | None = None) -> Walk:
    """Walk the whole listing, or the rest of the walk that `log` holds. Raises `Unreachable`."""
    state = _state(log)
    if state is None or not _usable(state, client):
        log.path.unlink(missing_ok=True)
        log = RawLog(log.path)
        state = _State(clock.now(), client.base_url, None, set(), 0, finished=False)
        log.append([{"started_at": state.started_at, "base_url": state.base_url}])
    while not state.finished:
        answer = _page(client, state)
        following = answer.value.get("next_cursor") or None
        log.append([_record(answer, state.cursor, following)])
        state = _advance(state, following)
        if progress:
            progress(state.pages, None, "pages of closed markets")
    return Walk(log=log, started_at=state.started_at, pages=state.pages)


def pages(log: RawLog) -> Iterator[dict[str, Any]]:
    """Yield the stored pages of a walk: `body` as it was answered, `fetched_at`, `cursor`, `next`."""
    return (record for record in log.records() if "body" in record)


def _page(client: Client, state: _State) -> Answer:
    query: dict[str, str | int] = {"closed": "true", "limit": PAGE_LIMIT, "include_tag": "true"}
    if state.cursor is not None:
        query["after_cursor"] = state.cursor
    return client.get("/markets/keyset", query, accept=_Acceptor(state.seen))


class _Acceptor:
    """Decides whether a page is usable. An empty last page is believed only when it is given twice."""

    def __init__(self, seen: set[str]) -> None:
        self._seen, self._empty = seen, 0

    def __call__(self, value: Any) -> str | None:
        if not isinstance(value, dict) or not isinstance(value.get("markets"), list):
            return "no list of markets"
        cursor = value.get("next_cursor")
        if cursor is not None and not isinstance(cursor, str):
            return "a next_cursor that is not text"
        if cursor in self._seen:
            return f"the cursor {cursor[:40]!r} again, which was answered before"
        if not value["markets"]:
            self._empty += 1
            if cursor or self._empty == 1:
                return "an empty page"
        return None


def _record(answer: Answer, cursor: str | None, following: str | None) -> dict[str, Any]:
    return {
        "cursor": cursor,
        "next": following,
        "fetched_at": answer.fetched_at,
        "sha256": digest(answer.text),
        "body": answer.text,
    }


def _advance(state: _State, following: str | None) -> _State:
    if following is not None:
        state.seen.add(following)
    return state._replace(cursor=following, pages=state.pages + 1, finished=following is None)


def _usable(state: _State, client: Client) -> bool:
    return state.base_url == client.base_url and clock.now() - state.started_at < RESUME_WITHIN_S


def _state(log: RawLog) -> _State | None:
    """Read how far a walk got; None when there is none."""
    state: _State | None = None
    for record in log.records():
        if "body" not in record:
            state = _State(record["started_at"], record["base_url"], None, set(), 0, finished=False)
        elif state is not None:
            state = _advance(state, record["next"])
    return state
