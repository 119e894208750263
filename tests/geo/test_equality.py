import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from havasu_vc.errors import GeometryError
from havasu_vc.geo.wkb import Encoding, equal, from_canonical
from tests.geo.shapes import Dialect, Shape, encode, quiet_dialects, shapes, with_srid

POINT = Shape(1, vertices=((1.0, 2.0),))
trees = st.lists(st.one_of(st.none(), shapes()), min_size=1, max_size=5)
binary = st.sampled_from(["wkb", "ewkb", "gpkg"])


def written(values: list[Shape | None], encoding: Encoding, data: st.DataObject) -> "pa.Array":
    if encoding == "gpkg":
        wkb = pa.array([tree and encode(tree) for tree in values], pa.binary())
        return from_canonical(wkb, None, "gpkg")
    return pa.array(
        [tree and encode(tree, lambda: data.draw(quiet_dialects)) for tree in values], pa.binary()
    )


@given(trees, binary, binary, st.data())
def test_how_a_geometry_is_written_does_not_matter(
    values: list[Shape | None], left: Encoding, right: Encoding, data: st.DataObject
) -> None:
    found = equal(written(values, left, data), written(values, right, data), left, right)

    assert found.to_pylist() == [True] * len(values)


@given(
    st.lists(st.tuples(st.one_of(st.none(), shapes()), st.one_of(st.none(), shapes())), max_size=4),
    st.data(),
)
def test_equality_is_that_of_the_trees(
    pairs: list[tuple[Shape | None, Shape | None]], data: st.DataObject
) -> None:
    left, right = ([pair[side] for pair in pairs] for side in (0, 1))

    found = equal(written(left, "wkb", data), written(right, "ewkb", data), "wkb", "ewkb")
    turned = equal(written(right, "gpkg", data), written(left, "ewkb", data), "gpkg", "ewkb")

    expected = [(a and encode(a)) == (b and encode(b)) for a, b in pairs]
    assert found.to_pylist() == expected
    assert turned.to_pylist() == expected


def test_the_srid_is_part_of_the_geometry() -> None:
    plain = encode(POINT)
    left = pa.array(
        [with_srid(POINT, 4326), with_srid(POINT, 4326, Dialect(big=True)), plain, plain]
    )
    right = pa.array([with_srid(POINT, 4326), with_srid(POINT, 4326), with_srid(POINT, 0), None])

    assert equal(left, right, "ewkb", "ewkb").to_pylist() == [True, True, True, False]
    assert equal(left, left[::-1], "ewkb", "ewkb").to_pylist() == [False] * 4


def test_text_is_compared_as_geometry() -> None:
    left = pa.array(["POINT(1 2)", "POINT (1.0 2)", "POINT (1 2)", None])
    right = pa.array([encode(POINT)] * 4)
    json = pa.array(['{"coordinates":[1,2],"type":"Point"}'] * 3 + [None])

    assert equal(left, right, "wkt", "wkb").to_pylist() == [True, True, True, False]
    assert equal(left, json, "wkt", "geojson").to_pylist() == [True] * 4
    assert equal(left, left.take(pa.array([1, 2, 0, 3])), "wkt", "wkt").to_pylist() == [True] * 4


def test_equal_bytes_are_not_parsed_and_others_must_be_sound() -> None:
    damaged = pa.array([b"\1\2"])

    assert equal(damaged, damaged, "wkb", "wkb").to_pylist() == [True]
    with pytest.raises(GeometryError):
        equal(damaged, pa.array([b"\1"]), "wkb", "wkb")
    with pytest.raises(ValueError, match="1 and 2 rows"):
        equal(damaged, pa.array([b"\1", b""]), "wkb", "wkb")
