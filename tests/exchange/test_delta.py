"""Delta tables out and in again; the deltalake package is the oracle."""

import datetime
import decimal
import json
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import deltalake
import deltalake.exceptions
import pyarrow as pa
import pyarrow.parquet as pq
import pyproj
import pytest
import shapely

from havasu_vc.errors import (
    CorruptDatasetError,
    GeometryError,
    HavasuError,
    InvalidArgumentError,
    InvalidFileError,
    NotFoundError,
    SourceNotFoundError,
    UnsupportedTypeError,
    UnsupportedVersionError,
)
from havasu_vc.exchange.delta import read_log
from havasu_vc.exchange.delta_writer import write_delta
from havasu_vc.exchange.export import Written
from havasu_vc.exchange.sources import open_sources
from havasu_vc.formats.delta import DeltaLog, corner_text, geometry_columns, replay
from havasu_vc.formats.iceberg.native_geometry import EDGES, NativeGeometry
from havasu_vc.geo.crs import parse_crs
from havasu_vc.model.bounds import Bounds
from havasu_vc.model.schema import Schema
from havasu_vc.model.types import Encoding, Field, Geometry, Struct
from tests.exchange.reading import open_one, read_all
from tests.exchange.tables import batches_of, flat_table, points, rich_table, stored

EWKB = Geometry(Encoding.EWKB, "EPSG:2193", "POINT")


def export(
    folder: Path,
    table: pa.Table,
    *,
    geometry: Geometry = EWKB,
    edges: str | None = None,
    meta: dict[str, str] | None = None,
    **how: Any,
) -> Written:
    header, rows = stored(
        table, geometries={"geom": geometry} if "geom" in table.schema.names else {}
    )
    if edges:
        fields = tuple(
            replace(f, extra=(("edges", edges),)) if f.geometry else f for f in header.schema.fields
        )
        header = replace(header, schema=Schema(fields, header.schema.identifier_ids))
    if meta:
        header = replace(header, meta={**header.meta, **meta})
    return write_delta(folder, header, batches_of(rows), **how)


def actions(folder: Path, version: int = 0) -> dict[str, Any]:
    """Return the actions of a commit by kind; of several of a kind the last."""
    found: dict[str, Any] = {}
    for line in (folder / "_delta_log" / f"{version:020}.json").read_text().splitlines():
        found |= json.loads(line)
    return found


def shapes(*texts: str | None) -> pa.Array:
    return pa.array(
        [None if t is None else shapely.to_wkb(shapely.from_wkt(t), flavor="iso") for t in texts],
        pa.binary(),
    )


@pytest.mark.rule("DEL-1", "DEL-2", "DEL-3", "DEL-4")
def test_a_table_with_geometries_has_the_feature(tmp_path: Path) -> None:
    export(tmp_path / "t", pa.table({"id": [1], "geom": points((1, 2))}))

    protocol = actions(tmp_path / "t")["protocol"]

    assert (protocol["minReaderVersion"], protocol["minWriterVersion"]) == (3, 7)
    assert protocol["readerFeatures"] == ["geospatial"]
    # Delta's own writer wants it said where a column is without nulls.
    assert protocol["writerFeatures"] == ["geospatial", "invariants"]


@pytest.mark.rule("DEL-4")
def test_a_plain_table_becomes_one_with_geometries(tmp_path: Path) -> None:
    table = pa.table({"id": [1], "geom": points((1, 2))})
    export(tmp_path / "t", table, plain=True)
    assert actions(tmp_path / "t")["protocol"] == {"minReaderVersion": 1, "minWriterVersion": 2}

    export(tmp_path / "t", table, overwrite=True)

    assert actions(tmp_path / "t", 1)["protocol"]["minReaderVersion"] == 3
    log = read_log(tmp_path / "t")
    assert (log.version, len(log.files), log.is_geospatial) == (1, 1, True)
    assert log.table_id == read_log(tmp_path / "t", version=0).table_id
    assert read_all(open_one(f"delta:{tmp_path / 't'}")).num_rows == 1


@pytest.mark.rule("DEL-5")
def test_a_reader_without_the_feature_refuses(tmp_path: Path) -> None:
    export(tmp_path / "t", pa.table({"id": [1], "geom": points((1, 2))}))

    with pytest.raises(deltalake.exceptions.DeltaError, match="Unsupported"):
        deltalake.DeltaTable(str(tmp_path / "t")).to_pyarrow_table()


