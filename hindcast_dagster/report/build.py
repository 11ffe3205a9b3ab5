"""Seals `report` of an eval set: the page, its figures as PNG, and the release bundle; and copies the page out."""

import shutil
from pathlib import Path
from typing import Final

from hindcast_dagster.report import page, release
from hindcast_dagster.report.figures import catalogue
from hindcast_dagster.report.gather import gather
from hindcast_dagster.settings import Settings
from hindcast_dagster.storage.files import write_atomic
from hindcast_dagster.storage.manifest import Manifest
from hindcast_dagster.storage.store import Store

CODE: Final = "report/1"
SCHEMA: Final = "report/1"
PAGE: Final = "report.html"
SMALL: Final = "small"


def build(store: Store, settings: Settings, *, eval_set: str) -> Manifest:
    """Seal the report of an eval set and copy it to `reports/<eval set>/`. Raises `NotReady` without scores."""
    gathered = gather(store, settings, eval_set=eval_set)
    drawn = catalogue.render(gathered)
    with store.partition("report", eval_set).draft() as draft:
        (draft.path / PAGE).write_text(page.render(gathered, drawn), encoding="utf-8")
        for figure in drawn.values():
            for folder, picture in (("figures", figure.png), (SMALL, figure.small)):
                (draft.path / folder).mkdir(exist_ok=True)
                (draft.path / folder / f"{figure.name}.png").write_bytes(picture)
        release.write(gathered, draft.path / "release")
        manifest = draft.seal(
            rows=gathered.scored.height,
            schema_version=SCHEMA,
            code_version=CODE,
            inputs=[*{*gathered.sources, *gathered.given.sources}],
            stats={
                "not_measured": [part._asdict() for part in gathered.not_measured],
                "figures": sorted(drawn),
                "sample": gathered.sample,
            },
        )
    _copy_out(store, eval_set)
    return manifest


def pictures(store: Store, eval_set: str) -> dict[str, bytes]:
    """Return the small pictures of a sealed report by name, for an orchestrator's metadata. Raises `NotSealed`."""
    sealed = store.partition("report", eval_set).require(made_by=f"hindcast report --eval-set {eval_set}")
    return {path.stem: path.read_bytes() for path in sorted((sealed.path / SMALL).glob("*.png"))}


def path_of(store: Store, eval_set: str) -> Path:
    """Return where a person finds the page: `reports/<eval set>/report.html`."""
    return store.area("reports", eval_set, PAGE)


def _copy_out(store: Store, eval_set: str) -> None:
    """Copy page, figures and bundle to where people look; the sealed partition stays the truth."""
    sealed = store.partition("report", eval_set).require()
    home = path_of(store, eval_set).parent
    for source in sorted(sealed.path.rglob("*")):
        relative = source.relative_to(sealed.path)
        if source.is_file() and relative.name != "manifest.json" and relative.parts[0] != SMALL:
            write_atomic(home / relative, source.read_bytes())
    for folder in ("figures", "release"):  # what an older report left there is no part of this one
        for path in sorted((home / folder).glob("*")):
            if not (sealed.path / folder / path.name).exists():
                shutil.rmtree(path) if path.is_dir() else path.unlink()
