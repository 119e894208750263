"""GeoParquet out: boxes of rows, what a document says, its versions, and other readers of it."""

import json
from pathlib import Path
from typing import Any

import duckdb
import geopandas
import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
import shapely
from hypothesis import given
from hypothesis import strategies as st

from havasu_vc.errors import GeometryError, InvalidArgumentError
from havasu_vc.exchange.export import ExportFormat, Written, write_file
from havasu_vc.exchange.geoparquet import boxes_of, parse_geo
from havasu_vc.exchange.parquet_writer import ParquetForm
from havasu_vc.model.types import Encoding, Geometry
from tests.exchange.reading import open_one, read_all
from tests.exchange.tables import batches_of, header_from, points, stored

COVERED = ParquetForm(covering=True)
AXES = ("xmin", "ymin", "xmax", "ymax")


def export(path: Path, table: pa.Table, crs: str = "EPSG:2193", **how: Any) -> Written:
    header, rows = stored(table, geometries={"geom": Geometry(Encoding.EWKB, crs)})
    return write_file(path, header, batches_of(rows), **how)


def geo(path: Path) -> dict[str, Any]:
    return dict(json.loads(pq.read_metadata(path).metadata[b"geo"]))


def again(source_path: Path, path: Path, **how: Any) -> Path:
    source = open_one(source_path)
    write_file(path, header_from(source), batches_of(read_all(source)), **how)
    return path


TABLE = pa.table({"id": [1, 2, 3], "geom": points((1.1, 2.0), None, (5.3, 6.7))})


def test_rows_get_boxes_when_asked_for(tmp_path: Path) -> None:
    path = tmp_path / "a.parquet"
    export(path, TABLE, parquet=COVERED)

    paths = geo(path)["columns"]["geom"]["covering"]["bbox"]
    assert paths == {axis: ["bbox", axis] for axis in AXES}
    boxes = pq.read_table(path)["bbox"].to_pylist()
    assert boxes[1] is None
    assert boxes[0]["xmin"] <= 1.1 <= boxes[0]["xmax"]
    # GeoPandas finds the boxes and skips rows by them.
    found = geopandas.read_parquet(path, bbox=(5, 6, 7, 7))
    assert found["id"].tolist() == [3]
    rows = duckdb.sql(f"SELECT id FROM '{path}' WHERE bbox.xmin > 5")
    assert rows is not None and rows.fetchall() == [(3,)]
    assert pq.read_metadata(path).row_group(0).column(2).statistics.max > 5


def test_without_asking_there_are_none(tmp_path: Path) -> None:
    export(tmp_path / "a.parquet", TABLE)

    assert pq.read_schema(tmp_path / "a.parquet").names == ["id", "geom"]
    assert "covering" not in geo(tmp_path / "a.parquet")["columns"]["geom"]


@pytest.mark.parametrize("names", [("bbox",), ("bbox", "geom_bbox")])
def test_a_name_that_is_taken_is_not_used(names: tuple[str, ...], tmp_path: Path) -> None:
    table = TABLE
    for name in names:
        table = table.append_column(name, pa.array(["a", "b", "c"]))
    export(tmp_path / "a.parquet", table, parquet=COVERED)

    covering = geo(tmp_path / "a.parquet")["columns"]["geom"]["covering"]["bbox"]["xmin"][0]
    assert covering not in table.column_names
    source = open_one(tmp_path / "a.parquet")
    assert source.schema.names == tuple(table.column_names)


def test_boxes_that_came_go_back(shared_data: Path, tmp_path: Path) -> None:
    theirs = shared_data / "geoparquet" / "overture-bbox.parquet"
    path = again(theirs, tmp_path / "a.parquet")

    assert (
        geo(path)["columns"]["geometry"]["covering"]
        == (geo(theirs)["columns"]["geometry"]["covering"])
    )
    ours, before = (pq.read_table(each, columns=["bbox"])["bbox"] for each in (path, theirs))
    for one, other in zip(ours.to_pylist(), before.to_pylist(), strict=True):
        for axis in AXES:
            assert one[axis] == pytest.approx(other[axis], rel=1e-6)
    off = again(theirs, tmp_path / "b.parquet", parquet=ParquetForm(covering=False))
    assert "bbox" not in pq.read_schema(off).names


COORDINATE = st.floats(-1e30, 1e30)


