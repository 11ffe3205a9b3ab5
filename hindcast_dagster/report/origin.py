"""Where the numbers of an eval set came from, and the commands that make them again, read from manifests.

A dump is known by its sha256, a corpus month by its rules, an archive month by its embedding model, a forecast
partition by its runs and questions. Only what differs from the package's own settings is said.
"""

import json
from dataclasses import dataclass
from typing import Any, Final, NamedTuple

from hindcast_dagster import clock
from hindcast_dagster.corpus import subreddits
from hindcast_dagster.forecast.arms import BUILT_IN
from hindcast_dagster.forecast.records import BASELINE_ARMS
from hindcast_dagster.scoring.cells import remedy
from hindcast_dagster.scoring.inputs import forecast_partitions
from hindcast_dagster.settings import Corpus, Embedding
from hindcast_dagster.storage.manifest import Input, Manifest
from hindcast_dagster.storage.store import NotSealed, Store

KINDS: Final = {"submission_index": "submissions", "comment_index": "comments"}
PREFIX: Final = {"submissions": "RS", "comments": "RC"}
_LISTS: Final = {"subreddits", "bots_sha256", "all_subreddits"}


class Month(NamedTuple):
    """One month of the corpus behind a pinned index. `rules` is empty where the month is no longer there."""

    month: str
    kind: str
    dump_sha256: str | None
    rules: dict[str, Any]
    accepted_hollow: bool
    embedding: str | None


class Asked(NamedTuple):
    """A cell of forecasts as its partition says it was asked for."""

    model: str
    arm: str
    runs: int | None
    questions: int | None
    settings: str = "null"
    """Decoding and budgets of a built-in arm as JSON; another arm's own words are not repeated."""


@dataclass(frozen=True)
class Origin:
    """What an eval set and its forecasts were made from."""

    name: str
    stats: dict[str, Any]
    """Of the eval set: policy, archive end, ..."""
    questions: int
    months: tuple[Month, ...]
    market_months: tuple[str, ...]
    asked: tuple[Asked, ...]
    sample: bool

    @property
    def lists(self) -> list[list[str] | None]:
        """The distinct lists of subreddits of the months, None for every subreddit."""
        found: list[list[str] | None] = []
        for each in self.months:
            if each.rules and each.rules.get("subreddits") not in found:
                found.append(each.rules.get("subreddits"))
        return found

    @property
    def files(self) -> dict[str, list[str]]:
        """The lists that are not the package's own, by the file of the bundle that holds them."""
        own = [found for found in self.lists if found is not None and found != subreddits_of_package()]
        return {f"subreddits{f'-{n}' if len(own) > 1 else ''}.txt": found for n, found in enumerate(own, start=1)}

    @property
    def named(self) -> list[str]:
        """Every subreddit that any month keeps by name, sorted."""
        return sorted({name for found in self.lists if found for name in found})


def read(store: Store, manifest: Manifest, *, questions: int, sample: bool) -> Origin:
    """Read the origin of the eval set behind `manifest`."""
    (name,) = manifest.key
    return Origin(
        name=name,
        stats=dict(manifest.stats),
        questions=questions,
        months=tuple(sorted(_month(store, pin) for pin in manifest.pins if pin.table in KINDS)),
        market_months=tuple(sorted(pin.key[0] for pin in manifest.pins if pin.table == "markets")),
        asked=tuple(sorted(set(_asked(store, name)))),
        sample=sample,
    )


def _month(store: Store, pin: Input) -> Month:
    kind = KINDS[pin.table]
    index = _manifest(store, pin)
    source = next((each for each in index.inputs if each.table == kind), None) if index else None
    corpus = _manifest(store, source) if source else store.partition(kind, *pin.key).manifest()
    stats = corpus.stats if corpus else {}
    embedding = (index.stats.get("embedding") or {}) if index else {}
    return Month(
        pin.key[0],
        kind,
        stats.get("dump_sha256"),
        dict(stats.get("rules") or {}),
        bool(index and index.stats.get("accepted_hollow")),
        embedding.get("model"),
    )


def _manifest(store: Store, item: Input) -> Manifest | None:
    """Return the manifest of this version; of the current one where the version is gone; None where nothing is."""
    partition = store.partition(item.table, *item.key)
    try:
        return partition.at_version(item.version).manifest
    except NotSealed:
        return partition.manifest()


def _asked(store: Store, name: str) -> list[Asked]:
    found = []
    for part in forecast_partitions(store, name):
        stats, model = part.manifest.stats, part.manifest.key[0]
        if len(part.manifest.key) > 1 and stats.get("arm") not in BASELINE_ARMS:
            arm = str(stats.get("arm") or part.manifest.table.removesuffix("_forecasts"))
            settings = json.dumps(stats.get("arm_settings") if arm in BUILT_IN else None, sort_keys=True)
            found.append(Asked(model, arm, stats.get("runs"), stats.get("questions"), settings))
    return found


