"""Rules of shapes, rasters, footers and schemas, in what commands write, refuse and answer."""

from __future__ import annotations

import json
import random
import struct
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import deltalake
import geopandas
import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pyproj
import pytest
import rasterio
import shapely
from pyiceberg.table import StaticTable

from havasu_vc import Repo
from havasu_vc.errors import HavasuError
from tests.cli.conftest import invoke
from tests.repo.test_rasters import raster, tiles
from tests.spec.commands import Commands
from tests.spec.test_checkouts_by_command import (
    avro,
    bounds,
    checked_out,
    entries,
    local,
    manifests,
)
from tests.spec.test_globe_by_command import actions
from tests.spec.test_havasu_by_command import GEO, with_srids
from tests.spec.test_native_types_by_command import points
from tests.spec.test_rasters_by_command import image, imported
from tests.support.git import run_git
from tests.support.rasters import cells, write_image


def refused(hv: Commands, words: str, *arguments: str | Path) -> str:
    """Have a command refused in one line; return what it said."""
    before = run_git("for-each-ref", cwd=hv.path)
    done = invoke(["-C", hv.path, *arguments])
    assert done.exit_code not in (0, 1), done.output
    assert words in done.output, done.output
    assert "Traceback" not in done.output and "internal error" not in done.output
    assert run_git("for-each-ref", cwd=hv.path) == before
    return done.output


def files(hv: Commands, flavour: str = "havasu") -> list[Path]:
    """Return the data files of the dataset as it is checked out."""
    found = [each["data_file"] for each in entries(checked_out(hv, flavour))]
    return [local(each["file_path"]) for each in found if each["content"] == 0]


def footer(file: Path) -> dict[str, Any] | None:
    text = (pq.read_metadata(file).metadata or {}).get(b"geo")
    return None if text is None else dict(json.loads(text))


# Shapes

CURVES = {
    "CircularString": "010800000003000000" + struct.pack("<6d", 0, 0, 1, 1, 2, 0).hex(),
    "CurvePolygon": "010a000000" + "00000000",
    "TIN": "011000000000000000",
}


@pytest.mark.rule("HAV-24")
@pytest.mark.parametrize("name", CURVES)
@pytest.mark.few(1)
def test_shapes_beyond_the_seven_stay_as_they_are(hv: Commands, tmp_path: Path, name: str) -> None:
    points(hv, ["POINT (1 2)", "POINT (3 4)"])
    curve = bytes.fromhex(CURVES[name])
    hv.write(id=[2], geom=[curve])
    assert Repo.open(hv.path).table("t").to_arrow().sort_by("id")["geom"].to_pylist()[1] == curve
    assert "0 errors, 1 warning" in hv("validate", "t")
    # A box that leaves an arc out would hide the row.
    for each in entries(checked_out(hv)):
        if each["data_file"]["content"] == 0 and name == "CircularString":
            low = bounds(each["data_file"])["geom_lower_bounds"]
            assert all(struct.unpack("<dd", value[5:])[0] <= 3 for value in low.values())
    hv("export", "t", "--to", "gpkg", tmp_path / "t.gpkg")
    hv("import", tmp_path / "t.gpkg", "back", "--primary-key", "id")
    back = Repo.open(hv.path).table("back").to_arrow().sort_by("id")["geom"].to_pylist()
    assert back[1] == curve
    refused(hv, "wkt", "convert", "t", "--geometry", "geom=wkt")


BY_ID = ("--primary-key", "id", "--geometry-encoding")


@pytest.mark.rule("HAV-98")
@pytest.mark.parametrize("encoding", ["wkb", "wkt", "geojson"])
@pytest.mark.few(1)
def test_only_ewkb_holds_srids(hv: Commands, tmp_path: Path, encoding: str) -> None:
    given = with_srids([0, 3857, 0, 0, 0])
    hv.take(
        pa.table({"id": range(5), "geom": given}).replace_schema_metadata({"geo": json.dumps(GEO)})
    )
    said = refused(hv, "SRID 3857", "import", tmp_path / "t.parquet", "u", *BY_ID, encoding)
    assert "row 1" in said and "Hint" in said
    if encoding == "wkb":
        assert "Hint" in refused(hv, "some are EWKB", "convert", "t", "--geometry", "geom=wkb")


