"""HTTP to the three Polymarket APIs: one polite client, one retry loop, one wait budget per request.

What belongs here: getting a JSON answer as raw text. What the answer means is decided by the caller, whose `accept`
says whether a 200 is usable; an unusable one (HTML, an error object) is asked for again like a 5xx.
"""

import collections
import json
import logging
import ssl
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import cache
from importlib.metadata import version
from typing import Any, Final, NamedTuple

import httpx
import stamina
from stamina.instrumentation import RetryDetails, set_on_retry_hooks

from hindcast_dagster import clock
from hindcast_dagster.errors import InputRefused, Unreachable, UsageError

REQUEST_TIMEOUT_S: Final = 30.0
RATE_WINDOW_S: Final = 10.0
# Requests per 10 s, below the published limits (docs.polymarket.com/api-reference/rate-limits: Gamma /markets 300,
# CLOB /prices-history 1,000, Data 1,000), because others share an address with us.
RATES: Final = {"gamma": 250, "clob": 800, "data": 600}
_TRANSIENT: Final = frozenset({408, 425, 429, 500, 502, 503, 504, 520, 521, 522, 523, 524})
_MIN_WAIT_S: Final = 0.1
_LOG: Final = logging.getLogger(__name__)


class Answer(NamedTuple):
    """One usable answer."""

    text: str
    """The body, byte for byte (UTF-8)."""
    value: Any
    """The parsed body."""
    fetched_at: int


class Rejected(InputRefused):
    """The API refused a request for good (4xx): asking again cannot help."""


class _Again(Exception):
    """This answer is not usable yet; `after` is what Retry-After asked for."""

    def __init__(self, said: str, after: float | None = None) -> None:
        super().__init__(said)
        self.after = after


class Client:
    """GETs against one API. Safe between threads."""

    def __init__(self, name: str, base_url: str, *, budget_s: float) -> None:
        if not base_url.startswith(("http://", "https://")):
            raise UsageError(f"The base URL of the {name} API is {base_url!r}: it must begin with http:// or https://.")
        self.name, self.base_url, self.budget_s = name, base_url.rstrip("/"), budget_s
        self._pace = _Pace(RATES[name])
        self._stopped = threading.Event()
        # A loopback server stands in for an API in tests and in the demo: never through a proxy.
        direct: dict[str, httpx.BaseTransport | None] = {"all://127.0.0.1": None, "all://localhost": None}
        agent = f"hindcast-dagster/{version('hindcast-dagster')} (research; leakage-free replay of resolved markets)"
        self._http = httpx.Client(
            headers={"User-Agent": agent, "Accept": "application/json"},
            verify=_certificates(),
            mounts=direct,
            follow_redirects=True,
        )
        _log_retries()

    def close(self) -> None:
        """Close the connections."""
        self._http.close()

    def stop(self) -> None:
        """Let no request begin another attempt: one that is given up, or Ctrl-C, must not wait for all budgets."""
        self._stopped.set()

    def get(self, path: str, query: dict[str, str | int], *, accept: Callable[[Any], str | None]) -> Answer:
        """Return the first usable answer.

        `accept` gets the parsed body and returns None when it is usable, else what is wrong with it. Raises
        `Unreachable` when the wait budget is spent, `Rejected` when the API says no (4xx).
        """
        end = time.monotonic() + self.budget_s

        def wait(error: Exception) -> bool | float:
            after = error.after if isinstance(error, _Again) else None
            if not isinstance(error, _Again | httpx.TransportError) or time.monotonic() + (after or 0) >= end:
                return False
            return True if after is None else max(after, _MIN_WAIT_S)

        try:
            for attempt in stamina.retry_context(
                on=wait, attempts=None, timeout=self.budget_s, wait_initial=_MIN_WAIT_S, wait_max=15.0, wait_jitter=0.1
            ):
                with attempt:
                    return self._once(
                        path, query, accept, timeout=min(REQUEST_TIMEOUT_S, max(end - time.monotonic(), 0.1))
                    )
        except (_Again, httpx.HTTPError, httpx.InvalidURL) as error:
            said = str(error) or type(error).__name__
            raise Unreachable(
                f"{self.base_url}{path} gave no usable answer within {self.budget_s:.0f} s ({said}): nothing stored is "
                "lost, run the command again."
            ) from error
        raise AssertionError("unreachable")

    def _once(
        self, path: str, query: dict[str, str | int], accept: Callable[[Any], str | None], *, timeout: float
    ) -> Answer:
        self._pace.wait()
        if self._stopped.is_set():
            raise Unreachable(f"Requests to {self.base_url} were stopped: run the command again.")
        response = self._http.get(self.base_url + path, params=query, timeout=timeout)
        if response.status_code in _TRANSIENT:
            raise _Again(f"status {response.status_code}", _retry_after(response))
        if response.is_error:
            raise Rejected(
                f"{self.base_url}{path} refused the request: {response.status_code} {response.text[:200]!r}."
            )
        try:
            text = response.content.decode()
            value = json.loads(text)
        except (ValueError, RecursionError) as error:
            raise _Again(f"status 200 with a body that is not JSON: {response.content[:60]!r}") from error
        if wrong := accept(value):
            raise _Again(f"status 200 with {wrong}")
        return Answer(text=text, value=value, fetched_at=clock.now())


@cache
def _certificates() -> ssl.SSLContext:
    """Read the certificate store once: it takes longer than a request."""
    return httpx.create_ssl_context()


@cache
def _log_retries() -> None:
    """Send stamina's word on retries to `logging`: where structlog is installed it would print to stdout."""

    def told(details: RetryDetails) -> None:
        _LOG.info("%s; attempt %d follows in %.1f s", details.caused_by, details.retry_num + 1, details.wait_for)

    set_on_retry_hooks([told])


def _retry_after(response: httpx.Response) -> float | None:
    """Return Retry-After in seconds; None when it is absent or a date (our own backoff decides then)."""
    given = response.headers.get("Retry-After", "")
    return float(given) if given.isascii() and given.isdigit() else None


class _Pace:
    """At most `limit` requests in any `RATE_WINDOW_S` seconds."""

    def __init__(self, limit: int) -> None:
        self._sent: collections.deque[float] = collections.deque(maxlen=limit)
        self._lock = threading.Lock()

    def wait(self) -> None:
        with self._lock:
            if len(self._sent) == self._sent.maxlen:
                time.sleep(max(0.0, self._sent[0] + RATE_WINDOW_S - time.monotonic()))
            self._sent.append(time.monotonic())


@contextmanager
def client(name: str, base_url: str, *, budget_s: float) -> Iterator[Client]:
    """Open a client and close it afterwards."""
    opened = Client(name, base_url, budget_s=budget_s)
    try:
        yield opened
    finally:
        opened.close()
