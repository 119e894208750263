"""Arcs and surfaces, which GEOS does not take, through every command that looks at shapes."""

import json
import struct
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from havasu_vc.errors import GeometryError, UnsupportedTypeError
from havasu_vc.exchange.source import SourceOptions
from havasu_vc.geo import sketching
from havasu_vc.geo.sketching import simplified, total_area
from havasu_vc.geo.wkt import geos_geometries
from havasu_vc.upkeep.validation import Validation
from tests.support.sound import CheckedRepo


def wkb(kind: int, body: bytes) -> bytes:
    return struct.pack("<BI", 1, kind) + body


def line(*places: tuple[float, float]) -> bytes:
    return struct.pack("<I", len(places)) + b"".join(struct.pack("<2d", *p) for p in places)


ONE = struct.pack("<I", 1)
RING = ONE + line((0, 0), (1, 0), (1, 1), (0, 0))
ARC = wkb(8, line((0, 0), (1, 1), (2, 0)))
CURVES = {
    "CIRCULARSTRING": ARC,
    "COMPOUNDCURVE": wkb(9, struct.pack("<I", 2) + ARC + wkb(2, line((2, 0), (3, 0)))),
    "CURVEPOLYGON": wkb(10, ONE + wkb(8, line((0, 0), (1, 1), (2, 0), (1, -1), (0, 0)))),
    "MULTICURVE": wkb(11, ONE + ARC),
    "MULTISURFACE": wkb(12, ONE + wkb(3, RING)),
    "POLYHEDRALSURFACE": wkb(15, ONE + wkb(3, RING)),
    "TIN": wkb(16, ONE + wkb(17, RING)),
    "TRIANGLE": wkb(17, RING),
    "GEOMETRYCOLLECTION": wkb(7, ONE + ARC),
}
BOWTIE = wkb(3, ONE + line((0, 0), (1, 1), (1, 0), (0, 1), (0, 0)))


def table(*values: bytes | None) -> pa.Table:
    return pa.table(
        {
            "id": pa.array(range(len(values)), pa.int64()),
            "geom": pa.array(values, pa.binary()),
        }
    )


def write(path: Path, rows: pa.Table) -> Path:
    geo = {
        "version": "1.1.0",
        "primary_column": "geom",
        "columns": {"geom": {"encoding": "WKB", "geometry_types": []}},
    }
    pq.write_table(rows.replace_schema_metadata({"geo": json.dumps(geo)}), path)
    return path


@pytest.fixture(params=list(CURVES))
def curved(request: pytest.FixtureRequest, repo: CheckedRepo, tmp_path: Path) -> str:
    """A dataset of one kind of curve, with a plain shape before it; the name of the kind."""
    name = str(request.param)
    file = write(tmp_path / "in.parquet", table(wkb(3, RING), CURVES[name], BOWTIE, None))
    repo.repo.import_(file, "shapes", options=SourceOptions(primary_key=("id",)))
    return name


@pytest.mark.few(2)
def test_validate_says_what_it_cannot_check(repo: CheckedRepo, curved: str, tmp_path: Path) -> None:
    validation = Validation(repo.repo.opened)
    for target in ("shapes", str(tmp_path / "in.parquet")):
        key = () if target == "shapes" else ("id",)
        found = {
            (each.rule, str(each.key)): each for each in validation.run([target], primary_key=key)
        }
        assert set(found) == {("unchecked", "{'id': 1}"), ("validity", "{'id': 2}")}
        assert curved in found["unchecked", "{'id': 1}"].cause
    assert not list(validation.run(["shapes"], warnings=False))


@pytest.mark.few(3)
def test_reviews_and_diffs_show_them(repo: CheckedRepo, curved: str, tmp_path: Path) -> None:
    file = write(tmp_path / "in.parquet", table(CURVES[curved], None, BOWTIE, CURVES[curved]))
    repo.repo.import_(file, "shapes", replace=True)

    (review,) = repo.repo.review("HEAD~1...HEAD").datasets
    assert review.counts.updates == 3
    assert review.area is not None and review.area.touched is not None
    assert review.area.touched.finite
    values = pa.array([CURVES[curved], None, wkb(3, RING)], pa.binary())
    assert curved in sketching.geometry_words(CURVES[curved])
    assert sketching.sketch(CURVES[curved]) is None
    assert not sketching.invalid_rows(values).any()
    assert total_area(values) == 0.5
    assert simplified(values, pa.array([0]).to_numpy(), 1)[0].as_py() == CURVES[curved]
    with pytest.raises(GeometryError, match="GEOS"):
        geos_geometries(values)


@pytest.mark.parametrize(
    "format", ["geoparquet", "parquet", "gpkg", "geojson", "flatgeobuf", "shapefile", "csv"]
)
@pytest.mark.few(5)
def test_exports_hold_them_or_say_that_they_do_not(
    repo: CheckedRepo, curved: str, tmp_path: Path, format: str
) -> None:
    try:
        repo.repo.export("shapes", tmp_path / f"out.{format}", format=format)
    except (GeometryError, UnsupportedTypeError) as error:
        assert error.message
        assert format not in ("geoparquet", "parquet", "gpkg")


def test_geopandas_says_that_it_does_not_hold_them(repo: CheckedRepo, curved: str) -> None:
    pytest.importorskip("geopandas")
    with pytest.raises(UnsupportedTypeError, match="arcs or is a surface"):
        repo.repo.table("shapes").to_geopandas()
