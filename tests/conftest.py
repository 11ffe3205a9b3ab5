"""What all tests share: a store in a temporary folder, and the real samples where they lie beside the checkout."""

from pathlib import Path

import hypothesis
import pytest

from hindcast_dagster.settings import Settings, load
from hindcast_dagster.storage.store import Store, open_store

ROOT = Path(__file__).resolve().parent.parent
SHARED = ROOT.parent / "shared"

# A busy machine is no failure: a slow example says nothing about the code.
hypothesis.settings.register_profile("project", deadline=None, suppress_health_check=[hypothesis.HealthCheck.too_slow])
hypothesis.settings.load_profile("project")


@pytest.fixture
def store(tmp_path: Path) -> Store:
    return open_store(tmp_path / "root")


@pytest.fixture(autouse=True)
def clean_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    """No test reads the settings of the machine it runs on."""
    import os

    for name in [name for name in os.environ if name.startswith("HINDCAST_")]:
        monkeypatch.delenv(name)
    monkeypatch.setenv("HF_HUB_OFFLINE", "1")


@pytest.fixture
def settings(store: Store) -> Settings:
    return load(data_root=str(store.root), embedding={"model": "minilm"})


@pytest.fixture(scope="session")
def shared() -> Path:
    if not SHARED.is_dir():
        pytest.skip("the real samples (../shared) are not beside this checkout")
    return SHARED
