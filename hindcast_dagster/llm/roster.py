"""The roster: which models may be named, where they run, what they know and what they cost.

What belongs here: reading `models.toml` (the package's, extended by the setting `llm.roster_file`) into typed entries.
What does not: calling a model (see `open`). A slug is a partition key; a hub id never is.
"""

import re
import tomllib
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from datetime import date
from importlib.resources import files
from pathlib import Path
from typing import Any, Final, Literal, TypeVar

from pydantic import BaseModel, ConfigDict, Field, ValidationError

from hindcast_dagster import keys
from hindcast_dagster.clock import DAY, Cutoff, instant
from hindcast_dagster.errors import UsageError
from hindcast_dagster.settings import Settings

Backend = Literal["vllm", "server", "embedded"]
Kind = TypeVar("Kind", "Entry", "Encoder")
Contamination = Literal["after_cutoff", "before_cutoff", "no_cutoff"]

AD_HOC_CONTEXT: Final = 8192
"""Assumed for a server that was named on the command line: small enough for what people serve on one machine."""
_ENVIRONMENT: Final = re.compile(r"[A-Z][A-Z0-9_]{0,63}")


class Price(BaseModel):
    """US dollars per million tokens."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    tokens_in: float = Field(ge=0)
    tokens_out: float = Field(ge=0)
    tokens_cached: float | None = Field(default=None, ge=0, description="None: cached tokens cost as others do.")

    def of(self, *, tokens_in: int, tokens_out: int, tokens_cached: int = 0) -> float:
        """Return the price of calls in US dollars; cached tokens are part of `tokens_in`."""
        cached = self.tokens_in if self.tokens_cached is None else self.tokens_cached
        fresh = tokens_in - tokens_cached
        return (fresh * self.tokens_in + tokens_cached * cached + tokens_out * self.tokens_out) / 1_000_000


class Entry(BaseModel):
    """One model of the roster."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    slug: str
    name: str
    family: str
    hub_id: str
    revision: str | None = Field(default=None, description="Commit of the hub, or sha256: of a file.")
    backend: Backend = "vllm"
    base_url: str | None = Field(default=None, description="backend server: where it is.")
    served_name: str | None = Field(default=None, description="Name that the server knows it by; None: the hub id.")
    key_variable: str | None = Field(default=None, description="Environment variable that holds the API key.")
    dialect: Literal["vllm", "llama_cpp", "openai"] = Field(
        default="vllm", description="Which decoding parameters beyond OpenAI's the server takes."
    )
    licence: str
    research_only: bool = False
    knowledge_until: date | None = Field(default=None, description="Last day that training data may know.")
    cutoff_source: str
    released: date | None = None
    context_length: int = Field(gt=0)
    thinking: Literal["default", "on", "off"] = Field(
        default="default", description="default: nothing is sent, as in the paper (appendix B.3)."
    )
    reasons: bool = Field(default=False, description="Writes a thought before its answer.")
    thought_opened: bool = Field(default=False, description="Its chat template opens the thought in the prompt.")
    system_role: bool = Field(default=True, description="False: the chat template has none, it is folded.")
    size_b: float | None = Field(default=None, description="Billions of parameters.")
    price: Price | None = None
    paper: bool = Field(default=False, description="One of the nine models of the paper.")
    no_skill: bool = Field(default=False, description="Shows that everything runs; its forecasts mean nothing.")

    @property
    def remote_name(self) -> str:
        """The name that requests carry."""
        return self.served_name or self.hub_id

    def remarks(self) -> list[str]:
        """Return what a person should know before using it, one short clause each."""
        known = (
            (self.research_only, "research use only"),
            (not self.system_role, "no system role, folded"),
            (self.thought_opened, "thought opened by its template"),
            (self.no_skill, "no forecasting skill"),
        )
        return [remark for holds, remark in known if holds]

    @property
    def knowledge_cutoff(self) -> int | None:
        """Epoch seconds of the first instant that the model cannot have read about; None when nobody published it."""
        return None if self.knowledge_until is None else instant(self.knowledge_until) + DAY

    def contamination(self, t0: Cutoff) -> Contamination:
        """Say whether a question at t0 lies after all that the model may have been trained on.

        `before_cutoff`: the outcome may be in its training data. `no_cutoff`: nobody published one, so nobody knows.
        """
        cutoff = self.knowledge_cutoff
        if cutoff is None:
            return "no_cutoff"
        return "after_cutoff" if t0.epoch >= cutoff else "before_cutoff"


