"""Coordinate reference systems out to every format and in again: the same system, none silently."""

import base64
import json
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pyarrow.parquet as pq
import pyproj
import pytest
import shapely

from havasu_vc.exchange.native_tables import _GeoArrowWkb
from havasu_vc.exchange.source import SourceOptions
from havasu_vc.geo.crs import same_crs
from havasu_vc.library.repository import Repo
from havasu_vc.model.types import Geometry
from havasu_vc.tables.table import read_table
from tests.repo.tables import rows
from tests.support.sound import CheckedRepo

pytestmark = pytest.mark.few(3)

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

OWN = pyproj.CRS("+proj=laea +lat_0=-12.5 +lon_0=-60.25 +x_0=7 +datum=WGS84 +units=m").to_wkt()
CHANGED = pyproj.CRS("EPSG:2193").to_wkt("WKT1_GDAL").replace("1600000", "1600001")
"""A definition that says to be EPSG:2193, and is another system."""
SYSTEMS = {
    "none": None,
    "crs84": "OGC:CRS84",
    "crs83": "OGC:CRS83",
    "4326": "EPSG:4326",
    "3857": "EPSG:3857",
    "5070": "EPSG:5070",
    "7844": "EPSG:7844",
    "esri": "ESRI:102001",
    "compound": "EPSG:5500",
    "own": OWN,
    "changed": CHANGED,
}
FORMATS = {
    "geoparquet": "out.parquet",
    "parquet": "out.parquet",
    "iceberg": "iceberg:out",
    "iceberg-v3": "iceberg:out",
    "delta": "delta:out",
    "gpkg": "out.gpkg",
    "flatgeobuf": "out.fgb",
    "shapefile": "out.shp",
}
NATIVE = ("parquet", "iceberg-v3", "delta")
POINTS = [shapely.to_wkb(shapely.Point(-60 - n, -12 + n / 4)) for n in range(3)]


def source(path: Path, crs: Any) -> Path:
    """Write points whose system GeoParquet describes."""
    geo = {
        "version": "1.1.0",
        "primary_column": "geom",
        "columns": {"geom": {"encoding": "WKB", "geometry_types": [], "crs": crs}},
    }
    table = pa.table({"id": pa.array([1, 2, 3], pa.int64()), "geom": pa.array(POINTS, pa.binary())})
    pq.write_table(table.replace_schema_metadata({"geo": json.dumps(geo)}), path)
    return path


def logical(path: Path, crs: str, **properties: str) -> Path:
    """Write points of Parquet's own type, which says its system in some words."""
    type_ = _GeoArrowWkb(json.dumps({"crs": crs} if crs else {}).encode())
    geometries = pa.ExtensionArray.from_storage(type_, pa.array(POINTS, pa.binary()))
    table = pa.table({"id": pa.array([1, 2, 3], pa.int64()), "geom": geometries})
    with pq.ParquetWriter(path, table.schema, store_schema=False) as writer:
        writer.write_table(table)
        if properties:
            writer.add_key_value_metadata(properties)
    return path


def geometry(repo: Repo, name: str) -> Geometry:
    (field,) = repo.dataset(name).schema.geometries
    assert field.geometry is not None
    return field.geometry


def definition(repo: Repo, name: str) -> str | None:
    identifier = geometry(repo, name).crs
    if identifier is None:
        return None
    return repo.dataset(name).header.crs.get(identifier, identifier)


def said(path: Path) -> str:
    """Return the system that the type of a file's geometries says."""
    metadata = pq.ParquetFile(path).schema
    columns = [metadata.column(n) for n in range(len(metadata))]
    (column,) = (each for each in columns if each.logical_type.type == "GEOMETRY")
    found: str = json.loads(column.logical_type.to_json()).get("crs", "")
    return found


@pytest.mark.parametrize("system", list(SYSTEMS))
@pytest.mark.few(1)
def test_a_system_comes_back(repo: CheckedRepo, tmp_path: Path, system: str) -> None:
    wanted = SYSTEMS[system]
    described = None if wanted is None else pyproj.CRS(wanted).to_json_dict()
    options = SourceOptions(primary_key=("id",))
    repo.repo.import_(source(tmp_path / "in.parquet", described), "given", options=options)
    before = definition(repo.repo, "given")
    given = [shapely.from_wkb(row["geom"]).wkt for row in rows(repo.repo, "given")]

    for number, (format, place) in enumerate(FORMATS.items()):
        kind, colon, name = place.rpartition(":")
        folder = tmp_path / format
        folder.mkdir()
        result = repo.repo.export("given", folder / name, format=format)
        back = f"d{number}"
        repo.repo.import_(f"{kind}{colon}{folder / name}", back, options=options)

        after = definition(repo.repo, back)
        if before is None or (system, format) == ("compound", "shapefile"):
            said_so = any("heights" in note for note in result.notes)
            assert after is None if before is None else said_so, format
            continue
        assert after is not None and same_crs(before, after), format
        assert system != "changed" or not same_crs(after, "EPSG:2193"), format
        renamed = system == "4326" and format in NATIVE
        if format in ("geoparquet", "iceberg", *NATIVE) and not renamed:
            assert geometry(repo.repo, back).crs == geometry(repo.repo, "given").crs, format
        if renamed and format != "parquet":
            assert any("EPSG:4326" in note and "OGC:CRS84" in note for note in result.notes)
        assert [shapely.from_wkb(row["geom"]).wkt for row in rows(repo.repo, back)] == given


