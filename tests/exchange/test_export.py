import csv
import json
import resource
import shutil
import sqlite3
from collections.abc import Iterator
from contextlib import closing, contextmanager
from pathlib import Path

import geopandas
import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pyogrio
import pytest
import shapely
from hypothesis import HealthCheck, given

from havasu_vc.errors import (
    CrsError,
    InvalidArgumentError,
    InvalidFileError,
    StorageError,
    UnsupportedTypeError,
)
from havasu_vc.exchange.export import Written, write_file
from havasu_vc.exchange.formats import EXPORT_EXTENSIONS, ExportFormat, GdalForm
from havasu_vc.model.evolution import to_source
from havasu_vc.model.types import Encoding, Geometry
from tests.exchange.reading import open_one, read_all
from tests.exchange.tables import (
    LONLAT,
    POINTS,
    batches_of,
    flat_table,
    header_from,
    points,
    rich_table,
    stored,
)
from tests.exchange.test_edit_copy import bits, tables
from tests.exchange.test_parquet import COLUMNS
from tests.support.examples import examples

FLAT, RICH = flat_table(), rich_table()
EXTENSIONS = sorted(EXPORT_EXTENSIONS)


def export(path: Path, table: pa.Table, *, geometry: Geometry | None = None,
           key: tuple[str, ...] = (), **how: object) -> Written:  # fmt: skip
    header, rows = stored(table, key=key, geometries={"geom": geometry} if geometry else None)
    return write_file(path, header, batches_of(rows), **how)  # type: ignore[arg-type]


@pytest.mark.parametrize("name", COLUMNS)
def test_parquet_gives_each_type_back(name: str, tmp_path: Path) -> None:
    header, rows = stored(pa.table({"v": COLUMNS[name]}))
    assert write_file(tmp_path / "a.parquet", header, batches_of(rows)).notes == ()
    source = open_one(tmp_path / "a.parquet")
    assert source.schema == header.schema
    assert read_all(source).equals(rows)
    first = COLUMNS[name].type
    if name not in ("list", "struct", "map", "deep"):  # names of parts are ours
        assert pq.read_table(tmp_path / "a.parquet").schema.field("v").type == first


@examples(50, suppress_health_check=[HealthCheck.too_slow])
@given(table=tables())
@pytest.mark.thorough
def test_import_of_an_export_is_the_same_table(
    tmp_path_factory: pytest.TempPathFactory, table: pa.Table
) -> None:
    geometries = {"point": Geometry(Encoding.EWKB, "EPSG:2193")}
    header, rows = stored(table, key=("id",), geometries=geometries)
    path = tmp_path_factory.getbasetemp() / "property.parquet"
    write_file(path, header, batches_of(rows), overwrite=True)
    source = open_one(path, primary_key=("id",))
    assert source.schema.names == header.schema.names
    assert [field.type for field in source.schema.fields] == [
        field.type for field in header.schema.fields
    ]
    assert list(source.crs) == ["EPSG:2193"]
    assert bits(read_all(source)) == bits(rows)


@pytest.mark.parametrize("extension", [".geoparquet", ".parquet"])
def test_geopandas_reads_our_geoparquet(extension: str, tmp_path: Path) -> None:
    path = tmp_path / f"a{extension}"
    export(path, FLAT, geometry=POINTS)

    data = geopandas.read_parquet(path)

    assert data.crs.to_epsg() == 2193
    assert list(shapely.get_x(data.geometry)) == [1.0, 3.5, 5.0]
    geo = json.loads(pq.read_metadata(path).metadata[b"geo"])
    assert geo["version"] == "1.1.0" and geo["primary_column"] == "geom"
    column = geo["columns"]["geom"]
    assert (column["encoding"], column["geometry_types"]) == ("WKB", ["Point"])
    assert column["bbox"] == [1.0, -4.25, 5.0, 6.0]


def test_duckdb_reads_our_parquet(tmp_path: Path) -> None:
    duckdb = pytest.importorskip("duckdb")
    path = tmp_path / "a.parquet"
    export(path, FLAT)
    rows = duckdb.sql(f"SELECT id, name, small FROM '{path}' ORDER BY id").fetchall()
    assert rows == [(10, "Te Mātā", 1), (20, None, None), (30, FLAT["name"][2].as_py(), -3)]


def test_plain_parquet_has_logical_types(tmp_path: Path) -> None:
    path = tmp_path / "a.parquet"
    export(path, FLAT, geometry=POINTS, format=ExportFormat.PARQUET)
    file = pq.ParquetFile(path)
    assert b"geo" not in (file.metadata.metadata or {})
    assert file.schema.column(1).logical_type.type == "GEOMETRY"
    source = open_one(path)
    assert list(source.crs) == ["EPSG:2193"]
    assert read_all(source).column("geom").to_pylist() == FLAT.column("geom").to_pylist()


