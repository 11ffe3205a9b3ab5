"""Typed settings, read when asked and never at import.

Precedence: arguments, then HINDCAST_* variables (`HINDCAST_POLYMARKET__GAMMA_URL`), then a `hindcast.toml`: the file
that HINDCAST_CONFIG names, else the one in the data root, else the one in the working directory. Secrets (API keys)
are read from the environment only and never stored here.
"""

import difflib
import os
import tomllib
from collections.abc import Iterator
from pathlib import Path
from typing import Annotated, Any, Literal

from pydantic import AfterValidator, BaseModel, ConfigDict, Field, ValidationError
from pydantic_settings import BaseSettings, PydanticBaseSettingsSource, SettingsConfigDict, SettingsError

from hindcast_dagster import keys
from hindcast_dagster.clock import month_of, now
from hindcast_dagster.errors import UsageError


def _month(text: str) -> str:
    try:
        return keys.month(text)
    except UsageError as error:  # pydantic adds the name of the setting to a ValueError only
        raise ValueError(str(error)) from error


Month = Annotated[str, AfterValidator(_month)]
Mode = Literal["strict", "paper"]
LateVotes = Literal["withhold", "hide"]

DEFAULT_ROOT = "data"
CONFIG_NAME = "hindcast.toml"


class _Section(BaseModel):
    model_config = ConfigDict(frozen=True, extra="forbid")


class Window(_Section):
    """The months that the partition definitions span; a sealed key outside them is reported, not dropped."""

    first_month: Month = "2005-12"
    last_month: Month | None = Field(default=None, description="None: the current month.")
    first_close_month: Month = Field(default="2020-10", description="Polymarket's first month.")

    def months(self) -> tuple[str, str]:
        """Return (first, last), both included."""
        return self.first_month, self.last_month or month_of(now())


class Corpus(_Section):
    """Filters of the corpus stage (paper, section 3.1)."""

    subreddits_file: Path | None = Field(default=None, description="One name a line; None: the 20 of the package.")
    all_subreddits: bool = False
    bots_file: Path | None = Field(default=None, description="Author names to drop, one a line, case-insensitive.")
    drop_deleted_later: bool = Field(default=False, description="Drop posts that their author deleted later.")
    min_score: int = 5
    min_comments: int = 3
    min_characters: int = 5
    min_words: int = 20


class Archive(_Section):
    """How the archive answers (design, the cutoff contract)."""

    mode: Mode = "strict"
    late_votes: LateVotes = Field(default="withhold", description="strict mode: withhold late votes, or hide the rows.")
    memory_mb: int = Field(default=4096, gt=0, description="Bound on the vectors that a process keeps in memory.")


class Embedding(_Section):
    """The embedding model. `minilm` is the one that installs as a package."""

    model: str = "Qwen/Qwen3-Embedding-0.6B"
    revision: str | None = None
    device: str | None = Field(default=None, description="None: all GPUs, else the CPU.")
    batch_size: int = Field(default=16, gt=0)
    max_tokens: int | None = Field(default=None, description="None: the model's own limit.")


class Polymarket(_Section):
    """One base URL per API, so that a recorded server can stand in for each."""

    source: Literal["api", "sample"] = Field(default="api", description="sample: the generated world of the demo.")
    gamma_url: str = "https://gamma-api.polymarket.com"
    clob_url: str = "https://clob.polymarket.com"
    data_url: str = "https://data-api.polymarket.com"
    wait_budget_s: float = Field(default=120.0, gt=0, description="Total wait for one request, retries included.")
    price_route: Literal["clob", "data"] = Field(default="clob", description="The route that is asked first.")
    stale_price_hours: float = Field(default=36.0, gt=0)
    exclusions_file: Path | None = Field(default=None, description="market id, reason: one pair a line.")
    topics_file: Path | None = Field(default=None, description="TOML that maps tags to topics; None: the package's.")
    price_step_minutes: int = Field(default=60, ge=1, le=1440, description="Spacing that price histories are asked in.")
    workers: int = Field(default=4, ge=1, le=16, description="Price requests in flight at once.")


