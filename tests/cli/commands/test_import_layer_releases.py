"""The next release of a table in a format that has no name for geometries, or no types."""

import datetime
import json
from decimal import Decimal
from pathlib import Path

import geopandas as gpd
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
import shapely

from tests.cli.conftest import Run, succeed

UNNAMED = {"geojson": "geojson", "geojsonseq": "geojsonl", "flatgeobuf": "fgb", "shapefile": "shp"}


def frame(names: list[str]) -> gpd.GeoDataFrame:
    """Return places whose geometry column is called as GeoPandas calls it."""
    points = [shapely.Point(174 + row / 8, -41) for row in range(len(names))]
    return gpd.GeoDataFrame(
        {"id": range(1, len(names) + 1), "name": names}, geometry=points, crs=4326
    )


@pytest.mark.few(1)
@pytest.mark.parametrize("form", UNNAMED)
def test_a_geometry_without_a_name_is_that_of_the_dataset(
    tmp_path: Path, run: Run, form: str
) -> None:
    frame(["a", "b", "c"]).to_parquet(tmp_path / "places.parquet")
    succeed(run("import", tmp_path / "places.parquet", "--primary-key", "id"))
    release = tmp_path / f"places.{UNNAMED[form]}"
    frame(["a", "B", "c"]).to_file(release)

    result = succeed(run("import", release, "places", "--replace"))

    assert "1 update into places" in result.output
    assert "is dropped" not in result.stderr and "is added" not in result.output
    assert '"geometry"' in run("meta", "get", "places", "schema.json").stdout
    assert succeed(run("diff", "HEAD^...HEAD", "-o", "json-lines")).stdout.count("feature") == 1


def test_coordinates_of_a_csv_are_the_geometry_of_the_dataset(tmp_path: Path, run: Run) -> None:
    frame(["a", "b"]).to_parquet(tmp_path / "places.parquet")
    succeed(run("import", tmp_path / "places.parquet", "--primary-key", "id"))
    release = tmp_path / "release.csv"
    release.write_text("id,name,lon,lat\n1,a,174,-41\n2,B,174.125,-41\n")

    result = succeed(run("import", release, "places", "--replace", "--csv-drop-coordinates"))

    assert "1 update into places" in result.output


def test_a_geometry_that_is_said_to_be_called_otherwise_is_renamed(
    tmp_path: Path, run: Run
) -> None:
    frame(["a", "b"]).to_parquet(tmp_path / "places.parquet")
    succeed(run("import", tmp_path / "places.parquet", "--primary-key", "id"))
    frame(["a", "b"]).to_file(tmp_path / "places.fgb")

    succeed(
        run("import", tmp_path / "places.fgb", "places", "--replace", "--rename", "geometry=geom")
    )

    assert "column 'geom'" not in run("status").stderr
    assert '"geom"' in run("meta", "get", "places", "schema.json").stdout


@pytest.mark.parametrize("form", ["geojson", "geojsonseq"])
def test_a_table_without_geometries_gets_none(tmp_path: Path, run: Run, form: str) -> None:
    pq.write_table(pa.table({"id": [1, 2], "v": ["a", "b"]}), tmp_path / "plain.parquet")
    succeed(run("import", tmp_path / "plain.parquet", "--primary-key", "id"))
    there = tmp_path / f"plain.{UNNAMED[form]}"
    succeed(run("export", "plain", there))

    result = succeed(run("import", there, "plain", "--replace"))

    assert "No row of plain differs" in result.output
    assert "geom" not in run("meta", "get", "plain", "schema.json").stdout


EMPTY = {
    "at": pa.timestamp("us"),
    "at_utc": pa.timestamp("us", "UTC"),
    "day": pa.date32(),
    "small": pa.int32(),
    "open": pa.bool_(),
    "price": pa.decimal128(18, 2),
    "raw": pa.binary(),
    "parts": pa.list_(pa.int64()),
}


