"""Small tables to import and edit."""

import json
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pyogrio.raw
import shapely

from havasu_vc.exchange.source import SourceOptions

BY_ID = SourceOptions(primary_key=("id",))
NO_KEY = SourceOptions(primary_key=())


def points(count: int, *, start: int = 0, name: str = "row") -> pa.Table:
    """Return rows with an id, a point, a name and a number."""
    ids = range(start, start + count)
    return pa.table(
        {
            "id": pa.array(ids, pa.int64()),
            "geom": pa.array(
                [shapely.to_wkb(shapely.Point(i % 360 - 180, i % 90)) for i in ids], pa.binary()
            ),
            "name": pa.array([f"{name} {i}" for i in ids], pa.string()),
            "number": pa.array([i % 7 for i in ids], pa.int32()),
        }
    )


def write(path: Path, table: pa.Table) -> Path:
    """Write GeoParquet, or Parquet where there is no `geom`."""
    if "geom" in table.schema.names:
        column = {"encoding": "WKB", "geometry_types": ["Point"]}
        geo = {"version": "1.0.0", "primary_column": "geom", "columns": {"geom": column}}
        table = table.replace_schema_metadata({"geo": json.dumps(geo)})
    pq.write_table(table, path)
    return path


def write_layers(file: Path, layers: dict[str, int]) -> Path:
    """Write a GeoPackage of several layers, each of so many points."""
    for number, (name, count) in enumerate(layers.items()):
        pyogrio.raw.write(
            file,
            geometry=shapely.to_wkb([shapely.Point(i, i) for i in range(count)]),
            field_data=[pa.array([f"{name} {i}" for i in range(count)]).to_numpy(False)],
            fields=["name"],
            geometry_type="Point",
            crs="EPSG:4326",
            layer=name,
            driver="GPKG",
            append=number > 0,
        )
    return file


def rows(repo: Any, path: str, revision: str = "HEAD") -> list[dict[str, Any]]:
    """Return the rows of a dataset, by id where there is one."""
    found: list[dict[str, Any]] = repo.table(path, revision).to_arrow().to_pylist()
    return sorted(found, key=lambda row: (row.get("id", 0), repr(row)))
