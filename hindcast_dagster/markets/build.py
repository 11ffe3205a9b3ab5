"""One close month of the `markets` table, derived from the stored raw rows without the network."""

import collections
import json
from hashlib import sha256
from typing import Any, Final

from hindcast_dagster import keys
from hindcast_dagster.contracts.markets import MARKETS
from hindcast_dagster.errors import NotReady
from hindcast_dagster.markets import rows
from hindcast_dagster.markets.exclusions import load_exclusions
from hindcast_dagster.markets.parse import Malformed, parse
from hindcast_dagster.markets.topics import OTHER, TopicMap, load_topics
from hindcast_dagster.settings import Settings
from hindcast_dagster.storage.manifest import Input, Manifest
from hindcast_dagster.storage.store import Store
from hindcast_dagster.storage.tables import publish_table

TABLE: Final = "markets"
CODE_VERSION: Final = "markets/2"  # rises when the same raw rows would give other table rows


def build(store: Store, settings: Settings, *, month: str) -> Manifest:
    """Seal the markets that closed in `month`, the excluded ones with their reason.

    Returns the manifest; its `stats` hold markets, kept, excluded by reason, malformed and topics. Nothing is done when
    raw rows, exclusion list and topic mapping are those of the sealed partition. A month in which nothing closed is
    sealed empty once the listing has been walked; before that `NotReady` is raised.
    """
    partition = store.partition(TABLE, keys.month(month))
    topics, manual = load_topics(settings.polymarket.topics_file), load_exclusions(settings.polymarket.exclusions_file)
    raw = rows.log(store, month)
    if not raw.path.is_file() and not rows.walked(store):
        raise NotReady(f"No raw markets of {month} are stored in {store.root}: run `hindcast markets fetch` first.")
    inputs = _inputs(raw.sha256(), month, topics, manual)
    sealed = partition.intact()
    if sealed and sealed.inputs == inputs and sealed.code_version == CODE_VERSION:
        return sealed
    found, malformed = _parsed(store, month, topics, manual)
    return publish_table(
        partition,
        MARKETS.frame(found),
        MARKETS,
        code_version=CODE_VERSION,
        inputs=inputs,
        stats=_stats(found, malformed),
    )


def _inputs(raw_sha256: str, month: str, topics: TopicMap, manual: dict[str, str]) -> tuple[Input, ...]:
    excluded = sha256(json.dumps(manual, sort_keys=True).encode()).hexdigest()
    given = {"raw-markets": raw_sha256, "topic-mapping": topics.sha256, "manual-exclusions": excluded}
    return tuple(Input(table=name, key=(month,), version=version) for name, version in sorted(given.items()))


def _parsed(store: Store, month: str, topics: TopicMap, manual: dict[str, str]) -> tuple[list[dict[str, Any]], int]:
    found, malformed = [], 0
    for market, version in rows.latest(store, month):
        try:
            row = parse(version.raw, topics=topics, fetched_at=version.fetched_at, raw_sha256=version.sha256)
        except Malformed:
            malformed += 1
            continue
        if market in manual:
            row |= {"outcome": None, "excluded": manual[market]}
        found.append(row)
    return found, malformed


def _stats(found: list[dict[str, Any]], malformed: int) -> dict[str, Any]:
    excluded = collections.Counter(row["excluded"] for row in found if row["excluded"])
    kept = [row for row in found if not row["excluded"]]
    return {
        "markets": len(found),
        "kept": len(kept),
        "no": sum(row["outcome"] == "No" for row in kept),
        "excluded": dict(sorted(excluded.items())),
        "malformed": malformed,
        "with_addenda": sum(bool(row["addenda"]) for row in found),
        "topics": dict(sorted(collections.Counter(row["topic"] for row in kept).items())),
        "without_topic": sum(row["topic"] == OTHER for row in kept),
    }
