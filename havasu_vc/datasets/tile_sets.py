"""Kart's raster and point-cloud datasets, seen from outside: their items and how many tiles differ.

A tile stands in git as a pointer to a file, one for each, in folders of `tile/`. What the files
hold is Kart's to read; their items are read and set here as those of tables are.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Container, Iterator, Mapping
from typing import Any

from havasu_vc.errors import InvalidArgumentError
from havasu_vc.model.commits import ChangeCounts
from havasu_vc.model.diffs import DatasetDiff, DatasetHeader, meta_changes
from havasu_vc.model.names import DATASET_MARKERS, TABLES
from havasu_vc.model.schema import Schema
from havasu_vc.store.objects import EMPTY_TREE, ObjectSource, read_object
from havasu_vc.store.trees import DatasetFolder, blobs_below, find_entry, tree_difference

__all__ = [
    "TILES",
    "folder_of_tile",
    "is_tile_set",
    "item_document",
    "items_of",
    "tile_changes",
    "tile_set_diff",
]

TILES = "tile"
"""The folder of tiles in one of internals."""
_KINDS: Mapping[str, str] = {
    marker: marker.strip(".").partition("-dataset")[0]
    for marker in DATASET_MARKERS
    if marker not in TABLES
}
_TEXTS = ("title", "description", "metadata.xml")


def is_tile_set(folder: DatasetFolder | None) -> bool:
    """Whether a dataset is one of rasters or point clouds."""
    return folder is not None and folder.marker in _KINDS


def folder_of_tile(name: str) -> str:
    """Return the folder below `tile` in which one stands.

    >>> folder_of_tile("my-example-tile")
    'f5'
    """
    return hashlib.sha256(name.encode()).hexdigest()[:2]


def items_of(objects: ObjectSource, folder: DatasetFolder) -> dict[str, Any]:
    """Return its meta items by name: text, or JSON values."""
    found: dict[str, Any] = {}
    for name, identity in blobs_below(objects, folder.internals, "meta"):
        text = read_object(objects, identity, "blob").decode("utf-8", "replace")
        found[name] = _value(text) if name.endswith(".json") else text
    return found


def _value(text: str) -> Any:
    try:
        return json.loads(text)
    except (ValueError, RecursionError):
        return text


def item_document(name: str, value: Any) -> bytes | None:
    """Return the bytes that an item is set to; None takes it away.

    Raises `InvalidArgumentError` for one that says what the tiles are, which Kart sees to.
    """
    if name not in _TEXTS:
        raise InvalidArgumentError(
            f"{name!r} of a raster or point-cloud dataset is what Kart made of its tiles",
            hints=(f"items to set are {', '.join(_TEXTS)}",),
        )
    if value is not None and not isinstance(value, str):
        raise InvalidArgumentError(f"{name} is text")
    return None if value is None else value.encode()


def tile_changes(
    objects: ObjectSource,
    old: DatasetFolder | None,
    new: DatasetFolder | None,
    *,
    names: Container[str] | None = None,
) -> ChangeCounts:
    """Return how many tiles, or of some names alone, came, changed and went."""
    sides = [_tiles(objects, side) for side in (old, new)]
    if sides[0] == sides[1]:
        return ChangeCounts()
    inserts = updates = deletes = 0
    for change in tree_difference(objects, *sides):
        if names is not None and change.path.rpartition("/")[2] not in names:
            continue
        inserts += change.old is None
        deletes += change.new is None
        updates += change.old is not None and change.new is not None
    return ChangeCounts(inserts, updates, deletes)


def _tiles(objects: ObjectSource, folder: DatasetFolder | None) -> str:
    found = find_entry(objects, folder.internals, TILES) if folder is not None else None
    return EMPTY_TREE if found is None else found.id


def tile_set_diff(
    objects: ObjectSource,
    path: str,
    old: DatasetFolder | None,
    new: DatasetFolder | None,
    *,
    names: Container[str] | None = None,
) -> Iterator[DatasetDiff]:
    """Yield how the items of a dataset differ, and how many tiles, or of some names alone, do."""
    headers = [None if side is None else _header(objects, side) for side in (old, new)]
    changes = meta_changes(*headers)
    tiles = tile_changes(objects, old, new, names=names).total
    if changes or tiles:
        yield DatasetDiff(path, headers[0], headers[1], changes, iter(()), tiles=tiles)


def _header(objects: ObjectSource, folder: DatasetFolder) -> DatasetHeader:
    kind = _KINDS[folder.marker]
    return DatasetHeader(folder.path, kind, Schema((), ()), items_of(objects, folder))
