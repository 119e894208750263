"""A table goes: from one instant to the next, and its empty parent folders with it.

Nothing decides here that a table may go. One that cannot be read goes only where nothing
in it says that it is another table.
"""

from __future__ import annotations

import json
import os
import secrets
import shutil
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

from havasu_vc.errors import HavasuError, StorageError
from havasu_vc.store.durability import reporting_storage_errors
from havasu_vc.tables.snapshots import manifests_of, read_manifest
from havasu_vc.workspace.linking import TEMPORARY
from havasu_vc.workspace.places import TablePlace, in_the_way

__all__ = ["remove_leftovers", "remove_table", "remove_unreadable"]


def remove_table(root: Path, location: Path) -> None:
    """Remove the folder of a table below a root; nobody sees half of it."""
    doomed = root / f"{TEMPORARY}removed-{secrets.token_hex(8)}"
    with reporting_storage_errors(location):
        try:
            os.rename(location, doomed)
        except FileNotFoundError:
            return
        shutil.rmtree(doomed, ignore_errors=True)
    for folder in location.relative_to(root).parents[:-1]:
        with suppress(OSError):
            (root / folder).rmdir()  # works when it is empty


def remove_unreadable(place: TablePlace, table_uuid: str) -> bool:
    """Remove a table whose metadata or manifests cannot be read; return whether it was so.

    Raises `StateError`, and removes nothing, where it says that it is another table.
    """
    try:
        table = place.read()
        for manifest in manifests_of(table, table.metadata.snapshot):
            list(read_manifest(table, manifest))  # it reads as it goes
    except StorageError:
        raise  # what cannot be reached may be sound
    except HavasuError:
        told = set(_told_uuids(place))
        if told and table_uuid not in told:
            raise in_the_way(place) from None
        place.remove()
        return True
    return False


def _told_uuids(place: TablePlace) -> Iterator[str]:
    """Yield the ids that a table's metadata files give it, as far as they are JSON."""
    for path in place.metadata_files():
        with suppress(OSError, ValueError, RecursionError):
            value = json.loads(path.read_bytes())
            if isinstance(value, dict) and "table-uuid" in value:
                yield str(value["table-uuid"])


def remove_leftovers(root: Path) -> None:
    """Remove what a removal that died left behind."""
    with suppress(OSError):
        for item in root.iterdir():
            if item.name.startswith(f"{TEMPORARY}removed-"):
                shutil.rmtree(item, ignore_errors=True)