@pytest.mark.rule("PQ-5")
def test_a_geography_is_on_the_globe(hv: Commands, tmp_path: Path) -> None:
    shapes = [shapely.to_wkb(shapely.Point(x, 0)) for x in (1, 181)]
    for edges in ("planar", "spherical"):
        column = {"encoding": "WKB", "geometry_types": [], "edges": edges}
        geo = {"version": "1.0.0", "primary_column": "geom", "columns": {"geom": column}}
        table = pa.table({"id": [1, 2], "geom": pa.array(shapes, pa.binary())})
        pq.write_table(
            table.replace_schema_metadata({"geo": json.dumps(geo)}), tmp_path / "out.parquet"
        )
        hv("import", tmp_path / "out.parquet", edges, "--primary-key", "id")

    assert hv("validate", "planar", "--no-warnings") == "All data is valid\n"
    wrong = invoke(["-C", hv.path, "validate", "spherical"])
    assert wrong.exit_code == 1 and "not on the globe" in wrong.output


# Predicates that leave files out

SHAPES = {
    "points": "POINT ({x} {y})",
    "lines": "LINESTRING ({x} {y}, {u} {y})",
    "boxes": "POLYGON (({x} {y}, {u} {y}, {u} {v}, {x} {v}, {x} {y}))",
}
WINDOWS = [
    (0, 0, 10, 10),
    (20, 20, 60, 25),
    (40, 40, 41, 41),
    (-5, -5, -1, -1),
    (99, 99, 100, 100),
]


@pytest.mark.rule("HAV-70f", "HAV-70g", "HAV-70j")
@pytest.mark.parametrize("kind", SHAPES)
def test_each_row_that_a_predicate_wants_is_found(hv: Commands, kind: str) -> None:
    """Rows lie in many files, some of which hold one point or one level line alone."""
    draw = random.Random(kind)
    wkt = []
    for number in range(60):
        x, y = draw.randrange(100), draw.randrange(100)
        numbers = {"x": x, "y": y, "u": x + draw.randrange(1, 30), "v": y + draw.randrange(1, 30)}
        wkt.append(SHAPES[kind].format(**numbers))
        if number in (9, 19, 29, 39, 49):
            if number == 9:
                points(hv, wkt)
            else:
                shapes = [shapely.to_wkb(shapely.from_wkt(each)) for each in wkt[number - 9 :]]
                hv.write(id=range(number - 8, number + 2), geom=shapes)
    # One row in a file of its own.
    hv.write(id=[51], geom=[shapely.to_wkb(shapely.from_wkt(wkt[50]))])
    rows = dict(enumerate((shapely.from_wkt(each) for each in wkt[:51]), 1))

    for window in WINDOWS:
        box = shapely.box(*window)
        for sql, wanted in {
            f"ST_Within(geom, ST_GeomFromText('{box.wkt}'))": box.contains,
            f"ST_Contains(geom, ST_GeomFromText('{box.wkt}'))": box.within,
            f"ST_Intersects(geom, ST_GeomFromText('{box.wkt}'))": box.intersects,
        }.items():
            said = hv("sql", f"SELECT id FROM t WHERE {sql} ORDER BY id", "-o", "json")
            found = [row["id"] for row in json.loads(said)]
            assert found == [key for key, shape in rows.items() if wanted(shape)], (sql, window)
    asked = rows[51]
    sql = f"SELECT id FROM t WHERE ST_Contains(geom, ST_GeomFromText('{asked.centroid.wkt}'))"
    found = [row["id"] for row in json.loads(hv("sql", sql, "-o", "json"))]
    assert sorted(found) == [key for key, shape in rows.items() if shape.contains(asked.centroid)]


# Footers of GeoParquet


@pytest.mark.rule("HAV-99", "HAV-100a")
@pytest.mark.parametrize("encoding", ["ewkb", "wkb", "wkt"])
@pytest.mark.few(1)
def test_geopandas_opens_the_files_of_a_dataset(hv: Commands, encoding: str) -> None:
    points(hv, ["POINT (1 2)", None], "EPSG:4326", "--geometry-encoding", encoding)
    (file,) = files(hv)
    if encoding == "wkt":
        assert footer(file) is None
        return
    said = footer(file)
    assert said is not None and said["version"] == "1.0.0" and list(said["columns"]) == ["geom"]
    assert said["columns"]["geom"]["encoding"] == "WKB"
    read = geopandas.read_parquet(file)
    assert list(read.geometry) == [shapely.Point(1, 2), None]


