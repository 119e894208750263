from typing import Any

import numpy as np
import pyarrow as pa
import pytest
import shapely
from hypothesis import given
from hypothesis import strategies as st

from havasu_vc.geo.functions.all_functions import FUNCTIONS
from tests.geo.functions.columns import NEAR_SHAPES, binary, text
from tests.support.examples import examples

RELATIONS = {
    "ST_Intersects": shapely.intersects,
    "ST_Disjoint": shapely.disjoint,
    "ST_Within": shapely.within,
    "ST_Contains": shapely.contains,
    "ST_CoveredBy": shapely.covered_by,
    "ST_Covers": shapely.covers,
    "ST_Touches": shapely.touches,
    "ST_Crosses": shapely.crosses,
    "ST_Overlaps": shapely.overlaps,
    "ST_Equals": shapely.equals,
}
maybe_points = st.lists(
    st.none()
    | st.tuples(st.integers(0, 6), st.integers(0, 6)).map(shapely.Point)
    | st.just(shapely.Point()),
    min_size=1,
    max_size=6,
)


def expected(test: Any, left: list[Any], right: list[Any]) -> list[bool | None]:
    found = test(np.array(left, object), np.array(right, object)).tolist()
    return [
        None if a is None or b is None else value
        for a, b, value in zip(left, right, found, strict=True)
    ]


@pytest.mark.parametrize("name", RELATIONS)
@examples(30)
@given(st.lists(st.tuples(st.none() | NEAR_SHAPES, st.none() | NEAR_SHAPES), max_size=6))
def test_any_pairs(name: str, pairs: list[tuple[Any, Any]]) -> None:
    left, right = [a for a, _ in pairs], [b for _, b in pairs]

    found = FUNCTIONS[name](binary(left), text(right)).to_pylist()

    assert found == expected(RELATIONS[name], left, right)


@pytest.mark.parametrize("name", RELATIONS)
@examples(30)
@given(st.lists(st.none() | NEAR_SHAPES, min_size=1, max_size=6) | maybe_points, NEAR_SHAPES)
def test_a_constant_on_either_side(name: str, rows: list[Any], constant: Any) -> None:
    function, same = FUNCTIONS[name], [constant] * len(rows)

    found = function(binary(rows), text(same)).to_pylist()
    exchanged = function(binary(same), binary(rows)).to_pylist()

    assert found == expected(RELATIONS[name], rows, same)
    assert exchanged == expected(RELATIONS[name], same, rows)


@given(maybe_points, maybe_points)
def test_points_and_points(left: list[Any], right: list[Any]) -> None:
    size = min(len(left), len(right))
    left, right = left[:size], right[:size]
    for name, test in RELATIONS.items():
        found = FUNCTIONS[name](binary(left), binary(right)).to_pylist()
        assert found == expected(test, left, right)


def test_srids_do_not_matter() -> None:
    points = [shapely.set_srid(shapely.Point(n, n), 2193) for n in range(4)]
    rows = pa.array([shapely.to_wkb(point, include_srid=True) for point in points])
    window = text([shapely.box(1, 1, 2, 2)] * 4)

    assert FUNCTIONS["ST_Intersects"](rows, window).to_pylist() == [False, True, True, False]


@given(
    st.lists(st.none() | NEAR_SHAPES, min_size=1, max_size=5) | maybe_points,
    NEAR_SHAPES,
    st.floats(0, 10),
)
def test_distances(rows: list[Any], constant: Any, reach: float) -> None:
    same = [constant] * len(rows)
    distances = [None if row is None or row.is_empty else row.distance(constant) for row in rows]

    for found in (
        FUNCTIONS["ST_Distance"](binary(rows), text(same)),
        FUNCTIONS["ST_Distance"](binary(same), binary(rows)),
    ):
        assert found.to_pylist() == [d if d is None else pytest.approx(d) for d in distances]
    near = FUNCTIONS["ST_DWithin"](binary(rows), text(same), pa.array([reach] * len(rows)))
    for row, distance, each in zip(rows, distances, near.to_pylist(), strict=True):
        if row is None:
            assert each is None
        elif distance is None:
            assert each is False
        elif abs(distance - reach) > 1e-9:
            assert each == (distance < reach)


def test_distances_of_points_and_numbers_that_are_null() -> None:
    points = binary([shapely.Point(0, 0), shapely.Point(3, 4), None])

    assert FUNCTIONS["ST_Distance"](points, points).to_pylist() == [0, 0, None]
    assert FUNCTIONS["ST_DWithin"](points, points, pa.array([None, 1, 1])).to_pylist() == [
        None,
        True,
        None,
    ]


def test_a_window_and_collections_with_empty_parts() -> None:
    """GEOS 3.14 ended the process here."""
    names = (
        "MULTIPOINT (EMPTY, (1 1))",
        "MULTILINESTRING (EMPTY, (1 1, 2 2))",
        "GEOMETRYCOLLECTION (POINT EMPTY, POINT (1 1))",
        "POINT (1 1)",
        "MULTIPOINT (EMPTY, (9 9))",
    )
    rows = binary([*map(shapely.from_wkt, names)])
    window = binary([shapely.box(0, 0, 4, 4)] * len(names))
    inside = [True, True, True, True, False]

    assert FUNCTIONS["ST_Within"](rows, window).to_pylist() == inside
    assert FUNCTIONS["ST_Contains"](window, rows).to_pylist() == inside
    for name, found in zip(names, inside, strict=True):
        alike = binary([shapely.from_wkt(name)] * 2)
        assert FUNCTIONS["ST_Within"](alike, window[:2]).to_pylist() == [found] * 2


def test_where_an_empty_point_is() -> None:
    rows = binary([shapely.Point(), shapely.LineString([(0, 0), (1, 1)]), shapely.Point(1, 2)])

    assert FUNCTIONS["ST_X"](rows).to_pylist() == [None, None, 1.0]
    assert FUNCTIONS["ST_Z"](rows).to_pylist() == [None, None, None]
