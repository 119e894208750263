"""Geographies chosen by a box: edges run on the globe, across the antimeridian and polewards."""

import json
from dataclasses import replace
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
import shapely

from havasu_vc.exchange.delta_writer import write_delta
from havasu_vc.exchange.export import ExportFormat, write_file
from havasu_vc.exchange.iceberg_writer import write_iceberg_3
from havasu_vc.exchange.parquet_writer import ParquetForm
from havasu_vc.exchange.source import SourceOptions
from havasu_vc.model.diffs import DatasetHeader
from havasu_vc.model.schema import Schema
from havasu_vc.model.types import Encoding, Geometry
from havasu_vc.sharing.fetching import parse_box
from havasu_vc.sharing.requests import Part
from tests.exchange.tables import batches_of, stored
from tests.remotes.sharing import bare, clone, files, share
from tests.repo.points import make
from tests.repo.tables import rows
from tests.support.sound import CheckedRepo

pytestmark = pytest.mark.few(2)

SHAPES = {
    1: "LINESTRING (175 -1, -175 1)",  # across the antimeridian
    2: "LINESTRING (0 60, 90 60)",  # up to 67.8 degrees
    3: "LINESTRING (0 -60, 90 -60)",
    4: "POLYGON ((0 70, 120 70, -120 70, 0 70))",  # around the pole
    5: "POLYGON ((170 -20, -170 -20, -170 -10, 170 -10, 170 -20))",
    6: "POINT (10 10)",
    7: "POINT (180 40)",
    8: "POINT EMPTY",
}
BOXES = {
    "177,-1,179,1": [1],
    "-179,-1,-177,1": [1],
    "179,-30,-179,50": [1, 5, 7],
    "-180,35,-170,45": [7],
    "40,66,50,67": [2],
    "40,-67,50,-66": [3],
    "-60,85,-50,90": [4],
    "100,71,110,80": [4],
    "0,-5,20,20": [6],
    "-100,-50,-90,50": [],
}


def geographies(edges: str | None = "spherical") -> tuple[DatasetHeader, pa.Table]:
    table = pa.table(
        {
            "id": pa.array(SHAPES, pa.int64()),
            "geom": pa.array(
                [shapely.to_wkb(shapely.from_wkt(text)) for text in SHAPES.values()], pa.binary()
            ),
        }
    )
    header, found = stored(table, geometries={"geom": Geometry(Encoding.EWKB, "OGC:CRS84")})
    extra = (("edges", edges),) if edges else ()
    fields = tuple(
        replace(field, extra=extra) if field.geometry else field for field in header.schema.fields
    )
    return replace(header, schema=Schema(fields, ())), found


def written(folder: Path, form: str) -> str:
    """Write the geographies in a form of others, and return what to import."""
    header, table = geographies()
    path = folder / "shapes.parquet"
    if form == "parquet":
        write_file(path, header, batches_of(table), format=ExportFormat.PARQUET)
    elif form == "geoparquet":
        write_file(path, header, batches_of(table), parquet=ParquetForm(covering=True))
    elif form == "delta":
        write_delta(folder / "shapes", header, batches_of(table))
        return f"delta:{folder / 'shapes'}"
    else:
        write_iceberg_3(folder / "shapes", header, batches_of(table))
        return f"iceberg:{folder / 'shapes'}"
    return str(path)


@pytest.mark.parametrize("form", ["parquet", "geoparquet", "delta", "iceberg"])
@pytest.mark.few(1)
def test_import_takes_what_reaches_into_the_box(
    repo: CheckedRepo, tmp_path: Path, form: str
) -> None:
    place = written(tmp_path, form)

    for number, (box, wanted) in enumerate(BOXES.items()):
        options = SourceOptions(primary_key=("id",), bbox=parse_box(box))
        repo.repo.import_(place, f"d{number}", options=options)
        assert [row["id"] for row in rows(repo, f"d{number}")] == wanted, box