def commands(origin: Origin) -> list[str]:
    """Return the commands that make the numbers again from the public sources, remarks behind `#`."""
    return [
        *_settings(origin),
        *(line for month in origin.months for line in _corpus(month, origin)),
        *(f"hindcast archive build --month {month}{flag}" for month, flag in _archive(origin)),
        f"hindcast markets fetch{_window(origin)}",
        _eval_set(origin),
        *(_forecast(origin, each) for each in origin.asked),
        f"hindcast audit --eval-set {origin.name}",
        f"hindcast report --eval-set {origin.name}",
    ]


def _settings(origin: Origin) -> list[str]:
    """Return what the environment must say: the invented world, another embedding model, other limits of the corpus."""
    found = ["export HINDCAST_POLYMARKET__SOURCE=sample  # the invented world; `hindcast demo` makes all of it at once"]
    lines = found if origin.sample else []
    models = sorted({each.embedding for each in origin.months if each.embedding} - {Embedding().model})
    lines += [f"export HINDCAST_EMBEDDING__MODEL={model}" for model in models]
    usual = Corpus().model_dump(mode="json")
    limits = {
        (name, value)
        for each in origin.months
        for name, value in each.rules.items()
        if name not in _LISTS and name in usual and value != usual[name]
    }
    lines += [f"export HINDCAST_CORPUS__{name.upper()}={value}" for name, value in sorted(limits)]
    bots = {str(each.rules["bots_sha256"]) for each in origin.months if each.rules.get("bots_sha256")}
    return lines + [f"# export HINDCAST_CORPUS__BOTS_FILE=...  # a list with sha256 {found}" for found in sorted(bots)]


def _corpus(each: Month, origin: Origin) -> list[str]:
    dump = f"data/dumps/{PREFIX[each.kind]}_{each.month}.zst"
    kept = each.rules.get("subreddits", subreddits_of_package())
    file = next((name for name, found in origin.files.items() if found == kept), None)
    flag = " --all-subreddits" if kept is None else f" --subreddits {file}" if file else ""
    line = f"hindcast corpus build --month {each.month} --kind {each.kind} --dump {dump}{flag}"
    return [f"# {dump}: sha256 {each.dump_sha256 or 'unknown'}", line]


def _archive(origin: Origin) -> list[tuple[str, str]]:
    months = sorted({each.month for each in origin.months})
    hollow = {each.month for each in origin.months if each.accepted_hollow}
    return [(month, " --accept-hollow" if month in hollow else "") for month in months]


def _window(origin: Origin) -> str:
    if not origin.market_months:
        return ""
    first, last = clock.month_start(origin.market_months[0]), clock.month_end(origin.market_months[-1]) - 1
    return f" --closed-from {clock.iso(first)[:10]} --closed-to {clock.iso(last)[:10]}"


def _eval_set(origin: Origin) -> str:
    stats, options = origin.stats, ""
    if stats.get("policy") is None:
        return f"hindcast evalset import {origin.name}.json  # it came in from elsewhere"
    end = stats.get("archive_end")
    options += f" --archive-end {clock.iso(end) if isinstance(end, int) else end}" if end is not None else ""
    age = stats.get("max_price_age_h")
    options += f" --max-price-age {age:g}" if age is not None else ""
    by = stats.get("topics_by")
    options += f" --topics-by {by}" if by else ""
    return f"hindcast evalset build {origin.name} --t0 {stats['policy']} --markets questions.csv{options}"


def _forecast(origin: Origin, each: Asked) -> str:
    limit = each.questions if each.questions and each.questions < origin.questions else None
    return remedy(each.model, each.arm, origin.name, runs=each.runs, limit=limit)


def subreddits_of_package() -> list[str]:
    """Return the package's own list as a manifest holds it."""
    return sorted(subreddits.read())


def scope(origin: Origin) -> str:
    """Return what the corpus covers, in words."""
    if not origin.months:
        return "No month of an archive is pinned: forecasters searched nothing"
    lists = origin.lists
    if not lists:
        return "The months of the corpus are no longer there to say which subreddits they hold"
    if None in lists:
        return "Every subreddit of the dumps" + (", in some months only named ones" if len(lists) > 1 else "")
    sizes = sorted({len(found) for found in lists if found is not None})
    said = f"{sizes[0]}" if len(sizes) == 1 else f"{sizes[0]} to {sizes[-1]}"
    return f"{said} subreddit{'s' if sizes[-1] != 1 else ''} ({', '.join(origin.named)})"
