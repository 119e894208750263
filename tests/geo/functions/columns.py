"""Columns of geometries, and shapes whose small whole numbers make them touch."""

from typing import Any

import pyarrow as pa
import shapely
from hypothesis import strategies as st

from havasu_vc.geo.functions.all_functions import FUNCTIONS


def binary(shapes: list[Any]) -> "pa.Array[Any]":
    """Return shapely's geometries as WKB."""
    return pa.array([None if one is None else one.wkb for one in shapes], pa.binary())


def text(shapes: list[Any]) -> "pa.Array[Any]":
    """Return shapely's geometries as WKT."""
    return pa.array([None if one is None else one.wkt for one in shapes], pa.string())


def call(name: str, *columns: Any) -> list[Any]:
    """Call a function with arrays, or with lists of what pyarrow understands."""
    given = [one if isinstance(one, pa.Array) else pa.array(one) for one in columns]
    found: list[Any] = FUNCTIONS[name](*given).to_pylist()
    return found


number = st.integers(0, 6)
point = st.tuples(number, number)


@st.composite
def _boxes(draw: st.DrawFn) -> shapely.Geometry:
    (west, south), width, height = draw(point), draw(number), draw(number)
    return shapely.box(west, south, west + width + 1, south + height + 1)


NEAR_SHAPES = st.one_of(
    point.map(shapely.Point),
    st.lists(point, min_size=2, max_size=4, unique=True).map(shapely.LineString),
    st.lists(point, min_size=1, max_size=4).map(shapely.MultiPoint),
    st.lists(point, min_size=3, max_size=3, unique=True)
    .map(shapely.Polygon)
    .filter(lambda shape: shape.is_valid),
    _boxes(),
)