@given(st.lists(st.lists(st.tuples(COORDINATE, COORDINATE), min_size=2, max_size=4), max_size=5))
def test_a_box_holds_its_geometry(lines: list[list[tuple[float, float]]]) -> None:
    shapes = [shapely.LineString(line) for line in lines]
    boxes = boxes_of(pa.array([shapely.to_wkb(shape) for shape in shapes], pa.binary()))

    for shape, box in zip(shapes, boxes.to_pylist(), strict=True):
        low_x, low_y, high_x, high_y = shape.bounds
        assert box["xmin"] <= low_x and box["ymin"] <= low_y
        assert box["xmax"] >= high_x and box["ymax"] >= high_y
        # As near as numbers of 32 bits are.
        assert np.nextafter(np.float32(box["xmin"]), np.float32(np.inf)) >= low_x


def test_what_is_empty_has_no_box() -> None:
    empty = pa.array([shapely.to_wkb(shapely.from_wkt("POLYGON EMPTY")), None], pa.binary())

    assert boxes_of(empty).to_pylist() == [None, None]


def test_version_1_0_knows_no_boxes(tmp_path: Path) -> None:
    path = tmp_path / "a.parquet"
    export(path, TABLE, parquet=ParquetForm(version="1.0"))

    assert geo(path)["version"] == "1.0.0"
    assert geopandas.read_parquet(path).crs.to_epsg() == 2193
    with pytest.raises(InvalidArgumentError, match=r"GeoParquet 1\.1 alone"):
        export(tmp_path / "b.parquet", TABLE, parquet=ParquetForm(version="1.0", covering=True))
    for name, format in (("c.parquet", ExportFormat.PARQUET), ("c.csv", None)):
        with pytest.raises(InvalidArgumentError, match="only GeoParquet"):
            export(tmp_path / name, TABLE, format=format, parquet=COVERED)
    assert [each.name for each in tmp_path.iterdir()] == ["a.parquet"]


def with_document(path: Path, **said: Any) -> Path:
    """Write a file whose document says more of its geometries."""
    table = pa.table({"geom": points((1, 2), (3, 4))})
    column = {"encoding": "WKB", "geometry_types": ["Point"], **said}
    document = {"version": "1.1.0", "primary_column": "geom", "columns": {"geom": column}}
    pq.write_table(table.replace_schema_metadata({"geo": json.dumps(document)}), path)
    return path


def test_edges_epoch_and_orientation_are_kept(tmp_path: Path) -> None:
    said = {"edges": "spherical", "epoch": 2021.47, "orientation": "counterclockwise"}
    theirs = with_document(tmp_path / "a.parquet", **said)

    (field,) = open_one(theirs).schema.geometries
    column = geo(again(theirs, tmp_path / "b.parquet"))["columns"]["geom"]

    assert dict(field.extra) == {**said, "epoch": "2021.47"}
    assert {name: column[name] for name in said} == said
    assert (column["bbox"], column["geometry_types"]) == ([1, 2, 3, 4], ["Point"])
    with pytest.warns(UserWarning, match="spherical edges"):
        assert geopandas.read_parquet(tmp_path / "b.parquet").geometry.x.tolist() == [1, 3]


def test_an_epoch_is_of_one_system(tmp_path: Path) -> None:
    theirs = with_document(tmp_path / "a.parquet", epoch=2021.47)

    moved = geo(again(theirs, tmp_path / "b.parquet", crs="EPSG:3857"))

    assert "epoch" not in moved["columns"]["geom"]


@pytest.mark.parametrize("epoch", [True, "2020", None, float("nan"), 1e300, [1]])
def test_an_epoch_that_is_none_is_passed_over(epoch: Any) -> None:
    document = {"columns": {"g": {"epoch": epoch, "orientation": ["counterclockwise"]}}}

    assert parse_geo(json.dumps(document).encode())["g"].properties == {}


def test_heights_are_in_the_box_of_the_file(tmp_path: Path) -> None:
    table = pa.table({"geom": points((1, 2, 30), None, (3, 4, -5), (9, 9))})
    export(tmp_path / "a.parquet", table)

    column = geo(tmp_path / "a.parquet")["columns"]["geom"]

    assert column["bbox"] == [1, 2, -5, 9, 9, 30]
    assert column["geometry_types"] == ["Point", "Point Z"]


