"""Rasters in diffs: words, JSON and footprints."""

import io
import json
from dataclasses import replace
from itertools import pairwise
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

from havasu_vc.geo.crs import parse_crs
from havasu_vc.geo.raster_v1 import Band, GeoReference, PixelType, Raster, format_rasters
from havasu_vc.geo.raster_v1_pixels import raster_of_pixels
from havasu_vc.model.changes import ChangeBatch
from havasu_vc.model.diffs import DatasetDiff, DatasetHeader
from havasu_vc.model.rasters import raster_field
from havasu_vc.model.schema import Schema
from havasu_vc.model.types import Field, Primitive
from havasu_vc.writers.protocol import WriterOptions
from havasu_vc.writers.rasters import crs_name
from havasu_vc.writers.registry import writer_named

SCHEMA = Schema((Field(1, "id", Primitive.LONG, required=True), raster_field(2, "rast", 3)), (1,))
NZTM = parse_crs("EPSG:2193").wkt
PLACE = GeoReference.of_affine((10, 0, 1_600_000, 0, -10, 5_400_000))


def tile(first: int = 0, bands: int = 1, crs: str | None = NZTM) -> Raster:
    arrays = [(np.arange(12).reshape(3, 4) + first).astype("uint8") for _ in range(bands)]
    return raster_of_pixels(arrays, PLACE, crs_wkt=crs, no_data=[255] * bands)


def diff(*changes: tuple[Raster | None, Raster | None]) -> DatasetDiff:
    def side(rasters: list[Raster | None]) -> pa.StructArray:
        column = format_rasters(rasters)
        ids = pa.array(range(len(rasters)), pa.int64())
        mask = pa.array([each is None for each in rasters])
        return pa.StructArray.from_arrays([ids, column], ["id", "rast"], mask=mask)

    old, new = (side([change[index] for change in changes]) for index in (0, 1))
    header = DatasetHeader("tiles", "havasu", SCHEMA, {})
    return DatasetDiff("tiles", header, header, (), iter([ChangeBatch.from_structs(old, new)]))


def written(form: str, *changes: tuple[Raster | None, Raster | None]) -> str:
    out = io.StringIO()
    writer_named(form)(iter([diff(*changes)]), out, WriterOptions())
    return out.getvalue()


def test_text_says_what_a_raster_is_and_what_changed() -> None:
    old, new = tile(bands=2), tile(bands=2)
    changed = replace(new, bands=(new.bands[0], tile(3).bands[0]))
    lines = written("text", (old, changed), (None, new)).splitlines()
    words = "RASTER(4 × 3 of 10 × -10, 2 × uint8, no data 255, EPSG:2193 at 1600000 5400000)"

    assert lines[2] == "-" + f"{'rast':>41} = {words}"
    assert lines[4] == f"~ {'rast':>40} : band 2: 12 of 12 cells differ, by up to 3"
    assert lines[5] == "+++ tiles:feature:1"
    assert lines[-1].endswith(words)


@pytest.mark.parametrize(
    ("change", "line"),
    [
        ({"crs_wkt": None}, "CRS EPSG:2193 → no CRS"),
        ({"georeference": replace(PLACE, upperleft_x=PLACE.upperleft_x + 20)}, "moved by 20, 0"),
        (
            {"georeference": replace(PLACE, scale_x=5.0)},
            "georeference (10 0 1600000 0 -10 5400000) → (5 0 1600002.5 0 -10 5400000)",
        ),
        (
            {"bands": (Band(PixelType.UINT8, b"\xff", None, 0, "file:///a.tif"),)},
            "band 1: pixels in the table → in file:///a.tif",
        ),
        ({"bands": ()}, "band 1 removed"),
    ],
)
def test_lines_of_other_changes(change: dict[str, Any], line: str) -> None:
    text = written("text", (tile(), replace(tile(), **change)))
    assert text.splitlines()[-1] == f"~ {'rast':>40} : {line}"


def test_many_bands_are_a_few_lines() -> None:
    text = written("text", (tile(0, 30), tile(1, 30)))
    assert text.count("\n~") == 9
    assert text.splitlines()[-1].endswith("and 22 more bands")


def test_text_of_strangers_does_not_control_the_terminal() -> None:
    bad = replace(
        tile(crs='LOCAL_CS["\x1b[31mred"]'),
        bands=(Band(PixelType.UINT8, None, None, 0, "file:///\x1b]0;a\x07\n.tif"),),
    )
    text = written("text", (tile(), bad))
    assert "\x1b" not in text and "\x07" not in text
    assert len(text.splitlines()) == 6


def test_json_tells_pixels_by_their_hash() -> None:
    found = json.loads(written("json", (tile(), tile(4)), (tile(), None)))
    update, delete = found["kart.diff/v1+hexwkb"]["tiles"]["feature"]

    assert update["-"]["rast"]["bands"][0].keys() == {"pixelType", "noData", "sha256"}
    assert update["+"]["rast"]["affine"] == [10, 0, 1_600_000, 0, -10, 5_400_000]
    assert update["+"]["rast"]["difference"] == {"bands": [{"band": 1, "cells": 12, "largest": 4}]}
    assert "difference" not in delete["-"]["rast"]
    lines = [json.loads(line) for line in written("json-lines", (tile(), tile(4))).splitlines()]
    assert lines[-1]["change"]["+"]["rast"]["difference"]["bands"][0]["cells"] == 12


def test_geojson_has_footprints() -> None:
    found = json.loads(written("geojson", (tile(), tile(1)), (None, tile(crs=None))))
    first, _, last = found["features"]

    (ring,) = first["geometry"]["coordinates"]
    assert ring[0] == ring[-1]
    assert all(172 < x < 174 and -42 < y < -41 for x, y in ring)
    area = sum(a[0] * b[1] - b[0] * a[1] for a, b in pairwise(ring))
    assert area > 0
    assert last["geometry"] is None


def test_footprints_across_the_antimeridian_are_in_two_parts() -> None:
    place = GeoReference.of_affine((100_000, 0, 700_000, 0, -100_000, 0))
    wide = replace(tile(crs=parse_crs("EPSG:32660").wkt), georeference=place)
    found = json.loads(written("geojson", (None, wide)))["features"][0]["geometry"]
    assert found["type"] == "MultiPolygon"
    assert [part[0][0][0] for part in found["coordinates"]][1] == -180


def test_a_raster_that_cannot_be_read_is_no_error() -> None:
    def broken() -> DatasetDiff:
        made = diff((tile(), tile(1)))
        (batch,) = made.changes
        rast = batch.new.field("rast")
        parts = [rast.field(i) for i in range(rast.type.num_fields)]
        parts[2] = pa.array([7], pa.int32())
        bad = pa.StructArray.from_arrays(parts, fields=list(rast.type))
        new = pa.StructArray.from_arrays([batch.new.field("id"), bad], ["id", "rast"])
        return replace(made, changes=iter([ChangeBatch.from_structs(batch.old, new)]))

    for form in ("text", "json", "geojson", "json-lines"):
        out = io.StringIO()
        writer_named(form)(iter([broken()]), out, WriterOptions())
        assert "tiles" in out.getvalue()


def test_names_of_systems() -> None:
    for name in ("EPSG:2193", "EPSG:4326", "OGC:CRS84"):
        assert crs_name(parse_crs(name).wkt) == name
    assert crs_name(None) is None
    assert crs_name("garbage") == "unknown CRS"