class Encoder(BaseModel):
    """One embedding model, for tables and licences; the archive loads it."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    slug: str
    name: str
    hub_id: str
    revision: str | None = None
    licence: str
    dimensions: int = Field(gt=0)
    max_tokens: int = Field(gt=0)
    size_b: float | None = None
    paper: bool = False


@dataclass(frozen=True, slots=True)
class Roster:
    """All entries, by slug; iterating yields the models."""

    models: Mapping[str, Entry]
    encoders: Mapping[str, Encoder]

    def __iter__(self) -> Iterator[Entry]:
        return iter(self.models.values())

    def get(self, slug: str) -> Entry:
        """Return one entry. Raises `UsageError` for an unknown slug and names the known ones."""
        if slug in self.models:
            return self.models[slug]
        raise UsageError(f"{slug!r} is not in the model roster; known: {', '.join(sorted(self.models))}.")

    def slug_of(self, model: str) -> str:
        """Return the slug for a model as a server names it: of the entry with this slug, name or hub id, else made."""
        names = (entry.slug for entry in self if model in {entry.slug, entry.remote_name, entry.hub_id})
        return next(names, None) or keys.to_slug(model)


def load(settings: Settings) -> Roster:
    """Return the roster of the package, extended by `settings.llm.roster_file`. Raises `UsageError`."""
    document = tomllib.loads(files(__package__).joinpath("models.toml").read_text(encoding="utf-8"))
    path = settings.llm.roster_file
    extra = _read(path) if path else {}
    where = str(path) if path else "models.toml"
    return Roster(
        models=_entries(Entry, document["models"] | extra.get("models", {}), where),
        encoders=_entries(Encoder, document["encoders"] | extra.get("encoders", {}), where),
    )


def ad_hoc(base_url: str, model: str) -> Entry:
    """Return an entry for any model of an OpenAI-compatible server; its slug decodes to the model's name."""
    return Entry(
        slug=keys.to_slug(model),
        name=model,
        family="unlisted",
        hub_id=model,
        backend="server",
        base_url=base_url,
        licence="unknown",
        cutoff_source="not in the roster",
        context_length=AD_HOC_CONTEXT,
    )


def _read(path: Path) -> dict[str, Any]:
    try:
        document = tomllib.loads(path.read_text(encoding="utf-8"))
    except (OSError, UnicodeDecodeError, tomllib.TOMLDecodeError) as error:
        raise UsageError(f"The roster {path} cannot be read: {error}.") from error
    unknown = sorted(document.keys() - {"models", "encoders"})
    if unknown or not all(isinstance(table, dict) for table in document.values()):
        raise UsageError(f"The roster {path} holds {unknown or 'no tables'}: expected [models.<slug>] tables.")
    return document


def _entries(kind: type[Kind], tables: dict[str, Any], where: str) -> dict[str, Kind]:
    return {name: _entry(kind, name, table, where) for name, table in tables.items()}


def _entry(kind: type[Kind], name: str, table: Any, where: str) -> Kind:
    keys.slug(name, what="roster slug")
    try:
        entry = kind.model_validate({**table, "slug": name})
    except (ValidationError, TypeError) as error:
        first = error.errors()[0] if isinstance(error, ValidationError) else {"loc": (), "msg": str(error)}
        field = ".".join(map(str, first["loc"]))
        raise UsageError(f"Roster entry {name} ({where}), {field}: {first['msg']}.") from error
    variable = getattr(entry, "key_variable", None)
    if variable is not None and not _ENVIRONMENT.fullmatch(variable):
        raise UsageError(f"Roster entry {name} ({where}): key_variable {variable!r} is not a variable name.")
    return entry