def test_what_others_made_goes_out_as_it_came(shared_data: Path, tmp_path: Path) -> None:
    for path in sorted(shared_data.glob("*/*.parquet")):
        source = open_one(path)
        rows = read_all(source)
        write_file(tmp_path / path.name, header_from(source), batches_of(rows))
        again = open_one(tmp_path / path.name)
        assert again.crs == source.crs
        assert bits(read_all(again)) == bits(rows), path.name


def test_row_groups_are_large(tmp_path: Path) -> None:
    header, rows = stored(pa.table({"n": range(100_000)}))
    write_file(tmp_path / "a.parquet", header, batches_of(rows, 1000))
    groups = pq.read_metadata(tmp_path / "a.parquet")
    assert [groups.row_group(i).num_rows for i in range(groups.num_row_groups)] == [65_000, 35_000]


KEPT = {
    ".gpkg": "id name small number large single double flag day moment zoned",
    ".shp": "id name small number large flag day",
    ".fgb": "id name small number large single double flag moment zoned",
    ".geojson": "id name small number large double flag day time moment zoned",
    ".geojsonl": "id name small number large double flag day time moment zoned",
    ".csv": "id geom name small number large single double flag day time moment zoned",
}


@pytest.mark.parametrize("extension", KEPT)
def test_what_each_format_keeps(extension: str, tmp_path: Path) -> None:
    path = tmp_path / f"a{extension}"
    header, rows = stored(FLAT, key=("id",), geometries={"geom": LONLAT})
    written = write_file(path, header, batches_of(rows))
    assert written.rows == 3

    source = open_one(path)
    back = read_all(source).sort_by("id")

    for name in KEPT[extension].split():
        assert back.column(name).to_pylist() == rows.column(name).to_pylist(), name
    assert back.column("geom").to_pylist() == rows.column("geom").to_pylist()
    if extension == ".gpkg":
        assert source.schema.key.names == ("id",)
        assert source.schema.by_name["moment"].type == header.schema.by_name["moment"].type
    noted = {line.split("'")[1] for line in written.notes}
    lost = {name for name in header.schema.names if name not in KEPT[extension].split()}
    unsaid = {"geom", *(["single", "time"] if "json" in extension else [])}
    assert noted | unsaid >= lost


@pytest.mark.parametrize("extension", EXTENSIONS)
def test_pyogrio_or_pandas_read_it(extension: str, tmp_path: Path) -> None:
    path = tmp_path / f"a{extension}"
    export(path, FLAT, geometry=LONLAT)
    if extension in (".csv", ".tsv"):
        with path.open(encoding="utf-8", newline="") as text:
            rows = list(csv.reader(text, delimiter="\t" if extension == ".tsv" else ","))
        assert rows[0] == FLAT.column_names and len(rows) == 4
        assert rows[1][1] == "POINT (1 2)"
    elif "parquet" in extension:
        assert len(geopandas.read_parquet(path)) == 3
    else:
        data = pyogrio.read_dataframe(path)
        assert list(shapely.get_y(data.geometry)) == [2.0, -4.25, 6.0]


def test_geojson_is_in_degrees_unless_told(tmp_path: Path) -> None:
    table = pa.table({"geom": points((1_750_000.0, 5_950_000.0))})
    export(tmp_path / "a.geojson", table, geometry=POINTS)
    export(tmp_path / "b.geojson", table, geometry=POINTS, crs="EPSG:2193")
    (degrees,) = json.loads((tmp_path / "a.geojson").read_text())["features"]
    x, y = degrees["geometry"]["coordinates"]
    assert 174 < x < 175 and -37 < y < -36
    metres = json.loads((tmp_path / "b.geojson").read_text())
    assert metres["features"][0]["geometry"]["coordinates"] == [1_750_000.0, 5_950_000.0]
    assert "2193" in json.dumps(metres["crs"])


