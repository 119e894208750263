"""Paths and labels of geometries, against shapely and against what is odd."""

import struct

import numpy as np
import pyarrow as pa
import pytest
import shapely
from hypothesis import given
from hypothesis import strategies as st

from havasu_vc.geo.sketching import (
    LINE_PATH,
    POINT_PATH,
    RING_PATH,
    geometry_labels,
    outlines,
    simplified,
)
from tests.geo.shapes import Shape, encode, shapes, vertices_of


def wkb(*texts: str | None) -> pa.Array:
    return pa.array(
        [None if text is None else shapely.to_wkb(shapely.from_wkt(text)) for text in texts],
        pa.binary(),
    )


def test_paths_of_every_kind() -> None:
    found = outlines(
        wkb(
            "POINT (1 2)",
            None,
            "LINESTRING Z (0 0 9, 1 1 9, 2 0 9)",
            "MULTIPOLYGON (((0 0, 4 0, 4 4, 0 0), (1 1, 2 1, 2 2, 1 1)))",
            "GEOMETRYCOLLECTION (POINT (7 8), LINESTRING (0 0, 1 1))",
            "POLYGON EMPTY",
        )
    )

    assert found.rows.tolist() == [0, 2, 3, 3, 4, 4]
    assert found.kinds.tolist() == [
        POINT_PATH,
        LINE_PATH,
        RING_PATH,
        RING_PATH,
        POINT_PATH,
        LINE_PATH,
    ]
    assert found.counts.tolist() == [1, 3, 4, 4, 1, 2]
    assert found.x[:4].tolist() == [1, 0, 1, 2]
    assert found.y[:4].tolist() == [2, 0, 1, 0]


@given(st.lists(shapes(curves=True), max_size=5))
def test_vertices_are_all_that_have_a_place(drawn: list[Shape]) -> None:
    found = outlines(pa.array([encode(shape) for shape in drawn], pa.binary()))
    wanted = [vertex[:2] for shape in drawn for vertex in vertices_of(shape)]
    coordinates = np.array(wanted).reshape(-1, 2)
    coordinates = coordinates[np.isfinite(coordinates).all(axis=1)]

    assert np.array_equal(np.column_stack([found.x, found.y]), coordinates)
    assert found.counts.sum() == len(found.x)
    assert (found.counts > 0).all()


def test_places_that_are_none_are_left_out() -> None:
    line = struct.pack("<BII6d", 1, 2, 3, 0, 0, np.nan, 1, 2, np.inf)
    found = outlines(pa.array([line, struct.pack("<BI2d", 1, 1, np.nan, np.nan)], pa.binary()))

    assert found.rows.tolist() == [0]
    assert found.counts.tolist() == [1]


def test_rows_that_cannot_be_read_have_no_path() -> None:
    column = pa.array([b"\x01\x02", *wkb("POINT (1 2)").to_pylist(), b"", None], pa.binary())

    assert outlines(column).rows.tolist() == [1]
    assert geometry_labels(column).to_pylist() == [
        "unreadable geometry",
        "POINT (1 2)",
        "unreadable geometry",
        None,
    ]


@pytest.mark.parametrize(
    ("text", "label"),
    [
        ("POINT EMPTY", "POINT EMPTY"),
        ("POINT (0.1 -1e300)", "POINT (0.1 -1e+300)"),
        ("LINESTRING (0 0, 1 1)", "LINESTRING of 2 vertices"),
        ("MULTIPOLYGON EMPTY", "MULTIPOLYGON EMPTY"),
        ("POLYGON ((0 0, 4 0, 4 4, 0 0))", "POLYGON of 4 vertices"),
        ("LINESTRING Z (0 0 7, 1 1 -2.5)", "LINESTRING of 2 vertices, height -2.5 to 7"),
        ("MULTIPOINT Z ((0 0 7), (1 1 7))", "MULTIPOINT of 2 vertices, height 7"),
        ("POINT Z (1 2 3)", "POINT (1 2), height 3"),
        ("POINT Z EMPTY", "POINT EMPTY"),
    ],
)
def test_labels(text: str, label: str) -> None:
    assert geometry_labels(wkb(text)).to_pylist() == [label]


def test_heights_of_either_byte_order() -> None:
    shapes = [shapely.LineString([(0, 0, z), (1, 1, z + 1)]) for z in (1, 2)]
    column = pa.array(
        [
            shapely.to_wkb(shape, byte_order=order, flavor="iso")
            for order, shape in enumerate(shapes)
        ],
        pa.binary(),
    )

    assert geometry_labels(column).to_pylist() == [
        "LINESTRING of 2 vertices, height 1 to 2",
        "LINESTRING of 2 vertices, height 2 to 3",
    ]


def test_nothing() -> None:
    assert len(outlines(wkb()).rows) == 0
    assert geometry_labels(wkb(None)).to_pylist() == [None]


def test_large_shapes_are_simplified_and_others_stay() -> None:
    turns = np.linspace(0, 2 * np.pi, 5000)
    circle = shapely.to_wkb(shapely.Polygon(np.column_stack([np.cos(turns), np.sin(turns)])))
    column = pa.array([circle, *wkb("POINT (1 2)").to_pylist()], pa.binary())
    found = simplified(column, np.array([0]), 1000)

    assert found[1] == column[1]
    shape = shapely.from_wkb(found[0].as_py())
    assert 20 < shapely.get_num_coordinates(shape) <= 1000
    assert shape.area == pytest.approx(np.pi, rel=0.01)
