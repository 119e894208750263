"""Rows against the rules: each breach is found with its row, and sound rows have none."""

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
import shapely
from hypothesis import given
from hypothesis import strategies as st

from havasu_vc.engine.local import LocalEngine
from havasu_vc.geo.raster_v1 import format_rasters
from havasu_vc.model.arrow import arrow_schema
from havasu_vc.model.rasters import raster_field
from havasu_vc.model.schema import Schema
from havasu_vc.model.task import task_of
from havasu_vc.model.types import Encoding, Field, Geometry, Primitive
from havasu_vc.testing.kernels import given_rows
from havasu_vc.upkeep.validation import (
    MOST_ROWS,
    Broken,
    Level,
    broken_rows,
    broken_rules,
    check_keys,
    equal_keys,
)
from tests.geo.shapes import encode, sound_shapes
from tests.geo.test_raster_v1_columns import EXAMPLE


def wkb(text: str, srid: int = 0) -> bytes:
    shape = shapely.set_srid(shapely.from_wkt(text), srid)
    return bytes(shapely.to_wkb(shape, include_srid=bool(srid), flavor="extended"))


def broken(
    *values: bytes | str | None,
    geometry: Geometry | None = None,
    edges: str | None = None,
    srid: int | None = 4326,
    warnings: bool = True,
) -> list[Broken]:
    """Return what is wrong with a column of geometries."""
    said = geometry or Geometry(Encoding.EWKB, "EPSG:4326")
    kind = Primitive.BINARY if said.encoding.is_binary else Primitive.STRING
    extra = (("edges", edges),) if edges else ()
    schema = Schema((Field(1, "geom", kind, geometry=said, extra=extra),))
    rows = pa.RecordBatch.from_pylist([{"geom": v} for v in values], arrow_schema(schema))
    srids = {} if srid is None else {"geom": srid}
    return list(broken_rules(rows, schema, srids, warnings=warnings))


POLYGON = "POLYGON ((0 0, 1 0, 1 1, 0 0))"
BOWTIE = "POLYGON ((0 0, 1 1, 1 0, 0 1, 0 0))"
OPEN_RING = bytes.fromhex("0103000000" + "01000000" + "04000000") + b"".join(
    shapely.to_wkb(shapely.Point(p))[5:] for p in [(0, 0), (1, 0), (1, 1), (0, 1)]
)


@pytest.mark.parametrize(
    ("values", "how", "rule", "row", "cause"),
    [
        ([wkb("POINT (1 2)"), b"\x01\x01"], {}, "encoding", 1, "no ewkb: its WKB is truncated"),
        ([None, b"", wkb("POINT (1 2)")], {}, "encoding", 1, "it is no ewkb"),
        (["POINT (1 2)", "POINT (1"], {"encoding": Encoding.WKT}, "encoding", 1, "it is no wkt"),
        ([wkb("POINT (1 2)", 2193)], {}, "srid", 0, "it has the SRID 2193, its column has 4326"),
        (
            [wkb("POINT (1 2)"), wkb("POINT (1 2)", 4326)],
            {"encoding": Encoding.WKB},
            "srid",
            1,
            "which wkb cannot have",
        ),
        ([None, wkb(POLYGON)], {"shape": "POINT"}, "type", 1, "a POLYGON, its column is of POINT"),
        ([wkb("POINT Z (1 2 3)")], {"shape": "POINT"}, "type", 0, "it is a POINT Z"),
        ([wkb("POINT (1 2)")], {"shape": "GEOMETRY Z"}, "type", 0, "its column is of GEOMETRY Z"),
        ([wkb(POLYGON), wkb(BOWTIE)], {}, "validity", 1, "self-intersection"),
        ([OPEN_RING], {}, "ring", 0, "do not form a closed"),
    ],
)
def test_a_breach_is_found_with_its_row(
    values: list[Any], how: dict[str, Any], rule: str, row: int, cause: str
) -> None:
    said = Geometry(how.get("encoding", Encoding.EWKB), "EPSG:4326", how.get("shape"))

    (found,) = broken(*values, geometry=said)

    assert (found.rule, found.row, found.column) == (rule, row, "geom")
    assert cause in found.cause
    warning = rule in ("validity", "ring")
    assert found.level is (Level.WARNING if warning else Level.ERROR)
    assert bool(broken(*values, geometry=said, warnings=False)) is not warning


@pytest.mark.rule("PQ-5")
def test_a_geography_is_on_the_globe() -> None:
    values = [wkb("POINT (181 0)"), wkb("POINT (0 -91)"), wkb("POINT (180 90)"), wkb("POINT EMPTY")]

    assert [each.row for each in broken(*values, edges="spherical")] == [0, 1]
    assert broken(*values) == []


