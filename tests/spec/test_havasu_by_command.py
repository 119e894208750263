"""Havasu's rules of what outlives a command: SRIDs, properties of columns, files of rasters."""

from __future__ import annotations

import io
import json
import warnings
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
import rasterio
import shapely

from havasu_vc import Repo
from tests.cli.conftest import invoke
from tests.repo.test_rasters import raster, tiles
from tests.spec.commands import Commands
from tests.support.git import run_git
from tests.support.rasters import cells, write_image

POINTS = [shapely.Point(n, -n) for n in range(5)]
GEO = {
    "version": "1.0.0",
    "primary_column": "geom",
    "columns": {"geom": {"encoding": "WKB", "geometry_types": ["Point"]}},
}


def with_srids(srids: Sequence[int]) -> list[bytes]:
    return [
        shapely.to_wkb(shapely.set_srid(point, srid), include_srid=bool(srid), byte_order=1)
        for point, srid in zip(POINTS, srids, strict=True)
    ]


@pytest.mark.rule("HAV-16")
def test_an_srid_that_nobody_knows_stays_as_it_is(hv: Commands) -> None:
    given = with_srids([999_999, 0, 4326, 999_999, -1])
    hv.take(pa.table({"id": range(5), "geom": given, "name": list("abcde")}))
    hv("convert", "t", "--geometry", "geom=ewkb")

    def stored() -> list[bytes]:
        found = Repo.open(hv.path).table("t").to_arrow().sort_by("id")
        return list(found["geom"].to_pylist())

    hv("switch", "-c", "other")
    hv.write(id=[3], geom=[with_srids([0, 0, 0, 999_998, 0])[3]])
    shown = json.loads(hv("show", "-o", "json"))["kart.diff/v1+hexwkb"]["t"]["feature"]
    hv("switch", "main")
    hv.write(id=[0, 3], name=["A", "D"])
    hv("merge", "other")
    hv("optimize", "t")
    hv("checkout")

    given[3] = with_srids([0, 0, 0, 999_998, 0])[3]
    assert stored() == given
    # That the SRID alone is another is a change of the row.
    assert [(each["-"]["id"], each["+"]["id"]) for each in shown] == [(3, 3)]
    assert hv("status").endswith("working copy clean\n")
    assert hv("validate", "t") == "All data is valid\n"
    files = [pq.read_table(file) for file in (hv.table / "data").glob("*.parquet")]
    checked_out = pa.concat_tables(files).sort_by("id")
    assert checked_out["geom"].to_pylist() == given


def declared(schema: dict[str, Any]) -> dict[int, dict[str, str]]:
    """Return the Havasu properties of a schema's columns."""
    return {
        field["id"]: {name: said for name, said in field.items() if name.startswith("havasu.")}
        for field in schema["fields"]
    }


def of_manifest(path: Path) -> dict[str, bytes]:
    """Return what the header of an Avro file says: blocks of names and bytes."""
    file = io.BytesIO(path.read_bytes())
    assert file.read(4) == b"Obj\x01"

    def number() -> int:
        value = shift = 0
        while True:
            (byte,) = file.read(1)
            value |= (byte & 0x7F) << shift
            shift += 7
            if not byte & 0x80:
                return (value >> 1) ^ -(value & 1)

    found = {}
    while count := number():
        for _ in range(count):
            name = file.read(number()).decode()
            found[name] = file.read(number())
    return found


def full_table() -> pa.Table:
    """Return rows with a raster, a geometry in bytes that is said to be one, and one in text."""
    points = pa.array([shapely.to_wkb(point) for point in POINTS], pa.binary())
    texts = [shapely.to_wkt(point) for point in POINTS]
    table = tiles(5).append_column("geom", points).append_column("text", pa.array(texts))
    return table.replace_schema_metadata({"geo": json.dumps(GEO)})


SAID = {
    2: {"havasu.raster-encoding": "v1"},
    4: {"havasu.geometry-encoding": "ewkb"},
    5: {"havasu.geometry-encoding": "wkt"},
}