@pytest.mark.rule("HAV-100")
@pytest.mark.parametrize(
    "odd",
    [
        shapely.to_wkb(shapely.set_srid(shapely.Point(1, 2), 4326), include_srid=True),
        shapely.to_wkb(shapely.Point(1, 2, 3), flavor="extended"),
    ],
)
def test_a_value_that_is_not_plain_leaves_the_footer_out(hv: Commands, odd: bytes) -> None:
    points(hv, ["POINT (1 2)"])
    hv("convert", "t", "--geometry", "geom=ewkb")
    assert all(footer(file) is not None for file in files(hv))
    hv.write(id=[2], geom=[odd])

    held = {file: pq.read_table(file)["geom"].to_pylist() for file in files(hv)}
    assert any(odd in values for values in held.values())
    for file, values in held.items():
        assert (footer(file) is None) == (odd in values)


@pytest.mark.rule("HAV-100b")
def test_a_geometry_in_a_struct_is_in_no_footer(hv: Commands, tmp_path: Path) -> None:
    from tests.spec.test_hand_made_tables_by_command import nested
    from tests.spec.test_tables_of_others_by_command import edited, table

    kind = pa.struct([("g", pa.binary())])
    given = pa.array([{"g": shapely.to_wkb(shapely.Point(1, 2))}], kind)
    made = table(tmp_path, pa.table({"id": [1], "s": given}))
    hv("import", f"iceberg:{edited(made, nested)}", "t", "--primary-key", "id")
    (file,) = files(hv)
    assert pq.read_table(file)["s"].to_pylist() == given.to_pylist()
    assert footer(file) is None


# Rasters


def band(kind: int, **more: Any) -> dict[str, Any]:
    empty = {"no_data": None, "data": None, "out_db_band_no": None, "out_db_url": None}
    return {"pixel_type": kind, **empty, **more}


@pytest.mark.rule("HAV-31")
def test_bands_share_their_shape_and_in_an_image_their_type(hv: Commands, tmp_path: Path) -> None:
    """A table keeps bands of several types, since each says its own; no image is made of them."""
    kind = tiles(1).schema.field("rast").type

    def table(other: Any) -> Path:
        mixed = {**raster(7, bands=2), "band_1": band(4, data=bytes(6)), "band_2": other}
        rows = pa.table({"id": [1], "rast": pa.array([mixed], kind)})
        pq.write_table(rows, tmp_path / "mixed.parquet")
        return tmp_path / "mixed.parquet"

    few = ("import", table(band(4, data=bytes(5))), "t", "--primary-key", "id")
    refused(hv, "band 2 has 5 bytes", *few)
    hv("import", table(band(5, data=bytes(12))), "t", "--primary-key", "id")
    (stored,) = pq.read_table(files(hv)[0])["rast"].to_pylist()
    assert [stored[f"band_{n}"]["pixel_type"] for n in (1, 2)] == [4, 5]
    refused(hv, "type", "export", "t", "--to", "geotiff", tmp_path / "out")
    assert not (tmp_path / "out").exists()


