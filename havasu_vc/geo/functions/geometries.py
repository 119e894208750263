"""Geometries from text, bytes, numbers and geometries: ST_GeomFromText, ST_Buffer and others."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from havasu_vc.errors import CrsError, InvalidArgumentError
from havasu_vc.geo.buffers import Bools, Ints, merge_rows
from havasu_vc.geo.crs import Crs, parse_crs
from havasu_vc.geo.functions.catalogue import (
    Array,
    Formula,
    Geometries,
    Result,
    Shapes,
    SqlFunction,
    geometry_array,
    numbers,
    texts,
    whole_numbers,
)
from havasu_vc.geo.reproject import transform
from havasu_vc.geo.wkb import Encoding, Srids, from_canonical, to_canonical
from havasu_vc.geo.wkt import wkb_of_geometries

__all__ = ["ENCODINGS", "FROM_GEOMETRIES"]


# Geometries from geometries: ST_Buffer, ST_Union, ST_Transform and the like.
#
# The SRID of the first argument goes with the result. Distances are in the units of
# the coordinates.

_SEGMENTS: Final = 8  # of a quarter circle, as PostGIS and Sedona have it


def _result(shapes: Any, geometries: Geometries, *valid: Bools) -> Array:
    """Return shapes as EWKB with the SRIDs of an argument, null where any of `valid` is false."""
    found: Shapes = np.broadcast_to(np.asarray(shapes, object), geometries.size)
    there: Bools = np.logical_and.reduce((geometries.valid, *valid))
    if not there.all():
        found = found.copy()
        found[~there] = None
    return geometry_array(np.ascontiguousarray(found), geometries.srids)


def _by_shapely(name: str, **options: Any) -> Formula:
    def formula(column: Array) -> Array:
        import shapely

        geometries = Geometries(column)
        return _result(getattr(shapely, name)(geometries.operand, **options), geometries)

    return formula


def _of_two(name: str) -> Formula:
    def formula(left_column: Array, right_column: Array) -> Array:
        import shapely

        left, right = Geometries(left_column), Geometries(right_column)
        found = getattr(shapely, name)(left.operand, right.operand)
        return _result(found, left, right.valid)

    return formula


def _buffer(column: Array, distance: Array, segments: Array | None = None) -> Array:
    import shapely

    geometries = Geometries(column)
    reach, given = numbers(distance, "the distance")
    if segments is None:
        found = shapely.buffer(geometries.operand, reach, quad_segs=_SEGMENTS)
        return _result(found, geometries, given)
    counts, counted = whole_numbers(segments, "the segments of a quarter circle")
    sound = (counts >= 1) & (counts <= 1000)
    if (counted & ~sound).any():
        raise InvalidArgumentError("it takes 1 to 1000 segments of a quarter circle")
    shapes = np.full(geometries.size, None, object)
    for count in np.unique(counts[counted]).tolist():
        rows = counted & (counts == count)
        shapes[rows] = shapely.buffer(geometries.shapes[rows], reach[rows], quad_segs=count)
    return _result(shapes, geometries, given, counted)


def _with_number(name: str, what: str, **options: Any) -> Formula:
    def formula(column: Array, number: Array) -> Array:
        import shapely

        geometries = Geometries(column)
        values, given = numbers(number, what)
        found = getattr(shapely, name)(geometries.shapes, values, **options)
        return _result(found, geometries, given)

    return formula


def _transform(column: Array, *systems: Array) -> Array:
    """Transform to the last of the systems, from the one before or from that of the SRIDs."""
    geometries = Geometries(column)
    wkb, srids = geometries.canonical
    targets, wanted = _system_names(systems[-1])
    if len(systems) > 1:
        sources, known = _system_names(systems[0])
    else:
        sources, known = ["0"], np.zeros(len(wkb), np.int64)
        if srids is not None:
            found, known = np.unique(srids, return_inverse=True)
            sources = [str(srid) for srid in found.tolist()]
    there = geometries.valid & (wanted >= 0) & (known >= 0)
    if not there.all():
        wkb = pa.array(wkb.to_numpy(zero_copy_only=False), wkb.type, mask=~there)
    numbers_ = np.zeros(len(wkb), np.int32)
    pairs = np.where(there, known * len(targets) + wanted, -1)
    for pair in np.unique(pairs[there]).tolist():
        old, new = sources[pair // len(targets)], targets[pair % len(targets)]
        rows = np.flatnonzero(pairs == pair)
        wkb = _moved(wkb, rows, _system(old), _system(new))
        numbers_[rows] = _srid_of(_system(new))
    return from_canonical(wkb, numbers_ if numbers_.any() else None, "ewkb")


def _moved(wkb: Array, rows: Ints, source: Crs, target: Crs) -> Array:
    if len(rows) == len(wkb):
        return transform(wkb, source, target)
    return merge_rows(wkb, rows, transform(wkb.take(pa.array(rows)), source, target))


def _system_names(column: Array) -> tuple[list[str], Ints]:
    """Return the systems that an argument names, each once, and which one each row has."""
    integers = pa.types.is_integer(column.type)
    names = column.cast(pa.string()) if integers else texts(column, "a reference system")
    encoded = names.dictionary_encode()
    places: Ints = pc.fill_null(encoded.indices.cast(pa.int64()), -1).to_numpy(zero_copy_only=False)
    return encoded.dictionary.to_pylist(), places


def _system(name: str) -> Crs:
    if name == "0":
        raise InvalidArgumentError(
            "a geometry has no SRID, so where it comes from is not known",
            hints=("name the system too: ST_Transform(geometry, 'EPSG:2193', 'EPSG:4326')",),
        )
    try:
        return parse_crs(f"EPSG:{name}" if name.lstrip("-").isdigit() else name)
    except CrsError as error:
        raise InvalidArgumentError(error.message, hints=error.hints) from error


def _srid_of(crs: Crs) -> int:
    authority, _, code = crs.identifier.partition(":")
    return int(code) if authority == "EPSG" and code.isdigit() else 0


def _aggregate(combine: Callable[[Shapes], Any]) -> Formula:
    def formula(column: Array) -> Array:
        geometries = Geometries(column)
        shapes = geometries.shapes[geometries.valid]
        srids = geometries.srids
        found = np.array([combine(shapes) if len(shapes) else None], object)
        return geometry_array(found, None if srids is None else srids[:1])

    return formula


def _union_all(shapes: Shapes) -> Any:
    import shapely

    return shapely.union_all(shapes)


def _envelope_all(shapes: Shapes) -> Any:
    import shapely

    return shapely.envelope(shapely.geometrycollections(shapes))


def _collect_all(shapes: Shapes) -> Any:
    import shapely

    return shapely.geometrycollections(shapes)


_OF_ONE: Final = (
    ("ST_Centroid", "The centre of mass.", _by_shapely("centroid")),
    ("ST_PointOnSurface", "A point that lies inside.", _by_shapely("point_on_surface")),
    ("ST_Envelope", "The rectangle of the bounds.", _by_shapely("envelope")),
    ("ST_Boundary", "The boundary.", _by_shapely("boundary")),
    ("ST_ConvexHull", "The least convex area that holds it.", _by_shapely("convex_hull")),
    ("ST_MakeValid", "The same area or line as a valid geometry.", _by_shapely("make_valid")),
    ("ST_Normalize", "The same geometry in a canonical order.", _by_shapely("normalize")),
    ("ST_Reverse", "The same geometry, vertices in reverse.", _by_shapely("reverse")),
    ("ST_Force2D", "Without z and m.", _by_shapely("force_2d")),
)
_OF_TWO: Final = (
    ("ST_Union", "All that lies in a or in b.", _of_two("union")),
    ("ST_Intersection", "All that lies in both.", _of_two("intersection")),
    ("ST_Difference", "All that lies in a and not in b.", _of_two("difference")),
    ("ST_SymDifference", "All that lies in one alone.", _of_two("symmetric_difference")),
)
_AGGREGATES: Final = (
    ("ST_Union_Agg", "The union of a group.", _aggregate(_union_all)),
    ("ST_Envelope_Agg", "The rectangle around a group.", _aggregate(_envelope_all)),
    ("ST_Collect_Agg", "A collection of all of a group.", _aggregate(_collect_all)),
)
FROM_GEOMETRIES: Final = (
    *(
        SqlFunction(name, "geometry", Result.GEOMETRY, text, formula)
        for name, text, formula in _OF_ONE
    ),
    *(SqlFunction(name, "a, b", Result.GEOMETRY, text, formula) for name, text, formula in _OF_TWO),
    SqlFunction(
        "ST_Buffer",
        "geometry, distance [, segments]",
        Result.GEOMETRY,
        "All that lies within a distance; a quarter circle has 8 segments unless told.",
        _buffer,
    ),
    SqlFunction(
        "ST_Simplify",
        "geometry, tolerance",
        Result.GEOMETRY,
        "With fewer vertices, none further off than the tolerance; areas may fall in.",
        _with_number("simplify", "the tolerance", preserve_topology=False),
    ),
    SqlFunction(
        "ST_SimplifyPreserveTopology",
        "geometry, tolerance",
        Result.GEOMETRY,
        "As ST_Simplify, but what is valid stays valid.",
        _with_number("simplify", "the tolerance", preserve_topology=True),
    ),
    SqlFunction(
        "ST_Transform",
        "geometry, [source,] target",
        Result.GEOMETRY,
        "In another coordinate reference system, an SRID, code or WKT; x is always east.",
        _transform,
    ),
    *(
        SqlFunction(name, "geometry", Result.GEOMETRY, text, formula, aggregate=True)
        for name, text, formula in _AGGREGATES
    ),
)
"""The functions that make geometries of others."""


# Geometries from text, bytes and numbers, and back: ST_GeomFromText, ST_AsText and others.
#
# What is made is EWKB: plain WKB unless it has an SRID.

_GEOJSON_SRID: Final = 4326


def _from_text(column: Array, srid: Array | None = None) -> Array:
    return _tagged(to_canonical(texts(column, "WKT"), "wkt")[0], srid)


def _from_geojson(column: Array) -> Array:
    wkb = to_canonical(texts(column, "GeoJSON"), "geojson")[0]
    return from_canonical(wkb, np.full(len(wkb), _GEOJSON_SRID, np.int32), "ewkb")


def _from_bytes(column: Array, srid: Array | None = None) -> Array:
    if Geometries(column).is_text:
        raise InvalidArgumentError("it takes WKB (binary), not string")
    wkb, srids = to_canonical(column, "ewkb")
    return from_canonical(wkb, srids, "ewkb") if srid is None else _tagged(wkb, srid)


def _with_srid(column: Array, srid: Array) -> Array:
    return _tagged(Geometries(column).canonical[0], srid)


def _tagged(wkb: Array, srid: Array | None) -> Array:
    """Return canonical WKB with the SRIDs of an argument; null where that is null."""
    if srid is None:
        return from_canonical(wkb, None, "ewkb")
    found, valid = _srids(srid)
    if not valid.all():
        wkb = pa.array(wkb.to_numpy(zero_copy_only=False), wkb.type, mask=~valid)
    return from_canonical(wkb, found if found.any() else None, "ewkb")


def _srids(column: Array) -> tuple[Srids, Bools]:
    found, valid = whole_numbers(column, "the SRID")
    if (np.abs(found) >= 2**31).any():
        raise InvalidArgumentError("it takes an SRID of 32 bits")
    return found.astype(np.int32), valid


def _written(encoding: Encoding) -> Formula:
    def formula(column: Array) -> Array:
        wkb, srids = Geometries(column).canonical
        return from_canonical(wkb, srids, encoding, drop_srids=encoding != "ewkb")

    return formula


def _point(*columns: Array) -> Array:
    x, y = (numbers(column, name) for column, name in zip(columns, "xy", strict=False))
    return _points((x[0], y[0]), x[1] & y[1], columns[2] if len(columns) > 2 else None)


def _point_z(*columns: Array) -> Array:
    x, y, z = (numbers(column, name) for column, name in zip(columns, "xyz", strict=False))
    srid = columns[3] if len(columns) > 3 else None
    return _points((x[0], y[0], z[0]), x[1] & y[1] & z[1], srid)


def _points(axes: tuple[Any, ...], valid: Bools, srid: Array | None) -> Array:
    size = 5 + 8 * len(axes)
    fields = [("order", "u1"), ("type", "<u4"), *((f"axis{n}", "<f8") for n in range(len(axes)))]
    points = np.empty(len(valid), np.dtype(fields))
    points["order"], points["type"] = 1, 1 if len(axes) == 2 else 1001
    for number, axis in enumerate(axes):
        points[f"axis{number}"] = axis
    wkb = pa.Array.from_buffers(
        pa.binary(size), len(points), [None, pa.py_buffer(points.view(np.uint8))]
    ).cast(pa.binary())
    if not valid.all():
        wkb = pa.array(wkb.to_numpy(zero_copy_only=False), pa.binary(), mask=~valid)
    return _tagged(wkb, srid)


def _rectangle(*columns: Array) -> Array:
    import shapely

    names = ("xmin", "ymin", "xmax", "ymax")
    sides = [numbers(column, name) for column, name in zip(columns, names, strict=False)]
    valid: Bools = np.logical_and.reduce([there for _, there in sides])
    boxes = shapely.box(*(values for values, _ in sides), ccw=False)
    boxes[~valid] = None
    return _tagged(wkb_of_geometries(boxes), columns[4] if len(columns) > 4 else None)


ENCODINGS: Final = (
    SqlFunction(
        "ST_GeomFromText",
        "wkt [, srid]",
        Result.GEOMETRY,
        "The geometry that well-known text describes.",
        _from_text,
    ),
    SqlFunction(
        "ST_GeomFromWKT", "wkt [, srid]", Result.GEOMETRY, "As ST_GeomFromText.", _from_text
    ),
    SqlFunction(
        "ST_GeomFromWKB",
        "wkb [, srid]",
        Result.GEOMETRY,
        "The geometry that WKB or EWKB describes.",
        _from_bytes,
    ),
    SqlFunction(
        "ST_GeomFromEWKB", "ewkb", Result.GEOMETRY, "The geometry that EWKB describes.", _from_bytes
    ),
    SqlFunction(
        "ST_GeomFromGeoJSON",
        "geojson",
        Result.GEOMETRY,
        "The geometry that a GeoJSON geometry object describes, with SRID 4326.",
        _from_geojson,
    ),
    SqlFunction("ST_Point", "x, y [, srid]", Result.GEOMETRY, "A point.", _point),
    SqlFunction("ST_PointZ", "x, y, z [, srid]", Result.GEOMETRY, "A point with z.", _point_z),
    SqlFunction(
        "ST_MakeEnvelope",
        "xmin, ymin, xmax, ymax [, srid]",
        Result.GEOMETRY,
        "A rectangle.",
        _rectangle,
    ),
    SqlFunction(
        "ST_SetSRID",
        "geometry, srid",
        Result.GEOMETRY,
        "The same geometry with another SRID; coordinates stay.",
        _with_srid,
    ),
    SqlFunction(
        "ST_AsText", "geometry", Result.TEXT, "Well-known text, every digit kept.", _written("wkt")
    ),
    SqlFunction("ST_AsBinary", "geometry", Result.BYTES, "ISO WKB, without SRID.", _written("wkb")),
    SqlFunction("ST_AsEWKB", "geometry", Result.BYTES, "EWKB, with SRID.", _written("ewkb")),
    SqlFunction(
        "ST_AsGeoJSON",
        "geometry",
        Result.TEXT,
        "A GeoJSON geometry object; coordinates are not transformed.",
        _written("geojson"),
    ),
)
"""The functions that read, write and make geometries."""
