"""Topics: a market's tags through a mapping file to the topics of the paper (figure 3).

What belongs here: reading the mapping and the tags. The mapping is data (`topics.toml`, or the file that
`polymarket.topics_file` names); a market without a listed tag is Other.
"""

import tomllib
from dataclasses import dataclass
from hashlib import sha256
from importlib.resources import files
from pathlib import Path
from typing import Any, Final

from hindcast_dagster.contracts.questions import TOPICS
from hindcast_dagster.errors import UsageError
from hindcast_dagster.markets import fields

OTHER: Final = "Other"
_MAX_TAGS: Final = 50


@dataclass(frozen=True, slots=True)
class TopicMap:
    """Tags by topic, in the order in which topics claim a market."""

    topics: tuple[tuple[str, frozenset[str]], ...]
    sha256: str

    def topic(self, tags: list[str]) -> str:
        """Return the first topic that claims any of the tags, else Other."""
        mine = set(tags)
        return next((name for name, claimed in self.topics if claimed & mine), OTHER)


def load_topics(path: Path | None = None) -> TopicMap:
    """Read a mapping, the package's own for None. Raises `UsageError` for a file that does not fit."""
    where = str(path or "topics.toml")
    try:
        data = path.read_bytes() if path else (files(__package__) / "topics.toml").read_bytes()
        entries = tomllib.loads(data.decode()).get("topic", [])
        topics = tuple((str(e["name"]), frozenset(slug(str(tag)) for tag in e["tags"])) for e in entries)
    except (OSError, ValueError, KeyError, TypeError, AttributeError) as error:
        raise UsageError(f"{where} is not a topic mapping ({error}): see docs/markets.md.") from error
    if unknown := [name for name, _ in topics if name not in TOPICS]:
        raise UsageError(f"{where} names the topic {unknown[0]!r}; known: {', '.join(TOPICS)}.")
    return TopicMap(topics=topics, sha256=sha256(data).hexdigest())


def tags_of(raw: dict[str, Any]) -> list[str]:
    """Return the slugs of a market's tags, its events' tags and its category, sorted, each once."""
    given = [*(fields.items(raw.get("tags")) or []), raw.get("category")]
    for event in fields.objects(raw.get("events")):
        given += [*(fields.items(event.get("tags")) or []), event.get("category")]
    names = {slug(name) for tag in given if (name := _name(tag))}
    return sorted(names - {""})[:_MAX_TAGS]


def slug(name: str) -> str:
    """Return a tag as the mapping writes it: lower case, with "-" for spaces and slashes."""
    return "-".join(name.lower().replace("/", " ").replace("_", " ").split())


def _name(tag: Any) -> str | None:
    if isinstance(tag, dict):
        return fields.text(tag.get("slug")) or fields.text(tag.get("label"))
    return fields.text(tag) if isinstance(tag, str) else None
