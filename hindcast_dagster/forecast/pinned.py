"""The archive as an eval set pins it."""

from collections.abc import Sequence

from hindcast_dagster.archive.protocol import Archive
from hindcast_dagster.errors import NotReady
from hindcast_dagster.settings import Settings
from hindcast_dagster.storage.manifest import Input
from hindcast_dagster.storage.store import Store


def pinned_archive(store: Store, settings: Settings, *, eval_set: str, pins: Sequence[Input]) -> Archive:
    """Return the archive at the versions that an eval set pins, every file of it checked.

    Raises `NotReady` when it pins none, or one is gone, and `InputRefused` when a file of one is damaged.
    """
    from hindcast_dagster.archive.open import TABLES, open_archive

    if not any(pin.table in TABLES for pin in pins):
        raise NotReady(
            f"The eval set {eval_set} pins no month of the archive, so nothing can be searched for it: build the "
            "archive (`hindcast archive build --month M`), then an eval set of another name."
        )
    return open_archive(store, settings, pins=pins, verify=True)