@pytest.mark.rule("HAV-39", "HAV-40", "HAV-41")
def test_bands_may_stand_here_and_in_several_files(hv: Commands, tmp_path: Path) -> None:
    """They are kept and told; who has not allowed the files does not have them opened."""
    one, two = (
        write_image(tmp_path / "images" / name, cells(shape=(2, 2, 3)) + add)
        for add, name in enumerate(("a.tif", "b.tif"))
    )
    with rasterio.open(one) as opened:
        affine, crs = opened.transform, opened.crs.to_wkt()
    place = {
        "scale_x": affine.a, "scale_y": affine.e, "skew_x": 0.0, "skew_y": 0.0,
        "upperleft_x": affine.c + affine.a / 2, "upperleft_y": affine.f + affine.e / 2,
    }  # fmt: skip
    mixed = {
        **raster(7, bands=1),
        "num_bands": 3,
        "crs_wkt": crs,
        "geo_reference": place,
        "band_1": band(4, data=bytes(range(6))),
        "band_2": band(4, out_db_band_no=1, out_db_url=one.as_uri()),
        "band_3": band(4, out_db_band_no=0, out_db_url=two.as_uri()),
    }
    hv.take(pa.table({"id": [1], "rast": pa.array([mixed], tiles(1).schema.field("rast").type)}))
    (file,) = files(hv)
    (stored,) = pq.read_table(file)["rast"].to_pylist()
    assert {name: stored[name] for name in ("band_1", "band_2", "band_3")} == {
        name: mixed[name] for name in ("band_1", "band_2", "band_3")
    }

    refused(hv, "do not allow", "export", "t", "--to", "geotiff", tmp_path / "out")
    run_git("config", "havasu.outdb.allow", one.parent.as_uri(), cwd=hv.path)
    assert hv("validate", "--no-warnings") == "All data is valid\n"
    hv("export", "t", "--to", "geotiff", tmp_path / "out")
    (out,) = (tmp_path / "out").rglob("*.tif")
    with rasterio.open(out) as read, rasterio.open(one) as first, rasterio.open(two) as second:
        wanted = [np.arange(6).reshape(2, 3), first.read(2), second.read(1)]
        assert (read.read() == np.array(wanted)).all()


@pytest.mark.rule("HAV-81", "HAV-83")
def test_a_raster_is_an_empty_struct_to_readers_of_havasu_alone(
    hv: Commands, tmp_path: Path
) -> None:
    hv("import", image(tmp_path, cells(shape=(2, 4, 6))), "t")
    kinds = {}
    for flavour in ("havasu", "spark", "iceberg"):
        (schema,) = checked_out(hv, flavour)["schemas"]
        (field,) = (
            (each for each in schema["fields"] if "havasu.raster-encoding" in each)
            if (flavour == "havasu")
            else (each for each in schema["fields"] if isinstance(each["type"], dict))
        )
        kinds[flavour] = [each["name"] for each in field["type"]["fields"]]
        if flavour == "havasu":
            assert field["havasu.raster-encoding"] == "v1"
    assert kinds["havasu"] == []
    assert kinds["spark"] == kinds["iceberg"] and len(kinds["iceberg"]) == 10
    (row,) = (
        StaticTable.from_metadata(str(hv.path.with_name("of-iceberg") / "t"))
        .scan()
        .to_arrow()
        .to_pylist()
    )
    assert any(isinstance(each, dict) and each["width"] == 6 for each in row.values())


@pytest.mark.rule("HAV-67")
@pytest.mark.parametrize(
    "affine", [(2000, -1500, 1.6e6, 700, -900, 5.4e6), (9e3, 0, 1e6, 0, -9e3, 6e6)]
)
def test_each_cell_is_inside_of_the_box_in_degrees(
    hv: Commands, tmp_path: Path, affine: tuple[float, ...]
) -> None:
    place = rasterio.Affine(*affine)
    file = image(tmp_path, cells(shape=(1, 90, 70)), crs="EPSG:2193", transform=place)
    _, ((west, south), (east, north)) = imported(hv, file)
    turned = pyproj.Transformer.from_crs("EPSG:2193", "OGC:CRS84", always_xy=True)
    draw = np.random.default_rng(3).uniform((0, 0), (70, 90), (2000, 2))
    edges = [(x, y) for x in np.linspace(0, 70, 300) for y in (0, 90)]
    for x, y in [*draw, *edges]:
        longitude, latitude = turned.transform(*(place @ (x, y)))
        inside = west <= longitude <= east if west <= east else not east < longitude < west
        assert inside and south <= latitude <= north, (x, y)


@pytest.mark.rule("HAV-129")
def test_no_pixels_are_pixels(hv: Commands) -> None:
    empty = {**raster(1, bands=1, width=0), "band_1": band(4, data=b"")}
    kind = tiles(1).schema.field("rast").type
    hv.take(pa.table({"id": [1, 2], "rast": pa.array([empty, None], kind)}))
    assert hv("validate", "--no-warnings") == "All data is valid\n"
    (file,) = files(hv)
    first, second = pq.read_table(file)["rast"].to_pylist()
    assert (first["width"], first["band_1"]["data"], second) == (0, b"", None)
    hv.write(id=[1], rast=pa.array([empty], kind))
    assert (
        "0 features changed" in hv("show", "-o", "feature-count")
        or hv("log", "--oneline").count("\n") == 1
    )


