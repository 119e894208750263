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
    ],
)
def test_what_cannot_be_asked_for_is_refused(
    places: Path, tmp_path: Path, name: str, options: tuple[str, ...], said: str
) -> None:
    file = tmp_path / name
    refused = invoke(["-C", places, "export", "places", file, *options])
    assert refused.exit_code == 2 and said in refused.stderr
    assert not file.exists()