class Questions(_Section):
    """What an eval set derives from markets (paper, section 4.1)."""

    short_days: float = Field(default=7.0, gt=0, description="Open this long or less: short.")
    medium_days: float = Field(default=60.0, gt=0, description="Open this long or less: medium; longer: long.")
    base_rate_min: int = Field(default=10, ge=1, description="Closed markets below which a base rate is not used.")


class Engine(_Section):
    """vLLM inside this process (extra `vllm`)."""

    tensor_parallel: int = Field(default=1, ge=1, description="GPUs that share one copy of the model.")
    data_parallel: int = Field(default=1, ge=1, description="Copies of the model.")
    max_model_len: int | None = Field(default=None, ge=512, description="None: the context length of the roster.")
    prefix_caching: bool = True
    memory_fraction: float = Field(default=0.9, gt=0, le=1, description="Share of GPU memory that the engine takes.")
    eager: bool = Field(default=False, description="No CUDA graphs and no compilation: slower, starts at once.")


class Llm(_Section):
    """Language models. Keys come from the environment variable that the roster entry names."""

    roster_file: Path | None = Field(default=None, description="A models.toml that extends the roster of the package.")
    base_url: str | None = Field(default=None, description="An OpenAI-compatible server; None: the roster's own.")
    concurrency: int = Field(default=16, gt=0)
    wait_budget_s: float = Field(default=600.0, gt=0)
    request_timeout_s: float = Field(default=300.0, gt=0)
    structured: bool = Field(
        default=False, description="Ask for JSON by schema where the backend can; off as in the paper."
    )
    allow_contaminated: bool = Field(
        default=True, description="Run questions that lie before a model's cutoff, flagged."
    )
    max_cost: float | None = Field(default=None, ge=0, description="Money limit of one run, in US dollars.")
    engine: Engine = Engine()


class Agent(_Section):
    """The retrieval agent; the defaults are the paper's (section 5.2 and B.3)."""

    rounds: int = Field(default=3, ge=1)
    seed_queries: int = Field(default=6, ge=1)
    follow_ups_min: int = Field(default=4, ge=1)
    follow_ups_max: int = Field(default=6, ge=1)
    hits_per_query: int = Field(default=20, ge=1)
    expanded: int = Field(default=20, ge=0)
    author_posts: int = Field(default=5, ge=0)
    author_comments: int = Field(default=5, ge=0)
    threads: int = Field(default=5, ge=0, description="Best posts whose comment threads are read.")
    comments_per_thread: int = Field(default=10, ge=0)
    thread_depth: int = Field(default=3, ge=1)
    stop_confidence: float = Field(default=0.7, ge=0, le=1)
    lookups: int = Field(default=6, ge=0, description="Look-up tool calls that the model may make per round.")
    min_yield: float = Field(default=0.05, ge=0, le=1, description="New documents per hit below which research stops.")
    evidence_tokens: int = Field(default=24_000, gt=0, description="Evidence budget of one call, in tokens.")


class Call(_Section):
    """Decoding of one kind of model call."""

    temperature: float = Field(ge=0, le=2)
    max_tokens: int = Field(gt=0)


class Decoding(_Section):
    """Decoding per kind of call; the defaults are the paper's (table 4). Everything else is sent as off."""

    top_p: float = Field(default=1.0, gt=0, le=1)
    zero_shot: Call = Call(temperature=0.1, max_tokens=4096)
    seed_queries: Call = Call(temperature=0.2, max_tokens=4096)
    reflection: Call = Call(temperature=0.3, max_tokens=4096)
    summary: Call = Call(temperature=0.1, max_tokens=3500)
    tally: Call = Call(temperature=0.1, max_tokens=2200)
    forecast: Call = Call(temperature=0.1, max_tokens=3200)
    repair: Call = Call(temperature=0.1, max_tokens=1400)
    compact: Call = Call(temperature=0.1, max_tokens=2400)
    json_only: Call = Call(temperature=0.1, max_tokens=900)