@pytest.mark.rule("DEL-8")
def test_files_have_the_types_of_parquet(tmp_path: Path) -> None:
    for edges, wanted in ((None, "Geometry"), ("spherical", "Geography")):
        folder = tmp_path / wanted
        crs = replace(EWKB, crs="OGC:CRS84")
        export(folder, pa.table({"geom": points((1, 2))}), edges=edges, geometry=crs)
        (path,) = folder.glob("*.parquet")
        logical = pq.ParquetFile(path).schema.column(0).logical_type
        assert json.loads(logical.to_json())["Type"] == wanted


@pytest.mark.rule("DEL-9", "DEL-10", "DEL-12", "DEL-13", "DEL-20")
@pytest.mark.parametrize(
    ("text", "crs", "edges"),
    [
        ("geometry(EPSG:3857)", "EPSG:3857", None),
        ("geography(OGC:CRS84, spherical)", "OGC:CRS84", "spherical"),
        ("GEOGRAPHY( srid:4326 ,Vincenty)", "srid:4326", "vincenty"),
        ("geometry", "OGC:CRS84", None),
        ("geography", "OGC:CRS84", "spherical"),
        ("geometry(srid:4326)", "srid:4326", None),
    ],
)
def test_types(text: str, crs: str, edges: str | None) -> None:
    found = NativeGeometry.parse(text)

    assert found == NativeGeometry(crs, edges)
    assert NativeGeometry.parse(str(found)) == found


@pytest.mark.rule("DEL-15", "DEL-16", "DEL-17", "DEL-18", "DEL-19")
def test_ways_of_edges_in_types() -> None:
    for name in EDGES:
        found = NativeGeometry.parse(f"geography(OGC:CRS84, {name.upper()})")
        assert found is not None and str(found) == f"geography(OGC:CRS84, {name})"
    with pytest.raises(ValueError, match="unknown way"):
        NativeGeometry.parse("geography(OGC:CRS84, straight)")


@pytest.mark.rule("DEL-7", "DEL-21", "DEL-23", "DEL-29")
def test_statistics_have_corners_as_text(tmp_path: Path) -> None:
    column = points((-122.419, 38.021), None, (-120.503, 37.774))
    export(tmp_path / "t", pa.table({"id": [3, 1, 2], "geom": column}))

    statistics = json.loads(actions(tmp_path / "t")["add"]["stats"])

    assert statistics["numRecords"] == 3
    assert statistics["nullCount"] == {"id": 0, "geom": 1}
    assert statistics["minValues"] == {"id": 1, "geom": "POINT(-122.419 37.774)"}
    assert statistics["maxValues"] == {"id": 3, "geom": "POINT(-120.503 38.021)"}


@pytest.mark.rule("DEL-25")
def test_the_example_of_the_proposal() -> None:
    box = Bounds(-122.419, 37.774, -120.503, 38.021)

    assert corner_text(box.xmin, box.ymin) == "POINT(-122.419 37.774)"
    assert corner_text(box.xmax, box.ymax) == "POINT(-120.503 38.021)"
    assert corner_text(1.0, -2e300) == "POINT(1 -2e+300)"


@pytest.mark.rule("DEL-7", "DEL-26", "DEL-33")
@pytest.mark.parametrize(
    ("texts", "edges", "corners"),
    [
        (["POINT (179 1)", "POINT (-179 2)"], "spherical", ("POINT(-179 1)", "POINT(179 2)")),
        (["LINESTRING (-50 60, 50 60)"], "spherical", None),  # it goes far to the north
        (["LINESTRING (-50 60, 50 60)"], None, ("POINT(-50 60)", "POINT(50 60)")),
        (["POINT EMPTY", None], None, None),
    ],
)
def test_a_box_holds_all_or_is_left_out(
    texts: Sequence[str | None], edges: str | None, corners: tuple[str, str] | None, tmp_path: Path
) -> None:
    geometry = Geometry(Encoding.EWKB, "OGC:CRS84")
    export(tmp_path / "t", pa.table({"geom": shapes(*texts)}), edges=edges, geometry=geometry)

    statistics = json.loads(actions(tmp_path / "t")["add"]["stats"])

    found = (statistics["minValues"].get("geom"), statistics["maxValues"].get("geom"))
    assert found == (corners or (None, None))


@pytest.mark.rule("DEL-28", "DEL-32")
@pytest.mark.parametrize("edges", [None, *EDGES])
def test_a_table_comes_back(edges: str | None, tmp_path: Path) -> None:
    table = pa.table({"id": [1, 2, 3], "geom": points((1, 2), None, (3, 4))})
    export(tmp_path / "roads", table, edges=edges)

    source = open_one(f"delta:{tmp_path / 'roads'}")

    (field,) = source.schema.geometries
    assert source.name == "roads"
    assert field.geometry is not None and field.geometry.crs == "EPSG:2193"
    assert list(source.crs) == ["EPSG:2193"]
    assert dict(field.extra).get("edges") == edges
    assert read_all(source).column("geom").to_pylist() == table.column("geom").to_pylist()


