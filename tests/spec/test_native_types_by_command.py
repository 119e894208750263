"""Parquet's geospatial types and Delta's, in what commands read of others and write for them."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
import shapely

from havasu_vc import Repo
from tests.cli.conftest import invoke
from tests.spec.commands import Commands
from tests.spec.test_globe_by_command import actions


def geometries(file: Path) -> tuple[list[str], Any, list[bytes | None]]:
    """Return a file's logical types, the geometries' statistics, and their bytes, in order."""
    read = pq.ParquetFile(file)
    types = [str(read.schema.column(place).logical_type) for place in range(len(read.schema))]
    (place,) = (i for i, each in enumerate(types) if each.startswith("Geo"))
    chunk = read.metadata.row_group(0).column(place)
    assert chunk.statistics is None or not chunk.statistics.has_min_max
    values = read.read().column(place)
    return types[place : place + 1], chunk.geo_statistics, _storage(values)


def _storage(values: pa.ChunkedArray) -> list[bytes | None]:
    chunks = [getattr(chunk, "storage", chunk) for chunk in values.chunks]
    return [None if each is None else bytes(each) for chunk in chunks for each in chunk.to_pylist()]


def again(hv: Commands, file: Path, *arguments: str) -> Path:
    """Import a file without a key, and export it with native types."""
    hv("import", file, "t", "--no-primary-key", *arguments)
    hv("export", "t", "--to", "parquet", hv.path.with_name("out.parquet"))
    return hv.path.with_name("out.parquet")


@pytest.mark.rule("PQ-1", "PQ-7", "PQ-9", "PQ-19", "PQ-30", "PQ-31", "PQ-32", "PQ-33", "PQ-34")
@pytest.mark.rule("PQ-29", "PQ-36", "PQ-43", "HAV-17", "HAV-18", "HAV-19", "HAV-20", "HAV-21")
@pytest.mark.rule("HAV-22", "HAV-23")
def test_every_shape_of_others_goes_through(hv: Commands, shared_data: Path) -> None:
    file = shared_data / "parquet-geospatial/geospatial.parquet"
    out = again(hv, file)
    types, statistics, values = geometries(out)

    # Rows may stand in another order: those without a key have none.
    assert sorted(map(str, values)) == sorted(map(str, geometries(file)[2]))
    assert types == ["Geometry(crs=)"]
    codes = [1000 * more + kind for more in range(4) for kind in range(1, 8)]
    assert list(statistics.geospatial_types) == codes
    groups = pq.ParquetFile(file).metadata
    every = [groups.row_group(i).column(2).geo_statistics for i in range(groups.num_row_groups)]
    boxes = [each for each in every if each is not None and each.xmin is not None]
    for axis in "xyzm":
        least = [getattr(each, f"{axis}min") for each in boxes]
        most = [getattr(each, f"{axis}max") for each in boxes]
        assert getattr(statistics, f"{axis}min") == min(e for e in least if e is not None)
        assert getattr(statistics, f"{axis}max") == max(e for e in most if e is not None)
    assert hv("validate", "t").startswith("All data is valid")


@pytest.mark.rule("PQ-13", "PQ-14", "PQ-16", "PQ-17", "PQ-18")
def test_what_is_no_number_is_in_no_box(hv: Commands, shared_data: Path) -> None:
    out = again(hv, shared_data / "parquet-geospatial/geospatial-with-nan.parquet")
    _, found, _ = geometries(out)
    assert list(found.geospatial_types) == [3001, 3002]
    assert (found.xmin, found.xmax, found.ymin, found.ymax) == (10, 130, 20, 140)
    assert (found.zmin, found.zmax, found.mmin, found.mmax) == (30, 150, 40, 160)


@pytest.mark.parametrize(
    ("name", "system", "written"),
    [
        pytest.param("default", "OGC:CRS84", "Geometry(crs=)", marks=pytest.mark.rule("PQ-3")),
        pytest.param(
            "arbitrary-value",
            "EPSG:5070",
            'Geometry(crs={"$schema"',
            marks=pytest.mark.rule("PQ-4"),
        ),
        pytest.param(
            "srid", "EPSG:5070", "Geometry(crs=srid:5070)", marks=pytest.mark.rule("PQ-39")
        ),
        pytest.param(
            "projjson", "EPSG:5070", 'Geometry(crs={"$schema"', marks=pytest.mark.rule("PQ-40")
        ),
        pytest.param(
            "geography",
            "OGC:CRS84",
            "Geography(crs=, algorithm=spherical)",
            marks=pytest.mark.rule("PQ-6", "PQ-8"),
        ),
    ],
)
@pytest.mark.rule("PQ-38")
@pytest.mark.few(2)
def test_systems_of_others_are_read_and_written(
    hv: Commands, shared_data: Path, name: str, system: str, written: str
) -> None:
    out = again(hv, shared_data / f"parquet-geospatial/crs-{name}.parquet")
    assert hv.columns()[1]["geometryCRS"] == system
    ((type_,), _, values) = geometries(out)
    assert type_.startswith(written)
    assert values == geometries(shared_data / f"parquet-geospatial/crs-{name}.parquet")[2]


def points(
    hv: Commands, shapes: Sequence[str | None], crs: str = "EPSG:4326", *arguments: str
) -> None:
    """Import shapes, given as WKT, under the keys from 1 on."""
    with np.errstate(invalid="ignore"):
        wkb = [
            None if each is None else shapely.to_wkb(shapely.from_wkt(each), flavor="iso")
            for each in shapes
        ]
    columns = {"geom": {"encoding": "WKB", "geometry_types": []}}
    geo = {"version": "1.0.0", "primary_column": "geom", "columns": columns}
    table = pa.table({"id": range(1, len(wkb) + 1), "geom": pa.array(wkb, pa.binary())})
    hv.take(table.replace_schema_metadata({"geo": json.dumps(geo)}), "--crs", crs, *arguments)


@pytest.mark.parametrize(
    ("shapes", "box", "codes"),
    [
        (["POINT (1 2)", "LINESTRING (0 5, 3 -1)"], (0, 3, -1, 5, None, None, None, None), [1, 2]),
        (["POINT (1 2)", None, "POINT EMPTY"], (1, 1, 2, 2, None, None, None, None), [1]),
        (["POINT Z (1 2 NaN)"], (1, 1, 2, 2, None, None, None, None), [1001]),
        (["POINT Z (1 2 3)", "POINT (5 -6)"], (1, 5, -6, 2, 3, 3, None, None), [1, 1001]),
        (["POINT M (1 2 7)"], (1, 1, 2, 2, None, None, 7, 7), [2001]),
        (["POINT (1 NaN)"], None, [1]),
        (["POINT EMPTY"], None, [1]),
        ([None], None, []),
    ],
)
@pytest.mark.rule("PQ-10", "PQ-11", "PQ-12", "PQ-13", "PQ-14", "PQ-15", "PQ-16", "PQ-17")
@pytest.mark.rule("PQ-29", "PQ-36", "PQ-42")
@pytest.mark.few(2)
def test_boxes_and_types_of_what_is_exported(
    hv: Commands, shapes: list[str | None], box: tuple[float, ...] | None, codes: list[int]
) -> None:
    points(hv, shapes)
    file = hv.path.with_name("out.parquet")
    hv("export", "t", "--to", "parquet", file)
    (type_,), found, _ = geometries(file)

    # EPSG:4326 has latitudes first, and x is the longitude all the same.
    assert "4326" in type_ or type_ == "Geometry(crs=)"
    sides = [] if found is None else [f"{axis}{end}" for axis in "xyzm" for end in ("min", "max")]
    got = tuple(getattr(found, side) for side in sides)
    assert got == box or (box is None and not any(each is not None for each in got[:4]))
    known = [] if found is None or found.geospatial_types is None else found.geospatial_types
    assert [each for each in known if each in codes] == list(known)
    assert box is None or list(known) == codes
    # Havasu's own bounds of what is checked out are the same box.
    hv("checkout")
    annotated = [
        str(pq.ParquetFile(each).schema.column(1).logical_type)
        for each in (hv.table / "data").rglob("*.parquet")
    ]
    assert set(annotated) <= {"None"}


@pytest.mark.rule("PQ-20", "PQ-35", "DEL-6")
def test_rows_without_a_box_are_read_whatever_is_asked(hv: Commands) -> None:
    points(hv, ["POINT (1 NaN)", "POINT EMPTY", "POINT (1 2)"])
    file = hv.path.with_name("out.parquet")
    hv("export", "t", "--to", "parquet", file)
    hv("import", file, "u", "--bbox", "0,0,3,3", "--primary-key", "id")
    assert hv("count", "u") == "1\n"
    hv("import", file, "v", "--bbox", "10,10,13,13", "--primary-key", "id")
    assert hv("count", "v") == "0\n"


# Delta.


def schema_of(log: dict[str, Any]) -> dict[str, Any]:
    return {each["name"]: each for each in json.loads(log["metaData"]["schemaString"])["fields"]}


@pytest.mark.rule("DEL-1", "DEL-2", "DEL-3", "DEL-4", "DEL-7", "DEL-8", "DEL-9", "DEL-12")
@pytest.mark.rule("DEL-21", "DEL-22", "DEL-23", "DEL-27", "DEL-29", "DEL-32", "PQ-41")
def test_a_delta_table_of_geometries(hv: Commands) -> None:
    shapes = ["POINT Z (1 2 3)", "LINESTRING (-5 7, 3 -1)", None]
    points(hv, shapes, "EPSG:2193")
    hv("export", "t", "--to", "delta", hv.path.with_name("lake"))
    log = actions(hv.path.with_name("lake"))

    protocol = log["protocol"]
    assert (protocol["minReaderVersion"], protocol["minWriterVersion"]) == (3, 7)
    assert "geospatial" in protocol["readerFeatures"] and "geospatial" in protocol["writerFeatures"]
    assert schema_of(log)["geom"]["type"] == "geometry(EPSG:2193)"
    said = json.loads(log["add"]["stats"])
    corners = [shapely.from_wkt(said[side]["geom"]) for side in ("minValues", "maxValues")]
    assert [(each.x, each.y) for each in corners] == [(-5, -1), (3, 7)]
    assert (said["numRecords"], said["nullCount"]["geom"]) == (3, 1)
    (type_,), found, values = geometries(hv.path.with_name("lake") / log["add"]["path"])
    assert type_.startswith("Geometry(") and (found.xmin, found.ymax) == (-5, 7)
    codes = {int.from_bytes(each[1:5], "little") for each in values if each is not None}
    assert codes == {1001, 2}

    hv("import", f"delta:{hv.path.with_name('lake')}", "back", "--primary-key", "id")
    rows = [Repo.open(hv.path).table(name).to_arrow().sort_by("id") for name in ("t", "back")]
    assert rows[0]["geom"].to_pylist() == rows[1]["geom"].to_pylist()
    columns = json.loads(hv("meta", "get", "back", "schema.json", "-o", "json"))["back"]
    assert columns["schema.json"][1]["geometryCRS"] == "EPSG:2193"


@pytest.mark.rule("DEL-26", "DEL-33")
def test_a_box_that_would_not_hold_all_is_left_out(hv: Commands) -> None:
    points(hv, ["POINT EMPTY", None])
    hv("export", "t", "--to", "delta", hv.path.with_name("lake"))
    said = json.loads(actions(hv.path.with_name("lake"))["add"]["stats"])
    assert "geom" not in said.get("minValues", {}) and "geom" not in said.get("maxValues", {})


def other_types(folder: Path, type_: str) -> None:
    """Have the log of a table say another type of its geometries."""
    (file,) = (folder / "_delta_log").glob("*.json")
    lines = [json.loads(line) for line in file.read_text().splitlines()]
    for line in lines:
        if "metaData" in line:
            schema = json.loads(line["metaData"]["schemaString"])
            schema["fields"][1]["type"] = type_
            line["metaData"]["schemaString"] = json.dumps(schema)
    file.write_text("".join(f"{json.dumps(line)}\n" for line in lines))


WAYS = ["spherical", "vincenty", "thomas", "andoyer", "karney"]


@pytest.mark.parametrize(
    ("type_", "system", "written"),
    [
        *((f"geography(OGC:CRS84, {way})", "OGC:CRS84", None) for way in WAYS),
        ("geometry", "OGC:CRS84", "geometry(OGC:CRS84)"),
        ("geography", "OGC:CRS84", "geography(OGC:CRS84, spherical)"),
        ("geography(OGC:CRS84, KARNEY)", "OGC:CRS84", "geography(OGC:CRS84, karney)"),
        ("geometry(srid:2193)", "EPSG:2193", None),
        ("geometry(EPSG:3857)", "EPSG:3857", None),
    ],
)
@pytest.mark.rule("DEL-9", "DEL-10", "DEL-12", "DEL-13", "DEL-15", "DEL-16", "DEL-17", "DEL-18")
@pytest.mark.rule("DEL-19", "DEL-20", "DEL-28", "PQ-6")
@pytest.mark.few(2)
def test_types_of_others(hv: Commands, type_: str, system: str, written: str | None) -> None:
    points(hv, ["POINT (1 2)"], "OGC:CRS84")
    lake, out = hv.path.with_name("lake"), hv.path.with_name("out")
    hv("export", "t", "--to", "delta", lake)
    other_types(lake, type_)
    hv("import", f"delta:{lake}", "u", "--primary-key", "id")
    columns = json.loads(hv("meta", "get", "u", "schema.json", "-o", "json"))["u"]["schema.json"]
    assert columns[1]["geometryCRS"] == system

    hv("export", "u", "--to", "delta", out)
    again = schema_of(actions(out))["geom"]["type"].replace("EPSG:2193", "srid:2193")
    assert again == (written or type_)


@pytest.mark.parametrize(
    ("type_", "words"),
    [
        ("geography(OGC:CRS84, straight)", "straight"),
        ("geometry(srid:-1)", "SRID '-1'"),
        ("geometry(projjson:nothing)", "nothing"),
    ],
)
@pytest.mark.rule("DEL-13", "DEL-14", "DEL-19")
@pytest.mark.few(1)
def test_types_that_are_none_are_refused(hv: Commands, type_: str, words: str) -> None:
    points(hv, ["POINT (1 2)"], "OGC:CRS84")
    lake = hv.path.with_name("lake")
    hv("export", "t", "--to", "delta", lake)
    other_types(lake, type_)
    refused = invoke(["-C", hv.path, "import", f"delta:{lake}", "u", "--primary-key", "id"])
    assert refused.exit_code not in (0, 1) and words in refused.output, refused.output
    assert "Traceback" not in refused.output and hv("data", "ls") == "t\n"


@pytest.mark.rule("DEL-30", "DEL-31")
def test_systems_of_single_values(hv: Commands) -> None:
    def stored(*srids: int) -> pa.Array:
        point = shapely.from_wkt("POINT Z (1 2 3)")
        return pa.array(
            [
                shapely.to_wkb(
                    shapely.set_srid(point, srid), include_srid=bool(srid), flavor="extended"
                )
                for srid in srids
            ]
        )

    points(hv, ["POINT (0 0)", "POINT (0 0)"], "EPSG:4326")
    hv("convert", "t", "--geometry", "geom=ewkb")
    hv.write(id=[1, 2], geom=stored(4326, 4326))
    hv("export", "t", "--to", "delta", hv.path.with_name("one"))
    log = actions(hv.path.with_name("one"))
    _, _, values = geometries(hv.path.with_name("one") / log["add"]["path"])
    assert {each.hex()[:18] for each in values if each is not None} == {"01e903000000000000"}

    hv.write(id=[1], geom=stored(3857))
    two = hv.path.with_name("two")
    refused = invoke(["-C", hv.path, "export", "t", "--to", "delta", two / "below"])
    assert refused.exit_code != 0 and "SRID 3857" in refused.output
    assert not two.exists()
    # What is neither in a type nor beside it is told.
    told = hv("export", "t", "--to", "iceberg-v3", hv.path.with_name("three"))
    assert "SRIDs that values of column 'geom' have of their own are left out" in told


@pytest.mark.rule("DEL-5")
def test_a_reader_that_does_not_know_geometries_refuses_the_table(hv: Commands) -> None:
    deltalake = pytest.importorskip("deltalake")
    points(hv, ["POINT (1 2)"])
    hv("export", "t", "--to", "delta", hv.path.with_name("lake"))
    with pytest.raises(Exception, match=r"geospatial|geometry|Invalid|nsupported"):
        deltalake.DeltaTable(hv.path.with_name("lake")).to_pyarrow_table()


@pytest.mark.rule("DEL-35")
def test_that_the_types_are_a_proposal_is_told(hv: Commands) -> None:
    points(hv, ["POINT (1 2)"])
    assert "proposal" in hv("export", "t", "--to", "delta", hv.path.with_name("lake"))
