"""Tables to export: a header with rows, by hand and by Hypothesis."""

import datetime
import decimal
from collections.abc import Iterator
from dataclasses import replace
from typing import Any

import pyarrow as pa
import shapely

from havasu_vc.exchange.source import Source
from havasu_vc.geo.crs import parse_crs
from havasu_vc.model.arrow import arrow_schema, schema_from_arrow, to_stored
from havasu_vc.model.diffs import DatasetHeader
from havasu_vc.model.schema import Schema
from havasu_vc.model.types import Encoding, Geometry, Primitive

MOMENT = datetime.datetime(2024, 2, 29, 23, 59, 59, 123000)


def header_of(schema: Schema, path: str = "t", **meta: Any) -> DatasetHeader:
    names = {field.geometry.crs for field in schema.geometries if field.geometry}
    crs = {f"crs/{name}.wkt": parse_crs(name).wkt for name in names if name}
    return DatasetHeader(path, "havasu", schema, {**meta, **crs})


def header_from(source: Source) -> DatasetHeader:
    crs = {f"crs/{name}.wkt": wkt for name, wkt in source.crs.items()}
    return DatasetHeader(source.name, "havasu", source.schema, crs)


def stored(
    table: pa.Table,
    *,
    key: tuple[str, ...] = (),
    geometries: dict[str, Geometry] | None = None,
) -> tuple[DatasetHeader, pa.Table]:
    """Return a table as a dataset has it; geometry columns come as EWKB."""
    plain = schema_from_arrow(table.schema, key=key)
    fields = tuple(
        replace(field, geometry=geometries[field.name])
        if geometries and field.name in geometries
        else field
        for field in plain.fields
    )
    schema = Schema(fields, plain.identifier_ids)
    batches = [to_stored(batch, schema) for batch in table.to_batches()]
    return header_of(schema), pa.Table.from_batches(batches, arrow_schema(schema))


def batches_of(table: pa.Table, rows: int = 2) -> Iterator[pa.RecordBatch]:
    yield from table.to_batches(max_chunksize=rows)


def points(*where: tuple[float, ...] | None) -> pa.Array:
    shapes = [None if each is None else shapely.to_wkb(shapely.Point(each)) for each in where]
    return pa.array(shapes, pa.binary())


def flat_table() -> pa.Table:
    """Return columns that every vector format holds in some way."""
    return pa.table(
        {
            "id": pa.array([10, 20, 30], pa.int64()),
            "geom": points((1.0, 2.0), (3.5, -4.25), (5.0, 6.0)),
            "name": pa.array(["Te Mātā", None, 'ln\nbr\x01 "q"']),
            "small": pa.array([1, None, -3], pa.int16()),
            "number": pa.array([2**31 - 1, None, -(2**31)], pa.int32()),
            "large": pa.array([2**53 + 1, None, -(2**53) - 1], pa.int64()),
            "single": pa.array([1.5, None, -0.25], pa.float32()),
            "double": pa.array([0.1, None, 1e-7]),
            "flag": pa.array([True, None, False]),
            "day": pa.array([datetime.date(2020, 2, 29), None, datetime.date(1970, 1, 1)]),
            "time": pa.array([datetime.time(1, 2, 3), None, datetime.time(0)], pa.time64("us")),
            "moment": pa.array([MOMENT, None, MOMENT], pa.timestamp("us")),
            "zoned": pa.array([MOMENT, None, MOMENT], pa.timestamp("us", tz="UTC")),
        }
    )


def rich_table() -> pa.Table:
    """Return columns that only few formats hold."""
    return pa.table(
        {
            "id": pa.array([1, 2], pa.int64()),
            "uint64": pa.array([2**64 - 1, None], pa.uint64()),
            "decimal": pa.array([decimal.Decimal("12345678901234567890.12"), None],
                                pa.decimal128(30, 2)),
            "short": pa.array([decimal.Decimal("1.10"), None], pa.decimal128(9, 2)),
            "bytes": pa.array([b"\x00\xff", None]),
            "uuid": pa.array([bytes(range(16)), None], pa.uuid()),
            "list": pa.array([[1, None], None], pa.list_(pa.int32())),
            "struct": pa.array([{"a": 1.5, "b": b"x"}, None],
                               pa.struct([("a", pa.float64()), ("b", pa.binary())])),
        }
    )  # fmt: skip


POINTS = Geometry(Encoding.EWKB, "EPSG:2193", "POINT")
LONLAT = Geometry(Encoding.EWKB, "OGC:CRS84", "POINT")
__all__ = ["LONLAT", "POINTS", "Primitive", "batches_of", "flat_table", "header_of", "stored"]