@pytest.mark.rule("DEL-14")
def test_a_system_of_ones_own_is_a_property(tmp_path: Path) -> None:
    wkt = pyproj.CRS("+proj=laea +lat_0=10 +lon_0=20 +ellps=GRS80 +type=crs").to_wkt()
    own = parse_crs(wkt)
    geometry = replace(EWKB, crs=own.identifier)
    header, rows = stored(pa.table({"geom": points((1, 2))}), geometries={"geom": EWKB})
    fields = (replace(header.schema.fields[0], geometry=geometry),)
    header = replace(header, schema=Schema(fields), meta={f"crs/{own.identifier}.wkt": own.wkt})
    write_delta(tmp_path / "t", header, batches_of(rows))

    log = read_log(tmp_path / "t")
    (said,) = geometry_columns(log, "t").values()
    assert said.crs.startswith("projjson:")
    assert "Lambert" in log.configuration[said.crs.removeprefix("projjson:")]
    (found,) = open_one(f"delta:{tmp_path / 't'}").crs.values()
    assert pyproj.CRS(found).equals(pyproj.CRS(wkt), ignore_axis_order=True)

    with pytest.raises(InvalidFileError, match="is missing"):
        text = tmp_path / "t" / "_delta_log" / f"{0:020}.json"
        text.write_text(text.read_text().replace('"configuration": {', '"other": {'))
        open_one(f"delta:{tmp_path / 't'}")


@pytest.mark.rule("DEL-30")
def test_values_of_several_systems_are_refused(tmp_path: Path) -> None:
    two = [shapely.set_srid(shapely.Point(1, 2), srid) for srid in (2193, 4326)]
    column = pa.array(shapely.to_wkb(two, include_srid=True).tolist(), pa.binary())

    with pytest.raises(GeometryError, match=r"SRID 2193, 4326") as caught:
        export(tmp_path / "t", pa.table({"geom": column}))

    assert caught.value.hints
    assert list((tmp_path / "t").glob("*")) == []


@pytest.mark.rule("DEL-30", "DEL-31")
def test_values_are_plain_wkb_and_no_system_is_srid_0(tmp_path: Path) -> None:
    point = shapely.to_wkb(shapely.Point(1, 2, 3))
    written = export(
        tmp_path / "t",
        pa.table({"geom": pa.array([point])}),
        geometry=replace(EWKB, crs=None, shape=None),
    )

    assert "srid:0" in actions(tmp_path / "t")["metaData"]["schemaString"]
    assert any("srid:0" in line for line in written.notes)
    (path,) = (tmp_path / "t").glob("*.parquet")
    (value,) = pq.ParquetFile(path).read()["geom"].to_pylist()
    assert value.hex().startswith("01e9030000")
    assert not open_one(f"delta:{tmp_path / 't'}").crs


@pytest.mark.rule("DEL-34")
def test_rasters_are_refused(tmp_path: Path) -> None:
    header, _ = stored(pa.table({"id": [1]}))
    raster = Field(9, "rast", Struct(()), raster="v1")
    header = replace(header, schema=Schema((*header.schema.fields, raster)))

    with pytest.raises(UnsupportedTypeError, match="rasters"):
        write_delta(tmp_path / "t", header, iter(()))


@pytest.mark.rule("DEL-35")
def test_that_it_is_a_proposal_is_said(tmp_path: Path) -> None:
    written = export(tmp_path / "t", pa.table({"geom": points((1, 2))}))

    assert any("proposal" in line for line in written.notes)


@pytest.mark.rule("DEL-36")
def test_no_table_is_partitioned_by_a_geometry(tmp_path: Path) -> None:
    export(tmp_path / "t", pa.table({"geom": points((1, 2))}))
    path = tmp_path / "t" / "_delta_log" / f"{0:020}.json"
    path.write_text(
        path.read_text().replace('"partitionColumns": []', '"partitionColumns": ["geom"]')
    )

    with pytest.raises(CorruptDatasetError, match="partitioned by 'geom'"):
        read_log(tmp_path / "t")


@pytest.mark.parametrize("make", [flat_table, rich_table])
def test_deltalake_reads_plain_tables(make: Any, tmp_path: Path) -> None:
    table = make()
    held = {name: column for name, column in zip(table.column_names, table.columns, strict=True)
            if not pa.types.is_time(column.type)}  # fmt: skip
    table = pa.table(held)
    export(tmp_path / "t", table, plain=True)

    found = deltalake.DeltaTable(str(tmp_path / "t")).to_pyarrow_table()

    assert found.column_names == table.column_names
    assert found.num_rows == table.num_rows
    for name in ("id", "geom"):
        if name in held:
            assert found[name].to_pylist() == table[name].to_pylist()