def test_straight_edges_stay_in_the_box_of_their_vertices(
    repo: CheckedRepo, tmp_path: Path
) -> None:
    header, table = geographies(edges=None)
    write_file(tmp_path / "shapes.parquet", header, batches_of(table))

    for number, (box, wanted) in enumerate({"40,66,50,67": [], "-50,-1,-40,1": [1]}.items()):
        options = SourceOptions(primary_key=("id",), bbox=parse_box(box))
        repo.import_(tmp_path / "shapes.parquet", f"d{number}", options=options)
        assert [row["id"] for row in rows(repo, f"d{number}")] == wanted


@pytest.mark.few(1)
@pytest.mark.parametrize("number", list(SHAPES)[:7])
def test_a_clone_of_a_box_has_what_reaches_into_it(tmp_path: Path, number: int) -> None:
    header, table = geographies()
    one = table.filter(pa.compute.equal(table["id"], number))
    write_file(tmp_path / "shape.parquet", header, batches_of(one))
    ours, server = make(tmp_path / "ours", {1: ("one", 1)}), bare(tmp_path / "server.git")
    ours.import_(tmp_path / "shape.parquet", "shape", options=SourceOptions(primary_key=("id",)))
    share(ours, server)
    everything = len(files(ours))

    box = next(box for box, wanted in BOXES.items() if number in wanted)
    theirs = clone(server, tmp_path / "part", part=Part(box=parse_box(box)))
    assert len(files(theirs)) == everything
    away = clone(server, tmp_path / "away", part=Part(box=(-100.0, -50.0, -90.0, -40.0)))
    # Of edges that are not read it is only known how far they may reach.
    assert len(files(away)) == everything - (number not in (1, 5))


def test_exported_boxes_hold_all_of_an_edge(repo: CheckedRepo, tmp_path: Path) -> None:
    repo.import_(written(tmp_path, "parquet"), "d", options=SourceOptions(primary_key=("id",)))

    repo.export("d", tmp_path / "out.parquet", parquet=ParquetForm(covering=True))

    geo = json.loads(pq.read_metadata(tmp_path / "out.parquet").metadata[b"geo"])
    assert geo["columns"]["geom"]["bbox"] == [-180, pytest.approx(-67.8, abs=0.01), 180, 90]
    found = pq.read_table(tmp_path / "out.parquet")["bbox"].to_pylist()
    boxes = dict(zip(SHAPES, found, strict=True))
    assert boxes[2]["ymax"] > 67.79 and boxes[3]["ymin"] < -67.79
    assert (boxes[1]["xmin"], boxes[1]["xmax"]) == (-180, 180)
    assert (boxes[4]["xmin"], boxes[4]["xmax"], boxes[4]["ymax"]) == (-180, 180, 90)


def test_a_box_of_a_file_may_cross_the_antimeridian(repo: CheckedRepo, tmp_path: Path) -> None:
    options = SourceOptions(primary_key=("id",), bbox=parse_box("177,-30,179,50"))
    repo.import_(written(tmp_path, "parquet"), "d", options=options)

    repo.export("d", tmp_path / "out.parquet")

    geo = json.loads(pq.read_metadata(tmp_path / "out.parquet").metadata[b"geo"])
    west, south, east, north = geo["columns"]["geom"]["bbox"]
    assert (west, east, north) == (170, -170, 1) and south < -20


def test_a_review_and_a_policy_know_how_far_edges_reach(repo: CheckedRepo, tmp_path: Path) -> None:
    options = SourceOptions(primary_key=("id",), bbox=parse_box("40,66,50,67"))
    repo.import_(written(tmp_path, "parquet"), "d", options=options)

    (review,) = repo.review("[EMPTY]...HEAD").datasets
    assert review.area is not None and review.area.touched is not None
    assert review.area.touched.ymax > 67.79


@pytest.mark.parametrize("format", ["gpkg", "geojson", "flatgeobuf", "csv"])
def test_a_format_that_knows_no_globe_says_so(
    repo: CheckedRepo, tmp_path: Path, format: str
) -> None:
    repo.repo.import_(written(tmp_path, "parquet"), "d", options=SourceOptions(primary_key=("id",)))

    result = repo.repo.export("d", tmp_path / f"out.{format}", format=format)

    assert any("run on the globe" in note for note in result.notes)
