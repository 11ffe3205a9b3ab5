"""Bytes a row and rows a second of every table that grows with the corpus: the measured half of docs/sizing.md.

    python benchmarks/sizing.py [--comments 200000] [--posts 2000]

Bytes are those of the 765 real posts that the sample dump holds (../shared, AskMen 2019-10), once as submissions and
once as comments; rates are those of months that repeat their texts, each with an id and a number of its own, to the
asked number of rows. Prints one JSON document.
"""

import argparse
import json
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import polars as pl

from hindcast_dagster.archive.build import build_comments, build_submissions
from hindcast_dagster.contracts.documents import BY_KIND, SUBMISSIONS
from hindcast_dagster.corpus.build import build
from hindcast_dagster.settings import Settings, load
from hindcast_dagster.storage.store import Store, open_store
from hindcast_dagster.storage.tables import publish_table, read_table

SHARED = Path(__file__).resolve().parents[2] / "shared" / "data" / "reddit"
MONTH = "2019-10"


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else "")
    parser.add_argument("--comments", type=int, default=200_000)
    parser.add_argument("--posts", type=int, default=2_000)
    options = parser.parse_args()
    dumps = ("AskMen_submissions.zst", "RC_2005-12.zst")
    found: dict[str, Any] = {"dumps": {name: compression(SHARED / name) for name in dumps}}
    with tempfile.TemporaryDirectory() as folder:
        store = open_store(folder)
        settings = load(data_root=folder, embedding={"model": "minilm"}, corpus={"all_subreddits": True})
        build(store, settings, month=MONTH, kind="submissions", dump=SHARED / "AskMen_submissions.zst")
        real = read_table(store.partition("submissions", MONTH).require(), SUBMISSIONS)
        length = real.select(pl.col("title").str.len_chars() + pl.col("text").str.len_chars()).mean().item()
        found["characters_a_post"] = round(length)
        for kind, rows, index in (
            ("submissions", options.posts, build_submissions),
            ("comments", options.comments, build_comments),
        ):
            few, _ = month(store, settings, repeated(real, real.height, kind), kind, index)
            _, seconds = month(store, settings, repeated(real, rows, kind), kind, index)
            found[kind] = {"bytes_a_row": few, "index_rows": rows, "index_seconds": seconds}
            found[kind]["index_rows_a_second"] = rows / seconds
    print(json.dumps(rounded(found), indent=1))


def month(
    store: Store, settings: Settings, frame: pl.DataFrame, kind: str, index: Callable[..., object]
) -> tuple[dict[str, float], float]:
    """Seal and index a month; return bytes a row by part, and the seconds that the index took."""
    publish_table(store.partition(kind, MONTH), frame, BY_KIND[kind], code_version="sizing")
    began = time.perf_counter()
    index(store, settings, month=MONTH, accept_hollow=True)
    seconds = time.perf_counter() - began
    sizes = {"table": sum(parts_of(store, kind).values())} | parts_of(store, f"{kind[:-1]}_index")
    return {name: size / frame.height for name, size in sizes.items()}, seconds


def compression(path: Path) -> dict[str, float]:
    """Return the size of a dump, packed and unpacked."""
    import zstandard

    unpacked = 0
    with path.open("rb") as source:
        reader = zstandard.ZstdDecompressor(max_window_size=2**31).stream_reader(source, read_across_frames=True)
        while block := reader.read(1 << 22):
            unpacked += len(block)
    return {"packed": path.stat().st_size, "unpacked": unpacked, "ratio": path.stat().st_size / unpacked}


def repeated(real: pl.DataFrame, rows: int, kind: str) -> pl.DataFrame:
    """Return `rows` rows with the texts of real posts, each with an id and a number in front of its own."""
    many = pl.concat([real] * (rows // real.height + 1)).head(rows).with_row_index("number")
    numbered = many.with_columns(
        id=pl.col("number").map_elements(base36, return_dtype=pl.String),
        text=pl.format("{} {}", "number", "text"),
    )
    if kind == "comments":
        numbered = numbered.with_columns(
            doc_type=pl.lit("comment"),
            title=pl.lit(None, dtype=pl.String),
            num_comments=pl.lit(None, dtype=pl.Int64),
            link_id=many["id"],
            parent_id=pl.format("t3_{}", many["id"]),
        )
    return numbered.drop("number").sort("created_at", "id")


def base36(number: int) -> str:
    """Return an id of six characters."""
    digits = "0123456789abcdefghijklmnopqrstuvwxyz"
    return "".join(digits[number // 36**place % 36] for place in range(5, -1, -1)).replace("0", "z", 1)


def parts_of(store: Store, table: str) -> dict[str, int]:
    """Return bytes by first path component of a sealed month."""
    home = store.partition(table, MONTH).require().path
    found: dict[str, int] = {}
    for path in home.rglob("*"):
        if path.is_file():
            name = path.relative_to(home).parts[0]
            found[name] = found.get(name, 0) + path.stat().st_size
    return found


def rounded(value: Any) -> Any:
    """Return the document with three significant digits in its fractions."""
    if isinstance(value, dict):
        return {key: rounded(each) for key, each in value.items()}
    return float(f"{value:.3g}") if isinstance(value, float) else value


if __name__ == "__main__":
    main()
