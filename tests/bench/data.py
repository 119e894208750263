"""The tables that are measured, the same at every run: points, polygons, text keys.

Rows are made a million at a time, each million from a seed of its own, so a large table
begins with the rows of a small one and memory stays bounded. GeoParquet is written as
GeoPandas does with `compression="zstd"`.

    python -m tests.bench.data points 1000000 points.parquet
"""

from __future__ import annotations

import json
import sys
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

CHUNK = 1 << 20
CRS = "EPSG:2193"
WEST, SOUTH, EAST, NORTH = 1.0e6, 4.7e6, 2.0e6, 6.0e6
KINDS = ("points", "text", "polygons")


def chunks(kind: str, rows: int) -> Iterator[pa.Table]:
    """Yield the rows of a table."""
    for number, start in enumerate(range(0, rows, CHUNK)):
        yield _chunk(kind, number, start, min(CHUNK, rows - start))


def _chunk(kind: str, number: int, start: int, count: int) -> pa.Table:
    random = np.random.default_rng([42, number])
    kinds = pa.array(["path", "rail", "river", "road"])
    times = random.integers(1_500_000_000_000, 1_700_000_000_000, count)
    columns: dict[str, pa.Array] = {
        "fid": pa.array(np.arange(start + 1, start + count + 1)),
        "name": _texts("Place ", random.integers(0, 200_000, count)),
        "kind": kinds.take(pa.array(random.integers(0, 4, count))),
        "height": pa.array(np.round(random.normal(100, 30, count), 2)),
        "pop": pa.array(random.integers(0, 100_000, count, dtype=np.int32)),
        "code": pa.array(random.integers(0, 1 << 40, count)),
        "ok": pa.array(random.random(count) > 0.5),
        "ts": pa.array(times // 1000 * 1000).cast(pa.timestamp("ms")),
        "note": _texts("note ", random.integers(0, 1000, count)),
    }
    if kind == "text":
        # As identifiers of an agency are: text, unique, in no order.
        scattered = (columns["fid"].to_numpy() * 0x9E3779B1) % (1 << 32)
        columns["fid"] = _texts("LINZ-", scattered)
    x, y = random.uniform(WEST, EAST, count), random.uniform(SOUTH, NORTH, count)
    columns["geom"] = _polygons(random, x, y) if kind == "polygons" else _points(x, y)
    return pa.table(columns)


def _texts(prefix: str, numbers: npt.NDArray[np.int64]) -> pa.Array:
    return pc.binary_join_element_wise(prefix, pa.array(numbers).cast(pa.string()), "")


def _points(x: npt.NDArray[np.float64], y: npt.NDArray[np.float64]) -> pa.Array:
    wkb = np.zeros(len(x), [("order", "u1"), ("type", "<u4"), ("x", "<f8"), ("y", "<f8")])
    wkb["order"], wkb["type"], wkb["x"], wkb["y"] = 1, 1, x, y
    offsets = np.arange(len(x) + 1, dtype=np.int32) * wkb.dtype.itemsize
    return pa.Array.from_buffers(
        pa.binary(), len(x), [None, pa.py_buffer(offsets), pa.py_buffer(wkb)]
    )


def _polygons(
    random: np.random.Generator, x: npt.NDArray[np.float64], y: npt.NDArray[np.float64]
) -> pa.Array:
    """Return star-shaped rings of 5 to 30 vertices round the given places."""
    import shapely

    corners = random.integers(5, 31, len(x))
    ring = np.repeat(np.arange(len(x)), corners)
    first = np.cumsum(corners) - corners
    step = np.arange(len(ring)) - first[ring]
    angle = 2 * np.pi * step / corners[ring]
    radius = random.uniform(20, 120, len(ring))
    points = np.column_stack([x[ring] + radius * np.cos(angle), y[ring] + radius * np.sin(angle)])
    rings = shapely.linearrings(np.round(points, 3), indices=ring)
    return pa.array(shapely.to_wkb(shapely.polygons(rings)), pa.binary())


def _geo(kind: str) -> bytes:
    from pyproj import CRS as Reference

    column = {
        "encoding": "WKB",
        "crs": Reference.from_user_input(CRS).to_json_dict(),
        "geometry_types": ["Polygon" if kind == "polygons" else "Point"],
        "bbox": [WEST, SOUTH, EAST, NORTH],
    }
    return json.dumps(
        {"primary_column": "geom", "columns": {"geom": column}, "version": "1.0.0"}
    ).encode()


def write_parquet(kind: str, rows: int, path: Path) -> None:
    """Write a table as GeoParquet."""
    writer = None
    for table in chunks(kind, rows):
        table = table.replace_schema_metadata({b"geo": _geo(kind)})
        if writer is None:
            writer = pq.ParquetWriter(path, table.schema, compression="zstd")
        writer.write_table(table, row_group_size=CHUNK)
    if writer is not None:
        writer.close()


def write_gpkg(kind: str, rows: int, path: Path) -> None:
    """Write a table as a GeoPackage, its key the feature id."""
    import pyogrio

    shape = "Polygon" if kind == "polygons" else "Point"
    for number, table in enumerate(chunks(kind, rows)):
        # Rows keep their order, so they get the same feature ids again.
        table = table.drop_columns(["fid"]) if kind != "text" else table
        pyogrio.write_arrow(
            table,
            path,
            layer="points",
            driver="GPKG",
            geometry_name="geom",
            geometry_type=shape,
            crs=CRS,
            append=number > 0,
        )


def main(arguments: list[str]) -> None:
    """Write one table; it has its name only once it is whole."""
    kind, rows, path = arguments[0], int(arguments[1]), Path(arguments[2])
    unfinished = path.with_name(f"unfinished-{path.name}")
    unfinished.unlink(missing_ok=True)
    write = write_gpkg if path.suffix == ".gpkg" else write_parquet
    write(kind, rows, unfinished)
    unfinished.rename(path)


if __name__ == "__main__":
    main(sys.argv[1:])
