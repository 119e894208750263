"""Geometries lie in the plane and geographies on the globe, in what commands take and write."""

from __future__ import annotations

import json
import struct
from dataclasses import replace
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
import shapely

from havasu_vc import Repo
from havasu_vc.exchange.export import ExportFormat, write_file
from havasu_vc.model.schema import Schema
from havasu_vc.model.types import Encoding, Geometry
from tests.exchange.tables import batches_of, stored
from tests.spec.commands import Commands

X = [165.25, 171.0, 179.5, -179.0, -171.5, -100.75]
"""Longitudes of points on both sides of the antimeridian."""
BOXES = {
    (170, -5, 172, 5): [171.0],
    (-172, -5, -160, 5): [-171.5],
    (165.25, -5, 165.25, 5): [165.25],
    (-101, -5, -100, 5): [-100.75],
    (175, -5, -175, 5): [179.5, -179.0],
    (-100, -5, 165, 5): [],
    (170, 3, 172, 5): [],
    (-180, -5, 180, 5): X,
}


def points_across(path: Path) -> Path:
    """Write points with a box whose xmin is greater than its xmax."""
    table = pa.table({"geom": pa.array([shapely.to_wkb(shapely.Point(x, 1)) for x in X])})
    header, rows = stored(table, geometries={"geom": Geometry(Encoding.EWKB, "OGC:CRS84")})
    write_file(path, header, batches_of(rows), format=ExportFormat.PARQUET)
    data = path.read_bytes()
    for old, new in ((-179.0, 165.25), (179.5, -100.75)):
        # The footer is the last that has it: numbers of eight bytes, which may be exchanged.
        head, found, tail = data.rpartition(struct.pack("<d", old))
        assert found
        data = head + struct.pack("<d", new) + tail
    path.write_bytes(data)
    said = pq.ParquetFile(path).metadata.row_group(0).column(0).geo_statistics
    assert said is not None and (said.xmin, said.xmax) == (165.25, -100.75)
    return path


def taken(hv: Commands, place: str | Path, box: tuple[float, ...], name: str) -> pa.Table:
    """Import what is in a box, and return it."""
    hv("import", place, name, "--bbox", ",".join(map(str, box)), "--no-primary-key")
    return Repo.open(hv.path).table(name).to_arrow()


@pytest.mark.rule("PQ-24")
def test_a_group_across_the_antimeridian_is_east_and_west_of_it(
    hv: Commands, tmp_path: Path
) -> None:
    file = points_across(tmp_path / "points.parquet")

    for number, (box, wanted) in enumerate(BOXES.items()):
        found = taken(hv, file, box, f"d{number}")["geom"].to_pylist()
        assert sorted(shapely.get_x(shapely.from_wkb(found))) == sorted(wanted), box


LINE = "LINESTRING (-50 60, 50 60)"
"""On the globe it goes as far north as 70 degrees, in the plane it does not."""


@pytest.mark.rule("DEL-11")
@pytest.mark.parametrize(
    ("edges", "type_", "reached"),
    [(None, "geometry(OGC:CRS84)", False), ("spherical", "geography(OGC:CRS84, spherical)", True)],
)
def test_edges_are_straight_or_on_the_globe(
    hv: Commands, tmp_path: Path, edges: str | None, type_: str, reached: bool
) -> None:
    values = pa.array([shapely.to_wkb(shapely.from_wkt(LINE))], pa.binary())
    header, rows = stored(
        pa.table({"geom": values}), geometries={"geom": Geometry(Encoding.EWKB, "OGC:CRS84")}
    )
    if edges is not None:
        (field,) = header.schema.fields
        header = replace(header, schema=Schema((replace(field, extra=(("edges", edges),)),)))
    write_file(tmp_path / "in.parquet", header, batches_of(rows), format=ExportFormat.PARQUET)
    hv("import", tmp_path / "in.parquet", "lines", "--no-primary-key")

    hv("export", "lines", "--to", "delta", tmp_path / "lines")

    log = actions(tmp_path / "lines")
    (field,) = json.loads(log["metaData"]["schemaString"])["fields"]
    assert field["type"] == type_
    corners = json.loads(log["add"]["stats"]).get("maxValues", {}).get("geom")
    if edges is None:
        assert corners == "POINT(50 60)"
    elif corners is not None:
        assert shapely.from_wkt(corners).y > 69
    for name, box, there in (("north", (-5, 65, 5, 68), reached), ("at", (49, 59, 51, 61), True)):
        assert taken(hv, f"delta:{tmp_path / 'lines'}", box, name).num_rows == there


def actions(folder: Path) -> dict[str, Any]:
    """Return the last action of each kind in a Delta table's first version."""
    lines = (folder / "_delta_log" / f"{0:020}.json").read_text().splitlines()
    return {name: value for line in lines for name, value in json.loads(line).items()}


@pytest.mark.rule("DEL-24")
@pytest.mark.parametrize("options", [[], ["--plain"]], ids=["geometry", "plain"])
def test_each_file_says_its_rows_and_nulls(
    hv: Commands, tmp_path: Path, options: list[str]
) -> None:
    shapes = [None, "POINT EMPTY", "POINT (1 2)", None, *["POINT (3 4)"] * 19]
    values = [text and shapely.to_wkb(shapely.from_wkt(text)) for text in shapes]
    table = pa.table({"id": range(23), "geom": pa.array(values, pa.binary())})
    column = {"encoding": "WKB", "geometry_types": []}
    geo = {"version": "1.0.0", "primary_column": "geom", "columns": {"geom": column}}
    hv.take(table.replace_schema_metadata({"geo": json.dumps(geo)}))
    hv.write(id=[2, 9], geom=[None, None])

    hv("export", "t", "--to", "delta", tmp_path / "t", *options)

    log = (tmp_path / "t" / "_delta_log" / f"{0:020}.json").read_text().splitlines()
    added = [value["add"] for value in map(json.loads, log) if "add" in value]
    assert added
    for each in added:
        statistics = json.loads(each["stats"])
        there = pq.read_table(tmp_path / "t" / each["path"])
        assert statistics["numRecords"] == there.num_rows
        assert statistics["nullCount"]["geom"] == there["geom"].null_count
        assert statistics["nullCount"]["id"] == 0
    # An empty point is a value.
    assert sum(json.loads(each["stats"])["numRecords"] for each in added) == 23
    assert sum(json.loads(each["stats"])["nullCount"]["geom"] for each in added) == 4
