"""Exports with what GDAL is asked for: layers, options of its drivers, rows without geometry."""

import json
import sqlite3
from contextlib import closing
from pathlib import Path

import pyogrio
import pytest

from tests.cli.conftest import invoke, succeed

ROWS = """\
id,name,shape
1,one,POINT (1 2)
2,two,
3,three,POINT EMPTY
4,four,POINT (3 4)
"""


@pytest.fixture
def places(tmp_path: Path) -> Path:
    repo, source = tmp_path / "repo", tmp_path / "places.csv"
    source.write_text(ROWS)
    succeed(invoke(["init", repo]))
    options = ("--primary-key", "id", "--csv-wkt", "shape", "--crs", "EPSG:4326")
    succeed(invoke(["-C", repo, "import", source, *options]))
    return repo


def tables(file: Path) -> set[str]:
    with closing(sqlite3.connect(file)) as opened:
        return {row[0] for row in opened.execute("SELECT name FROM sqlite_master")}


def test_layers_and_options_are_the_drivers(places: Path, tmp_path: Path) -> None:
    file = tmp_path / "out.gpkg"
    options = ("--layer", "one", "-dsco", "ADD_GPKG_OGR_CONTENTS=NO", "-lco", "geometry_name=g")
    succeed(invoke(["-C", places, "export", "places", file, *options]))
    assert "gpkg_ogr_contents" not in tables(file)
    assert [name for name, _ in pyogrio.list_layers(file)] == ["one"]
    with closing(sqlite3.connect(file)) as opened:
        columns = [row[1] for row in opened.execute("PRAGMA table_info(one)")]
    assert columns == ["id", "g", "name"]


def said_of(file: Path) -> dict[str, tuple[str, str]]:
    """Return titles and descriptions of the layers of a GeoPackage."""
    with closing(sqlite3.connect(file)) as opened:
        found = opened.execute("SELECT table_name, identifier, description FROM gpkg_contents")
        return {name: (title, text) for name, title, text in found}


def test_texts_of_layers_may_be_long(places: Path, tmp_path: Path) -> None:
    file, long, longer = tmp_path / "out.gpkg", "Places ä " * 9_000, "of the town\n" * 20_000
    (tmp_path / "title").write_text(long)
    (tmp_path / "text").write_text(longer)
    texts = (f"title=@{tmp_path / 'title'}", f"description=@{tmp_path / 'text'}")
    succeed(invoke(["-C", places, "meta", "set", "places", *texts]))
    for layer in ("one", "two"):
        succeed(invoke(["-C", places, "export", "places", file, "--layer", layer]))
    long, longer = long.strip(), longer.strip()
    assert said_of(file) == {"one": (long, longer), "two": (f"two: {long}", longer)}
    assert pyogrio.read_info(file, layer="one")["layer_metadata"]["IDENTIFIER"] == long
    assert [len(pyogrio.read_dataframe(file, layer=name)) for name in ("one", "two")] == [4, 4]
    copy = tmp_path / "copy.gpkg"
    succeed(invoke(["-C", places, "checkout", "--as", copy]))
    assert said_of(copy) == {"places": (long, longer)}
    succeed(invoke(["-C", places, "import", file, "one:new"]))
    told = succeed(invoke(["-C", places, "meta", "get", "new", "title", "-o", "json"])).stdout
    assert json.loads(told)["new"]["title"] == long


@pytest.mark.parametrize(("driver", "end"), [("ESRI Shapefile", "shp"), ("gpkg", "gpkg")])
def test_a_driver_may_stand_before_the_file(
    places: Path, tmp_path: Path, driver: str, end: str
) -> None:
    file = tmp_path / f"out.{end}"
    succeed(invoke(["-C", places, "export", "places", f"{driver}:{file}"]))
    assert pyogrio.read_info(file)["driver"].lower() == driver.lower()


def ids(file: Path) -> list[int]:
    found = json.loads(file.read_text())
    return [each["properties"]["id"] for each in found["features"]]


@pytest.mark.parametrize(
    ("option", "kept"),
    [
        ("--drop-null-geometry-features", [1, 3, 4]),
        ("--drop-empty-geometry-features", [1, 4]),
    ],
)
def test_rows_without_geometry_are_left_out(
    places: Path, tmp_path: Path, option: str, kept: list[int]
) -> None:
    file = tmp_path / "out.geojson"
    said = succeed(invoke(["-C", places, "export", "places", file, option]))
    assert ids(file) == kept and f"Wrote {len(kept)} rows" in said.stderr


def test_geometries_are_left_out(places: Path, tmp_path: Path) -> None:
    file = tmp_path / "out.csv"
    succeed(invoke(["-C", places, "export", "places", file, "--drop-geometry"]))
    assert file.read_text().splitlines()[0] == '"id","name"'


