"""Questions that entries answer alone: the order of files, and which of them a box can pass by."""

from __future__ import annotations

from collections.abc import Iterable

from havasu_vc.formats.havasu.entry import Entry
from havasu_vc.formats.havasu.properties import SortOrder
from havasu_vc.model.bounds import Bounds
from havasu_vc.model.schema import KeySpec, Schema

__all__ = ["in_key_order", "is_outside", "within_box"]


def in_key_order(entries: Iterable[Entry], key: KeySpec, order: SortOrder) -> list[Entry]:
    """Return data files in the order of their keys where that is known, else by name."""

    def place(entry: Entry) -> tuple[bool, object, str]:
        if key and not order.is_hilbert:
            statistics = entry.statistics.get(key.fields[0].id)
            lower = None if statistics is None else statistics.lower
            if lower is not None:
                numeric = isinstance(lower, int | float)
                return (not numeric, lower if numeric else str(lower), entry.file)
        return (True, "", entry.file)

    return sorted(entries, key=place)


def is_outside(entry: Entry, box: tuple[float, float, float, float], schema: Schema) -> bool:
    """Whether no geometry of a data file can lie in a box, nor a raster in one of degrees."""
    places = [column for column in schema.fields if column.geometry or column.raster]
    for column in places:
        if column.raster is not None:
            area = entry.areas.get(column.id)
            parts = None if area is None else area.parts
        else:
            bounds = entry.bounds.get(column.id)
            if bounds is not None and column.edges is not None:
                from havasu_vc.geo.bounds import may_reach

                if may_reach(bounds, box):
                    return False
                continue
            parts = None if bounds is None else (bounds,)
        if parts is None or not all(_apart(part, box) for part in parts):
            return False
    return bool(places)


def within_box(
    near: Iterable[Entry],
    others: Iterable[Entry],
    box: tuple[float, float, float, float],
    schema: Schema,
) -> list[Entry]:
    """Return data files that a box cannot pass by, and those of others with a row in no place."""
    chosen = {entry.file: entry for entry in near if not is_outside(entry, box, schema)}
    for entry in others:
        known = [entry.statistics.get(field.id) for field in schema.geometries]
        if any(each is None or each.nulls for each in known):
            chosen.setdefault(entry.file, entry)
    return list(chosen.values())


def _apart(bounds: Bounds, box: tuple[float, float, float, float]) -> bool:
    after, before = bounds.xmax < box[0], bounds.xmin > box[2]
    beside = (after or before) if box[0] <= box[2] else (after and before)
    return beside or bounds.ymax < box[1] or bounds.ymin > box[3]