@pytest.mark.few(1)
@pytest.mark.parametrize("suffix", ["gpkg", "geojson", "geojsonl", "csv"])
def test_a_column_without_values_is_of_the_type_that_it_has(
    tmp_path: Path, run: Run, suffix: str
) -> None:
    kept = {name: each for name, each in EMPTY.items() if name != "parts" or suffix != "csv"}
    table = pa.table({"id": [1, 2]} | {n: pa.nulls(2, type_) for n, type_ in kept.items()})
    pq.write_table(table, tmp_path / "empty.parquet")
    succeed(run("import", tmp_path / "empty.parquet", "--primary-key", "id"))
    before = run("meta", "get", "empty", "schema.json").stdout
    succeed(run("export", "empty", tmp_path / f"empty.{suffix}"))

    result = succeed(run("import", tmp_path / f"empty.{suffix}", "empty", "--replace"))

    assert "No row of empty differs" in result.output
    assert run("meta", "get", "empty", "schema.json").stdout == before


def test_a_geometry_column_of_a_csv_may_be_empty(tmp_path: Path, run: Run) -> None:
    frame(["a", "b"]).to_parquet(tmp_path / "places.parquet")
    succeed(run("import", tmp_path / "places.parquet", "--primary-key", "id"))
    release = tmp_path / "release.csv"
    release.write_text("id,name,geometry\n1,a,\n2,b,\n")

    succeed(run("import", release, "places", "--replace"))

    assert run("cat", "places", "-o", "csv").stdout.splitlines()[1:] == ["1,a,", "2,b,"]
    assert "EPSG:4326" in run("meta", "get", "places", "schema.json").stdout


TYPED = {
    "id": [1, 2, 3],
    "price": [Decimal("1.10"), None, Decimal("-123456789012345.99")],
    "opens": [datetime.time(8, 30), datetime.time(23, 59, 59, 123456), None],
    "raw": [b"\x00\xff", None, b"x"],
}


@pytest.mark.few(1)
@pytest.mark.parametrize("suffix", ["gpkg", "geojson"])
def test_what_export_writes_as_text_comes_back_as_it_was(
    tmp_path: Path, run: Run, suffix: str
) -> None:
    types = pa.schema(
        {
            "id": pa.int64(),
            "price": pa.decimal128(18, 2),
            "opens": pa.time64("us"),
            "raw": pa.binary(),
        }
    )
    pq.write_table(pa.table(TYPED, schema=types), tmp_path / "shops.parquet")
    succeed(run("import", tmp_path / "shops.parquet", "--primary-key", "id"))
    succeed(run("export", "shops", tmp_path / f"shops.{suffix}"))

    result = succeed(run("import", tmp_path / f"shops.{suffix}", "shops", "--replace"))

    assert "No row of shops differs" in result.output


def test_text_that_is_no_value_of_the_column_is_named(tmp_path: Path, run: Run) -> None:
    prices = pa.array([Decimal("1.10"), Decimal("2.20")], pa.decimal128(18, 2))
    pq.write_table(pa.table({"id": [1, 2], "price": prices}), tmp_path / "shops.parquet")
    succeed(run("import", tmp_path / "shops.parquet", "--primary-key", "id"))
    (tmp_path / "shops.geojson").write_text(
        '{"type": "FeatureCollection", "features": ['
        '{"type": "Feature", "properties": {"id": 1, "price": "1.10"}, "geometry": null},'
        '{"type": "Feature", "properties": {"id": 2, "price": "on request"}, "geometry": null}]}'
    )

    result = run("import", tmp_path / "shops.geojson", "shops", "--replace")

    assert result.exit_code == 28
    assert "row 2 has 'on request' in column 'price', which is decimal(18, 2) in" in result.output


