import json
import re
import sqlite3
import zipfile
from contextlib import closing
from pathlib import Path
from typing import Any

import geopandas
import numpy as np
import pandas as pd
import pyarrow as pa
import pyogrio
import pytest
import shapely

from havasu_vc.errors import InvalidArgumentError, InvalidFileError, SourceNotFoundError
from havasu_vc.exchange.source import SourceOptions
from havasu_vc.exchange.sources import list_source_layers, open_sources
from havasu_vc.model.types import Encoding, Primitive
from tests.exchange.reading import open_one, read_all


def frame(rows: int = 5) -> geopandas.GeoDataFrame:
    numbers = np.arange(rows)
    return geopandas.GeoDataFrame(
        {
            "name": [f"Mātā {n}" if n else None for n in numbers],
            "small": numbers.astype("int32"),
            "large": numbers.astype("int64") << 40,
            "ratio": numbers / 3,
            "single": (numbers / 3).astype("float32"),
            "valid": numbers % 2 == 0,
        },
        geometry=shapely.points(numbers + 1.0e6, numbers + 5.0e6),
        crs="EPSG:2193",
    )


def write(path: Path, data: geopandas.GeoDataFrame, **how: Any) -> Path:
    pyogrio.write_dataframe(data, path, **how)
    return path


def same_rows(table: pa.Table, data: geopandas.GeoDataFrame, names: dict[str, str]) -> None:
    shapes = shapely.from_wkb(table.column("geom").to_pylist())
    assert all(shapely.equals_identical(shapes, np.asarray(data.geometry)))
    for theirs, ours in names.items():
        expected = [None if pd.isna(value) else value for value in data[theirs]]
        assert table.column(ours).to_pylist() == expected, theirs


SAME = {name: name for name in ("name", "small", "large", "ratio", "valid")}


def test_a_geopackage_keeps_types_key_and_crs(tmp_path: Path) -> None:
    data = frame()
    said = {"IDENTIFIER": "The hills", "DESCRIPTION": "Of the north"}
    path = write(tmp_path / "a.gpkg", data, layer="hills", layer_metadata=said)

    source = open_one(path)
    table = read_all(source)

    same_rows(table, data, SAME | {"single": "single"})
    assert table.column("fid").to_pylist() == [1, 2, 3, 4, 5]
    assert (source.name, source.title, source.description) == ("hills", "The hills", "Of the north")
    assert source.key_hint == source.schema.key.names == ("fid",)
    assert list(source.crs) == ["EPSG:2193"]
    types = {field.name: field.type for field in source.schema.fields}
    assert types == {
        "fid": Primitive.LONG, "geom": Primitive.BINARY, "name": Primitive.STRING,
        "small": Primitive.INT, "large": Primitive.LONG, "ratio": Primitive.DOUBLE,
        "single": Primitive.FLOAT, "valid": Primitive.BOOLEAN,
    }  # fmt: skip
    (geometry,) = source.schema.geometries
    assert geometry.geometry is not None and geometry.geometry.shape == "POINT"


