import math

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from havasu_vc.errors import GeometryError
from havasu_vc.geo.bounds import bounds_of, row_bounds
from havasu_vc.geo.wkb import Encoding, from_canonical, to_canonical
from havasu_vc.model.bounds import EVERYWHERE, Bounds
from tests.geo.shapes import (
    NAN,
    Shape,
    dialects,
    encode,
    kinds_of,
    numbers_or_nan,
    shapes,
    vertices_of,
    with_srid,
)


def of_text(*texts: str | None) -> Bounds | None:
    return bounds_of(pa.array(texts, pa.string()), "wkt")


def line(*vertices: tuple[float, ...]) -> bytes:
    return encode(Shape(2, vertices=vertices))


def point(*vertex: float) -> bytes:
    return encode(Shape(1, max(len(vertex) - 2, 0), vertices=(vertex,)))


@pytest.mark.rule("HAV-54")
def test_hav_54_least_and_greatest_of_all_vertices() -> None:
    assert of_text("LINESTRING(0 5, 3 -1)") == Bounds(0, -1, 3, 5)


@pytest.mark.rule("HAV-55")
def test_hav_55_srids_do_not_matter() -> None:
    shapes = [Shape(1, vertices=((1.0, 1.0),)), Shape(1, vertices=((5.0, -2.0),))]
    rows = pa.array([with_srid(shapes[0], 4326), with_srid(shapes[1], 3857)])

    assert bounds_of(rows, "ewkb") == Bounds(1, -2, 5, 1)


@pytest.mark.rule("HAV-56")
def test_hav_56_all_rows_are_united() -> None:
    assert of_text("POINT(1 1)", None, "POINT(5 -2)") == Bounds(1, -2, 5, 1)
    assert bounds_of(pa.array([point(1, 1), point(5, -2)])) == Bounds(1, -2, 5, 1)


@pytest.mark.rule("HAV-25")
def test_hav_25_z_and_m_do_not_matter() -> None:
    assert of_text("POINT Z (1 2 3)", "POINT M (4 5 6)") == Bounds(1, 2, 4, 5)


@pytest.mark.parametrize(
    "rows",
    [
        [],
        [None, None],
        [point(NAN, NAN)],
        [point(NAN, 1.0), point(1.0, NAN)],
        [line(), encode(Shape(6)), None],
        [line((NAN, 1.0), (1.0, NAN))],
    ],
    ids=lambda rows: f"HAV-61-{len(rows)}",
)
@pytest.mark.rule("HAV-61")
def test_hav_61_nothing_to_bound(rows: list[bytes | None]) -> None:
    assert bounds_of(pa.array(rows, pa.binary())) is None
    assert np.isnan(row_bounds(pa.array(rows, pa.binary()))).all()


@pytest.mark.rule("HAV-62")
def test_hav_62_vertices_with_nan_are_skipped() -> None:
    assert bounds_of(pa.array([line((NAN, NAN), (1, 2))])) == Bounds(1, 2, 1, 2)
    assert bounds_of(pa.array([line((NAN, 9), (1, 2))])) == Bounds(1, 2, 1, 2)
    assert bounds_of(pa.array([point(NAN, 9), point(1, 2)])) == Bounds(1, 2, 1, 2)


@pytest.mark.rule("HAV-63")
def test_hav_63_empty_parts_are_skipped() -> None:
    assert of_text("GEOMETRYCOLLECTION(POINT EMPTY, POINT(1 2))") == Bounds(1, 2, 1, 2)


@pytest.mark.rule("HAV-70a")
def test_hav_70a_bounds_of_geometries_do_not_wrap() -> None:
    assert of_text("POINT(179 0)", "POINT(-179 0)") == Bounds(-179, 0, 179, 0)


@pytest.mark.rule("HAV-24")
def test_hav_24_arcs_may_reach_everywhere() -> None:
    arc = encode(Shape(8, vertices=((0.0, 0.0), (1.0, 1.0), (2.0, 0.0))))
    rows = pa.array([point(1, 2), arc, encode(Shape(9)), None])

    assert bounds_of(rows) == EVERYWHERE
    assert row_bounds(rows)[:2].tolist() == [[1, 2, 1, 2], [-math.inf] * 2 + [math.inf] * 2]
    assert np.isnan(row_bounds(rows)[2:]).all()
    tin = Shape(16, parts=(Shape(17, rings=(((0.0, 0.0), (2.0, 0.0), (0.0, 3.0)),)),))
    assert bounds_of(pa.array([encode(tin)])) == Bounds(0, 0, 2, 3)


def test_infinite_coordinates_are_bounded_by_infinity() -> None:
    assert bounds_of(pa.array([point(math.inf, 1), point(0, 2)])) == Bounds(0, 1, math.inf, 2)
    assert bounds_of(pa.array([line((-math.inf, 1)), point(0, 2)])) == Bounds(-math.inf, 1, 0, 2)


def expected_bounds(tree: Shape | None) -> Bounds | None:
    if tree is None:
        return None
    there = [(x, y) for x, y, *_ in vertices_of(tree) if x == x and y == y]
    if any(8 <= kind <= 12 for kind in kinds_of(tree)):
        real = list(vertices_of(tree))
        return EVERYWHERE if real else None
    return Bounds.of(Bounds(x, y, x, y) for x, y in there)


@given(st.lists(st.one_of(st.none(), shapes(curves=True)), max_size=5), st.data())
def test_bounds_are_those_of_the_vertices(trees: list[Shape | None], data: st.DataObject) -> None:
    rows = pa.array([t and encode(t, lambda: data.draw(dialects)) for t in trees], pa.binary())

    found = row_bounds(rows, "ewkb")

    each = [None if np.isnan(row).all() else Bounds(*row.tolist()) for row in found]
    assert each == [expected_bounds(tree) for tree in trees]
    assert bounds_of(rows, "ewkb") == Bounds.of(each)
    gpkg = from_canonical(to_canonical(rows, "ewkb")[0], None, "gpkg")
    assert np.array_equal(row_bounds(gpkg, "gpkg"), found, equal_nan=True)


@given(st.lists(st.one_of(st.none(), st.tuples(numbers_or_nan, numbers_or_nan)), max_size=8))
def test_the_way_of_points_is_that_of_all_others(
    points: list[tuple[float, float] | None],
) -> None:
    rows = pa.array([None if p is None else point(*p) for p in points], pa.binary())
    mixed = pa.concat_arrays([rows, pa.array([encode(Shape(2))])])

    assert bounds_of(rows) == bounds_of(mixed)
    assert np.array_equal(row_bounds(rows), row_bounds(mixed)[:-1], equal_nan=True)


@pytest.mark.parametrize("encoding", ["wkb", "ewkb", "wkt", "geojson", "gpkg"])
def test_all_encodings_have_the_same_bounds(encoding: Encoding) -> None:
    rows = pa.array([line((0, 5), (3, -1)), None, point(7, 7)])

    assert bounds_of(from_canonical(rows, None, encoding), encoding) == Bounds(0, -1, 7, 7)


def test_damaged_rows_are_named() -> None:
    with pytest.raises(GeometryError, match="row 1 "):
        bounds_of(pa.array([point(1, 2), b"\1\2\0\0\0\1"]))