class Forecast(_Section):
    """A run of forecasts."""

    runs: int = Field(default=5, ge=1)
    question_limit: int | None = Field(default=None, ge=1, description="Model arms answer only the first N questions.")
    model_arms: tuple[str, ...] = ("zero_shot", "retrieval")


class Sample(_Section):
    """The generated world that stands in for Reddit and Polymarket when `polymarket.source` is "sample"."""

    months: int = Field(default=6, ge=1, le=60)
    seed: int = 0
    first_month: Month = "2025-08"


class Coverage(_Section):
    """The coverage probe (paper, section 4.1). The paper tells queries per side; the rest is ours."""

    queries_per_side: int = Field(default=5, ge=1, le=20)
    hits_per_query: int = Field(default=5, ge=1, le=50, description="Blocks that each query returns.")
    block_chars: int = Field(default=1_200, ge=100, description="Characters of a post that a judge model reads.")
    blocks_per_call: int = Field(default=10, ge=1, description="Blocks that one call labels.")
    queries: Call = Call(temperature=0.2, max_tokens=1_024)
    label: Call = Call(temperature=0.1, max_tokens=1_024)
    contrast: Call = Call(temperature=0.1, max_tokens=1_024)


class Automation(_Section):
    """What starts by itself. Nothing spends money unless `spend` is on and `max_cost` limits it."""

    vintage_of: str | None = Field(default=None, description="Eval set whose next vintages are frozen.")
    vintage_min: int = Field(default=20, ge=1, description="Newly resolved markets that make a vintage worthwhile.")
    spend: bool = Field(default=False, description="Ask the models below about each new vintage.")
    max_cost: float | None = Field(
        default=None, ge=0, description="US dollars in any seven days, all models together; None: nothing is asked."
    )
    models: tuple[str, ...] = Field(default=(), description="Roster slugs.")
    every_s: int = Field(default=120, ge=1, description="Seconds between two looks of a sensor.")
    settle_s: int = Field(default=60, ge=0, description="A dump must lie unchanged this long before it is read.")


class Checks(_Section):
    """Where the checks of an operator draw their lines. Only the first two stop anything."""

    market_brier: float = Field(default=0.25, gt=0, le=1, description="The market price must score below: a coin's.")
    market_min: int = Field(default=20, ge=1, description="Questions from which that is asked.")
    drift: float = Field(default=2.0, gt=1, description="Factor to the neighbouring months that is worth a look.")
    share: float = Field(default=0.15, gt=0, lt=1, description="Difference of a share that is worth a look.")
    stale_prices: float = Field(default=0.1, ge=0, le=1, description="Share of stale or missing prices in an eval set.")


class Settings(BaseSettings):
    """Every setting of Hindcast. Build with `load`."""

    model_config = SettingsConfigDict(
        env_prefix="HINDCAST_",
        env_nested_delimiter="__",
        frozen=True,
        extra="ignore",
        nested_model_default_partial_update=True,
    )

    data_root: str = DEFAULT_ROOT
    window: Window = Window()
    corpus: Corpus = Corpus()
    archive: Archive = Archive()
    embedding: Embedding = Embedding()
    polymarket: Polymarket = Polymarket()
    questions: Questions = Questions()
    llm: Llm = Llm()
    agent: Agent = Agent()
    decoding: Decoding = Decoding()
    forecast: Forecast = Forecast()
    coverage: Coverage = Coverage()
    sample: Sample = Sample()
    automation: Automation = Automation()
    checks: Checks = Checks()

    @classmethod
    def settings_customise_sources(
        cls,
        settings_cls: type[BaseSettings],
        init_settings: PydanticBaseSettingsSource,
        env_settings: PydanticBaseSettingsSource,
        dotenv_settings: PydanticBaseSettingsSource,
        file_secret_settings: PydanticBaseSettingsSource,
    ) -> tuple[PydanticBaseSettingsSource, ...]:
        """Put the environment above what `load` read from the file (which arrives as init arguments)."""
        del settings_cls, dotenv_settings, file_secret_settings
        return env_settings, init_settings


