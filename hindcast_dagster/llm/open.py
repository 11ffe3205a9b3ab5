"""From a roster slug to a model that can be called."""

import logging

from hindcast_dagster import keys
from hindcast_dagster.errors import UsageError
from hindcast_dagster.llm.model import Model, Transport
from hindcast_dagster.llm.roster import Entry, ad_hoc, load
from hindcast_dagster.settings import Settings

_LOG = logging.getLogger(__name__)


def entry_of(settings: Settings, slug: str) -> Entry:
    """Return the entry behind a slug, with the server that the settings name. Raises `UsageError`.

    A slug that the roster does not list may be the encoded name of a model of `llm.base_url` (see `roster.ad_hoc`).
    """
    roster, base_url = load(settings), settings.llm.base_url
    if slug not in roster.models and base_url is not None:
        try:
            return ad_hoc(base_url, keys.from_slug(slug))
        except UsageError:
            return roster.get(slug)
    entry = roster.get(slug)
    if base_url is not None and entry.backend != "embedded":
        return entry.model_copy(update={"backend": "server", "base_url": base_url})
    return entry


def open_model(settings: Settings, slug: str) -> Model:
    """Return the model behind a roster slug; nothing is loaded or connected before its first call.

    With the setting `llm.base_url` every entry but the embedded one is called there; without it an entry runs on its
    own server, in process (vLLM) or embedded. Raises `UsageError` for an unknown slug or a missing key and `NotReady`
    for a backend that is not installed.
    """
    entry = entry_of(settings, slug)
    if entry.research_only:
        _LOG.warning("%s is licensed for research only (%s).", entry.name, entry.licence)
    return Model(entry, _transport(settings, entry), settings.llm)


def _transport(settings: Settings, entry: Entry) -> Transport:
    if entry.backend == "embedded":
        from hindcast_dagster.llm.embedded import EmbeddedTransport

        return EmbeddedTransport(entry)
    if entry.backend == "server":
        from hindcast_dagster.llm.openai_compatible import OpenAITransport

        if entry.base_url is None:
            raise UsageError(f"{entry.name} runs on a server: name it with the setting llm.base_url.")
        return OpenAITransport(entry, entry.base_url)
    from hindcast_dagster.llm.vllm_engine import VllmTransport

    return VllmTransport(entry, settings.llm)
