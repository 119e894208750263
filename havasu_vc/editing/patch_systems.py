"""The rows of a patch, whose geometries may be in another reference system than the dataset's.

New geometries are brought into the dataset's own system. Coordinates that went there and back are
not the same to the last digit, so old ones are held against nothing: an update has its new half
alone, which is how `create-patch --crs` writes it, and of a row that goes all but the geometry
must be as the patch says.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

import pyarrow as pa

from havasu_vc.errors import PatchError
from havasu_vc.formats.patch import DatasetPatch, Patch, PatchBatch, patch_batches
from havasu_vc.looking import OwnSystem, into_own_system
from havasu_vc.model.changes import ChangeBatch
from havasu_vc.model.diffs import DatasetHeader
from havasu_vc.model.schema import Schema

__all__ = ["header_after", "own_batches", "own_system"]


def own_system(patch: Patch) -> OwnSystem | None:
    """Return what brings a patch's geometries into those of datasets; None if they are theirs."""
    if patch.crs is None:
        return None
    if patch.base is None:
        raise PatchError(
            "Patches with CRS transformation require a 'base' commit reference",
            hints=("`havasu-vc create-patch --crs` writes it",),
        )
    for part in patch.datasets:
        if any(change.old is not None and change.new is not None for change in part.features):
            raise PatchError(
                "Patches with CRS transformation must not include '-' values in edits",
                hints=("say the new half `+` alone",),
            )
    return into_own_system(patch.crs)


def header_after(part: DatasetPatch, before: DatasetHeader, schema: Schema) -> DatasetHeader:
    """Return the description that a dataset has once a patch is applied."""
    items = {change.name: change.new for change in part.meta if change.new is not None}
    return replace(before, schema=schema, meta={**before.meta, **items})


def own_batches(
    part: DatasetPatch, old: Schema | None, new: DatasetHeader, own: OwnSystem | None
) -> Iterator[PatchBatch]:
    """Yield the changed rows of one dataset, in the patch's order, in the dataset's system.

    `old` is None where the dataset is not there before.
    """
    if own is None:
        yield from patch_batches(part, old, new.schema)
        return
    hidden = set() if old is None else {field.name for field in old.geometries}
    features = tuple(
        change
        if change.old is None
        else replace(change, old={k: v for k, v in change.old.items() if k not in hidden})
        for change in part.features
    )
    for batch in patch_batches(replace(part, features=features), old, new.schema):
        yield replace(batch, changes=_brought(batch.changes, new, own))


def _brought(changes: ChangeBatch, header: DatasetHeader, own: OwnSystem) -> ChangeBatch:
    """Return changes whose new geometries are in the dataset's system."""
    side = changes.new
    if side.null_count == len(side):
        return changes
    columns = dict(zip(header.schema.names, side.flatten(), strict=True))
    for field in header.schema.geometries:
        columns[field.name] = own(columns[field.name], field, header)
    arrays = [
        pa.ExtensionArray.from_storage(each.type, column)
        if isinstance(each.type, pa.BaseExtensionType) and column.type != each.type
        else column
        for each, column in zip(side.type, columns.values(), strict=True)
    ]
    new = pa.StructArray.from_arrays(arrays, fields=list(side.type), mask=side.is_null())
    return ChangeBatch.from_structs(changes.old, new)
