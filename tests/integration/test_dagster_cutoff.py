"""The archive as a Dagster resource: two steps at two instants, in one process and in two, never mix their cutoffs."""

import json
import threading
from pathlib import Path

import dagster as dg
import pytest

from hindcast_dagster import clock
from hindcast_dagster.archive.build import build_comments, build_submissions
from hindcast_dagster.archive.protocol import Document
from hindcast_dagster.clock import InvalidInstant
from hindcast_dagster.settings import load
from hindcast_dagster.storage.store import Store, open_store
from resources.archive import ArchiveResource
from resources.store import StorageRoot
from tests import archive_world, cutoff_job

START = clock.instant("2026-01-05")
TIMES = [START + day * clock.DAY for day in range(20)]


def post(number: int, at: int) -> Document:
    return Document(
        id=f"p{number}", doc_type="submission", subreddit="news", author="pseudonym_1", title="A title", text="Some words.",
        created_at=at, text_as_of=at, engagement_as_of=at, score=9, num_comments=3, link_id=None, parent_id=None,
        permalink=None, url=None, month="2026-01",
    )  # fmt: skip


@pytest.fixture
def root(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Store:
    store = open_store(tmp_path / "root")
    settings = load(data_root=str(store.root))
    archive_world.use(monkeypatch, archive_world.ToyEmbedder())
    archive_world.publish(store, "submissions", "2026-01", [post(i, at) for i, at in enumerate(TIMES)])
    archive_world.publish(store, "comments", "2026-01", [])
    build_submissions(store, settings, month="2026-01", accept_hollow=True)
    build_comments(store, settings, month="2026-01", accept_hollow=True)
    monkeypatch.setenv("HINDCAST_DATA_ROOT", str(store.root))
    return store


def check(store: Store) -> None:
    for name, t0 in (("early", cutoff_job.EARLY), ("late", cutoff_job.LATE)):
        found = json.loads(store.area("work", f"{name}.json").read_text())
        meant = sorted((at for at in TIMES if at < clock.instant(t0)), reverse=True)
        assert found["cutoff"] == clock.instant(t0)
        assert found["seen"] == meant * (2 * cutoff_job.PASSES)


@pytest.mark.slow
def test_two_cutoffs_in_two_processes_at_once(root: Store) -> None:
    with dg.instance_for_test() as instance:
        result = dg.execute_job(
            dg.reconstructable(cutoff_job.make_job), instance=instance, run_config=cutoff_job.CONFIG
        )
        assert result.success
    check(root)


def test_two_cutoffs_in_one_process_at_once(root: Store) -> None:
    storage = StorageRoot()
    archive = ArchiveResource(root=storage)
    failures: list[BaseException] = []

    def step(name: str, t0: str) -> None:
        try:
            cutoff_job.read(name, t0, storage, archive)
        except BaseException as error:  # noqa: BLE001 - handed to the test
            failures.append(error)

    threads = [
        threading.Thread(target=step, args=("early", cutoff_job.EARLY)),
        threading.Thread(target=step, args=("late", cutoff_job.LATE)),
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not failures
    check(root)


def test_the_resource_has_no_t0_and_none_is_no_filter(root: Store) -> None:
    archive = ArchiveResource(root=StorageRoot())
    assert not [name for name in type(archive).model_fields if "cutoff" in name or "t0" in name]
    for missing in (None, float("nan"), "", "2026-01-10T00:00:00", 1_768_003_200_000):
        with pytest.raises(InvalidInstant):
            archive.at(missing)
