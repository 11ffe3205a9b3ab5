"""The command that makes a partition again, by table: what an error about a partition tells a person to do."""

from typing import Final

_COMMANDS: Final = {
    "submissions": "hindcast corpus build --month {0} --kind submissions",
    "comments": "hindcast corpus build --month {0} --kind comments",
    "submission_index": "hindcast archive build --month {0}",
    "comment_index": "hindcast archive build --month {0}",
    "markets": "hindcast markets fetch --closed-from {0}-01 --closed-to {0}-28",
    "market_prices": "hindcast markets fetch --closed-from {0}-01 --closed-to {0}-28",
    "coverage_probe": "hindcast backfill markets --from {0} --to {0}",
    "market_baseline": "hindcast forecast baselines --eval-set {0}",
    "scored_forecasts": "hindcast score --eval-set {0}",
    "score_tables": "hindcast score --eval-set {0}",
    "comparisons": "hindcast score --eval-set {0}",
    "leak_audit": "hindcast audit --eval-set {0}",
    "report": "hindcast report --eval-set {0}",
}
_FORECASTS: Final = "_forecasts"


def remedy(table: str, key: tuple[str, ...]) -> str:
    """Return "make it again with `...`", or a plain "rebuild that partition" for a table without a single command."""
    if table in _COMMANDS and len(key) == 1:
        return f"make it again with `{_COMMANDS[table].format(*key)}`"
    if table.endswith(_FORECASTS) and len(key) == 2:  # noqa: PLR2004 - model and eval set
        arm = table.removesuffix(_FORECASTS)
        return f"make it again with `hindcast forecast run --arm {arm} --model {key[0]} --eval-set {key[1]}`"
    return "rebuild that partition"
