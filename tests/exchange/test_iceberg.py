"""Iceberg tables as sources: those of our own codec, of PyIceberg and of Iceberg 3."""

import json
import struct
import warnings
from dataclasses import replace
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
import shapely

from havasu_vc.errors import InvalidArgumentError, NotFoundError, SourceNotFoundError
from havasu_vc.exchange.iceberg import snapshot_history
from havasu_vc.exchange.sources import list_source_layers, open_sources
from havasu_vc.formats.iceberg.entries import corner
from havasu_vc.formats.iceberg.native_geometry import NativeGeometry
from havasu_vc.formats.iceberg.values import DataFile
from havasu_vc.model.schema import Schema
from havasu_vc.model.types import Encoding, Field, Geometry, Primitive
from tests.exchange.reading import open_one, read_all, read_table
from tests.tables.making import TableMaker

ID = Field(1, "id", Primitive.LONG, required=True)
GEOM = Field(2, "geom", Primitive.BINARY, geometry=Geometry(Encoding.WKB, "EPSG:2193", "POINT"))
NAME = Field(3, "name", Primitive.STRING)
SCHEMA = Schema((ID, GEOM, NAME), (1,))


def wkb(number: int) -> bytes:
    return bytes(shapely.to_wkb(shapely.Point(number, -number)))


def numbered(*numbers: int) -> list[dict[str, Any]]:
    return [{"id": n, "geom": wkb(n), "name": f"n{n}"} for n in numbers]


@pytest.fixture
def maker(tmp_path: Path) -> TableMaker:
    made = TableMaker(tmp_path / "roads", SCHEMA)
    made.commit(made.data(numbered(*range(40))))
    return made


@pytest.mark.parametrize("how", ["folder", "file", "uri"])
def test_a_table_is_a_source(maker: TableMaker, how: str) -> None:
    place = {
        "folder": str(maker.location),
        "file": str(maker.table.metadata_file),
        "uri": f"file://{maker.location}",
    }[how]
    source = open_one(f"iceberg:{place}")

    assert (source.name, source.rows, source.key_hint) == ("roads", 40, ("id",))
    assert list(source.crs) == ["EPSG:2193"]
    assert source.schema == replace_encoding(SCHEMA, Encoding.EWKB)
    assert read_all(source).column("name").to_pylist() == [f"n{n}" for n in range(40)]
    assert list_source_layers(f"iceberg:{place}") == ["roads"]


def replace_encoding(schema: Schema, encoding: Encoding) -> Schema:
    fields = tuple(
        replace(field, geometry=replace(field.geometry, encoding=encoding))
        if field.geometry
        else field
        for field in schema.fields
    )
    return Schema(fields, schema.identifier_ids)


def test_deleted_rows_do_not_come(maker: TableMaker) -> None:
    first = maker.table.metadata.current_snapshot_id
    maker.commit(maker.equal([{"id": 7}], (1,)))

    assert open_one(f"iceberg:{maker.location}").rows is None
    assert 7 not in read_table(f"iceberg:{maker.location}").column("id").to_pylist()
    assert read_table(f"iceberg:{maker.location}", snapshot=first).num_rows == 40


def test_columns_keys_and_encodings_can_be_chosen(maker: TableMaker) -> None:
    found = open_one(
        f"iceberg:{maker.location}",
        columns=("geom", "name"),
        geometry_encoding=Encoding.WKT,
        crs="EPSG:27200",
    )

    assert found.schema.names == ("geom", "name")
    assert list(found.crs) == ["EPSG:27200"]
    assert not found.schema.key
    assert read_all(found).column("geom")[3].as_py() == "POINT (3 -3)"
    for option in ("columns", "primary_key"):
        wrong: dict[str, Any] = {option: ("nmae",)}
        with pytest.raises(InvalidArgumentError, match="nmae"):
            open_one(f"iceberg:{maker.location}", **wrong)
    with pytest.raises(InvalidArgumentError, match="cannot be a key"):
        open_one(f"iceberg:{maker.location}", primary_key=("geom",))


def bounded(file: DataFile, least: tuple[float, float], most: tuple[float, float]) -> DataFile:
    return replace(file, geometry_lower={2: corner(*least)}, geometry_upper={2: corner(*most)})


@pytest.mark.rule("HAV-70e")
def test_files_outside_of_a_box_are_not_read(tmp_path: Path) -> None:
    made = TableMaker(tmp_path / "roads", SCHEMA)
    near = bounded(made.data(numbered(1, 2)), (1, -2), (2, -1))
    far = bounded(made.data(numbered(50)), (50, -50), (50, -50))
    nonsense = bounded(made.data(numbered(3)), (9, -3), (3, -3))
    made.commit(near, far, nonsense, made.data(numbered(4)))

    source = open_one(f"iceberg:{made.location}", bbox=(0.0, -5.0, 4.0, 0.0))

    assert sorted(read_all(source).column("id").to_pylist()) == [1, 2, 3, 4]
    Path(far.path).unlink()  # which nobody misses
    source = open_one(f"iceberg:{made.location}", bbox=(0.0, -5.0, 4.0, 0.0))
    assert sorted(read_all(source).column("id").to_pylist()) == [1, 2, 3, 4]


