"""Geometries and manifests from bytes and back, beside the bare calls of shapely.

    python -m tests.bench.encoding_jobs geometries 1000000

Both sides of a ratio are measured in turn in one process, by processor time, and the
quickest of several runs counts: what else the machine does only ever adds to it.
"""

from __future__ import annotations

import gc
import json
import sys
import time
from collections.abc import Callable
from typing import Any

import numpy as np
import pyarrow as pa
import shapely

from havasu_vc.formats.iceberg.entries import corner
from havasu_vc.formats.iceberg.manifests import format_manifest, parse_manifest
from havasu_vc.formats.iceberg.values import DataFile, ManifestEntry, Status
from havasu_vc.geo.bounds import bounds_of
from havasu_vc.geo.wkb import from_canonical, to_canonical
from havasu_vc.model.schema import Schema
from havasu_vc.model.types import Encoding, Field, Geometry, Primitive

Work = Callable[[], object]


def seconds(one: Work, other: Work, runs: int) -> tuple[float, float]:
    """Return the least processor time of two things, measured in turn."""
    best = [float("inf")] * 2
    for _ in range(runs):
        for index, work in enumerate((one, other)):
            begin = time.process_time()
            work()
            best[index] = min(best[index], time.process_time() - begin)
    return best[0], best[1]


def geometries(rows: str, runs: str) -> dict[str, Any]:
    """Decode, encode and find the bounds of points in each encoding."""
    count = int(rows)
    random = np.random.default_rng(1)
    points = shapely.points(np.round(random.uniform([-180, -90], [180, 90], (count, 2)), 6))
    tagged = shapely.set_srid(points, 4326)
    srids = np.full(count, 4326, np.int32)
    theirs: dict[str, tuple[Work, Callable[[Any], object], Any]] = {
        "wkb": (lambda: shapely.to_wkb(points), shapely.from_wkb, None),
        "ewkb": (lambda: shapely.to_wkb(tagged, include_srid=True), shapely.from_wkb, srids),
        "wkt": (
            lambda: shapely.to_wkt(points, rounding_precision=-1),
            shapely.from_wkt,
            None,
        ),
        "geojson": (lambda: shapely.to_geojson(points), shapely.from_geojson, None),
    }
    canonical, _ = to_canonical(pa.array(shapely.to_wkb(points), pa.binary()), "wkb")
    found: dict[str, Any] = {}
    for name, (write, read, own) in theirs.items():
        values: Any = write()
        column = pa.array(values, pa.string() if isinstance(values[0], str) else pa.binary())
        found[f"decode {name}"] = _beside(_decoding(column, name), _reading(read, values), runs)
        found[f"encode {name}"] = _beside(_encoding(canonical, own, name), write, runs)
        if name in ("wkb", "ewkb"):
            found[f"bounds {name}"] = _beside(
                _bounding(column, name), lambda: shapely.total_bounds(points), runs
            )
    return found


def _decoding(column: Any, name: Any) -> Work:
    return lambda: to_canonical(column, name)


def _encoding(canonical: Any, srids: Any, name: Any) -> Work:
    return lambda: from_canonical(canonical, srids, name)


def _bounding(column: Any, name: Any) -> Work:
    return lambda: bounds_of(column, name)


def _reading(read: Callable[[Any], object], values: Any) -> Work:
    return lambda: read(values)


def _beside(ours: Work, theirs: Work, runs: str) -> dict[str, float]:
    one, other = seconds(ours, theirs, int(runs))
    return {"ours": one, "theirs": other}


def manifests(entries: str, runs: str) -> dict[str, Any]:
    """Write and read one manifest of many entries, each with bounds of eight columns."""
    threshold = gc.get_threshold()
    gc.set_threshold(200_000)  # as the command sets it
    fields = [Field(1 + n, f"c{n}", Primitive.LONG) for n in range(8)]
    geometry = Geometry(Encoding.EWKB, "EPSG:4326")
    fields.append(Field(9, "geom", Primitive.BINARY, geometry=geometry))
    schema = Schema(tuple(fields))
    numbers = [field.id for field in fields]
    bounds = {number: (7).to_bytes(8, "little") for number in numbers[:-1]}
    listed = [
        ManifestEntry(
            Status.ADDED,
            DataFile(
                f"file:///warehouse/table/data/{number:064x}.parquet",
                65_536,
                1_000_000 + number,
                column_sizes=dict.fromkeys(numbers, 1000 + number),
                value_counts=dict.fromkeys(numbers, 65_536),
                null_value_counts=dict.fromkeys(numbers, 0),
                lower_bounds=bounds,
                upper_bounds=bounds,
                split_offsets=(4, 500_000),
                geometry_lower={9: corner(number % 180, 1.5)},
                geometry_upper={9: corner(number % 180 + 0.5, 2.5)},
            ),
            7,
        )
        for number in range(int(entries))
    ]
    data = format_manifest(listed, schema=schema)
    if len(parse_manifest(data, "it").entries) != len(listed):
        raise ValueError("entries were lost")
    write, read = seconds(
        lambda: format_manifest(listed, schema=schema),
        lambda: parse_manifest(data, "it"),
        int(runs),
    )
    gc.set_threshold(*threshold)
    return {"write": write, "read": read, "bytes": len(data)}


JOBS: dict[str, Callable[..., dict[str, Any]]] = {
    job.__name__: job for job in (geometries, manifests)
}

if __name__ == "__main__":
    print(json.dumps(JOBS[sys.argv[1]](*sys.argv[2:])))
