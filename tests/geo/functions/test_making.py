from typing import Any

import numpy as np
import pyarrow as pa
import pyproj
import pytest
import shapely
from hypothesis import given
from hypothesis import strategies as st

from havasu_vc.errors import GeometryError, InvalidArgumentError
from tests.geo.functions.columns import NEAR_SHAPES, binary, call, text
from tests.support.examples import examples

SQUARE = shapely.box(0, 0, 2, 2)
OF_ONE = {
    "ST_Centroid": shapely.centroid,
    "ST_PointOnSurface": shapely.point_on_surface,
    "ST_Envelope": shapely.envelope,
    "ST_Boundary": shapely.boundary,
    "ST_ConvexHull": shapely.convex_hull,
    "ST_MakeValid": shapely.make_valid,
    "ST_Normalize": shapely.normalize,
    "ST_Reverse": shapely.reverse,
    "ST_Force2D": shapely.force_2d,
}
OF_TWO = {
    "ST_Union": shapely.union,
    "ST_Intersection": shapely.intersection,
    "ST_Difference": shapely.difference,
    "ST_SymDifference": shapely.symmetric_difference,
}


def shapes_of(values: list[bytes | None]) -> list[Any]:
    return [None if value is None else shapely.from_wkb(value) for value in values]


@pytest.mark.parametrize("name", OF_ONE)
@examples(20)
@given(st.lists(st.none() | NEAR_SHAPES, max_size=4))
def test_of_one(name: str, rows: list[Any]) -> None:
    found = shapes_of(call(name, binary(rows)))

    for one, row in zip(found, rows, strict=True):
        assert (one is None) == (row is None)
        if row is not None:
            assert shapely.equals_exact(one, OF_ONE[name](row), 0)


@pytest.mark.parametrize("name", OF_TWO)
@examples(30)
@given(st.lists(st.tuples(st.none() | NEAR_SHAPES, st.none() | NEAR_SHAPES), max_size=4))
def test_of_two(name: str, pairs: list[tuple[Any, Any]]) -> None:
    found = shapes_of(call(name, binary([a for a, _ in pairs]), text([b for _, b in pairs])))

    for one, (a, b) in zip(found, pairs, strict=True):
        assert (one is None) == (a is None or b is None)
        if one is not None:
            assert shapely.equals_exact(one, OF_TWO[name](a, b), 0)


def test_the_srid_goes_along() -> None:
    tagged = [shapely.to_wkb(shapely.set_srid(SQUARE, 2193), include_srid=True)]

    for name in OF_ONE:
        assert call("ST_SRID", pa.array(call(name, tagged))) == [2193]
    assert call("ST_SRID", pa.array(call("ST_Union", tagged, ["POINT (9 9)"]))) == [2193]
    assert call("ST_SRID", pa.array(call("ST_Buffer", tagged, [1]))) == [2193]


def test_buffers() -> None:
    points = ["POINT (0 0)", None, "POINT (5 5)"]
    found = shapes_of(call("ST_Buffer", points, [1, 1, None]))

    assert found[0].equals(shapely.Point(0, 0).buffer(1, quad_segs=8))
    assert found[1:] == [None, None]
    (square,) = shapes_of(call("ST_Buffer", points[:1], [1], [1]))
    assert len(square.exterior.coords) == 5
    with pytest.raises(InvalidArgumentError, match="1 to 1000 segments"):
        call("ST_Buffer", points[:1], [1], [10**9])
    with pytest.raises(InvalidArgumentError, match=r"^ST_Buffer: it takes a number for the dis"):
        call("ST_Buffer", points[:1], ["far"])


def test_simplify() -> None:
    line = ["LINESTRING (0 0, 1 0.1, 2 0)"]

    assert call("ST_AsText", pa.array(call("ST_Simplify", line, [1]))) == ["LINESTRING (0 0, 2 0)"]
    (kept,) = shapes_of(call("ST_SimplifyPreserveTopology", text([SQUARE]), [10]))
    assert kept.area > 0


# --- ST_Transform.

WELLINGTON = shapely.Point(174.78, -41.29)
NZTM = pyproj.Transformer.from_crs(4326, 2193, always_xy=True).transform(174.78, -41.29)


@pytest.mark.parametrize(
    "systems",
    [
        (["EPSG:4326"], ["EPSG:2193"]),
        ([4326], [2193]),
        (["4326"], [2193]),
        ([pyproj.CRS(4326).to_wkt()], [pyproj.CRS(2193).to_wkt()]),
    ],
)
def test_transform_names_systems_in_every_form(systems: tuple[list[Any], list[Any]]) -> None:
    (moved,) = shapes_of(call("ST_Transform", text([WELLINGTON]), *systems))

    assert (moved.x, moved.y) == pytest.approx(NZTM)
    assert shapely.get_srid(moved) == 2193


def test_transform_from_the_srid() -> None:
    rows = [
        shapely.to_wkb(shapely.set_srid(WELLINGTON, 4326), include_srid=True),
        None,
        shapely.to_wkb(shapely.set_srid(shapely.Point(*NZTM), 2193), include_srid=True),
    ]
    there, none, back = shapes_of(call("ST_Transform", rows, [2193, 2193, 4326]))

    assert (there.x, there.y) == pytest.approx(NZTM)
    assert none is None
    assert (back.x, back.y) == pytest.approx((174.78, -41.29))
    assert [shapely.get_srid(one) for one in (there, back)] == [2193, 4326]
    assert call("ST_Transform", rows, pa.array([None, 2193, None], pa.int32())) == [None] * 3


def test_transform_that_cannot_be() -> None:
    with pytest.raises(InvalidArgumentError, match="no SRID") as caught:
        call("ST_Transform", text([WELLINGTON]), [2193])
    assert "EPSG:2193" in caught.value.hints[0]
    with pytest.raises(InvalidArgumentError, match="not a coordinate reference system"):
        call("ST_Transform", text([WELLINGTON]), ["EPSG:4326"], ["nowhere"])
    with pytest.raises(InvalidArgumentError, match="2 to 3 arguments, not 1"):
        call("ST_Transform", text([WELLINGTON]))


# --- Aggregates.


@given(st.lists(st.none() | NEAR_SHAPES, min_size=1, max_size=5))
def test_aggregates(rows: list[Any]) -> None:
    there = [row for row in rows if row is not None]
    for name, combined in (
        ("ST_Union_Agg", shapely.union_all(there)),
        ("ST_Envelope_Agg", shapely.GeometryCollection(there).envelope),
        ("ST_Collect_Agg", shapely.GeometryCollection(there)),
    ):
        result: list[Any] = shapes_of(call(name, binary(rows)))
        if not there:
            assert result == [None]
        else:
            assert len(result) == 1
            assert result[0].equals(combined) or result[0].normalize() == combined.normalize()


def test_what_geos_cannot_compute_is_one_line() -> None:
    bow_tie = ["POLYGON ((0 0, 2 2, 2 0, 0 2, 0 0))"]
    with pytest.raises(GeometryError, match=r"^ST_Intersection cannot be computed: ") as caught:
        call("ST_Intersection", bow_tie, text([SQUARE]))
    assert "\n" not in str(caught.value)
    assert np.isfinite(call("ST_Area", pa.array(call("ST_MakeValid", bow_tie)))).all()