@pytest.mark.rule("DEL-34")
def test_a_raster_has_no_type_of_delta(hv: Commands, tmp_path: Path) -> None:
    hv("import", image(tmp_path, cells(shape=(1, 4, 6))), "t")
    hv("export", "t", "--to", "delta", tmp_path / "out")

    log = actions(tmp_path / "out")
    assert log["protocol"] == {"minReaderVersion": 1, "minWriterVersion": 2}
    (field,) = (
        f for f in json.loads(log["metaData"]["schemaString"])["fields"] if f["name"] == "rast"
    )
    assert field["type"]["type"] == "struct" and field["metadata"] == {}
    (row,) = deltalake.DeltaTable(tmp_path / "out").to_pyarrow_table().to_pylist()
    assert (row["rast"]["width"], row["rast"]["height"]) == (6, 4)
    assert row["rast"]["band_1"]["data"] == cells(shape=(1, 4, 6)).tobytes()
    hv("import", f"delta:{tmp_path / 'out'}", "back", "--no-primary-key")
    assert '"dataType": "raster"' in hv("meta", "get", "back", "-o", "json")


# Schemas


def kept(path: Path) -> dict[str, bytes]:
    return {str(each): each.read_bytes() for each in path.rglob("*") if each.is_file()}


@pytest.mark.rule("HAV-52")
def test_manifests_of_havasu_are_those_of_iceberg_and_two_fields(hv: Commands) -> None:
    points(hv, ["POINT (1 2)"])

    def fields(flavour: str) -> list[Mapping[str, Any]]:
        record = avro(manifests(checked_out(hv, flavour))[0]["manifest_path"])[2]
        file = next(each for each in record["fields"] if each["name"] == "data_file")["type"]
        return list(file["fields"])

    ours, theirs = fields("havasu"), fields("iceberg")
    assert [each["field-id"] for each in ours[-2:]] == [1250, 1280]
    assert [(each["field-id"], each["name"]) for each in ours[:-2]] == [
        (each["field-id"], each["name"]) for each in theirs
    ]
    assert len(
        StaticTable.from_metadata(str(hv.path.with_name("of-iceberg") / "t")).scan().to_arrow()
    )


def with_column(hv: Commands, column: dict[str, Any]) -> None:
    """Have another program add a column to the checked-out table."""
    folder = hv.table / "metadata"
    hint = folder / "version-hint.text"
    number = int(hint.read_text())
    document = json.loads((folder / f"v{number}.metadata.json").read_text())
    (now,) = (s for s in document["schemas"] if s["schema-id"] == document["current-schema-id"])
    more = {**now, "schema-id": 70 + number, "fields": [*now["fields"], column]}
    document["schemas"].append(more)
    document.update({"current-schema-id": 70 + number, "last-column-id": column["id"]})
    (folder / f"v{number + 1}.metadata.json").write_text(json.dumps(document))
    hint.chmod(0o644)
    hint.write_text(str(number + 1))


@pytest.mark.rule("HAV-134", "ICE-48", "ICE-49")
@pytest.mark.parametrize("kind", ["int", "geometry"])
@pytest.mark.few(1)
def test_a_column_that_is_added_may_be_null(hv: Commands, kind: str) -> None:
    """Rows have no value of it and Iceberg 2 no default, so none may be required."""
    points(hv, ["POINT (1 2)"])
    hv("checkout", "--flavour", "havasu")
    said = {"havasu.geometry-encoding": "wkb"} if kind == "geometry" else {}
    column = {"id": 900, "name": "more", "type": "int" if kind == "int" else "binary", **said}
    with_column(hv, {**column, "required": True})
    refused(hv, "cannot be added as required", "commit", "-m", "More")
    hv("restore", "t")
    with_column(hv, {**column, "required": False})
    hv("commit", "-m", "More")
    (row,) = Repo.open(hv.path).table("t").to_arrow().to_pylist()
    assert row["more"] is None
    wanted = "integer" if kind == "int" else "geometry"
    assert hv.columns()[-1]["dataType"] == wanted