def test_geojson_says_what_becomes_of_a_system(tmp_path: Path) -> None:
    table = pa.table({"geom": points((1_750_000.0, 5_950_000.0))})
    for extension in (".geojson", ".geojsonl"):
        (note,) = export(tmp_path / f"a{extension}", table, geometry=POINTS).notes
        assert "transformed from EPSG:2193 to longitudes and latitudes" in note
        again = export(tmp_path / f"b{extension}", table, geometry=POINTS, crs="EPSG:4326")
        assert again.notes == ()
    with pytest.raises(InvalidArgumentError, match="by lines is in longitudes"):
        export(tmp_path / "c.geojsonl", table, geometry=POINTS, crs="EPSG:3857")
    unnamed = "+proj=tmerc +lat_0=1 +lon_0=170 +ellps=bessel"
    (note,) = export(tmp_path / "c.geojson", table, geometry=POINTS, crs=unnamed).notes
    assert "has no code" in note


@pytest.mark.parametrize("extension", [".geojson", ".geojsonl"])
def test_dates_of_any_year_are_text_in_geojson(extension: str, tmp_path: Path) -> None:
    days = pa.array([0, 3_000_000, None, -800_000], pa.date32())
    export(tmp_path / f"a{extension}", pa.table({"d": days}))
    text = (tmp_path / f"a{extension}").read_text()
    assert [each in text for each in ('"1970-01-01"', '"10183-09-21"', '"-0221-09-04"')] == [
        True
    ] * 3


def test_what_a_shapefile_reads_otherwise_is_noted(tmp_path: Path) -> None:
    table = pa.table(
        {
            "geom": points(*[(1.0, 2.0)] * 3),
            "kept": ["a", None, "b c"],
            "blank": ["a", None, "b "],
            "empty": ["a", None, ""],
            "long": [1, None, -(10**17)],
        }
    )
    written = export(tmp_path / "a.shp", table, geometry=LONLAT)
    assert [line.split("'")[1] for line in written.notes] == ["blank", "empty", "long"]


def test_an_unknown_system_cannot_be_transformed(tmp_path: Path) -> None:
    table = pa.table({"geom": points((1.0, 2.0))})
    with pytest.raises(CrsError):
        export(tmp_path / "a.gpkg", table, geometry=Geometry(), crs="EPSG:2193")
    written = export(tmp_path / "a.geojson", table, geometry=Geometry())
    assert "no coordinate reference system" in written.notes[0]
    export(tmp_path / "b.gpkg", table, geometry=Geometry())
    assert open_one(tmp_path / "b.gpkg").crs == {}


@pytest.mark.parametrize("dimensions", ["Z", "M", "ZM"])
@pytest.mark.parametrize("extension", [".parquet", ".gpkg", ".fgb", ".csv", ".shp"])
def test_z_and_m(dimensions: str, extension: str, tmp_path: Path) -> None:
    numbers = "1 2 3" + " 4" * (len(dimensions) - 1)
    shape = shapely.from_wkt(f"POINT {dimensions} ({numbers})")
    table = pa.table({"a": [1, 2], "geom": pa.array([shapely.to_wkb(shape), None], pa.binary())})
    given = Geometry(Encoding.EWKB, "EPSG:2193", f"POINT {dimensions}")
    export(tmp_path / f"a{extension}", table, geometry=given)
    back = read_all(open_one(tmp_path / f"a{extension}", geometry_encoding=Encoding.WKT))
    first, none = back.column("geom").to_pylist()
    said = shapely.to_wkt(shapely.from_wkt(first))
    # A shapefile of Z has room for M.
    allowed = {shapely.to_wkt(shape)}
    assert none is None and said in allowed


def test_other_columns_of_geometries(tmp_path: Path) -> None:
    table = pa.table({"geom": points((1.0, 2.0)), "other": points((3.0, 4.0))})
    header, rows = stored(table, geometries={"geom": LONLAT, "other": LONLAT})
    written = write_file(tmp_path / "a.gpkg", header, batches_of(rows))
    assert "'other' becomes WKT" in written.notes[0]
    assert read_all(open_one(tmp_path / "a.gpkg")).column("other").to_pylist() == ["POINT (3 4)"]
    write_file(tmp_path / "a.parquet", header, batches_of(rows))
    assert len(open_one(tmp_path / "a.parquet").schema.geometries) == 2


REFUSED = [
    (".shp", pa.array([[1]]), "has no list"),
    (".shp", pa.array([b"x"]), "has no bytes"),
    (".shp", pa.array(["x" * 255]), "254 bytes"),
    (".shp", pa.array([10**18]), "18 digits"),
    (".shp", pa.array([-1.1e23]), "23 digits before the point"),
    (".shp", pa.array([-719_163], pa.date32()), "years from 1 to 9999"),
    (".gpkg", pa.array([2_932_897], pa.date32()), "years from 1 to 9999"),
    (".fgb", pa.array([-(10**17)], pa.timestamp("us")), "years from 1 to 9999"),
    (".gpkg", pa.array(["a\0b"]), "NUL"),
    (".geojson", pa.array(["a\0b"]), "NUL"),
    (".csv", pa.array(["a\0b"]), "NUL"),
]