@pytest.mark.parametrize("system", list(SYSTEMS))
def test_a_file_says_what_its_table_does(repo: CheckedRepo, tmp_path: Path, system: str) -> None:
    wanted = SYSTEMS[system]
    described = None if wanted is None else pyproj.CRS(wanted).to_json_dict()
    options = SourceOptions(primary_key=("id",))
    repo.repo.import_(source(tmp_path / "in.parquet", described), "given", options=options)

    repo.repo.export("given", tmp_path / "ice", format="iceberg-v3")
    repo.repo.export("given", tmp_path / "delta", format="delta")

    table = read_table(tmp_path / "ice")
    document = json.loads(table.metadata_file.read_text())
    type_ = next(f["type"] for f in document["schemas"][0]["fields"] if f["name"] == "geom")
    text = type_.removeprefix("geometry").strip("()")
    (file,) = (tmp_path / "ice" / "data").iterdir()
    assert said(file) == text
    if text.startswith("projjson:"):
        metadata = pq.read_metadata(file).metadata
        assert metadata[text[9:].encode()].decode() == document["properties"][text[9:]]
    (file,) = (tmp_path / "delta").glob("*.parquet")
    assert said(file) == text


@pytest.mark.parametrize(
    ("text", "identifier"),
    [
        ("", "OGC:CRS84"),
        ("srid:0", None),
        ("srid:5070", "EPSG:5070"),
        ("srid:4326", "EPSG:4326"),
        ("EPSG:3857", "EPSG:3857"),
        ("projjson:mine", "EPSG:5070"),
        (pyproj.CRS("EPSG:5070").to_json(), "EPSG:5070"),
    ],
)
def test_what_a_file_says_of_its_system_is_said_again(
    repo: CheckedRepo, tmp_path: Path, text: str, identifier: str | None
) -> None:
    mine = {"mine": pyproj.CRS("EPSG:5070").to_json()} if text == "projjson:mine" else {}
    file = logical(tmp_path / "in.parquet", text, **mine)
    repo.repo.import_(file, "given", options=SourceOptions(primary_key=("id",)))

    repo.repo.export("given", tmp_path / "out.parquet", format="parquet")

    assert geometry(repo.repo, "given").crs == identifier
    again = said(tmp_path / "out.parquet")
    if text in ("", "srid:0", "srid:5070", "srid:4326"):
        assert again == text
    else:
        assert pyproj.CRS(again) == pyproj.CRS(identifier)
    # Who reads the types of GeoArrow finds words that PROJ knows.
    metadata = pq.read_metadata(tmp_path / "out.parquet").metadata
    stored = base64.b64decode(metadata[b"ARROW:schema"])
    arrow = pa.ipc.read_schema(pa.BufferReader(stored))
    words = json.loads(arrow.field("geom").metadata[b"ARROW:extension:metadata"]).get("crs")
    assert words is None or same_crs(json.dumps(words), identifier or "")


def test_a_number_that_was_said_of_another_system_is_not_said_again(
    repo: CheckedRepo, tmp_path: Path
) -> None:
    file = logical(tmp_path / "in.parquet", "srid:5070")
    options = SourceOptions(primary_key=("id",), crs="EPSG:3857")
    repo.repo.import_(file, "given", options=options)

    repo.repo.export("given", tmp_path / "out.parquet", format="parquet")

    assert pyproj.CRS(said(tmp_path / "out.parquet")) == pyproj.CRS("EPSG:3857")


def test_linked_tables_without_a_system(repo: CheckedRepo, tmp_path: Path) -> None:
    repo.repo.import_(
        source(tmp_path / "in.parquet", None), "given", options=SourceOptions(primary_key=("id",))
    )
    repo.repo.export("given", tmp_path / "out", format="iceberg-v3")

    repo.repo.import_(f"iceberg:{tmp_path / 'out'}", "back", link=True)

    assert geometry(repo.repo, "back").crs is None


@pytest.mark.slow
@pytest.mark.parametrize("crs", ["OGC:CRS84", "EPSG:4326", "EPSG:3857"])
def test_spark_reads_the_systems_that_it_knows(
    repo: CheckedRepo,
    spark: "SparkSession",
    iceberg: Callable[[Path], str],
    tmp_path: Path,
    crs: str,
) -> None:
    options = SourceOptions(primary_key=("id",))
    described = pyproj.CRS(crs).to_json_dict()
    repo.repo.import_(source(tmp_path / "in.parquet", described), "given", options=options)
    catalog = iceberg(tmp_path / "warehouse")
    place = tmp_path / "warehouse" / "db" / "given"
    place.parent.mkdir(parents=True)
    repo.repo.export("given", place, format="iceberg-v3")
    spark.conf.set("spark.sql.geospatial.enabled", "true")
    try:
        table = spark.sql(f"SELECT ST_AsBinary(geom) g FROM {catalog}.db.given ORDER BY id")
        found = [bytes(row.g) for row in table.collect()]
    finally:
        spark.conf.unset("spark.sql.geospatial.enabled")

    assert found == POINTS