@pytest.mark.rule("ICE-40")
def test_a_column_that_must_have_a_value_is_not_left_out(hv: Commands) -> None:
    """The key is what must have one; of others a row that is new has null."""
    hv.take(pa.table({"id": [1], "name": ["a"], "x": [1]}))
    repo = Repo.open(hv.path)
    with pytest.raises(HavasuError, match="id"):
        repo.write("t", pa.table({"name": ["b"]}))
    repo.write("t", pa.table({"id": [1, 2], "name": ["A", "B"]}))
    assert repo.table("t").to_arrow().sort_by("id").to_pylist() == [
        {"id": 1, "name": "A", "x": 1},
        {"id": 2, "name": "B", "x": None},
    ]
    patch = json.loads(hv("create-patch", "HEAD"))
    patch["kart.diff/v1+hexwkb"]["t"]["feature"] = [{"+": {"name": "c"}}]
    file = hv.path.with_name("patch.json")
    file.write_text(json.dumps(patch))
    refused(hv, "id", "apply", file)


@pytest.mark.rule("ICE-44", "ICE-45")
def test_columns_move_neither_into_structs_nor_become_them(hv: Commands) -> None:
    kind = pa.struct([("y", pa.int32()), ("z", pa.int32())])
    hv.take(
        pa.table(
            {"id": [1], "x": pa.array([1], pa.int32()), "s": pa.array([{"y": 1, "z": 2}], kind)}
        )
    )
    key, x, s = hv.columns()
    y, z = s["fields"]
    into = [key, {**s, "fields": [y, z, x]}]
    out = [key, x, {**s, "fields": [y]}, z]
    for columns in (into, out):
        refused(hv, "cannot move", "meta", "set", "t", f"schema.json={json.dumps(columns)}")
    # A copy of a struct beside it is another column, with its own parts.
    hv.set_columns([key, x, s, {**s, "id": "new", "name": "copy"}])
    copy = hv.columns()[-1]
    assert {each["id"] for each in copy["fields"]} & {y["id"], z["id"]} == set()
    hv.set_columns([key, x, s])
    for columns in (
        [key, {**s, "id": x["id"], "name": "x"}, s],
        [key, x, {**x, "id": s["id"], "name": "s"}],
    ):
        said = json.dumps(columns)
        refused(hv, "", "meta", "set", "t", f"schema.json={said}")


# Parquet and Delta


@pytest.mark.rule("PQ-21", "PQ-22", "PQ-23")
@pytest.mark.parametrize("box", [(35, 35, 45, 45), (0, 0, 12, 22), (500, 500, 600, 600)])
@pytest.mark.few(1)
def test_boxes_count_by_x_and_y_alone(
    hv: Commands, shared_data: Path, box: tuple[float, ...]
) -> None:
    """Some groups have Z or M in their boxes, some have neither."""
    file = shared_data / "parquet-geospatial" / "geospatial.parquet"
    whole = pq.read_table(file)
    with np.errstate(invalid="ignore"):
        edges = shapely.bounds(shapely.from_wkt(whole["wkt"].to_pylist()))
    meets = (
        (edges[:, 0] <= box[2]) & (edges[:, 2] >= box[0])
        & (edges[:, 1] <= box[3]) & (edges[:, 3] >= box[1])
    )  # fmt: skip
    wanted = whole.filter(pa.array(meets))["wkt"].to_pylist()

    place = ",".join(map(str, box))
    hv("import", file, "t", "--bbox", place, "--no-primary-key")
    found = Repo.open(hv.path).table("t").to_arrow()["wkt"].to_pylist()
    assert sorted(found) == sorted(wanted)


