import json
from typing import Any

import pyarrow as pa
import pytest
import shapely
from hypothesis import given
from hypothesis import strategies as st

from havasu_vc.errors import GeometryError, InvalidArgumentError
from tests.geo.functions.columns import NEAR_SHAPES, binary, call, text


def test_from_text() -> None:
    (point, none) = call("ST_GeomFromText", ["POINT (1 2)", None])

    assert (shapely.from_wkb(point).wkt, none) == ("POINT (1 2)", None)
    (tagged,) = call("ST_GeomFromWKT", ["POINT (1 2)"], [2193])
    assert shapely.get_srid(shapely.from_wkb(tagged)) == 2193
    assert call("ST_GeomFromText", ["POINT (1 2)"], pa.array([None], pa.int32())) == [None]


def test_from_geojson_is_longitude_and_latitude() -> None:
    (point,) = call("ST_GeomFromGeoJSON", ['{"type": "Point", "coordinates": [1, 2]}'])

    assert shapely.get_srid(shapely.from_wkb(point)) == 4326


def test_from_bytes_of_any_kind() -> None:
    tagged = shapely.to_wkb(shapely.set_srid(shapely.Point(1, 2), 9), include_srid=True)
    big = shapely.to_wkb(shapely.Point(1, 2), byte_order=0)

    assert call("ST_GeomFromWKB", [tagged, big]) == [tagged, shapely.Point(1, 2).wkb]
    assert call("ST_GeomFromEWKB", [tagged, None]) == [tagged, None]
    assert call("ST_SRID", pa.array(call("ST_GeomFromWKB", [tagged, big], [5, 0]))) == [5, 0]
    with pytest.raises(InvalidArgumentError, match=r"takes WKB \(binary\), not string"):
        call("ST_GeomFromWKB", ["POINT (1 2)"])


@given(st.lists(st.none() | NEAR_SHAPES, max_size=5))
def test_geometries_come_back_from_every_form(shapes: list[Any]) -> None:
    rows = binary(shapes)
    for written, read in (
        ("ST_AsText", "ST_GeomFromText"),
        ("ST_AsBinary", "ST_GeomFromWKB"),
        ("ST_AsEWKB", "ST_GeomFromEWKB"),
    ):
        column = pa.array(
            call(written, rows), pa.string() if written == "ST_AsText" else pa.binary()
        )
        assert call(read, column) == rows.to_pylist()
    geojson = pa.array(call("ST_AsGeoJSON", rows), pa.string())
    assert call("ST_AsText", geojson) == call("ST_AsText", rows)


def test_text_of_both_kinds_in_one_column() -> None:
    mixed = ["POINT (1 2)", ' {"type": "Point", "coordinates": [3, 4]}', None]

    assert call("ST_X", mixed) == [1, 3, None]


def test_srids_are_set_and_left_out() -> None:
    (tagged,) = call("ST_SetSRID", ["POINT (1 2)"], [2193])

    assert call("ST_SRID", [tagged]) == [2193]
    assert call("ST_AsBinary", [tagged]) == [shapely.Point(1, 2).wkb]
    assert call("ST_AsEWKB", [tagged]) == [tagged]
    assert call("ST_AsText", [tagged]) == ["POINT (1 2)"]
    assert json.loads(call("ST_AsGeoJSON", [tagged])[0])["coordinates"] == [1, 2]
    with pytest.raises(InvalidArgumentError, match="32 bits"):
        call("ST_SetSRID", ["POINT (1 2)"], [2**31])


def test_points_and_rectangles_of_numbers() -> None:
    from decimal import Decimal

    points = call("ST_Point", [1, 2, None], [Decimal("1.5"), None, Decimal("1.5")])
    assert points == [shapely.Point(1, 1.5).wkb, None, None]
    assert call("ST_AsText", pa.array(call("ST_PointZ", [1], [2], [3]))) == ["POINT Z (1 2 3)"]
    (box,) = call("ST_MakeEnvelope", [0], [1], [2], [3], [4326])
    assert shapely.from_wkb(box).bounds == (0, 1, 2, 3)
    assert shapely.get_srid(shapely.from_wkb(box)) == 4326
    assert call("ST_MakeEnvelope", [0], [1], [2], pa.array([None], pa.int32())) == [None]
    with pytest.raises(
        InvalidArgumentError, match=r"^ST_Point: it takes a number for x, not string"
    ):
        call("ST_Point", ["1"], [2])


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("ST_GeomFromText", "POINT (1"),
        ("ST_GeomFromGeoJSON", '{"type": "Feature"}'),
        ("ST_GeomFromWKB", b"\x01\x02"),
        ("ST_AsText", b"\x01\x01\x00\x00\x00"),
        ("ST_Area", "no geometry"),
    ],
)
def test_values_that_cannot_be_read(name: str, value: str | bytes) -> None:
    with pytest.raises(GeometryError, match=f"^{name}: a geometry cannot be used") as caught:
        call(name, [value])
    assert "\n" not in str(caught.value)


def test_text_is_wkt_only_where_wkt_is_asked_for() -> None:
    assert call("ST_AsText", text([shapely.Point(1, 2)])) == ["POINT (1 2)"]
    with pytest.raises(InvalidArgumentError, match="takes text for WKT, not binary"):
        call("ST_GeomFromText", [b"POINT"])
