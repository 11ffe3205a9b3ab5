"""The columns beside a month's table: what selects rows (times, names, keys) as memory-mapped arrays.

They are derived from the table when it is built and sealed with it. A look-up (an id, a thread, an author) finds its
row numbers here in microseconds, so that one query goes to the one table that holds them.
"""

import json
from bisect import bisect_left
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import pyarrow as pa

from hindcast_dagster.clock import LATEST
from hindcast_dagster.errors import InputRefused

if TYPE_CHECKING:
    import numpy as np
    import polars as pl
    from numpy.typing import NDArray

FOLDER: Final = "columns"
FACTS: Final = "facts.json"
TIMES: Final = ("created_at", "text_as_of", "engagement_as_of")
AUTHORS: Final = "authors.arrow"
ID_WIDTH: Final = 13  # the longest id that keys.reddit_id lets through
PARENT_WIDTH: Final = ID_WIDTH + 3  # with t1_ or t3_


def write_columns(path: Path, frame: "pl.DataFrame") -> None:
    """Write the columns of `frame` (a documents table, in the order of its rows) below `path`."""
    import numpy as np
    import polars as pl

    folder = path / FOLDER
    folder.mkdir()
    subreddits = sorted(frame["subreddit"].unique())
    authors = sorted(frame["author"].unique(), key=str.encode)
    ids, links = _bytes(frame["id"], ID_WIDTH), _bytes(frame["link_id"], ID_WIDTH)
    codes = _codes(frame["author"], authors)
    by_id, by_link, by_author = (np.argsort(keys, kind="stable").astype(np.int32) for keys in (ids, links, codes))
    arrays = {
        "created_at": frame["created_at"].to_numpy(),
        "text_as_of": frame["text_as_of"].to_numpy(),
        # LATEST lies after every cutoff, so that an unknown time counts as later
        "engagement_as_of": frame["engagement_as_of"].fill_null(LATEST).to_numpy(),
        "subreddit": _codes(frame["subreddit"], subreddits),
        "author": codes,
        "id": ids,
        "parent_id": _bytes(frame["parent_id"], PARENT_WIDTH),
        "by_id": by_id,
        "by_link": by_link,
        "by_author": by_author,
        "sorted_id": ids[by_id],
        "sorted_link": links[by_link],
        "sorted_author": codes[by_author],
    }
    for name, values in arrays.items():
        np.save(folder / f"{name}.npy", np.ascontiguousarray(values), allow_pickle=False)
    with pa.OSFile(str(folder / AUTHORS), "wb") as out:
        table = pa.table({"author": pa.array(authors, pa.large_string())})
        with pa.ipc.new_file(out, table.schema) as writer:
            writer.write_table(table)
    first_seen = dict(frame.group_by("subreddit").agg(pl.col("created_at").min()).iter_rows())
    names = {
        "subreddits": subreddits,
        "first_seen": [first_seen[name] for name in subreddits],
        "latest": {name: int(arrays[name].max(initial=0)) for name in TIMES},
    }
    (folder / FACTS).write_text(json.dumps(names, ensure_ascii=False), encoding="utf-8")


