"""Parquet's GEOMETRY and GEOGRAPHY: what is written says what the specification asks for."""

import json
import re
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
import shapely

from havasu_vc.errors import CrsError, InvalidFileError
from havasu_vc.exchange.export import ExportFormat, Written, write_file
from havasu_vc.exchange.geoarrow import extension_geometry
from havasu_vc.exchange.parquet import logical_edges
from havasu_vc.formats.iceberg.native_geometry import EDGES
from havasu_vc.geo.bounds import bounds_of
from havasu_vc.model.types import Encoding, Geometry
from tests.exchange.reading import open_one, read_all
from tests.exchange.tables import batches_of, header_from, stored

AXES = ("xmin", "xmax", "ymin", "ymax", "zmin", "zmax", "mmin", "mmax")


def iso(*texts: str | None) -> Any:
    """Return geometries as Parquet has them; a vertex may be NaN."""
    return pa.array(
        [None if t is None else shapely.to_wkb(shapely.from_wkt(t), flavor="iso") for t in texts],
        pa.binary(),
    )


def written(path: Path, column: Any, crs: str | None = "OGC:CRS84") -> pq.ParquetFile:
    """Return a column written by us as plain Parquet."""
    said = {"geom": Geometry(Encoding.EWKB, crs)}
    header, rows = stored(pa.table({"geom": column}), geometries=said)
    write_file(path, header, batches_of(rows, 1000), format=ExportFormat.PARQUET, overwrite=True)
    return pq.ParquetFile(path)


def statistics(file: pq.ParquetFile, group: int = 0, column: int = 0) -> dict[str, Any]:
    """Return the geospatial statistics of a row group."""
    found = file.metadata.row_group(group).column(column).geo_statistics
    assert found is not None
    types = found.geospatial_types
    return {axis: getattr(found, axis) for axis in AXES} | {"types": sorted(types or [])}


def expected(texts: list[str | None]) -> dict[str, Any]:
    """Return the statistics of geometries by the text of their vertices alone."""
    lows = dict.fromkeys(AXES)
    types = set()
    for text in filter(None, texts):
        kind, dimensions = re.match(r"(\w+?) (ZM|Z|M)?", text).groups()  # type: ignore[union-attr]
        codes = "POINT LINESTRING POLYGON MULTIPOINT MULTILINESTRING MULTIPOLYGON".split()
        number = [*codes, "GEOMETRYCOLLECTION"].index(kind) + 1
        types.add(number + {None: 0, "Z": 1000, "M": 2000, "ZM": 3000}[dimensions])
        axes = "xy" + (dimensions or "").lower()
        for vertex in re.split(r"[(),]", re.sub(r"[A-Z]+", "", text)):
            for axis, number_ in zip(axes, map(float, vertex.split()), strict=False):
                if number_ == number_:
                    low, high = lows[axis + "min"], lows[axis + "max"]
                    lows[axis + "min"] = number_ if low is None else min(low, number_)
                    lows[axis + "max"] = number_ if high is None else max(high, number_)
    return lows | {"types": sorted(types)}


def groups_of_others(shared_data: Path, name: str) -> list[tuple[Any, dict[str, Any]]]:
    """Return each row group of a file of others, and the statistics it should have."""
    file = pq.ParquetFile(shared_data / "parquet-geospatial" / f"{name}.parquet")
    found = []
    for group in range(file.num_row_groups):
        rows = file.read_row_group(group)
        wanted = expected(rows["wkt"].to_pylist())
        assert statistics(file, group, 2) == wanted
        found.append((rows["geometry"].combine_chunks(), wanted))
    return found


@pytest.mark.rule("PQ-9", "PQ-10", "PQ-12", "PQ-16", "PQ-17", "PQ-19", "PQ-29")
@pytest.mark.rule("PQ-30", "PQ-31", "PQ-32", "PQ-33", "PQ-34", "PQ-36", "DEL-29")
def test_each_row_group_of_others_gets_its_statistics_again(
    shared_data: Path, tmp_path: Path
) -> None:
    groups = groups_of_others(shared_data, "geospatial")

    assert len(groups) == 31
    for column, wanted in groups:
        assert statistics(written(tmp_path / "a.parquet", column)) == wanted


@pytest.mark.rule("PQ-13", "PQ-18")
def test_nan_is_in_no_box(shared_data: Path, tmp_path: Path) -> None:
    ((column, wanted),) = groups_of_others(shared_data, "geospatial-with-nan")

    assert (wanted["xmin"], wanted["mmax"], wanted["types"]) == (10, 160, [3001, 3002])
    assert statistics(written(tmp_path / "a.parquet", column)) == wanted