def test_the_type_of_a_layer_is_what_is_asked_for(places: Path, tmp_path: Path) -> None:
    file = tmp_path / "out.gpkg"
    asked = ("--override-geometry-type", "point z")
    succeed(invoke(["-C", places, "export", "places", file, *asked]))
    assert pyogrio.read_info(file)["geometry_type"] == "Point Z"


@pytest.mark.parametrize("option", ["-lco SEPARATOR=SEMICOLON", "--no-primary-key-as-field"])
def test_a_csv_has_its_geometries_where_gdal_writes_it(
    places: Path, tmp_path: Path, option: str
) -> None:
    file = tmp_path / "out.csv"
    succeed(invoke(["-C", places, "export", "places", file, *option.split()]))
    rows = file.read_text().splitlines()
    between = ";" if "lco" in option else ","
    assert rows[0] == between.join(["WKT", *(["id"] if "lco" in option else []), "name"])
    assert any("POINT" in row for row in rows[1:])


@pytest.mark.parametrize(
    ("name", "options", "said"),
    [
        ("out.parquet", ("-lco", "GEOMETRY=AS_WKT"), "do not go with GeoParquet"),
        ("out.csv", ("--primary-key-as-fid",), "rows of a CSV have no number"),
        ("out.gpkg", ("-lco", "FID"), "they are NAME=VALUE"),
        ("out.tif", ("--layer", "one"), "without --crs, --plain or options for GDAL"),
        ("out.gpkg", ("--layer", "one", "--changes", "HEAD^?...HEAD"), "with --changes"),
        ("out.gpkg", ("--override-geometry-type", "BLOB"), "is no type of geometries"),
        ("out.gpkg", ("-dsco", "VERSION=9.9"), "'9.9' is an unexpected value for VERSION"),
        ("out.csv", ("-lco", "SEPARATOR=NOPE"), "'NOPE' is an unexpected value for SEPARATOR"),
        ("out.gpkg", ("--drop-geometry", "--drop-null-geometry-features"), "nothing can be asked"),
        ("out.csv", ("--drop-geometry", "--override-geometry-type", "POINT"), "nothing can be"),
        ("out.csv", ("--columns", ""), "names no column"),
        ("out.csv", ("--columns", "id,id"), "column 'id' is named twice"),
    ],
)
def test_what_cannot_be_asked_for_is_refused(
    places: Path, tmp_path: Path, name: str, options: tuple[str, ...], said: str
) -> None:
    file = tmp_path / name
    refused = invoke(["-C", places, "export", "places", file, *options])
    assert refused.exit_code == 2 and said in refused.stderr
    assert not file.exists()


@pytest.mark.parametrize(
    ("name", "options", "said"),
    [
        ("out.gpkg", ("-lco", "NONSENSE=1"), "does not support layer creation option NONSENSE"),
        ("out.gpkg", ("--override-geometry-type", "POLYGON"), "rows of POINT are in a layer that"),
        ("out.csv", ("-lco", "SEPARATOR=TAB"), "GDAL writes this CSV, with numbers of 15 digits"),
        ("out.geojson", ("--primary-key-as-fid", "--no-primary-key-as-field"), "key is a column"),
        ("out.geojson", ("-lco", "RFC7946=YES"), "empty geometries of column 'shape' become nulls"),
        ("out.geojson", ("--no-primary-key-as-field",), "the key 'id' is left out of GeoJSON"),
    ],
)
def test_what_gdal_does_otherwise_is_told(
    places: Path, tmp_path: Path, name: str, options: tuple[str, ...], said: str
) -> None:
    file = tmp_path / name
    told = succeed(invoke(["-C", places, "export", "places", file, *options])).stderr
    assert said in told
    assert ("one" in file.read_text()) if name != "out.gpkg" else file.exists()
    if "--primary-key-as-fid" in options:
        assert ids(file) == [1, 2, 3, 4]


def test_a_shapefile_is_in_the_encoding_that_is_asked_for(places: Path, tmp_path: Path) -> None:
    (tmp_path / "more.csv").write_text("id,name,shape\n1,été,POINT (1 2)\n")
    options = ("--primary-key", "id", "--csv-wkt", "shape", "--crs", "EPSG:4326")
    succeed(invoke(["-C", places, "import", tmp_path / "more.csv", *options]))
    file = tmp_path / "out.shp"
    refused = invoke(["-C", places, "export", "more", file, "-lco", "ENCODING=ASCII"])
    assert refused.exit_code == 2 and "characters that ASCII has not" in refused.stderr
    assert not file.exists()
    succeed(invoke(["-C", places, "export", "more", file, "-lco", "encoding=CP1252"]))
    assert "été".encode("cp1252") in file.with_suffix(".dbf").read_bytes()
