"""Sedona as it is, on our data files and on the images that we export.

Needs a Python that has PySpark 4.0, named by `HAVASU_VC_SEDONA`, and a JDK 17; Spark fetches
Sedona's jars from Maven Central once. Sedona does not know rasters of layout v1, so that
these are compared by the GeoTIFFs that they are exported to.
"""

import json
import os
import subprocess
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
import shapely

from havasu_vc import Repo
from havasu_vc.datasets.havasu.view import HavasuDataset
from havasu_vc.exchange.source import RasterReading, SourceOptions
from havasu_vc.model.types import Encoding
from havasu_vc.transfer.rasters import Rasters
from tests.compat import sedona_reader
from tests.repo.tables import BY_ID, write
from tests.support.rasters import cells, write_image
from tests.support.templates import empty_repo

PYTHON = os.environ.get("HAVASU_VC_SEDONA")

pytestmark = [
    pytest.mark.slow,
    pytest.mark.spark,
    pytest.mark.skipif(not PYTHON, reason="HAVASU_VC_SEDONA names no Python with PySpark 4.0"),
]

SHAPES = [
    shapely.from_wkt(text) if text else None
    for text in (
        "POINT (1600000.125 5400000.1)",
        "POINT Z (1.5 -2.25 3.75)",
        "LINESTRING Z (0 0 1, 1 1 2, 2 0.1 3)",
        "POLYGON ((0 0, 10 0, 10 10, 0 10, 0 0), (2 2, 2 4, 4 4, 4 2, 2 2))",
        "POLYGON Z ((0 0 5, 3 0 6, 3 4 7, 0 0 5))",
        None,
        "MULTIPOINT (1 2, 3 4)",
        "MULTILINESTRING ((0 0, 1 1), (2 2, 3 3, 4 5))",
        "MULTIPOLYGON Z (((0 0 1, 1 0 1, 1 1 1, 0 0 1)), ((5 5 2, 7 5 2, 7 7 2, 5 5 2)))",
        "GEOMETRYCOLLECTION (POINT (1 2), LINESTRING (0 0, 1 1))",
        "POLYGON EMPTY",
    )
]

IMAGE = cells("int16", (2, 40, 30)) * 100 - 9000


def data_files(repo: Repo, name: str) -> list[str]:
    view = repo.dataset(name)
    assert isinstance(view, HavasuDataset)
    return [str(view.file_path(entry)) for entry in view.data_entries]


def table(srid: int | None = None) -> pa.Table:
    if srid is None:
        stored = shapely.to_wkb(SHAPES, flavor="iso")
    else:
        stored = shapely.to_wkb(shapely.set_srid(SHAPES, srid), include_srid=True)
    return pa.table({"id": range(len(SHAPES)), "geom": pa.array(stored, pa.binary())})


@pytest.fixture(scope="module")
def seen(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Any]:
    """Return what Sedona says of two encodings, of geometries with a SRID, and of an image."""
    folder = tmp_path_factory.mktemp("sedona")
    repo = empty_repo(folder / "repo")
    source = write(folder / "in.parquet", table())
    for encoding in (Encoding.EWKB, Encoding.WKB):
        options = SourceOptions(primary_key=("id",), geometry_encoding=encoding)
        repo.import_(source, encoding.value, options=options)
    pq.write_table(table(2193), folder / "srid.parquet")
    repo.import_(folder / "srid.parquet", "srid", options=BY_ID)
    repo.declare_geometries("srid", {"geom": "ewkb"})
    write_image(folder / "images" / "a.tif", IMAGE)
    options = SourceOptions(raster=RasterReading(tile=(16, 16)))
    repo.import_(folder / "images", "images", options=options)
    Rasters(repo.opened).export("images", folder / "out")
    request = {
        # EWKB with Z is not the WKB of GeoParquet, and such files do not claim to be any.
        "geoparquet": ["wkb"],
        "geometries": {
            "ewkb": (data_files(repo, "ewkb"), "ST_GeomFromEWKB"),
            "wkb": (data_files(repo, "wkb"), "ST_GeomFromWKB"),
            "srid": (data_files(repo, "srid"), "ST_GeomFromEWKB"),
        },
        "images": str(folder / "out" / "a.tif"),
        # In the middle of the cell in the fifth row and the eighth column.
        "point": (1_600_075, 5_399_955),
    }
    return asked(folder, request)


def asked(folder: Path, request: dict[str, Any]) -> dict[str, Any]:
    """Return the answer of the other Python, which gets nothing of this one's Spark."""
    assert PYTHON is not None
    script = sedona_reader.__file__
    (folder / "request.json").write_text(json.dumps(request))
    leave_out = ("SPARK_", "PYSPARK_", "PYTHON")
    kept = {name: value for name, value in os.environ.items() if not name.startswith(leave_out)}
    done = subprocess.run(
        [PYTHON, script, folder / "request.json", folder / "answer.json"],
        env=kept | {"PYSPARK_PYTHON": PYTHON, "SPARK_LOCAL_IP": "127.0.0.1"},
        cwd=folder,
        capture_output=True,
        text=True,
    )
    assert done.returncode == 0, done.stderr[-4000:]
    found: dict[str, Any] = json.loads((folder / "answer.json").read_text())
    assert found["spark"].startswith("4.0.")
    return found


@pytest.mark.parametrize(
    ("name", "srid"),
    [("ewkb", 0), ("wkb", 0), ("wkb as GeoParquet", 0), ("srid", 2193)],
)
def test_geometries_are_what_they_are_here(seen: dict[str, Any], name: str, srid: int) -> None:
    rows = seen[name]

    assert [row["id"] for row in rows] == list(range(len(SHAPES)))
    for row, shape in zip(rows, SHAPES, strict=True):
        if shape is None:
            assert {row[part] for part in row if part != "id"} == {None}
            continue
        there = shapely.from_wkt(row["text"])
        assert shapely.equals_identical(there, shape), row["text"]
        assert row["srid"] == srid
        assert row["area"] == pytest.approx(shape.area, rel=1e-12)
        assert row["points"] == shapely.get_num_coordinates(shape)
        assert row["has_z"] == shape.has_z


def test_an_exported_image_is_what_it_was(seen: dict[str, Any]) -> None:
    (image,) = seen["images"]

    assert (image["width"], image["height"], image["bands"]) == (30, 40, 2)
    assert image["srid"] == 2193
    assert (image["x"], image["y"]) == (1_600_000, 5_400_000)
    assert (image["scale_x"], image["scale_y"]) == (10, -10)
    assert np.array_equal(np.reshape(image["first"], (40, 30)), IMAGE[0])
    assert np.array_equal(np.reshape(image["second"], (40, 30)), IMAGE[1])
    assert image["value"] == IMAGE[1, 4, 7]
