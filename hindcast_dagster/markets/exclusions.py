"""The manual exclusion list: markets that a person left out, with the reason.

One `market id, reason` a line; blank lines and lines that begin with # are skipped.
"""

from pathlib import Path
from typing import Final

from hindcast_dagster import keys
from hindcast_dagster.errors import UsageError

PREFIX: Final = "manual: "
_MAX_REASON: Final = 80


def load_exclusions(path: Path | None) -> dict[str, str]:
    """Return reason by market id; empty for None. Raises `UsageError` naming the line that does not fit."""
    if path is None:
        return {}
    try:
        lines = path.read_text(encoding="utf-8").splitlines()
    except (OSError, UnicodeDecodeError) as error:
        raise UsageError(f"The exclusion list {path} cannot be read: {error}.") from error
    found = {}
    for number, line in enumerate(lines, start=1):
        if not line.strip() or line.lstrip().startswith("#"):
            continue
        market, comma, reason = (part.strip() for part in line.partition(","))
        if not comma or not reason or not reason.isprintable() or len(reason) > _MAX_REASON:
            raise UsageError(
                f"{path}, line {number}: write `market id, reason` (a reason of up to {_MAX_REASON} characters)."
            )
        try:
            found[keys.condition_id(market)] = PREFIX + reason
        except UsageError as error:
            raise UsageError(f"{path}, line {number}: {error}") from error
    return found