def test_documents_of_others_say_the_same_again(shared_data: Path, tmp_path: Path) -> None:
    for path in sorted(shared_data.glob("geoparquet/*.parquet")):
        if b"geo" not in (pq.read_metadata(path).metadata or {}):
            continue
        before, after = geo(path), geo(again(path, tmp_path / path.name))
        assert after["primary_column"] == before["primary_column"]
        for name, column in before["columns"].items():
            ours = after["columns"][name]
            assert ours["encoding"] == column["encoding"]
            assert set(ours["geometry_types"]) == set(column.get("geometry_types") or []) or (
                not column.get("geometry_types")
            )
            if "bbox" in column:
                # Theirs may be too wide, and is in one file.
                assert len(ours["bbox"]) == len(column["bbox"])
                assert shapely.box(*column["bbox"]).buffer(1e-9).covers(shapely.box(*ours["bbox"]))
            for key in ("edges", "orientation", "epoch", "covering"):
                assert ours.get(key) == (None if column.get(key) == "planar" else column.get(key))


SHAPES = {
    "point": "POINT (1 2)",
    "linestring": "LINESTRING (1 2, 3 4)",
    "polygon": "POLYGON ((0 0, 9 0, 9 9, 0 0), (1 1, 2 1, 2 2, 1 1))",
    "multipoint": "MULTIPOINT (1 2, 3 4)",
    "multilinestring": "MULTILINESTRING ((1 2, 3 4), (5 6, 7 8))",
    "multipolygon": "MULTIPOLYGON (((0 0, 9 0, 9 9, 0 0)), ((20 20, 21 20, 21 21, 20 20)))",
}


def native(path: Path, encoding: str, *, upright: bool = False) -> Path:
    """Write a file of GeoPandas in a native encoding, with a null and an empty geometry."""
    shape = shapely.from_wkt(SHAPES[encoding])
    if upright:
        shape = shapely.force_3d(shape, 5.0)
    # An empty geometry has two dimensions, and an empty point no place in GeoArrow.
    empty = [] if upright or encoding == "point" else [type(shape)()]
    rows = [shape, None, *empty, shape]
    frame = geopandas.GeoDataFrame({"id": range(len(rows))}, geometry=rows, crs="EPSG:2193")
    frame.to_parquet(path, geometry_encoding="geoarrow", schema_version="1.1.0")
    return path


@pytest.mark.few(2)
@pytest.mark.parametrize("upright", [False, True])
@pytest.mark.parametrize("encoding", SHAPES)
def test_native_encodings_go_out_as_they_came(encoding: str, upright: bool, tmp_path: Path) -> None:
    theirs = native(tmp_path / "a.parquet", encoding, upright=upright)

    ours = again(theirs, tmp_path / "b.parquet", parquet=COVERED)

    column = geo(ours)["columns"]["geometry"]
    assert column["encoding"] == geo(theirs)["columns"]["geometry"]["encoding"] == encoding
    frames = [geopandas.read_parquet(path) for path in (theirs, ours)]
    assert frames[1].crs == frames[0].crs
    for one, other in zip(frames[0].geometry, frames[1].geometry, strict=True):
        assert (one is None) == (other is None)
        assert one is None or shapely.equals_identical(one, other)
    wkb = again(theirs, tmp_path / "c.parquet", parquet=ParquetForm(native=False))
    assert geo(wkb)["columns"]["geometry"]["encoding"] == "WKB"
    older = again(theirs, tmp_path / "d.parquet", parquet=ParquetForm(version="1.0"))
    assert geo(older)["columns"]["geometry"]["encoding"] == "WKB"


@pytest.mark.parametrize("text", ["POINT (1 2)", "LINESTRING Z (1 2 3, 4 5 6)", "CIRCULARSTRING"])
def test_a_geometry_of_another_type_has_no_place_in_a_native_column(
    text: str, tmp_path: Path
) -> None:
    source = open_one(native(tmp_path / "a.parquet", "linestring"))
    arc = bytes.fromhex("0108000000") + bytes(4)
    value = arc if text == "CIRCULARSTRING" else shapely.to_wkb(shapely.from_wkt(text))
    rows = read_all(source).slice(0, 1)
    index = rows.schema.get_field_index("geometry")
    rows = rows.set_column(index, rows.schema.field(index), pa.array([value], pa.binary()))

    with pytest.raises(GeometryError, match="came as GeoArrow's 'linestring'") as caught:
        write_file(tmp_path / "b.parquet", header_from(source), batches_of(rows))

    assert "--geometry-encoding wkb" in caught.value.hints[0]
    assert not (tmp_path / "b.parquet").exists()