@pytest.mark.parametrize(("extension", "column", "reason"), REFUSED)
def test_what_a_format_cannot_hold_is_refused_by_name(
    extension: str, column: pa.Array, reason: str, tmp_path: Path
) -> None:
    table = pa.table({"geom": points((1.0, 2.0)), "bad": column})
    with pytest.raises(UnsupportedTypeError, match=reason) as caught:
        export(tmp_path / f"a{extension}", table, geometry=LONLAT)
    assert caught.value.column == "bad" and caught.value.hints
    assert list(tmp_path.iterdir()) == []


def test_names_that_a_format_cannot_hold(tmp_path: Path) -> None:
    names = ["population_total", "population_rural", "ngā_tāngata_katoa"]
    table = pa.table({"geom": points((1.0, 2.0)), **{name: [1] for name in names}})
    written = export(tmp_path / "a.shp", table, geometry=LONLAT)
    assert len(written.notes) == 3
    assert "'population_total' is called 'population'" in written.notes[0]
    assert len(set(open_one(tmp_path / "a.shp").schema.names)) == 4
    alike = pa.table({"geom": points((1.0, 2.0)), "Name": [1], "name": [2]})
    for extension in (".gpkg", ".geojson", ".geojsonl", ".fgb"):
        with pytest.raises(UnsupportedTypeError, match="does not tell"):
            export(tmp_path / f"b{extension}", alike, geometry=LONLAT)


def test_rich_types_are_noted(tmp_path: Path) -> None:
    written = export(tmp_path / "a.gpkg", RICH)
    assert {line.split("'")[1] for line in written.notes} == {
        "uint64", "decimal", "short", "list", "struct",
    }  # fmt: skip
    first = pyogrio.read_dataframe(tmp_path / "a.gpkg").iloc[0]
    assert first["uint64"] == "18446744073709551615"
    assert first["uuid"] == "00010203-0405-0607-0809-0a0b0c0d0e0f"


def test_a_file_is_replaced_only_when_told(tmp_path: Path) -> None:
    path = tmp_path / "a.shp"
    export(path, FLAT, geometry=LONLAT)
    (tmp_path / "a.qix").touch()
    before = {part.name: part.read_bytes() for part in tmp_path.iterdir()}
    with pytest.raises(InvalidArgumentError, match="there already") as caught:
        export(path, FLAT, geometry=LONLAT)
    assert "--overwrite" in caught.value.hints[0]
    assert {part.name: part.read_bytes() for part in tmp_path.iterdir()} == before
    export(path, FLAT.slice(1), geometry=LONLAT, overwrite=True)
    assert open_one(path).rows == 2
    assert not (tmp_path / "a.qix").exists()


@pytest.mark.parametrize("extension", [".parquet", ".gpkg", ".geojson", ".fgb", ".csv"])
def test_an_export_that_fails_leaves_what_was_there(extension: str, tmp_path: Path) -> None:
    path = tmp_path / f"a{extension}"
    path.write_bytes(b"before")
    header, rows = stored(FLAT, geometries={"geom": LONLAT})

    def broken() -> Iterator[pa.RecordBatch]:
        yield from batches_of(rows)
        raise InvalidFileError("x", "broken on the way")

    with pytest.raises(InvalidFileError, match="broken on the way"):
        write_file(path, header, broken(), overwrite=True)
    assert [part.name for part in tmp_path.iterdir()] == [path.name]
    assert path.read_bytes() == b"before"


@pytest.mark.parametrize("extension", [".parquet", ".gpkg", ".geojson", ".fgb", ".csv"])
@pytest.mark.few(2)
def test_rows_are_taken_as_they_are_written(extension: str, tmp_path: Path) -> None:
    """What is held back at any time is small: the file grows while rows are still to come."""
    header, rows = stored(
        pa.table({"n": range(20_000), "geom": points(*[(1.0, 2.0)] * 20_000)}),
        geometries={"geom": LONLAT},
    )
    sizes = []

    def watched() -> Iterator[pa.RecordBatch]:
        for _ in range(10):
            for batch in rows.to_batches():
                sizes.append(sum(part.stat().st_size for part in tmp_path.glob(".a*/*")))
                yield batch

    assert write_file(tmp_path / f"a{extension}", header, watched()).rows == 200_000
    assert sizes[-1] > sizes[0] >= 0 and sizes[-1] > 20_000