@pytest.mark.few(1)
@pytest.mark.parametrize("suffix", ["gpkg", "geojson", "fgb"])
def test_decimal_numbers_come_back_from_floating_point_ones(
    tmp_path: Path, run: Run, suffix: str
) -> None:
    rates = pa.array(map(Decimal, ["0.10", "-9999999.99", "12345678.90"]), pa.decimal128(10, 2))
    whole = pa.array(map(Decimal, ["10", "2", "3"]), pa.decimal128(5, 1))
    source = gpd.GeoDataFrame(geometry=shapely.points([[1, 2], [3, 4], [5, 6]]), crs=4326)
    source.to_parquet(tmp_path / "places.parquet")
    table = pq.read_table(tmp_path / "places.parquet")
    table = table.append_column("id", pa.array([1, 2, 3])).append_column("rate", rates)
    pq.write_table(table.append_column("whole", whole), tmp_path / "places.parquet")
    succeed(run("import", tmp_path / "places.parquet", "--primary-key", "id"))
    succeed(run("export", "places", tmp_path / f"places.{suffix}"))

    result = succeed(run("import", tmp_path / f"places.{suffix}", "places", "--replace"))
    assert "No row of places differs" in result.output

    release = gpd.read_file(tmp_path / f"places.{suffix}")
    release.loc[1, "rate"] = 0.125
    release.to_file(tmp_path / f"next.{suffix}")
    result = run("import", tmp_path / f"next.{suffix}", "places", "--replace")
    assert result.exit_code == 28
    assert "row 2 has '0.125' in column 'rate', which is decimal(10, 2) in" in result.output


def test_a_release_without_rows_that_tells_of_no_columns(tmp_path: Path, run: Run) -> None:
    """What the hints name is done: a header stands for it, and a key may have another name."""
    frame(["a", "b"]).to_parquet(tmp_path / "places.parquet")
    succeed(run("import", tmp_path / "places.parquet", "--primary-key", "id"))
    empty = tmp_path / "none.geojson"
    empty.write_text('{"type": "FeatureCollection", "features": []}')
    renamed = tmp_path / "renamed.csv"
    renamed.write_text("code,name,geometry\n1,a,POINT (174 -41)\n")

    refused = run("import", empty, "places", "--replace")
    assert refused.exit_code == 23 and "a CSV file of a header alone" in refused.stderr
    refused = run("import", renamed, "places", "--replace")
    assert "--rename id=COLUMN" in refused.stderr
    succeed(run("import", renamed, "places", "--replace", "--rename", "id=code"))
    (tmp_path / "none.csv").write_text("code,name,geometry\n")
    result = succeed(run("import", tmp_path / "none.csv", "places", "--replace"))

    assert "1 delete into places" in result.output and "is dropped" not in result.stderr


def test_a_release_in_the_same_system_by_another_name_brings_no_other(
    tmp_path: Path, run: Run
) -> None:
    frame(["a", "b"]).to_parquet(tmp_path / "places.parquet")
    succeed(run("import", tmp_path / "places.parquet", "--primary-key", "id"))
    succeed(run("export", "places", tmp_path / "places.geojson"))  # which says OGC:CRS84

    result = succeed(run("import", tmp_path / "places.geojson", "places", "--replace"))

    assert "Nothing changed" in result.output
    assert "crs/" not in succeed(run("show", "--stat")).stdout.partition("crs/EPSG:4326.wkt")[2]


def test_a_definition_that_says_how_to_reach_wgs_84_stays(tmp_path: Path, run: Run) -> None:
    frame(["a", "b"]).to_crs(4167).to_file(tmp_path / "places.gpkg")
    succeed(run("import", tmp_path / "places.gpkg"))
    items = json.loads(run("meta", "get", "places", "-o", "json").stdout)["places"]
    plain = items["crs/EPSG:4167.wkt"]
    ellipsoid = 'AUTHORITY["EPSG","7019"]]'
    told = plain.replace(" ", "").replace("\n", "").replace("GRS1980", "GRS 1980")
    assert ellipsoid in told
    told = told.replace(ellipsoid, f"{ellipsoid},TOWGS84[0,0,0,0,0,0,0]")
    succeed(run("meta", "set", "places", f"crs/EPSG:4167.wkt={told}"))

    result = succeed(run("import", tmp_path / "places.gpkg", "places", "--replace"))

    assert "Nothing changed" in result.output
    assert "TOWGS84" in run("meta", "get", "places", "crs/EPSG:4167.wkt").stdout
