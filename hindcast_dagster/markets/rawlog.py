"""An append-only log of JSON records: NDJSON in which every line or batch is its own zstd frame.

What belongs here: storing bytes from an API the moment they arrive, so that a kill loses at most the answer in flight.
`zstd -dc FILE` shows a log. A torn last frame (power cut, full disk) is cut off when the log is next written.
"""

import hashlib
import json
import os
import threading
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any, Final

import zstandard

from hindcast_dagster.errors import InputRefused
from hindcast_dagster.storage.files import clear_errors, sync_directory

_CHUNK: Final = 1 << 20
_LEVEL: Final = 6


class RawLog:
    """One log file. Appending is durable and safe between threads; between processes the caller holds a lock."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self._lock = threading.Lock()
        self._mended = False

    def append(self, records: Iterable[dict[str, Any]]) -> None:
        """Write records as one frame and flush it to disk; no frame for no records."""
        lines = "".join(json.dumps(record, ensure_ascii=False, separators=(",", ":")) + "\n" for record in records)
        if not lines:
            return
        frame = zstandard.ZstdCompressor(level=_LEVEL, write_checksum=True).compress(lines.encode())
        with self._lock, clear_errors(self.path):
            self._mend()
            with self.path.open("ab") as out:
                out.write(frame)
                out.flush()
                os.fsync(out.fileno())

    def records(self) -> Iterator[dict[str, Any]]:
        """Yield every record of every whole frame, oldest first. Raises `InputRefused` for damage before the end."""
        for _, data in self._frames():
            for line in data.splitlines():
                record = json.loads(line)
                if not isinstance(record, dict):
                    raise InputRefused(
                        f"{self.path} holds a line that is not an object: remove the file and fetch again."
                    )
                yield record

    def sha256(self) -> str:
        """Return the sha256 of the log file as it lies, or of nothing when there is none."""
        if not self.path.is_file():
            return hashlib.sha256().hexdigest()
        with self.path.open("rb") as handle:
            return hashlib.file_digest(handle, "sha256").hexdigest()

    def _mend(self) -> None:
        """Cut a torn last frame off, once, before the first append of this process."""
        if self._mended:
            return
        self.path.parent.mkdir(parents=True, exist_ok=True)
        if self.path.is_file():
            end = max((end for end, _ in self._frames()), default=0)
            if end < self.path.stat().st_size:
                os.truncate(self.path, end)
        else:
            self.path.touch()
            sync_directory(self.path.parent)
        self._mended = True

    def _frames(self) -> Iterator[tuple[int, bytes]]:
        """Yield (offset behind the frame, its content); a frame that the end of the file cuts off is left out."""
        if not self.path.is_file():
            return
        with self.path.open("rb") as handle:
            end, pending = 0, b""
            while pending or (pending := handle.read(_CHUNK)):
                decoder = zstandard.ZstdDecompressor().decompressobj()
                parts: list[bytes] = []
                size = 0
                while not decoder.eof:
                    try:
                        parts.append(decoder.decompress(pending))
                    except zstandard.ZstdError as error:
                        raise InputRefused(f"{self.path} is damaged at byte {end} ({error}): restore it.") from error
                    size += len(pending)
                    if not decoder.eof and not (pending := handle.read(_CHUNK)):
                        return
                pending = decoder.unused_data
                end += size - len(pending)
                yield end, b"".join(parts)


def digest(text: str) -> str:
    """Return the sha256 of a text's UTF-8 bytes; lone surrogates count as their own three bytes."""
    return hashlib.sha256(text.encode(errors="surrogatepass")).hexdigest()