@pytest.mark.parametrize(
    ("type_", "window", "count"),
    [
        ("geography", (-175.0, -90.0, -160.0, 90.0), 1),
        ("geography", (0.0, -80.0, 90.0, 80.0), 0),
        ("geography", (0.0, -80.0, 90.0, 90.0), 1),  # the pole is at every longitude
        ("geometry", (0.0, -90.0, 90.0, 90.0), 1),
    ],
)
def test_bounds_of_the_globe_may_cross_the_antimeridian(
    type_: str, window: tuple[float, float, float, float], count: int, tmp_path: Path
) -> None:
    plain = Schema((ID, Field(2, "geom", Primitive.BINARY)), (1,))
    made = TableMaker(tmp_path / "t", plain, format_version=3)
    file = made.data([{"id": 1, "geom": wkb(-170)}])
    lower, upper = {2: struct.pack("<2d", 170, -90)}, {2: struct.pack("<2d", -165, 90)}
    made.commit(replace(file, lower_bounds=lower, upper_bounds=upper))
    document = json.loads(made.table.metadata_file.read_bytes())
    for each in document["schemas"]:
        each["fields"][1]["type"] = type_
    made.table.metadata_file.write_text(json.dumps(document))

    source = open_one(f"iceberg:{made.location}", bbox=window)

    assert len(source.tasks()) == count


def test_tables_that_are_not_there(tmp_path: Path, maker: TableMaker) -> None:
    with pytest.raises(SourceNotFoundError, match="no table"):
        open_sources(f"iceberg:{tmp_path / 'none'}")
    with pytest.raises(InvalidArgumentError, match="names no table"):
        open_sources("iceberg:")
    with pytest.raises(NotFoundError, match="no snapshot 5"):
        open_one(f"iceberg:{maker.location}", snapshot=5)
    with pytest.raises(SourceNotFoundError, match="no layer 'x'"):
        open_sources(f"iceberg:{maker.location}", ["x"])
    with pytest.raises(InvalidArgumentError, match="no snapshots"):
        open_one(tmp_path / "a.parquet", snapshot=5)


def test_the_history_of_a_table(maker: TableMaker) -> None:
    second = maker.commit(maker.data(numbered(50)))

    found = snapshot_history(str(maker.location))

    assert [each.snapshot_id for each in found][1:] == [second]
    assert found[1].parent_id == found[0].snapshot_id


@pytest.mark.thorough
def test_what_pyiceberg_wrote(tmp_path: Path) -> None:
    catalogs = pytest.importorskip("pyiceberg.catalog.memory")
    table = pa.table({"id": pa.array([1, 2, 3], pa.int64()), "name": ["a", None, "c"]})
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        catalog = catalogs.InMemoryCatalog("c", warehouse=str(tmp_path))
        catalog.create_namespace("n")
        made = catalog.create_table("n.t", table.schema)
        made.append(table)
        made.append(table.slice(1, 1))
        place = made.metadata_location.removeprefix("file://")

    source = open_one(f"iceberg:{place}")

    assert source.name == "t"
    assert sorted(read_all(source).column("id").to_pylist()) == [1, 2, 2, 3]


@pytest.mark.parametrize(
    ("said", "crs", "edges"),
    [
        ("geometry(srid:2193)", "EPSG:2193", None),
        ("geometry", "OGC:CRS84", None),
        ("geography(OGC:CRS84, karney)", "OGC:CRS84", "karney"),
        ("geography", "OGC:CRS84", "spherical"),
        ("geometry(projjson:my-crs)", "EPSG:2193", None),
    ],
)
def test_geometries_of_iceberg_3(said: str, crs: str, edges: str | None, tmp_path: Path) -> None:
    import pyproj

    plain = Schema((ID, Field(2, "geom", Primitive.BINARY), NAME), (1,))
    made = TableMaker(tmp_path / "t", plain)
    made.commit(made.data(numbered(4)))
    document = json.loads(made.table.metadata_file.read_bytes())
    document |= {"format-version": 3, "next-row-id": 1}
    document["properties"]["my-crs"] = pyproj.CRS(2193).to_json()
    document["schemas"][0]["fields"][1]["type"] = said
    made.table.metadata_file.write_text(json.dumps(document))

    source = open_one(f"iceberg:{made.location}")

    (field,) = source.schema.geometries
    assert list(source.crs) == [crs]
    assert field.geometry is not None and field.geometry.crs == crs
    assert dict(field.extra).get("edges") == edges
    assert read_all(source).column("geom").to_pylist() == [wkb(4)]


@pytest.mark.parametrize(
    "text", ["geometry(a, b)", "geography(OGC:CRS84, straight)", "geometry((x))", "geometryx"]
)
def test_types_that_say_nonsense(text: str) -> None:
    with pytest.raises(ValueError, match="type "):
        NativeGeometry.parse(text)
    assert NativeGeometry.parse("binary") is None