class Columns:
    """The columns of one sealed month, each mapped when it is first used."""

    def __init__(self, path: Path, *, month: str, rows: int) -> None:
        self._folder, self.month, self.rows = path / FOLDER, month, rows

    def _map(self, name: str) -> "NDArray[Any]":
        import numpy as np

        try:
            found: NDArray[Any] = np.load(self._folder / f"{name}.npy", mmap_mode="r" if self.rows else None)
        except (OSError, ValueError) as error:
            raise InputRefused(f"{self._folder}/{name}.npy cannot be read ({error}): rebuild that month.") from error
        return found.view(np.ndarray)

    @cached_property
    def created_at(self) -> "NDArray[np.int64]":
        """Epoch seconds."""
        return self._map("created_at")

    @cached_property
    def text_as_of(self) -> "NDArray[np.int64]":
        """Epoch seconds."""
        return self._map("text_as_of")

    @cached_property
    def engagement_as_of(self) -> "NDArray[np.int64]":
        """Epoch seconds; LATEST where unknown."""
        return self._map("engagement_as_of")

    @cached_property
    def subreddit(self) -> "NDArray[np.int32]":
        """Positions in `subreddit_names`."""
        return self._map("subreddit")

    @cached_property
    def author(self) -> "NDArray[np.int32]":
        """Positions in the sorted authors."""
        return self._map("author")

    @cached_property
    def ids(self) -> "NDArray[np.bytes_]":
        """Bare ids."""
        return self._map("id")

    @cached_property
    def parents(self) -> "NDArray[np.bytes_]":
        """Prefixed parent ids, empty where there is none."""
        return self._map("parent_id")

    @cached_property
    def _facts(self) -> dict[str, Any]:
        try:
            found: dict[str, Any] = json.loads((self._folder / FACTS).read_text(encoding="utf-8"))
        except (OSError, ValueError) as error:
            raise InputRefused(f"{self._folder / FACTS} cannot be read ({error}): rebuild that month.") from error
        return found

    @property
    def subreddit_names(self) -> list[str]:
        """Every subreddit of the month, sorted."""
        names: list[str] = self._facts["subreddits"]
        return names

    @property
    def first_seen(self) -> dict[str, int]:
        """The first `created_at` of each subreddit in the month."""
        return dict(zip(self._facts["subreddits"], self._facts["first_seen"], strict=True))

    @property
    def latest(self) -> dict[str, int]:
        """The largest value of each time of the month, by column; LATEST if any vote time is unknown."""
        found: dict[str, int] = self._facts["latest"]
        return found

    @cached_property
    def _authors(self) -> tuple["NDArray[np.int64]", memoryview]:
        """Where each sorted name begins and ends, and their bytes: Arrow's own layout, mapped and not decoded."""
        import numpy as np

        names = pa.ipc.open_file(pa.memory_map(str(self._folder / AUTHORS))).read_all()["author"]
        if not len(names):
            return np.zeros(1, dtype=np.int64), memoryview(b"")
        _, offsets, data = names.chunk(0).buffers()
        return np.frombuffer(offsets, dtype=np.int64, count=len(names) + 1), memoryview(data)

    def author_code(self, author: str) -> int | None:
        """Return the position of an author, or None. Exact; bisects the sorted names."""
        wanted = author.encode("utf-8", "surrogatepass")
        offsets, data = self._authors

        def name(code: int) -> bytes:
            return bytes(data[offsets[code] : offsets[code + 1]])

        every = range(len(offsets) - 1)
        found = bisect_left(every, wanted, key=name)
        return found if found in every and name(found) == wanted else None

    def rows_of_id(self, bare: str) -> "NDArray[np.int32]":
        """Return the row of an id: none or one."""
        return self._equal("id", bare.encode())

    def rows_of_link(self, bare: str) -> "NDArray[np.int32]":
        """Return the rows of the comments under a submission, oldest first."""
        return self._equal("link", bare.encode())

    def rows_of_author(self, author: str) -> "NDArray[np.int32]":
        """Return the rows of an author, oldest first."""
        code = self.author_code(author)
        return self._equal("author", -1 if code is None else code)

    @cached_property
    def _orders(self) -> dict[str, tuple["NDArray[Any]", "NDArray[np.int32]"]]:
        return {name: (self._map(f"sorted_{name}"), self._map(f"by_{name}")) for name in ("id", "link", "author")}

    def _equal(self, name: str, wanted: bytes | int) -> "NDArray[np.int32]":
        import numpy as np

        keys, rows = self._orders[name]
        value = np.array(wanted, dtype=keys.dtype)
        return rows[np.searchsorted(keys, value, "left") : np.searchsorted(keys, value, "right")]


def _bytes(series: "pl.Series", width: int) -> "NDArray[Any]":
    import numpy as np

    return np.array([(text or "").encode()[:width] for text in series], dtype=f"S{width}")


def _codes(series: "pl.Series", names: list[str]) -> "NDArray[np.int32]":
    import numpy as np

    position = {name: code for code, name in enumerate(names)}
    return np.fromiter((position[name] for name in series), dtype=np.int32, count=len(series))