@pytest.mark.thorough
@pytest.mark.rule("HAV-84")
def test_each_change_of_a_table_keeps_what_is_said_of_its_columns(hv: Commands) -> None:
    hv.take(full_table())
    hv("convert", "t", "--geometry", "text=wkt")
    hv("checkout", "--flavour", "havasu")

    def kept() -> list[str]:
        """Check the newest schema and that of each manifest; return the columns."""
        metadata = hv.metadata
        now = next(
            each
            for each in metadata["schemas"]
            if each["schema-id"] == metadata["current-schema-id"]
        )
        assert {number: said for number, said in declared(now).items() if said} == SAID
        manifests = list((hv.table / "metadata").glob("*-m*.avro"))
        assert manifests
        for path in manifests:
            there = declared(json.loads(of_manifest(path)["schema"]))
            assert {number: said for number, said in there.items() if said} == SAID
        return [field["name"] for field in now["fields"]]

    assert kept() == ["id", "rast", "name", "geom", "text"]
    one, rast, name, geom, text = hv.columns()
    # Renamed and put elsewhere, one added.
    hv.set_columns(
        [
            *({**text, "name": "label"}, one, {**rast, "name": "photo"}, geom, name),
            {"name": "more", "dataType": "text"},
        ]
    )
    assert kept() == ["label", "id", "photo", "geom", "name", "more"]
    # Two branches that change columns, and rows.
    hv("switch", "-c", "other")
    hv.set_columns([each for each in hv.columns() if each["name"] != "more"])
    hv.write(id=[1], label=["POINT (9 9)"])
    hv("switch", "main")
    columns = hv.columns()
    hv.set_columns([{**each, "name": each["name"].replace("geom", "shape")} for each in columns])
    hv.write(id=[2], shape=[shapely.to_wkb(shapely.Point(7, 7))])
    hv("merge", "other")
    assert kept() == ["label", "id", "photo", "shape", "name"]
    hv("optimize", "t")
    hv("checkout", "--to", hv.path.with_name("again"), "--flavour", "havasu")
    assert kept() == ["label", "id", "photo", "shape", "name"]


@pytest.mark.rule("HAV-85")
def test_what_another_writer_dropped_of_columns_comes_back(hv: Commands) -> None:
    catalogs = pytest.importorskip("pyiceberg.catalog.memory")
    hv.take(full_table().drop_columns(["rast"]))
    hv("convert", "t", "--geometry", "text=wkt")
    hv("checkout", "--flavour", "iceberg")
    columns = hv.columns()
    said = declared(hv.metadata["schemas"][-1])
    assert {len(each) for each in said.values()} == {0, 1}
    folder = hv.table / "metadata"
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        catalog = catalogs.InMemoryCatalog("c", warehouse=str(hv.path.with_name("warehouse")))
        catalog.create_namespace("n")
        table = catalog.register_table("n.t", str(folder / "v1.metadata.json"))
        row = table.scan(row_filter="id = 3").to_arrow()
        row = row.set_column(0, row.schema.field(0), pa.array([9], pa.int64()))
        table.append(row)
        written = Path(table.metadata_location.removeprefix("file://"))
    # As a catalog of files has it, whose table this is.
    (folder / "v2.metadata.json").write_bytes(written.read_bytes())
    (folder / "version-hint.text").write_text("2")
    lost = hv.metadata
    assert "havasu.format-version" not in lost
    assert not any(declared(lost["schemas"][-1]).values())

    hv("commit", "-m", "A row by another writer")

    assert hv.columns() == columns
    found = Repo.open(hv.path).table("t")
    encodings = {f.name: f.geometry.encoding for f in found.schema.fields if f.geometry}
    assert encodings == {"geom": "ewkb", "text": "wkt"}
    assert found.to_arrow().sort_by("id")["id"].to_pylist() == [0, 1, 2, 3, 4, 9]
    again = hv.metadata
    assert again["havasu.format-version"] == "0.1.0"
    current = again["current-schema-id"]
    (now,) = [each for each in again["schemas"] if each["schema-id"] == current]
    assert declared(now) == said
    hv("checkout", "--to", hv.path.with_name("again"), "--dataset", "t")
    (other,) = hv.path.with_name("again").glob("metadata/v*.metadata.json")
    assert declared(json.loads(other.read_text())["schemas"][-1]) == said