def test_times_of_day_have_no_place(tmp_path: Path) -> None:
    with pytest.raises(UnsupportedTypeError, match="'at'"):
        export(tmp_path / "t", pa.table({"at": [datetime.time(1, 2)]}))


def test_tables_of_deltalake(tmp_path: Path) -> None:
    folder = str(tmp_path / "t")
    table = pa.table({"id": [1, 2, 3, 4], "kind": ["a", "b", "a", "c"]})
    deltalake.write_deltalake(folder, table, partition_by=["kind"])
    deltalake.write_deltalake(folder, table.slice(0, 1), mode="append")
    deltalake.DeltaTable(folder).delete("id = 2")

    source = open_one(f"delta:{folder}")

    found = sorted((row["id"], row["kind"]) for row in read_all(source).to_pylist())
    assert found == [(1, "a"), (1, "a"), (3, "a"), (4, "c")]
    assert read_all(open_one(f"delta:{folder}", snapshot=0)).num_rows == 4
    with pytest.raises(NotFoundError, match="no version 9"):
        open_one(f"delta:{folder}", snapshot=9)
    deltalake.DeltaTable(folder).create_checkpoint()
    (Path(folder) / "_delta_log" / f"{0:020}.json").unlink()
    assert read_all(open_one(f"delta:{folder}")).num_rows == 4


def test_what_is_there_stays(tmp_path: Path) -> None:
    table = pa.table({"id": [1]})
    export(tmp_path / "t", table)
    (tmp_path / "other").mkdir()
    (tmp_path / "other" / "notes.txt").write_text("mine")

    for folder in (tmp_path / "t", tmp_path / "other"):
        before = sorted(folder.rglob("*"))
        with pytest.raises(InvalidArgumentError) as caught:
            export(folder, table)
        assert caught.value.hints
        assert sorted(folder.rglob("*")) == before


def test_tables_that_are_none(tmp_path: Path) -> None:
    with pytest.raises(SourceNotFoundError, match="no Delta table"):
        open_sources(f"delta:{tmp_path}")


PROTOCOL = {"minReaderVersion": 3, "minWriterVersion": 7}


@pytest.mark.parametrize(
    ("action", "error"),
    [
        ({"protocol": PROTOCOL | {"readerFeatures": ["x"]}}, UnsupportedVersionError),
        ({"protocol": {"minReaderVersion": 9}}, UnsupportedVersionError),
        ({"protocol": {}}, CorruptDatasetError),
        ({"protocol": []}, CorruptDatasetError),
        ({"metaData": {"id": "x", "schemaString": "{"}}, CorruptDatasetError),
        ({"metaData": {"id": "x", "schemaString": '{"fields": [{"name": 3, "type": "x"}]}'}},
         CorruptDatasetError),
        ({"metaData": {"id": "x", "schemaString":
          '{"fields": [{"name": "g", "type": "geometry(srid:-1)"}]}'}}, CorruptDatasetError),
        ({"metaData": {"id": "x", "schemaString":
          '{"fields": [{"name": "g", "type": "geography(a, b, c)"}]}'}}, CorruptDatasetError),
        ({"add": {"path": "x", "size": "large"}}, CorruptDatasetError),
        ({"add": {"path": "x", "size": 1, "deletionVector": {}}}, CorruptDatasetError),
        ({"commitInfo": {}}, CorruptDatasetError),
    ],
)  # fmt: skip
@pytest.mark.rule("DEL-13")
def test_logs_that_say_nonsense(action: dict[str, Any], error: type[HavasuError]) -> None:
    with pytest.raises(error):
        replay([(0, json.dumps(action).encode())], "t")


def test_a_version_that_is_missing() -> None:
    with pytest.raises(CorruptDatasetError, match="version 0 is missing"):
        replay([(1, b"{}")], "t")
    assert DeltaLog().version == -1


def test_a_file_outside_of_the_table(tmp_path: Path) -> None:
    export(tmp_path / "t", pa.table({"geom": points((1, 2))}))
    path = tmp_path / "t" / "_delta_log" / f"{0:020}.json"
    (file,) = (tmp_path / "t").glob("*.parquet")
    file.rename(tmp_path / file.name)
    path.write_text(path.read_text().replace(file.name, f"../{file.name}"))

    with pytest.raises(HavasuError, match="outside of"):
        open_one(f"delta:{tmp_path / 't'}")