@pytest.mark.rule("PQ-13", "PQ-14", "PQ-15", "PQ-16")
@pytest.mark.parametrize(
    ("points", "box"),
    [
        ([(1, np.nan)], {}),
        ([(1, np.nan), (2, 3)], {"x": (1, 2), "y": (3, 3)}),
        ([(1, 2, np.nan)], {"x": (1, 1), "y": (2, 2)}),
        ([(1, 2, np.nan), (1, 2, 9)], {"x": (1, 1), "y": (2, 2), "z": (9, 9)}),
        ([], {}),
    ],
)
def test_each_axis_counts_alone(
    points: list[tuple[float, ...]], box: dict[str, tuple[float, float]], tmp_path: Path
) -> None:
    column = pa.array([shapely.to_wkb(shapely.Point(p), flavor="iso") for p in points] + [None])
    column = pa.concat_arrays([column.cast(pa.binary()), iso("POINT EMPTY")])

    found = statistics(written(tmp_path / "a.parquet", column))

    for axis in "xyzm":
        low, high = box.get(axis, (None, None))
        assert (found[f"{axis}min"], found[f"{axis}max"]) == (low, high)


@pytest.mark.rule("PQ-1", "DEL-27", "DEL-31")
@pytest.mark.parametrize(
    "text", ["POINT Z (1 2 3)", "POINT M (1 2 3)", "POINT ZM (1 2 3 4)", "POINT (1 2)"]
)
def test_values_are_iso_wkb_without_srid(text: str, tmp_path: Path) -> None:
    ewkb = shapely.to_wkb(shapely.set_srid(shapely.from_wkt(text), 4326), include_srid=True)
    header, rows = stored(
        pa.table({"geom": pa.array([ewkb])}), geometries={"geom": Geometry(crs="EPSG:4326")}
    )
    write_file(tmp_path / "a.parquet", header, batches_of(rows), format=ExportFormat.PARQUET)

    (value,) = pq.ParquetFile(tmp_path / "a.parquet").read(columns=["geom"])["geom"].to_pylist()

    assert value == shapely.to_wkb(shapely.from_wkt(text), flavor="iso", byte_order=1)


@pytest.mark.rule("PQ-3", "PQ-7", "PQ-38", "DEL-8")
@pytest.mark.parametrize(
    ("crs", "said"), [("OGC:CRS84", None), ("EPSG:2193", "NZGD2000"), ("EPSG:4326", None)]
)
def test_the_type_says_the_system(crs: str, said: str | None, tmp_path: Path) -> None:
    file = written(tmp_path / "a.parquet", iso("POINT (1 2)"), crs)

    logical = json.loads(file.schema.column(0).logical_type.to_json())
    assert logical["Type"] == "Geometry"
    # Longitudes and latitudes in WGS 84 are what a type without a system means.
    assert (said in json.dumps(logical["crs"])) if said else "crs" not in logical
    assert list(open_one(tmp_path / "a.parquet").crs) in ([crs], ["OGC:CRS84"])


@pytest.mark.rule("PQ-11", "PQ-42")
def test_x_is_longitude_whatever_the_system_says(tmp_path: Path) -> None:
    found = statistics(written(tmp_path / "a.parquet", iso("POINT (175 -41)"), "EPSG:4326"))

    assert (found["xmin"], found["ymin"]) == (175, -41)


@pytest.mark.rule("PQ-43")
def test_there_is_no_least_and_greatest_value(tmp_path: Path) -> None:
    chunk = written(tmp_path / "a.parquet", iso("POINT (1 2)")).metadata.row_group(0).column(0)

    assert chunk.statistics is None or not chunk.statistics.has_min_max


@pytest.mark.rule("PQ-44")
def test_the_box_is_what_our_bounds_are(tmp_path: Path) -> None:
    column = iso("LINESTRING (0 5, 3 -1)", "POINT EMPTY", None, "POINT Z (7 7 7)")
    found = statistics(written(tmp_path / "a.parquet", column))
    bounds = bounds_of(column, "wkb")

    assert bounds is not None
    box = (found["xmin"], found["ymin"], found["xmax"], found["ymax"])
    assert box == (bounds.xmin, bounds.ymin, bounds.xmax, bounds.ymax)