def tile(url: str, **changes: Any) -> dict[str, Any]:
    """Return a raster of some cells of `write_image`'s first band."""
    found = raster(0, crs=rasterio.crs.CRS.from_epsg(2193).to_wkt(), width=7)
    band = {**found["band_1"], "data": None, "out_db_band_no": 0, "out_db_url": url}
    place = {
        "scale_x": 10.0,
        "scale_y": -10.0,
        "upperleft_x": 1_600_000 + 5 * 10 + 5.0,
        "upperleft_y": 5_400_000 - 3 * 10 - 5.0,
    }
    band |= {name: changes[name] for name in changes if name in band}
    place |= {name: changes[name] for name in changes if name in found["geo_reference"]}
    found |= {name: changes[name] for name in changes if name in found}
    return {**found, "geo_reference": found["geo_reference"] | place, "band_1": band}


SYSTEMS = {code: rasterio.crs.CRS.from_epsg(code).to_wkt() for code in (2193, 3857)}


@pytest.mark.rule("HAV-44", "HAV-45", "HAV-46", "HAV-47")
@pytest.mark.parametrize(
    ("changes", "cause"),
    [
        pytest.param({}, None, id="as the file"),
        pytest.param({"out_db_band_no": 1}, None, id="the last band"),
        pytest.param({"out_db_band_no": 2}, "a file that has 2", id="no such band"),
        pytest.param({"pixel_type": 3}, "pixels of uint8, not int8", id="signed"),
        pytest.param({"pixel_type": 6, "no_data": None}, "pixels of uint8, not", id="wide"),
        pytest.param({"crs_wkt": SYSTEMS[3857]}, "has the CRS NZGD2000", id="other system"),
        pytest.param({"crs_wkt": None}, "the raster has no CRS", id="no system"),
        pytest.param({"crs_wkt": "EPSG:2193"}, None, id="the system by its code"),
        pytest.param({"scale_x": 10.1}, "another size", id="wider cells"),
        pytest.param({"scale_y": -9.9}, "another size", id="lower cells"),
        pytest.param({"scale_y": 10.0}, "another size or direction", id="upwards"),
        pytest.param({"skew_x": 0.1}, "another size or direction", id="skewed in x"),
        pytest.param({"skew_y": 0.1}, "another size or direction", id="skewed in y"),
        pytest.param({"upperleft_x": 1_600_005.0}, None, id="cells further west"),
        pytest.param({"upperleft_x": 1_600_000.0}, "lie between", id="half a cell"),
        pytest.param({"upperleft_y": 5_400_005.0}, "beyond", id="beyond the edge"),
    ],
)
@pytest.mark.few(1)
def test_files_of_rasters_are_what_the_rasters_say(
    hv: Commands, tmp_path: Path, changes: dict[str, Any], cause: str | None
) -> None:
    file = write_image(tmp_path / "images" / "a.tif", cells(shape=(2, 20, 30)))
    rasters = [tile(file.as_uri()), None, tile(file.as_uri(), **changes)]
    types = tiles(1).schema.field("rast").type
    hv.take(pa.table({"id": range(3), "rast": pa.array(rasters, types)}))
    # Nothing is opened that the user's own settings do not allow.
    unseen = invoke(["-C", hv.path, "validate", "--no-warnings"])
    assert (unseen.exit_code, unseen.output) == (0, "All data is valid\n")
    run_git("config", "havasu.outdb.allow", file.parent.as_uri(), cwd=hv.path)

    found = invoke(["-C", hv.path, "validate", "-o", "json"])

    errors = json.loads(found.stdout)["havasu.validate/v1"]
    if cause is None:
        assert (found.exit_code, errors) == (0, [])
    else:
        (error,) = errors
        assert (found.exit_code, error["key"], error["column"]) == (1, {"id": 2}, "rast")
        assert cause in error["cause"]
        # And they are not shown as if they were.
        out = invoke(["-C", hv.path, "export", "t", "--to", "geotiff", tmp_path / "out"])
        assert out.exit_code != 0 and cause in out.output