def nested_table() -> pa.Table:
    """Return columns of every type inside of each kind of other column."""
    uuids = pa.array([bytes(range(16)), None, bytes(range(16, 32))], pa.uuid())
    inner = pa.struct(
        [
            ("number", pa.int32()),
            ("price", pa.decimal128(20, 4)),
            ("moment", pa.timestamp("us")),
            ("zoned", pa.timestamp("us", tz="UTC")),
            ("day", pa.date32()),
            ("token", pa.binary(3)),
        ]
    )
    whole = {
        "number": 7,
        "price": decimal.Decimal("1234567890123456.7891"),
        "moment": datetime.datetime(2024, 2, 29, 23, 59, 59, 123456),
        "zoned": datetime.datetime(1969, 12, 31, 23, 59, 59, 1, datetime.UTC),
        "day": datetime.date(1960, 1, 2),
        "token": b"\x00\xffa",
    }
    half = dict.fromkeys(whole) | {"number": -7}
    return pa.table(
        {
            "id": pa.array([1, 2, 3], pa.int64()),
            "plain": pa.array([whole, None, half], inner),
            "deep": pa.array(
                [{"in": {"in": whole, "n": 1}}, {"in": None}, None],
                pa.struct([("in", pa.struct([("in", inner), ("n", pa.int64())]))]),
            ),
            "many": pa.array([[whole, None, half], [], None], pa.list_(inner)),
            "lists": pa.array([[[1, None], None, []], None, [[2]]], pa.list_(pa.list_(pa.int64()))),
            "named": pa.array([[("a", whole), ("b", None)], [], None], pa.map_(pa.string(), inner)),
            "counted": pa.array(
                [[(1, [1.5])], None, []], pa.map_(pa.int64(), pa.list_(pa.float64()))
            ),
            "token": pa.array([b"abc", None, b"xyz"], pa.binary(3)),
            "uuids": pa.ListArray.from_arrays(pa.array([0, None, 3, 3], pa.int32()), uuids),
            "uuid": pa.StructArray.from_arrays([uuids], names=["u"]),
        }
    )


@pytest.mark.parametrize("step", [1, 2, 3])
def test_deltalake_reads_columns_inside_of_others(step: int, tmp_path: Path) -> None:
    table = nested_table()
    header, rows = stored(table)

    write_delta(tmp_path / "t", header, batches_of(rows, step), plain=True)

    found = deltalake.DeltaTable(str(tmp_path / "t"))
    read = pa.table(found.to_pyarrow_table()).sort_by("id")
    texts = [
        None if u is None else str(u) for u in table["uuid"].combine_chunks().field(0).to_pylist()
    ]
    wanted = table.drop_columns(["uuid", "uuids"]).to_pylist()
    assert read.drop_columns(["uuid", "uuids"]).to_pylist() == wanted
    assert [row["u"] for row in read["uuid"].to_pylist()] == texts
    assert read["uuids"].to_pylist() == [texts, None, []]
    # Adding to it makes deltalake read and write what the log says of files.
    deltalake.write_deltalake(str(tmp_path / "t"), found.to_pyarrow_table(), mode="append")
    assert deltalake.DeltaTable(str(tmp_path / "t")).to_pyarrow_table().num_rows == 6
    assert read_all(open_one(f"delta:{tmp_path / 't'}")).num_rows == 6


def test_nulls_are_counted_part_by_part(tmp_path: Path) -> None:
    export(tmp_path / "t", nested_table(), plain=True)

    counts = json.loads(actions(tmp_path / "t")["add"]["stats"])["nullCount"]

    assert counts["plain"] == dict.fromkeys(counts["plain"], 2) | {"number": 1}
    assert counts["deep"]["in"]["n"] == 2 and counts["deep"]["in"]["in"]["day"] == 2
    assert (counts["many"], counts["named"], counts["lists"], counts["uuid"]) == (1, 1, 1, {"u": 1})
    found = pa.table(deltalake.DeltaTable(str(tmp_path / "t")).get_add_actions(flatten=True))
    assert found["null_count.plain.number"].to_pylist() == [1]


def test_deltalake_makes_a_checkpoint_of_columns_inside_of_others(tmp_path: Path) -> None:
    export(tmp_path / "t", nested_table(), plain=True)

    deltalake.DeltaTable(str(tmp_path / "t")).create_checkpoint()

    assert deltalake.DeltaTable(str(tmp_path / "t")).to_pyarrow_table().num_rows == 3
    assert read_all(open_one(f"delta:{tmp_path / 't'}")).num_rows == 3
