"""Geometries from text, bytes and numbers, and back: ST_GeomFromText, ST_AsText and others.

What is made is EWKB: plain WKB unless it has an SRID.
"""

from typing import Any, Final

import numpy as np
import pyarrow as pa

from havasu_vc.errors import InvalidArgumentError
from havasu_vc.geo.buffers import Bools
from havasu_vc.geo.functions.arguments import (
    Array,
    Geometries,
    numbers,
    texts,
    whole_numbers,
)
from havasu_vc.geo.functions.catalogue import Kernel, Result, SqlFunction
from havasu_vc.geo.wkb import Encoding, Srids, from_canonical, to_canonical
from havasu_vc.geo.wkt import wkb_of_geometries

__all__ = ["FUNCTIONS"]

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


def _written(encoding: Encoding) -> Kernel:
    def kernel(column: Array) -> Array:
        wkb, srids = Geometries(column).canonical
        return from_canonical(wkb, srids, encoding, drop_srids=encoding != "ewkb")

    return kernel


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


FUNCTIONS: Final = (
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
