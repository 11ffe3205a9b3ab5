"""The shape of the house: what may import what, and that our generic package names are ours."""

import ast
import subprocess
import sys
from pathlib import Path

import pytest

import assets
import resources

ROOT = Path(__file__).resolve().parents[2]
PYTHON = sorted(path for top in ("hindcast_dagster", "assets", "resources") for path in (ROOT / top).rglob("*.py"))
HEAVY = {
    "torch", "lancedb", "great_expectations", "sentence_transformers", "pandas", "openai", "xllamacpp", "scipy",
    "sklearn", "statsmodels", "altair", "vllm", "mcp", "polymarket", "dagster_webserver",
}  # fmt: skip
# Commands whose whole point is Dagster; they import it inside the function.
TOUCH_DAGSTER = {"demo_pipeline.py", "dagster_view.py", "dagster_backfill.py"}


def test_generic_names_are_ours() -> None:
    assert Path(assets.__file__).is_relative_to(ROOT)
    assert Path(resources.__file__).is_relative_to(ROOT)


@pytest.mark.parametrize("path", PYTHON, ids=lambda path: path.relative_to(ROOT).as_posix())
def test_every_module_opens_with_what_belongs_in_it(path: Path) -> None:
    assert ast.get_docstring(ast.parse(path.read_text(encoding="utf-8")))


def _imports(tree: ast.AST, *, top_level: bool) -> set[str]:
    nodes = ast.iter_child_nodes(tree) if top_level else ast.walk(tree)
    found = set()
    for node in nodes:
        if isinstance(node, ast.Import):
            found |= {alias.name.partition(".")[0] for alias in node.names}
        elif isinstance(node, ast.ImportFrom):
            found.add((node.module or "").partition(".")[0])
    return found


@pytest.mark.parametrize("path", PYTHON, ids=lambda path: path.relative_to(ROOT).as_posix())
def test_heavy_packages_are_imported_inside_functions(path: Path) -> None:
    assert not _imports(ast.parse(path.read_text(encoding="utf-8")), top_level=True) & HEAVY


@pytest.mark.parametrize("path", PYTHON, ids=lambda path: path.relative_to(ROOT).as_posix())
def test_only_the_edge_touches_dagster(path: Path) -> None:
    relative = path.relative_to(ROOT)
    edge = relative.parts[0] in {"assets", "resources"} or (
        relative.name == "definitions.py" or "automation" in relative.parts
    )
    if not edge and not (relative.parts[1] == "cli" and relative.name in TOUCH_DAGSTER):
        assert "dagster" not in _imports(ast.parse(path.read_text(encoding="utf-8")), top_level=False)


@pytest.mark.parametrize("path", PYTHON, ids=lambda path: path.relative_to(ROOT).as_posix())
def test_annotations_stay_real(path: Path) -> None:
    assert "from __future__ import annotations" not in path.read_text(encoding="utf-8")


@pytest.mark.slow
def test_imports_point_one_way() -> None:
    done = subprocess.run(
        [sys.executable, "-c", "from importlinter.cli import lint_imports_command; lint_imports_command(['--no-cache'])"],
        cwd=ROOT, capture_output=True, text=True, check=False,
    )  # fmt: skip
    assert done.returncode == 0, done.stdout


def test_definitions_import_nothing_heavy() -> None:
    probe = (
        "import sys; import hindcast_dagster.definitions; "
        "print([m for m in ('torch','lancedb','great_expectations','sentence_transformers','openai') if m in sys.modules])"
    )
    done = subprocess.run(
        [sys.executable, "-W", "ignore", "-c", probe], cwd=ROOT, capture_output=True, text=True, check=True
    )
    assert done.stdout.strip() == "[]"