@pytest.mark.rule("PQ-21", "PQ-25")
@pytest.mark.parametrize("axis", ["x", "y"])
def test_a_box_upside_down_is_none(hv: Commands, tmp_path: Path, axis: str) -> None:
    """West of east is across the antimeridian; north is never south."""
    points(hv, ["POINT (165.25 11.5)", "POINT (-100.75 33.25)"], "OGC:CRS84")
    hv("export", "t", "--to", "parquet", tmp_path / "out.parquet")
    data = (tmp_path / "out.parquet").read_bytes()
    low, high = (-100.75, 165.25) if axis == "x" else (11.5, 33.25)
    one, other = struct.pack("<d", low), struct.pack("<d", high)
    at, place = data.rfind(one), data.rfind(other)
    assert 0 < at and 0 < place
    changed = bytearray(data)
    changed[at : at + 8], changed[place : place + 8] = other, one
    (tmp_path / "out.parquet").write_bytes(bytes(changed))
    said = pq.ParquetFile(tmp_path / "out.parquet").metadata.row_group(0).column(1).geo_statistics
    edges = (said.xmin, said.xmax) if axis == "x" else (said.ymin, said.ymax)
    assert edges == (high, low)

    for number, (box, wanted) in enumerate(
        {(160, 0, 170, 90): 1, (-110, 0, -90, 90): 1, (0, 12, 10, 20): 0}.items()
    ):
        place_ = ",".join(map(str, box))
        hv("import", tmp_path / "out.parquet", f"n{number}", "--bbox", place_, "--no-primary-key")
        assert Repo.open(hv.path).table(f"n{number}").to_arrow().num_rows == wanted


@pytest.mark.rule("PQ-44", "DEL-25")
def test_each_form_says_the_same_box(hv: Commands, tmp_path: Path) -> None:
    points(hv, ["LINESTRING (-122.419 37.774, -120.503 38.021)", "POINT EMPTY", None], "OGC:CRS84")
    (entry,) = entries(checked_out(hv))
    found = bounds(entry["data_file"])
    ((low,), (high,)) = (
        [struct.unpack("<dd", value[5:]) for value in found[name].values()]
        for name in ("geom_lower_bounds", "geom_upper_bounds")
    )
    hv("export", "t", "--to", "parquet", tmp_path / "out.parquet")
    said = pq.ParquetFile(tmp_path / "out.parquet").metadata.row_group(0).column(1).geo_statistics
    assert (said.xmin, said.ymin, said.xmax, said.ymax) == (*low, *high)
    hv("export", "t", "--to", "delta", tmp_path / "t")
    statistics = json.loads(actions(tmp_path / "t")["add"]["stats"])
    assert statistics["minValues"]["geom"] == "POINT(-122.419 37.774)"
    assert statistics["maxValues"]["geom"] == "POINT(-120.503 38.021)"


@pytest.mark.rule("DEL-36")
def test_no_delta_table_is_partitioned_by_a_geometry(hv: Commands, tmp_path: Path) -> None:
    points(hv, ["POINT (1 2)"], "OGC:CRS84")
    hv("export", "t", "--to", "delta", tmp_path / "t")
    log = tmp_path / "t" / "_delta_log" / f"{0:020}.json"
    text = log.read_text()
    assert '"partitionColumns": []' in text
    log.write_text(text.replace('"partitionColumns": []', '"partitionColumns": ["geom"]'))
    refused(hv, "partitioned by 'geom'", "import", f"delta:{tmp_path / 't'}", "u")


@pytest.mark.rule("KART-70")
def test_geometries_in_karts_form_are_kept_byte_by_byte(hv: Commands, tmp_path: Path) -> None:
    points(hv, ["POINT (1 2)", "LINESTRING (3 4, 5 6)", "POINT EMPTY", None])
    hv("convert", "t", "--to", "kart")

    def blobs() -> str:
        return run_git("ls-tree", "-r", "HEAD", "t/.table-dataset/feature", cwd=hv.path)

    before = blobs()
    hv("export", "t", "--to", "gpkg", tmp_path / "t.gpkg")
    again = invoke(
        ["-C", hv.path, "import", tmp_path / "t.gpkg", "t", "--replace", "--primary-key", "id"]
    )
    assert again.exit_code in (0, 44), again.output
    assert blobs() == before
    hv("checkout", "--as", tmp_path / "copy.gpkg", "t")
    assert hv("diff", "--from", tmp_path / "copy.gpkg") == ""
    hv.write(id=[1], geom=[shapely.to_wkb(shapely.Point(9, 9))])
    changed = set(blobs().splitlines()) ^ set(before.splitlines())
    assert len(changed) == 2