def test_no_rows_and_no_place(tmp_path: Path) -> None:
    header, rows = stored(FLAT.slice(0, 0), geometries={"geom": LONLAT})
    for extension in KEPT:
        path = tmp_path / f"a{extension}"
        assert write_file(path, header, iter(())).rows == 0
        if "json" not in extension:
            assert "name" in open_one(path).schema.names
    with pytest.raises(StorageError):
        write_file(tmp_path / "no folder" / "a.gpkg", header, batches_of(rows))
    with pytest.raises(InvalidArgumentError, match="does not say"):
        write_file(tmp_path / "a.xyz", header, batches_of(rows))


@contextmanager
def full_after(size: int) -> Iterator[None]:
    """Let no file grow beyond a size, as a full disk does."""
    before = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (size, before[1]))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, before)


@pytest.mark.parametrize("extension", [".fgb", ".geojson", ".geojsonl", ".shp"])
def test_a_file_that_has_no_room_is_not_there(extension: str, tmp_path: Path) -> None:
    table = pa.table({"n": range(500), "geom": points(*[(1.0, 2.0)] * 500)})
    whole, cut = tmp_path / f"a{extension}", tmp_path / f"b{extension}"
    export(whole, table, geometry=LONLAT)
    parts = {part.name for part in tmp_path.iterdir()}
    for missing in (1, 5_000):
        with full_after(whole.stat().st_size - missing), pytest.raises(StorageError):
            export(cut, table, geometry=LONLAT)
        assert {part.name for part in tmp_path.iterdir()} == parts


def test_rows_too_long_for_a_shapefile_are_refused(tmp_path: Path) -> None:
    wide = {f"c{number}": ["x" * 250] for number in range(270)}
    table = pa.table({"geom": points((1.0, 2.0)), **wide})
    with pytest.raises(InvalidArgumentError, match="65,535 bytes at most"):
        export(tmp_path / "a.shp", table, geometry=LONLAT)
    assert list(tmp_path.iterdir()) == []
    few = table.select(table.column_names[:250])
    assert export(tmp_path / "a.shp", few, geometry=LONLAT).rows == 1


def test_a_full_disk_is_told_as_one(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    table = pa.table({"n": range(500), "geom": points(*[(1.0, 2.0)] * 500)})
    usage = shutil.disk_usage(tmp_path)._replace(free=0)
    monkeypatch.setattr(shutil, "disk_usage", lambda _: usage)
    with full_after(1_000), pytest.raises(StorageError, match="the disk is full"):
        export(tmp_path / "a.geojson", table, geometry=LONLAT)


@pytest.mark.parametrize("form", [ExportFormat.FLATGEOBUF, ExportFormat.CSV])
def test_a_file_of_gdal_may_have_any_name(form: ExportFormat, tmp_path: Path) -> None:
    header, rows = stored(FLAT, geometries={"geom": LONLAT})
    gdal = GdalForm(layer_options={"SEPARATOR": "TAB"} if form is ExportFormat.CSV else {})
    write_file(tmp_path / "a.tsv", header, batches_of(rows), format=form, gdal=gdal)
    assert [part.is_file() for part in tmp_path.iterdir()] == [True]


def test_title_and_description_reach_a_geopackage(tmp_path: Path) -> None:
    header, rows = stored(FLAT, geometries={"geom": LONLAT})
    meta = {**header.meta, "title": "Hills", "description": "of the north"}
    named = type(header)(header.path, header.kind, header.schema, meta)
    write_file(tmp_path / "a.gpkg", named, batches_of(rows))
    source = open_one(tmp_path / "a.gpkg")
    assert (source.title, source.description) == ("Hills", "of the north")


def test_times_before_1970_are_never_changed_unsaid(tmp_path: Path) -> None:
    table = pa.table({"t": pa.array([-1, -999_001, -60_000_000], pa.timestamp("us", tz="UTC"))})
    written = export(tmp_path / "a.gpkg", table)
    assert "'t'" in written.notes[0]
    with closing(sqlite3.connect(tmp_path / "a.gpkg")) as database:
        values = database.execute("SELECT t FROM a").fetchall()
    assert [value for (value,) in values] == [
        "1970-01-01T00:00:00Z", "1969-12-31T23:59:59Z", "1969-12-31T23:59:00Z",
    ]  # fmt: skip


def test_source_types_go_back(tmp_path: Path) -> None:
    header, rows = stored(pa.table({"u": pa.array([1, 255], pa.uint8())}))
    (batch,) = rows.to_batches()
    assert to_source(batch, header.schema).column(0).type == pa.uint8()
    assert np.asarray(rows.column("u")).dtype == np.int32
