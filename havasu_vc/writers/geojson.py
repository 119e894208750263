"""Changed rows as GeoJSON: a FeatureCollection per dataset.

A feature's id says what it is: `<dataset>:feature:<key>:` and `I` inserted, `D`
deleted, `U-` and `U+` before and after an update. The first geometry column is the
geometry, others are properties; without one it is the footprint of the first raster, in
longitude and latitude. Meta items have no place here. GeoJSON is JSON to
the letter, so NaN and infinity are null.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Iterator
from dataclasses import replace
from functools import lru_cache
from itertools import chain
from pathlib import Path
from typing import Any, TextIO

import pyarrow as pa

from havasu_vc.errors import InvalidArgumentError, StorageError
from havasu_vc.geo.geojson import geometry_objects
from havasu_vc.model import compute as pc
from havasu_vc.model.changes import ChangeBatch
from havasu_vc.model.commits import ChangeCounts
from havasu_vc.model.diffs import DatasetDiff, DatasetHeader, count_meta
from havasu_vc.model.types import Field
from havasu_vc.writers.json_style import STRICT_LAYOUTS, JsonLayout
from havasu_vc.writers.protocol import ChangeSummary, DatasetSummary, WriterOptions
from havasu_vc.writers.rasters import footprint_tokens
from havasu_vc.writers.rows import joined, nonempty, side_of
from havasu_vc.writers.values import (
    canonical_wkb,
    json_strings,
    json_tokens,
    key_labels,
    side_columns,
    slices,
)

__all__ = [
    "COLLECTION_DEPTH",
    "geometry_tokens",
    "side_features",
    "write_features",
    "write_geojson",
]


COLLECTION_DEPTH = 2
"""Features stand in a list in an object."""
_SIDES = ((False, ("-", "--"), ("U-", "D")), (True, ("+", "++"), ("U+", "I")))
"""Whether new, the halves for `delta_filter`, how ids end; in updates and alone."""


def write_geojson(
    diffs: Iterable[DatasetDiff], out: TextIO, options: WriterOptions
) -> ChangeSummary:
    """Print one collection, or write one file per dataset into `options.directory`.

    Two datasets with changed rows do not fit one collection: an error, before
    anything is printed. To Kart two with any change do not.
    """
    if options.directory is not None:
        return _write_files(diffs, options.directory, options)
    datasets: dict[str, DatasetSummary] = {}
    chosen: DatasetDiff | None = None
    for diff in diffs:
        ahead = nonempty(diff)
        first = next(ahead, None)
        hidden = options.as_kart and diff.left_out.total > 0
        if options.as_kart and datasets and (diff.meta or first is not None or hidden):
            raise _refused(f"{next(iter(datasets))!r} and {diff.path!r}")
        if diff.meta or hidden:
            datasets[diff.path] = DatasetSummary(count_meta(diff.meta))
        if first is not None:
            if chosen is not None:
                raise _refused(f"rows of {chosen.path!r} and {diff.path!r}")
            chosen = replace(diff, changes=chain([first], ahead))
            datasets.setdefault(diff.path, DatasetSummary())
    if chosen is None and not datasets and options.as_kart:
        return ChangeSummary(datasets)  # Kart prints a collection of what differs alone
    features = write_features(chosen, out, options)
    if chosen is not None:
        meta = datasets[chosen.path].meta
        datasets[chosen.path] = DatasetSummary(meta, features)
    return ChangeSummary(datasets)


def _refused(what: str) -> InvalidArgumentError:
    return InvalidArgumentError(
        f"GeoJSON holds one dataset, and {what} changed",
        hints=("write a file for each with --output DIRECTORY, or name one dataset",),
    )


def _write_files(
    diffs: Iterable[DatasetDiff], directory: Path, options: WriterOptions
) -> ChangeSummary:
    if directory.exists() and not directory.is_dir():
        raise InvalidArgumentError(f"{directory} is a file; GeoJSON is written to a directory")
    datasets: dict[str, DatasetSummary] = {}
    for diff in diffs:
        ahead = nonempty(diff)
        first = next(ahead, None)
        features = ChangeCounts()
        empty = options.as_kart and (diff.meta or diff.left_out.total)
        if first is not None or empty:
            chosen = replace(diff, changes=chain([] if first is None else [first], ahead))
            path = directory / f"{diff.path.replace('/', '__')}.geojson"
            try:
                directory.mkdir(exist_ok=True)
                with path.open("w", encoding="utf-8") as out:
                    features = write_features(chosen, out, options)
            except OSError as error:
                if isinstance(error, StorageError):
                    raise
                raise StorageError(f"{path} cannot be written: {error.strerror}") from error
        summary = DatasetSummary(count_meta(diff.meta), features)
        if summary.has_changes:
            datasets[diff.path] = summary
    return ChangeSummary(datasets)


def write_features(diff: DatasetDiff | None, out: TextIO, options: WriterOptions) -> ChangeCounts:
    """Print the changed rows of a dataset as one collection; count them."""
    layout, counts = STRICT_LAYOUTS[options.json_style], ChangeCounts()
    out.write("{" + layout.line(1) + layout.key("type") + '"FeatureCollection"')
    out.write(layout.between(1) + layout.key("features") + "[")
    separator = layout.between(COLLECTION_DEPTH)
    begun = False
    for text, piece_counts in _pieces(diff, separator, options) if diff is not None else ():
        if text:
            out.write(text if begun else layout.line(COLLECTION_DEPTH) + text[len(separator) :])
            begun = True
        counts += piece_counts
    out.write((layout.line(1) if begun else "") + "]" + layout.line(0) + "}\n")
    return counts


def _pieces(
    diff: DatasetDiff, separator: str, options: WriterOptions
) -> Iterator[tuple[str, ChangeCounts]]:
    """Yield the features of some changes at a time, with how many changes they are."""
    layout = STRICT_LAYOUTS[options.json_style]
    for batch in nonempty(diff):
        for piece in slices(batch):
            yield joined(_features(piece, diff, separator, layout, options)), piece.counts


def _features(
    batch: ChangeBatch,
    diff: DatasetDiff,
    separator: str,
    layout: JsonLayout,
    options: WriterOptions,
) -> pa.StringArray:
    both = pc.and_(pc.is_valid(batch.old), pc.is_valid(batch.new))
    sides = []
    for new, halves, alternatives in _SIDES:
        side = batch.new if new else batch.old
        shown = pc.is_valid(side)
        if options.delta_filter is not None:
            wanted = [half in options.delta_filter for half in halves]
            shown = pc.and_(shown, pc.if_else(both, *wanted))
        if shown.true_count:
            endings = pc.if_else(both, *alternatives)
            header = side_of(diff, new=new)
            label = (options.labels or key_labels)(side, header.schema)
            ids = pc.binary_join_element_wise(f"{diff.path}:feature:", label, ":", endings, "")
            objects = side_features(side, header, ids, layout, options)
            text = pc.binary_join_element_wise(separator, objects, "")
            sides.append(pc.if_else(shown, text, None))
    if not sides:
        return pa.array([], pa.string())
    return pc.binary_join_element_wise(*sides, "", null_handling="replace", null_replacement="")


def side_features(
    side: pa.StructArray,
    header: DatasetHeader,
    ids: pa.StringArray,
    layout: JsonLayout,
    options: WriterOptions,
) -> pa.StringArray:
    """Return each row of one side as a Feature of a collection."""
    columns = side_columns(side, header.schema)
    layout = layout.of_kind(header.kind)
    shape = next((field for field, _ in columns if field.geometry is not None), None)
    geometry: pa.StringArray = pa.nulls(len(side), pa.string())
    properties: list[tuple[str, pa.StringArray]] = []
    for field, column in columns:
        if field.geometry is None:
            values = json_tokens(column, field, layout, COLLECTION_DEPTH + 2)
        else:
            if options.reproject is not None:
                column = options.reproject(column, field, header)
            values = geometry_tokens(
                column, field, layout, COLLECTION_DEPTH + (1 if field is shape else 2)
            )
        if field is shape:
            geometry = values
        properties.append((field.name, values))
    if shape is None:
        raster = next((column for field, column in columns if field.raster is not None), None)
        if raster is not None:
            geometry = footprint_tokens(raster, layout, COLLECTION_DEPTH + 1)
    start, *between, end = layout.object_pieces(
        ("type", "geometry", "properties", "id"), COLLECTION_DEPTH
    )
    return pc.binary_join_element_wise(
        start + '"Feature"' + between[0],
        geometry,
        between[1],
        _properties(properties, None if shape is None else shape.name, layout),
        between[2],
        json_strings(ids, ascii_only=layout.ascii),
        end,
        "",
        null_handling="replace",
        null_replacement="null",
    )


def _properties(
    columns: list[tuple[str, pa.StringArray]], geometry: str | None, layout: JsonLayout
) -> pa.StringArray:
    """Return the properties of each row; the geometry is among them where it is null, as in Kart.

    That column comes and goes. It has its comma behind it when it stands before the
    first column that is always there.
    """
    depth = COLLECTION_DEPTH + 1
    comma = layout.between(depth + 1)
    parts: list[pa.StringArray | str] = ["{" + layout.line(depth + 1)]
    begun = False
    for name, values in columns:
        key = layout.key(name)
        if name != geometry:
            parts += [comma + key if begun else key, pc.fill_null(values, "null")]
            begun = True
        elif begun:
            parts.append(pc.if_else(pc.is_null(values), f"{comma}{key}null", ""))
        else:
            parts.append(pc.if_else(pc.is_null(values), f"{key}null{comma}", ""))
    if begun:
        return pc.binary_join_element_wise(*parts, layout.line(depth) + "}", "")
    nothing = pa.repeat("{}", len(columns[0][1])) if columns else pa.scalar("{}")
    if geometry is None:
        return nothing
    alone = (
        "".join(layout.object_pieces((geometry,), depth)[:1]) + "null" + layout.line(depth) + "}"
    )
    return pc.if_else(pc.is_null(columns[0][1]), alone, nothing)


# Geometry columns as GeoJSON objects in any layout.
#
# Laying coordinates out with `json` costs a Python step per number. Here they are
# written on one line in C, and only the punctuation between numbers is replaced: how
# many brackets close and open there says where in the geometry it stands.

_PUNCTUATION = re.compile(r"[\[\],]+")
_flat = json.JSONEncoder(separators=(",", ":")).encode
_NESTING = {
    "Point": 1,
    "MultiPoint": 2,
    "LineString": 2,
    "MultiLineString": 3,
    "Polygon": 3,
    "MultiPolygon": 4,
}


def geometry_tokens(
    column: pa.Array, field: Field, layout: JsonLayout, depth: int
) -> pa.StringArray:
    """Return each geometry as a GeoJSON object that continues a line at some depth."""
    objects = geometry_objects(canonical_wkb(column, field))
    return pa.array(
        [None if value is None else _token(value, layout, depth) for value in objects],
        pa.string(),
    )


def _token(geometry: dict[str, Any], layout: JsonLayout, depth: int) -> str:
    kind = geometry["type"]
    if kind in _NESTING:
        flat = _flat(geometry["coordinates"])
        start, table, end = _frame(layout, kind, depth)
        try:
            coordinates = _PUNCTUATION.sub(lambda match: table[match[0]], flat)
        except KeyError:  # an empty part
            return layout.dumps(geometry, depth)
        if "N" not in flat and "I" not in flat:
            return start + coordinates + end
    return layout.dumps(geometry, depth)


@lru_cache
def _frame(layout: JsonLayout, kind: str, depth: int) -> tuple[str, dict[str, str], str]:
    """Return what stands before, within and after the coordinates of a type."""
    start, middle, end = layout.object_pieces(("type", "coordinates"), depth)
    return f'{start}"{kind}"{middle}', _punctuation(layout, _NESTING[kind], depth + 1), end


def _punctuation(layout: JsonLayout, nesting: int, depth: int) -> dict[str, str]:
    """Return what stands for each run of brackets and commas, lists nested so deep."""

    def opened(level: int) -> str:
        return "".join("[" + layout.line(depth + at + 1) for at in range(level, nesting))

    def closed(level: int) -> str:
        return "".join(layout.line(depth + at) + "]" for at in reversed(range(level, nesting)))

    table = {
        "[" * nesting: opened(0),
        "]" * nesting: closed(0),
        ",": layout.between(depth + nesting),
    }
    for count in range(1, nesting):
        level = nesting - count
        run = "]" * count + "," + "[" * count
        table[run] = closed(level) + layout.between(depth + level) + opened(level)
    return table