@pytest.mark.rule("PQ-6", "PQ-8", "DEL-15", "DEL-16", "DEL-17", "DEL-18", "DEL-19")
def test_the_ways_of_edges() -> None:
    assert EDGES == ("spherical", "vincenty", "thomas", "andoyer", "karney")
    assert logical_edges(None, "a") == "spherical"  # DEL-20
    for name in EDGES:
        said = {b"ARROW:extension:name": b"geoarrow.wkb"}
        said[b"ARROW:extension:metadata"] = json.dumps({"edges": name.upper()}).encode()
        found = extension_geometry(pa.field("g", pa.binary(), metadata=said))
        assert found is not None and found.edges == name
        assert logical_edges(name.upper(), "a") == name
    with pytest.raises(InvalidFileError, match="unknown") as caught:
        logical_edges("straight", "a")
    assert caught.value.hints


@pytest.mark.rule("PQ-8")
@pytest.mark.parametrize("format", [ExportFormat.PARQUET, ExportFormat.GEOPARQUET])
def test_a_geography_stays_one(format: ExportFormat, shared_data: Path, tmp_path: Path) -> None:
    source = open_one(shared_data / "parquet-geospatial" / "crs-geography.parquet")

    def again(path: Path) -> Written:
        batches = read_all(source).to_batches()
        return write_file(path, header_from(source), iter(batches), format=format)

    again(tmp_path / "a.parquet")

    (field,) = open_one(tmp_path / "a.parquet").schema.geometries
    assert dict(field.extra)["edges"] == "spherical"


@pytest.mark.rule("PQ-40")
def test_a_system_in_a_property_that_is_not_there(tmp_path: Path) -> None:
    said = {b"ARROW:extension:name": b"geoarrow.wkb"}
    said[b"ARROW:extension:metadata"] = b'{"crs": "projjson:lost"}'
    schema = pa.schema([pa.field("geom", pa.binary(), metadata=said)])
    pq.write_table(pa.table([iso("POINT (1 2)")], schema), tmp_path / "a.parquet")
    found = extension_geometry(schema.field("geom"))

    assert found is not None and found.crs is None


@pytest.mark.rule("PQ-41")
@pytest.mark.parametrize("crs", ["EPSG:4326", "OGC:CRS83", "srid:2193"])
def test_a_system_by_authority_and_code(crs: str, tmp_path: Path) -> None:
    said = {b"ARROW:extension:name": b"geoarrow.wkb"}
    said[b"ARROW:extension:metadata"] = json.dumps({"crs": crs}).encode()
    schema = pa.schema([pa.field("geom", pa.binary(), metadata=said)])
    pq.write_table(pa.table([iso("POINT (1 2)")], schema), tmp_path / "a.parquet")

    (found,) = open_one(tmp_path / "a.parquet").crs

    assert found == crs.replace("srid", "EPSG")


def test_a_system_that_is_none(tmp_path: Path) -> None:
    said = {b"ARROW:extension:name": b"geoarrow.wkb"}
    said[b"ARROW:extension:metadata"] = b'{"crs": "XYZ:1"}'
    schema = pa.schema([pa.field("geom", pa.binary(), metadata=said)])
    pq.write_table(pa.table([iso("POINT (1 2)")], schema), tmp_path / "a.parquet")

    with pytest.raises(CrsError, match="unknown") as caught:
        open_one(tmp_path / "a.parquet")
    assert caught.value.hints


@pytest.mark.rule("PQ-27")
@pytest.mark.parametrize("text", ["POINT (1 2)", "POINT (181 91)", "LINESTRING (0 60, 90 60)"])
def test_the_box_of_a_geography_stays_on_the_globe(text: str, tmp_path: Path) -> None:
    # Edges leave the box of their ends, so none is written rather than one that is too small.
    header, rows = stored(
        pa.table({"geom": iso(text)}), geometries={"geom": Geometry(Encoding.EWKB, "OGC:CRS84")}
    )
    fields = tuple(replace(f, extra=(("edges", "spherical"),)) for f in header.schema.fields)
    header = replace(header, schema=replace(header.schema, fields=fields))
    path = tmp_path / "a.parquet"
    write_file(path, header, batches_of(rows), format=ExportFormat.PARQUET)

    file = pq.ParquetFile(path)
    said = file.metadata.row_group(0).column(0).geo_statistics

    assert file.schema.column(0).logical_type.type == "GEOGRAPHY"
    if said is not None and said.xmin is not None:
        assert -180 <= said.xmin <= said.xmax <= 180 and -90 <= said.ymin <= said.ymax <= 90
