"""Which subreddits a build keeps: the list of the package, or a file of the operator's."""

from importlib.resources import files
from pathlib import Path

from hindcast_dagster import keys
from hindcast_dagster.errors import UsageError


def read(path: Path | None = None) -> frozenset[str]:
    """Return the lower-case names in `path`, or the 20 of the package (docs/corpus.md says why these).

    One name a line, with or without `r/`; `#` begins a remark. Raises `UsageError` for an unreadable or empty list.
    """
    return frozenset(name.lower() for name in names(path))


def names(path: Path | None = None) -> list[str]:
    """Return the names as written, in file order."""
    try:
        text = path.read_text("utf-8") if path else files(__package__).joinpath("subreddits.txt").read_text("utf-8")
    except (OSError, UnicodeDecodeError) as error:
        raise UsageError(f"The subreddit list {path} cannot be read ({error}).") from error
    found = [keys.subreddit(line) for line in (raw.partition("#")[0].strip() for raw in text.splitlines()) if line]
    if not found:
        raise UsageError(f"The subreddit list {path} names no subreddit; use --all-subreddits to keep every one.")
    return found