def test_a_large_geopackage_is_cut_at_its_ids(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = write(tmp_path / "a.gpkg", frame(1000))
    with closing(sqlite3.connect(path)) as database, database:
        database.create_function("ST_IsEmpty", 1, lambda _: 0)
        for name in ("minx", "maxx", "miny", "maxy"):
            database.create_function(f"ST_{name}", 1, lambda _: 0.0)
        database.execute("DELETE FROM a WHERE fid BETWEEN 100 AND 600 AND fid <> 333")
    monkeypatch.setattr("havasu_vc.exchange.ogr.TASK_BYTES", 20_000)
    monkeypatch.setattr("havasu_vc.exchange.ogr.MOST_BATCH_ROWS", 64)

    source = open_one(path)

    assert len(source.tasks()) > 3
    expected = [*range(1, 100), 333, *range(601, 1001)]
    assert read_all(source).column("fid").to_pylist() == expected
    assert read_all(source, ("name",)).num_rows == len(expected)


def test_another_key_can_be_named_and_columns_chosen(tmp_path: Path) -> None:
    path = write(tmp_path / "a.gpkg", frame())
    source = open_one(path, primary_key=("large",), leave_out=("fid", "geom"))
    assert source.schema.key.names == ("large",)
    assert source.key_hint == ()
    assert source.crs == {}
    assert read_all(source).column_names == ["name", "small", "large", "ratio", "single", "valid"]
    assert open_one(path, primary_key=()).schema.key.names == ()


def test_column_names_that_need_quoting(tmp_path: Path) -> None:
    path = tmp_path / 'odd "name".gpkg'
    write(path, frame(), layer='my "layer"', layer_options={"FID": 'my "id"'})
    source = open_one(path)
    assert source.schema.key.names == ('my "id"',)
    assert read_all(source).num_rows == 5


def test_layers_are_listed_and_chosen(tmp_path: Path) -> None:
    path = write(tmp_path / "a.gpkg", frame(2), layer="one")
    write(path, frame(3), layer="two", append=True)

    assert list_source_layers(str(path)) == ["one", "two"]
    assert [source.rows for source in open_sources(str(path))] == [2, 3]
    assert [source.name for source in open_sources(str(path), ["two"])] == ["two"]
    with pytest.raises(SourceNotFoundError, match="three") as caught:
        open_sources(str(path), ["three"])
    assert caught.value.hints[0] == "the layers are one, two"


def test_a_layer_without_geometry(tmp_path: Path) -> None:
    path = tmp_path / "t.gpkg"
    pyogrio.write_dataframe(pd.DataFrame({"a": [1, 2]}), path)
    source = open_one(path)
    assert source.schema.names == ("fid", "a") and not source.crs
    assert read_all(source).column("a").to_pylist() == [1, 2]


@pytest.mark.parametrize("suffix", [".shp", ".geojson", ".geojsonl", ".fgb"])
def test_other_formats(suffix: str, tmp_path: Path) -> None:
    data = frame()
    path = write(tmp_path / f"hills{suffix}", data)

    source = open_one(path)

    assert source.name == "hills"
    assert source.key_hint == () and not source.schema.key
    # FlatGeobuf keeps rows in the order of its index.
    table = read_all(source).sort_by("small")
    if suffix != ".geojsonl":
        assert list(source.crs) == ["EPSG:2193"]
        same_rows(table, data, {"small": "small", "valid": "valid", "name": "name"})
    assert table.num_rows == 5


@pytest.mark.parametrize("dimensions", ["Z", "M", "ZM"])
@pytest.mark.parametrize("suffix", [".gpkg", ".fgb"])
def test_z_and_m(dimensions: str, suffix: str, tmp_path: Path) -> None:
    texts = [f"LINESTRING {dimensions} (1 2 3{' 4' * (len(dimensions) - 1)}, "
             f"5 6 7{' 8' * (len(dimensions) - 1)})", f"LINESTRING {dimensions} EMPTY"]  # fmt: skip
    table = pa.table({"geom": pa.array(shapely.to_wkb(shapely.from_wkt(texts), flavor="iso"))})
    path = tmp_path / f"a{suffix}"
    no_index = {"SPATIAL_INDEX": "NO"} if suffix == ".fgb" else {}
    kind = {"Z": "LineString Z", "M": "Measured LineString", "ZM": "Measured 3D LineString"}
    pyogrio.write_arrow(table, path, geometry_name="geom", crs="EPSG:2193",
                        geometry_type=kind[dimensions], **no_index)  # fmt: skip

    source = open_one(path, geometry_encoding=Encoding.WKB)

    (field,) = source.schema.geometries
    assert field.geometry is not None and field.geometry.shape == f"LINESTRING {dimensions}"
    got = read_all(source).column("geom").to_pylist()
    assert shapely.to_wkt(shapely.from_wkb(got[0])) == shapely.to_wkt(shapely.from_wkt(texts[0]))


def test_zipped_shapefiles(tmp_path: Path) -> None:
    for name in ("hills", "lakes"):
        write(tmp_path / f"{name}.shp", frame())
    with zipfile.ZipFile(tmp_path / "all.zip", "w") as archive:
        for path in tmp_path.glob("*.*"):
            if path.suffix != ".zip":
                archive.write(path, f"inner folder/{path.name}")
    sources = open_sources(str(tmp_path / "all.zip"))
    assert [source.name for source in sources] == ["hills", "lakes"]
    assert read_all(sources[1]).num_rows == 5


def features(*properties: dict[str, Any], ids: list[Any] | None = None) -> str:
    rows = []
    for number, values in enumerate(properties):
        row = {"type": "Feature", "properties": values,
               "geometry": {"type": "Point", "coordinates": [number, 1]}}  # fmt: skip
        rows.append(row | ({"id": ids[number]} if ids else {}))
    return json.dumps({"type": "FeatureCollection", "features": rows})


def test_feature_ids_of_geojson_are_the_key(tmp_path: Path) -> None:
    path = tmp_path / "a.geojson"
    path.write_text(features({"a": 1}, {"a": 2}, ids=[70, 5]))
    source = open_one(path)
    assert source.schema.key.names == ("id",)
    assert read_all(source).column("id").to_pylist() == [70, 5]


def test_geojson_without_ids_has_no_key(tmp_path: Path) -> None:
    path = tmp_path / "a.geojson"
    path.write_text(features({"id": "x", "a": 1}, {"id": "y", "a": 2}))
    source = open_one(path)
    assert source.schema.names == ("geom", "id", "a")


def test_geojson_nested_values(tmp_path: Path) -> None:
    path = tmp_path / "a.geojson"
    path.write_text(features({"o": {"k": [1]}, "l": [1, 2], "t": ["a"]}, {"l": None}))
    source = open_one(path)
    first, second = read_all(source).to_pylist()
    assert source.schema.by_name["o"].source_type == "json"
    assert json.loads(first["o"]) == {"k": [1]}
    assert (first["l"], first["t"]) == ([1, 2], ["a"])
    assert second["l"] is None


MOMENTS = [
    (["2020-01-01T10:00:00", "2020-01-01T11:00:00"], Primitive.TIMESTAMP, "2020-01-01T10:00:00"),
    (["2020-01-01T10:00:00Z", "2020-01-01T11:00:00Z"], Primitive.TIMESTAMPTZ,
     "2020-01-01T10:00:00+00:00"),
    (["2020-01-01T10:00:00+02:00", "2020-01-01T11:00:00+05:30"], Primitive.TIMESTAMPTZ,
     "2020-01-01T08:00:00+00:00"),
]  # fmt: skip


@pytest.mark.parametrize(("values", "type_", "first"), MOMENTS)
def test_time_zones_of_geojson(
    values: list[str], type_: Primitive, first: str, tmp_path: Path
) -> None:
    path = tmp_path / "a.geojson"
    path.write_text(features(*({"t": value, "same": "2020-01-01T00:00:00Z"} for value in values)))
    source = open_one(path)
    assert source.schema.by_name["t"].type is type_
    table = read_all(source)
    assert table.column("t")[0].as_py().isoformat() == first
    assert table.column("same")[0].as_py().isoformat() == "2020-01-01T00:00:00+00:00"


def test_times_with_and_without_zone_stay_text_and_that_is_said(tmp_path: Path) -> None:
    path = tmp_path / "a.geojson"
    path.write_text(features({"t": "2020-01-01T10:00:00+02:00"}, {"t": "2020-01-01T11:00:00"}))
    source = open_one(path)
    assert read_all(source).column("t").to_pylist() == [
        "2020-01-01T10:00:00+02:00",
        "2020-01-01T11:00:00",
    ]
    assert "'t'" in source.notes[0]


FINE = {"d": "2020-01-01", "t": "23:59:59.999999", "at": "2020-01-01T00:00:00.123456"}


def test_times_of_geojson_keep_their_microseconds(tmp_path: Path) -> None:
    path = tmp_path / "a.geojson"
    mixed = {"z": "2020-01-01T00:00:00.123456+13:00", "m": "2020-01-01T10:00:00+02:00"}
    path.write_text(features(FINE | mixed, {"z": "2020-01-02T00:00:00Z", "m": FINE["at"]}, {}))
    source = open_one(path)
    first, second, third = read_all(source).to_pylist()
    assert [first[name].isoformat() for name in FINE] == list(FINE.values())
    assert first["z"].isoformat() == "2019-12-31T11:00:00.123456+00:00"
    assert second["z"].isoformat() == "2020-01-02T00:00:00+00:00"
    assert (first["m"], second["m"]) == (mixed["m"], FINE["at"])
    assert [third[name] for name in (*FINE, *mixed)] == [None] * 5
    assert [note for note in source.notes if "'m'" not in note] == []


def test_what_is_cut_from_times_is_said(tmp_path: Path) -> None:
    nano, leap, lines = tmp_path / "a.geojson", tmp_path / "b.geojson", tmp_path / "c.geojsonl"
    nano.write_text(features({"t": "2020-01-01T00:00:00.123456789"}))
    source = open_one(nano)
    assert read_all(source).column("t")[0].as_py().microsecond == 123456
    assert source.notes == ("times in column 't' are cut to microseconds",)
    leap.write_text(features({"t": "2016-12-31T23:59:60.123456Z"}))
    lines.write_text(json.dumps(json.loads(features(FINE))["features"][0]) + "\n")
    for path, names in ((leap, ["t"]), (lines, ["t", "at"])):
        source = open_one(path)
        assert read_all(source).num_rows == 1
        assert source.notes == tuple(
            f"times in column {name!r} are cut to milliseconds" for name in names
        )


def test_whole_numbers_that_may_be_rounded_are_noted(tmp_path: Path) -> None:
    path = tmp_path / "a.geojson"
    path.write_text(features({"n": 9007199254740993, "x": 1.5}, {"n": 0.5, "x": 2.5}))
    (note,) = open_one(path).notes
    assert "'n'" in note and "rounded" in note
    path.write_text(features({"n": 9007199254740993, "x": 1.5}, {"n": 1, "x": 2.5}))
    source = open_one(path)
    assert source.notes == ()
    assert read_all(source).column("n").to_pylist() == [9007199254740993, 1]


def test_a_key_column_that_is_not_there(tmp_path: Path) -> None:
    path = write(tmp_path / "a.gpkg", frame())
    with pytest.raises(InvalidArgumentError, match="lrge") as caught:
        open_sources(str(path), options=SourceOptions(primary_key=("lrge",)))
    assert "did you mean 'large'" in caught.value.hints[0]


def test_a_virtual_format_in_disguise_is_not_opened(tmp_path: Path) -> None:
    hidden = write(tmp_path / "secret.gpkg", frame())
    disguised = tmp_path / "a.geojson"
    disguised.write_text(
        f'<OGRVRTDataSource><OGRVRTLayer name="secret"><SrcDataSource>{hidden}</SrcDataSource>'
        "</OGRVRTLayer></OGRVRTDataSource>"
    )
    with pytest.raises(InvalidFileError, match="not a GeoJSON file"):
        open_sources(str(disguised))


ODD = [
    ("small", "'abc'", "'abc', which is not a whole number of 32 bits"),
    ("small", "2.5", "2.5, which"),
    ("small", "99999999999", "99999999999, which"),
    ("large", "''", "'', which is not a whole number"),
    ("ratio", "'x'", "'x', which is not a number"),
    ("single", "-1e39", "-1e+39, which is not a number of 32 bits"),
    ("name", "'a' || char(0) || 'b'", "'a\\x00b', which is not text without a NUL"),
    ("name", "x'610062'", "b'a\\x00b', which is not text"),
    ("bytes", "5", "5, which is not text or bytes"),
    ("valid", "7", "7, which is not true or false"),
    ("day", "'02/03/2021'", "'02/03/2021', which is not a date"),
    ("day", "'2021-02-31'", "'2021-02-31', which is not a date"),
    ("day", "20210203", "20210203, which is not a date"),
    ("at", "'yesterday'", "'yesterday', which is not a time"),
    ("at", "2459000.5", "2459000.5, which is not a time"),
    ("geom", "'POINT (1 2)'", "'POINT (1 2)', which is not a geometry"),
]


@pytest.mark.few(2)
@pytest.mark.parametrize(("column", "value", "said"), ODD)
def test_values_that_are_not_what_their_column_says(
    column: str, value: str, said: str, tmp_path: Path
) -> None:
    path = write(tmp_path / "a.gpkg", frame())
    with closing(sqlite3.connect(path)) as database, database:
        for (trigger,) in database.execute(
            "SELECT name FROM sqlite_master WHERE type = 'trigger'"
        ).fetchall():
            database.execute(f'DROP TRIGGER "{trigger}"')
        database.execute("ALTER TABLE a ADD COLUMN day DATE")
        database.execute("ALTER TABLE a ADD COLUMN at DATETIME")
        database.execute("ALTER TABLE a ADD COLUMN bytes BLOB")
        for row, moment in enumerate(("2024-02-29", "2020-01-01T00:00:00.123Z", None)):
            database.execute("UPDATE a SET day = ?, at = ? WHERE fid = ?", (moment, moment, row))
    assert read_all(open_one(path)).num_rows == 5
    with closing(sqlite3.connect(path)) as database, database:
        database.execute(f"UPDATE a SET {column} = {value} WHERE fid = 4")
    with pytest.raises(InvalidFileError, match=re.escape(said)) as caught:
        read_all(open_one(path))
    assert f"column '{column}'" in caught.value.message and caught.value.hints
    rest = open_one(path, leave_out=(column,))
    assert read_all(rest).num_rows == 5


def test_a_database_that_is_no_geopackage(tmp_path: Path) -> None:
    path = tmp_path / "a.gpkg"
    with closing(sqlite3.connect(path)) as database, database:
        database.execute("CREATE TABLE t (a INTEGER)")
    with pytest.raises(InvalidFileError):
        open_sources(str(path))
