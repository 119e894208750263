from typing import Any

import numpy as np
import pyarrow as pa
import pytest
import shapely
from hypothesis import given
from hypothesis import strategies as st

from tests.geo.functions.columns import NEAR_SHAPES, binary, call, text

SQUARE = shapely.box(0, 0, 2, 3)
LINE = shapely.LineString([(0, 0), (3, 4)])


@pytest.mark.parametrize(
    ("name", "expected"),
    [
        ("ST_Area", [6, 0, 0, None]),
        ("ST_Length", [0, 5, 0, None]),
        ("ST_Perimeter", [10, 0, 0, None]),
        ("ST_XMin", [0, 0, 7, None]),
        ("ST_YMin", [0, 0, 8, None]),
        ("ST_XMax", [2, 3, 7, None]),
        ("ST_YMax", [3, 4, 8, None]),
        ("ST_X", [None, None, 7, None]),
        ("ST_Y", [None, None, 8, None]),
        ("ST_Z", [None, None, None, None]),
        ("ST_NPoints", [5, 2, 1, None]),
        ("ST_NumPoints", [None, 2, None, None]),
        ("ST_NumGeometries", [1, 1, 1, None]),
        ("ST_SRID", [0, 0, 0, None]),
        ("ST_IsValid", [True, True, True, None]),
        ("ST_IsSimple", [True, True, True, None]),
        ("ST_IsEmpty", [False, False, False, None]),
        ("ST_IsClosed", [False, False, False, None]),
        ("ST_GeometryType", ["ST_Polygon", "ST_LineString", "ST_Point", None]),
    ],
)
def test_measures(name: str, expected: list[Any]) -> None:
    rows = [SQUARE, LINE, shapely.Point(7, 8), None]

    assert call(name, binary(rows)) == expected
    assert call(name, text(rows)) == expected
    assert call(name, pa.nulls(2)) == [None, None]
    assert call(name, pa.array([], pa.binary())) == []
    # The same geometry in every row is computed once.
    assert call(name, binary([SQUARE] * 3)) == [expected[0]] * 3


def test_points_with_z() -> None:
    points = text([shapely.Point(1, 2, 3), shapely.Point(1, 2)])

    assert call("ST_Z", points) == [3, None]
    assert call("ST_X", points) == [1, 1]


def test_what_is_empty() -> None:
    empties = ["POINT EMPTY", "POLYGON EMPTY"]

    assert call("ST_XMin", empties) == [None, None]
    assert call("ST_X", binary([shapely.Point(), shapely.Point(1, 2)])) == [None, 1]
    assert call("ST_IsEmpty", empties) == [True, True]
    assert call("ST_Area", empties) == [0, 0]


def test_srids() -> None:
    rows = [shapely.to_wkb(shapely.set_srid(LINE, srid), include_srid=True) for srid in (1, 2)]

    assert call("ST_SRID", rows) == [1, 2]
    assert call("ST_SRID", rows[:1] * 2) == [1, 1]


@given(st.lists(st.none() | NEAR_SHAPES, max_size=6))
def test_bounds_are_those_of_shapely(shapes: list[Any]) -> None:
    there = np.array([shape is not None for shape in shapes], bool)
    bounds = np.array([(0,) * 4 if s is None else s.bounds for s in shapes]).reshape(-1, 4)
    for axis, name in enumerate(("ST_XMin", "ST_YMin", "ST_XMax", "ST_YMax")):
        expected = [n if t else None for n, t in zip(bounds[:, axis].tolist(), there, strict=True)]
        assert call(name, binary(shapes)) == expected