def test_what_cannot_be_read_hides_no_other_breach() -> None:
    found = broken(b"\x07", wkb("POINT (1 2)", 1), None, b"\x08", wkb(BOWTIE))

    assert [(each.rule, each.row) for each in found] == [
        ("encoding", 0),
        ("encoding", 3),
        ("srid", 1),
        ("validity", 4),
    ]


def test_a_column_that_is_something_else_altogether_is_soon_left() -> None:
    found = broken(*[b"nonsense"] * 5000)

    assert 0 < len(found) <= 64


def test_an_unknown_system_allows_any_srid() -> None:
    assert broken(wkb("POINT (1 2)", 7), srid=None) == []


@given(st.lists(st.one_of(st.none(), sound_shapes()), max_size=4))
def test_sound_shapes_break_no_rule(trees: list[Any]) -> None:
    values = [tree and encode(tree) for tree in trees]

    assert broken(*values, geometry=Geometry(Encoding.WKB), warnings=False) == []


def test_rasters_and_nulls() -> None:
    sound = format_rasters([EXAMPLE, None])
    bands = sound.field("bands").to_pylist()
    rows: list[Any] = sound.to_pylist()
    assert bands
    rows.append({**rows[0], "width": 99})
    schema = Schema(
        (
            Field(1, "id", Primitive.LONG, required=True),
            raster_field(2, "rast", 3),
        ),
        (1,),
    )
    column = pa.array(rows, sound.type)
    batch = pa.RecordBatch.from_arrays([pa.array([1, None, 3]), column], names=["id", "rast"])

    found = list(broken_rules(batch, schema, {}, warnings=True))

    assert [(each.rule, each.row) for each in found] == [("null", 1), ("raster", 2)]


KEYED = Schema(
    (
        Field(1, "id", Primitive.LONG, required=True),
        Field(2, "geom", Primitive.BINARY, geometry=Geometry(Encoding.EWKB, "EPSG:4326")),
    ),
    (1,),
)


def reports(batches: Iterator[pa.RecordBatch]) -> list[dict[str, Any]]:
    return [row for batch in batches for row in batch.to_pylist()]


def test_rasters_without_a_system_or_a_file(tmp_path: Path) -> None:
    sound = format_rasters([EXAMPLE])
    rows: list[Any] = sound.to_pylist()
    there = tmp_path / "there.tif"
    there.write_bytes(b"II*\0")

    def outside(url: str) -> dict[str, Any]:
        band = {**rows[0]["band_1"], "data": None, "out_db_band_no": 0, "out_db_url": url}
        bands = dict.fromkeys(("band_2", "band_3", "band_4", "bands"))
        return {**rows[0], **bands, "num_bands": 1, "band_1": band}

    values = [
        {**rows[0], "crs_wkt": "no system at all"},
        {**rows[0], "crs_wkt": 'PROJCS["half'},
        outside(there.as_uri()),
        outside((tmp_path / "gone.tif").as_uri()),
        outside("/etc/elsewhere.tif"),
        outside("https://example.org/a.tif"),
    ]
    schema = Schema((raster_field(1, "rast", 2),))
    batch = pa.RecordBatch.from_arrays([pa.array(values, sound.type)], names=["rast"])

    def found(**how: Any) -> list[tuple[str, int]]:
        broken = broken_rules(batch, schema, {}, allowed=(str(tmp_path),), **how)
        return [(each.rule, each.row) for each in broken]

    errors = [("raster", 0), ("raster", 1), ("raster", 2), ("raster", 3)]  # 2 is no image
    assert found(warnings=False) == errors
    assert found(warnings=True) == [*errors, ("unchecked", 4), ("unchecked", 5)]


def test_the_first_rows_are_named_and_the_others_counted() -> None:
    rows = [{"id": n, "geom": wkb("POINT (1 2)", 7)} for n in range(MOST_ROWS + 5)]
    batch = pa.RecordBatch.from_pylist(rows, arrow_schema(KEYED))

    found = reports(broken_rows(task_of(given_rows, batch), KEYED, {"geom": 4326}, True))

    assert len(found) == MOST_ROWS + 1
    assert json.loads(found[0]["key"]) == {"id": 0}
    assert found[-1]["cause"] == "5 more rows are like that"
    assert (found[-1]["rule"], found[-1]["column"], found[-1]["key"]) == ("srid", "geom", None)


def test_keys_that_stand_twice() -> None:
    batch = pa.RecordBatch.from_pylist(
        [{"id": n % 30} for n in range(59)], arrow_schema(KEYED.select(("id",)))
    )

    found = reports(equal_keys(task_of(given_rows, batch), KEYED.select(("id",))))

    assert [row["cause"] for row in found[:-1]] == ["2 rows have this key"] * MOST_ROWS
    assert found[-1]["cause"] == f"{29 - MOST_ROWS} more keys stand twice"


def test_no_rows_have_no_equal_keys() -> None:
    with LocalEngine(threads=1) as engine:
        assert list(check_keys("t", [], KEYED, 0, engine)) == []
