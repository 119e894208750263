"""Geometries of one type as vertices and offsets."""

import pyarrow as pa
import pytest
import shapely

from havasu_vc.errors import GeometryError
from havasu_vc.geo.wkt import ragged


def column(*texts: str | None) -> pa.Array:
    values = [
        None if t is None else shapely.to_wkb(shapely.from_wkt(t), flavor="iso") for t in texts
    ]
    return pa.array(values, pa.binary())


def test_vertices_and_where_parts_begin() -> None:
    shapes = column("POLYGON ((0 0, 1 0, 1 1, 0 0), (2 2, 3 2, 3 3, 2 2))", None, "POLYGON EMPTY")

    vertices, (rings, polygons) = ragged(shapes, "polygon", "xy")

    assert vertices.tolist()[:2] == [[0, 0], [1, 0]]
    assert (rings.tolist(), polygons.tolist()) == ([0, 4, 8], [0, 2, 2])


@pytest.mark.parametrize(
    ("text", "kind", "dimensions", "cause"),
    [
        ("POINT (1 2)", "linestring", "xy", "it is no linestring"),
        ("POINT (1 2)", "point", "xyz", "its coordinates are not xyz"),
        ("POINT Z (1 2 3)", "point", "xy", "its coordinates are not xy"),
        ("POINT M (1 2 3)", "point", "xy", "its coordinates are not xy"),
    ],
)
def test_others_are_refused(text: str, kind: str, dimensions: str, cause: str) -> None:
    with pytest.raises(GeometryError, match=cause):
        ragged(column(text), kind, dimensions)