def load(*, data_root: str | None = None, **overrides: Any) -> Settings:
    """Read the settings; `data_root` and `overrides` (section=dict) win over everything. Raises `UsageError`.

    The error names the setting, what was found and what was meant.
    """
    root = data_root or os.environ.get("HINDCAST_DATA_ROOT") or DEFAULT_ROOT
    path = _config_path(root)
    values = _read(path) if path else {}
    if data_root or "HINDCAST_DATA_ROOT" in os.environ or "data_root" not in values:
        values["data_root"] = root
    try:
        _refuse_unknown_variables()
        found = Settings(**values)
        changed = {name: _overridden(getattr(found, name), value) for name, value in overrides.items()}
    except ValidationError as error:
        first = error.errors()[0]
        where = ".".join(str(part) for part in first["loc"]) or "settings"
        source = f" (environment or {path})" if path else " (environment)"
        if first["type"] == "extra_forbidden":
            raise UsageError(f"{where}{source} is not a setting; {_nearest(first['loc'])}.") from error
        raise UsageError(f"Setting {where}{source}: {first['msg']}; found {first.get('input')!r}.") from error
    except SettingsError as error:  # a list or a section as one variable that is no JSON
        raise UsageError(f"An environment variable is not the JSON that a list or a section needs: {error}.") from error
    return found.model_copy(update=changed | ({"data_root": root} if data_root else {}))


def _nearest(found: tuple[int | str, ...]) -> str:
    """Say what was meant by a name that is no setting: the likest of its section, else of all; else what there is."""
    section, _, name = ".".join(map(str, found)).lower().rpartition(".")
    every = list(_names(Settings))
    siblings = [each for each in every if each.rpartition(".")[0] == section]
    for known in (siblings, every):
        full = {each.rpartition(".")[2]: each for each in known}
        if likely := difflib.get_close_matches(name, full, n=1, cutoff=0.7):
            return f"the nearest is {full[likely[0]]}"
    return f"known: {', '.join(siblings or Settings.model_fields)}"


def _names(model: type[BaseModel], above: str = "") -> Iterator[str]:
    """Yield the full name of every section and setting."""
    for name, field in model.model_fields.items():
        yield above + name
        if isinstance(field.annotation, type) and issubclass(field.annotation, BaseModel):
            yield from _names(field.annotation, f"{above}{name}.")


def _overridden(section: BaseModel, values: dict[str, Any]) -> BaseModel:
    return type(section).model_validate(section.model_dump() | values)


def _refuse_unknown_variables() -> None:
    """Refuse a misspelt HINDCAST_ variable: a setting that silently does nothing has cost people results."""
    known = {name.upper() for name in Settings.model_fields} | {"CONFIG"}
    for name in sorted(os.environ):
        head = name.upper().removeprefix("HINDCAST_").partition("__")[0]  # upper or lower case, as pydantic reads them
        if name.upper().startswith("HINDCAST_") and head not in known and not name.upper().endswith("_KEY"):
            raise UsageError(f"{name} is not a setting; known sections: {', '.join(sorted(known))}.")


def _config_path(root: str) -> Path | None:
    named = os.environ.get("HINDCAST_CONFIG")
    if named:
        if not Path(named).is_file():
            raise UsageError(f"HINDCAST_CONFIG names {named}, which is not a file.")
        return Path(named)
    return next((path for path in (Path(root) / CONFIG_NAME, Path(CONFIG_NAME)) if path.is_file()), None)


def _read(path: Path) -> dict[str, Any]:
    try:
        values = tomllib.loads(path.read_text(encoding="utf-8"))
    except (OSError, UnicodeDecodeError, tomllib.TOMLDecodeError) as error:
        raise UsageError(f"{path} cannot be read as TOML: {error}.") from error
    unknown = sorted(set(values) - set(Settings.model_fields))
    if unknown:
        raise UsageError(
            f"{path} sets {unknown[0]!r}, which is not a setting; known: {', '.join(Settings.model_fields)}."
        )
    return values
