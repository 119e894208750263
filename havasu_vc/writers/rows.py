"""Change batches as JSON text, put together in Arrow: one string per change.

Every writer of JSON prints the same object per change (`-` and `+`, or by the
labels that tell kinds apart); they differ in layout and in what stands around it.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from types import MappingProxyType
from typing import TYPE_CHECKING, TypeAlias

import pyarrow as pa

from havasu_vc.datasets.pairing import equal_columns
from havasu_vc.model import compute as pc
from havasu_vc.model.arrays import arrow_array
from havasu_vc.model.changes import ChangeBatch
from havasu_vc.model.diffs import DatasetDiff, DatasetHeader
from havasu_vc.records import dataclass
from havasu_vc.writers.json_style import JsonLayout
from havasu_vc.writers.protocol import Reproject
from havasu_vc.writers.rasters import differences, raster_tokens
from havasu_vc.writers.values import json_tokens, side_columns

if TYPE_CHECKING:
    from havasu_vc.geo.raster_v1_differences import RasterDifference

__all__ = ["ChangeForm", "change_objects", "joined", "nonempty", "side_of"]


RasterChanges: TypeAlias = "Mapping[int, Sequence[RasterDifference | None]]"
"""The changes in the rasters of each column, by its id."""
_NONE: RasterChanges = MappingProxyType({})


@dataclass(frozen=True, slots=True)
class ChangeForm:
    """How one change is written as an object."""

    layout: JsonLayout
    """Where spaces and lines go."""
    depth: int
    """How deep the object stands."""
    names_halves: bool = False
    """Whether inserts and deletes have labels of their own, `++` and `--`."""
    only: frozenset[str] | None = None
    """The halves whose rows are printed, by label; the others are null. None prints all."""
    reproject: Reproject | None = None
    """Brings geometries into another CRS."""
    new_half_only: bool = False
    """Whether an update leaves its old half out."""


def nonempty(diff: DatasetDiff) -> Iterator[ChangeBatch]:
    """Yield the batches that have changes."""
    return (batch for batch in diff.changes if len(batch))


def side_of(diff: DatasetDiff, *, new: bool) -> DatasetHeader:
    """Return the header of one side; of the other where that side is not there."""
    header = diff.new if new else diff.old
    return header or diff.header


def change_objects(batch: ChangeBatch, diff: DatasetDiff, form: ChangeForm) -> pa.StringArray:
    """Return each change as one JSON object."""
    layout, depth = form.layout, form.depth
    has_old, has_new = pc.is_valid(batch.old), pc.is_valid(batch.new)
    both = pc.and_(has_old, has_new)
    show_old = pc.and_not(has_old, both) if form.new_half_only else has_old
    start, end = "{" + layout.line(depth + 1), layout.line(depth) + "}"
    between = pc.if_else(pc.and_(show_old, has_new), layout.between(depth + 1), "")
    changes = {} if layout.pixels else _raster_changes(batch, diff, both)
    old, new = side_of(diff, new=False), side_of(diff, new=True)
    before = _half(batch.old, old, form, ("-", "--"), shown=show_old, both=both)
    after = _half(batch.new, new, form, ("+", "++"), shown=has_new, both=both, changes=changes)
    return pc.binary_join_element_wise(
        start,
        before,
        between,
        after,
        end,
        "",
        null_handling="replace",
        null_replacement="",
    )


def _raster_changes(batch: ChangeBatch, diff: DatasetDiff, both: pa.BooleanArray) -> RasterChanges:
    """Return what changed in rasters of rows that are on both sides, by column id."""
    sides = []
    for new, side in ((False, batch.old), (True, batch.new)):
        schema = side_of(diff, new=new).schema
        if not any(field.raster is not None for field in schema.fields):
            return {}
        columns = side_columns(side, schema)
        sides.append({field.id: (field, column) for field, column in columns if field.raster})
    old, new_side = sides
    found: dict[int, list[RasterDifference | None]] = {}
    for number, (field, column) in new_side.items():
        if number in old and both.true_count:
            before, values = old[number]
            same = arrow_array(equal_columns(values, column, before, field))
            changed = pc.and_not(both, same).to_pylist()
            found[number] = differences(values, column, changed)
    return found


def _half(
    side: pa.StructArray,
    header: DatasetHeader,
    form: ChangeForm,
    labels: tuple[str, str],
    *,
    shown: pa.BooleanArray,
    both: pa.BooleanArray,
    changes: RasterChanges = _NONE,
) -> pa.StringArray:
    """Return one half of each change, key and all; null where it is not shown."""
    if not shown.true_count:
        return pa.nulls(len(side), pa.string())
    in_update, alone = labels
    if not form.names_halves:
        alone = in_update
    keys = pc.if_else(both, form.layout.key(in_update), form.layout.key(alone))
    if form.only is None or form.only.issuperset(labels):
        rows = row_objects(side, header, form, changes)
    elif form.only.isdisjoint(labels):
        rows = pa.repeat("null", len(side))
    else:
        wanted = both if in_update in form.only else pc.invert(both)
        rows = pc.if_else(wanted, row_objects(side, header, form, changes), "null")
    return pc.if_else(shown, pc.binary_join_element_wise(keys, rows, ""), None)


def row_objects(
    side: pa.StructArray,
    header: DatasetHeader,
    form: ChangeForm,
    changes: RasterChanges = _NONE,
) -> pa.StringArray:
    """Return each row of one side as a JSON object; rasters with what changed in them."""
    depth = form.depth + 1
    layout = form.layout.of_kind(header.kind)
    columns = []
    for field, column in side_columns(side, header.schema):
        if form.reproject is not None and field.geometry is not None:
            column = form.reproject(column, field, header)
        if field.id in changes:
            tokens = raster_tokens(column, layout, depth + 1, changes[field.id])
        else:
            tokens = json_tokens(column, field, layout, depth + 1)
        columns.append((field, tokens))
    pieces = layout.object_pieces([field.name for field, _ in columns], depth)
    if len(pieces) == 1:
        return pa.repeat(pieces[0], len(side))
    parts: list[pa.StringArray | str] = []
    for piece, (_, tokens) in zip(pieces, columns, strict=False):
        parts += [piece, tokens]
    return pc.binary_join_element_wise(
        *parts, pieces[-1], "", null_handling="replace", null_replacement="null"
    )


def joined(texts: pa.StringArray) -> str:
    """Return all values one after another; bytes that are not UTF-8 are replaced."""
    _, offset_buffer, data = texts.buffers()
    if data is None or not len(texts):
        return ""
    whole = pa.Array.from_buffers(
        pa.int64() if pa.types.is_large_string(texts.type) else pa.int32(),
        len(texts) + 1,
        [None, offset_buffer],
        offset=texts.offset,
    )
    start, end = whole[0].as_py(), whole[-1].as_py()
    return str(memoryview(data)[start:end], "utf-8", "replace")
