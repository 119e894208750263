import math
import struct

import numpy as np
import pyarrow as pa
import pyproj
import pytest
import shapely
from hypothesis import given
from hypothesis import strategies as st

from havasu_vc.errors import CrsError
from havasu_vc.geo.bounds import bounds_of
from havasu_vc.geo.crs import parse_crs
from havasu_vc.geo.reproject import transform, transform_bounds
from havasu_vc.geo.wkb import from_canonical, to_canonical
from havasu_vc.model.bounds import EVERYWHERE, Bounds
from tests.geo.shapes import NAN, Shape, encode

WGS84, NZTM, MERCATOR, CRS84 = map(parse_crs, ("EPSG:4326", "EPSG:2193", "EPSG:3857", "OGC:CRS84"))


def column(*texts: str | None) -> "pa.Array":
    return to_canonical(pa.array(texts, pa.string()), "wkt")[0]


def test_x_is_longitude_whatever_the_definition_says() -> None:
    (moved,) = shapely.from_wkb(transform(column("POINT (174.78 -41.28)"), WGS84, NZTM).to_pylist())

    assert moved.x == pytest.approx(1749000, abs=1000)
    assert moved.y == pytest.approx(5428000, abs=2000)


def test_every_vertex_moves_as_pyproj_moves_it() -> None:
    texts = [
        "POLYGON ((170 -40, 171 -40, 171 -41, 170 -40), (170 -40, 170.2 -40, 170 -40.2, 170 -40))",
        None,
        "MULTIPOINT ((170 -40), (171 -41))",
        "GEOMETRYCOLLECTION (POINT (170 -40), LINESTRING (170 -40, 172 -42))",
    ]
    moved = transform(column(*texts), WGS84, NZTM)

    step = pyproj.Transformer.from_crs(4326, 2193, always_xy=True)
    expected = shapely.transform(shapely.from_wkt(texts), step.transform, interleaved=False)
    assert moved.to_pylist() == [
        None if each is None else shapely.to_wkb(each, flavor="iso") for each in expected
    ]


def test_z_m_nan_and_empties_stay() -> None:
    texts = ["POINT ZM (0 0 5 6)", "POINT EMPTY", "POLYGON EMPTY", "LINESTRING Z (0 0 1, 0 0 2)"]
    rows = pa.concat_arrays(
        [column(*texts), pa.array([encode(Shape(2, vertices=((NAN, 1.0), (0.0, 0.0))))])]
    )

    moved = transform(rows, WGS84, MERCATOR)

    found = from_canonical(moved.slice(0, 4), None, "wkt").to_pylist()
    assert [text.replace("-0", "0") for text in found[1:3]] == texts[1:3]
    assert found[0].endswith(" 5 6)")
    assert shapely.get_coordinates(shapely.from_wkb(moved[3].as_py()), include_z=True)[
        :, 2
    ].tolist() == [1, 2]
    x, y = struct.unpack_from("<dd", moved[4].as_py(), 9)
    assert math.isnan(x)
    assert y == 1


@given(
    st.lists(st.one_of(st.none(), st.tuples(st.floats(167, 178), st.floats(-47, -35))), max_size=5),
    st.integers(0, 5),
)
def test_there_and_back(points: list[tuple[float, float] | None], start: int) -> None:
    rows = pa.array([p and encode(Shape(1, vertices=(p,))) for p in points], pa.binary())[start:]

    back = transform(transform(rows, WGS84, NZTM), NZTM, WGS84)

    given_points = [p for p in points[start:] if p is not None]
    found = shapely.get_coordinates(shapely.from_wkb(back.drop_null().to_pylist()))
    assert back.is_null().to_pylist() == rows.is_null().to_pylist()
    assert np.allclose(found, np.array(given_points).reshape(-1, 2), atol=1e-7)


def test_the_same_system_is_the_same_column() -> None:
    rows = column("POINT (1 2)")

    assert transform(rows, WGS84, WGS84) is rows
    assert transform(rows, WGS84, CRS84).equals(rows)


def test_what_cannot_be_transformed_is_named() -> None:
    with pytest.raises(CrsError, match=r"row 2 lies where EPSG:4326 cannot .* EPSG:3857"):
        transform(column("POINT (1 1)", None, "POINT (1 95)"), WGS84, MERCATOR)


@given(st.floats(160, 170), st.floats(-47, -35), st.floats(0, 9), st.floats(0, 9))
def test_transformed_bounds_cover_transformed_points(
    x: float, y: float, width: float, height: float
) -> None:
    bounds = Bounds(x, y, x + width, y + height)

    found = transform_bounds(bounds, WGS84, NZTM)

    inside = [
        Shape(1, vertices=((x + width * a / 4, y + height * b / 4),))
        for a in range(5)
        for b in range(5)
    ]
    moved = bounds_of(transform(pa.array([encode(each) for each in inside]), WGS84, NZTM))
    assert moved is not None
    wide = Bounds(found.xmin - 1, found.ymin - 1, found.xmax + 1, found.ymax + 1)  # metres
    assert wide.covers(moved)


def test_bounds_across_the_antimeridian_widen() -> None:
    across = transform_bounds(Bounds(1_600_000, 4_700_000, 3_500_000, 6_200_000), NZTM, WGS84)

    assert across.xmin <= -180 < 180 <= across.xmax
    assert transform_bounds(EVERYWHERE, NZTM, WGS84) == EVERYWHERE
    assert transform_bounds(across, WGS84, WGS84) is across


def test_bounds_out_of_reach() -> None:
    with pytest.raises(CrsError, match="cannot be transformed"):
        transform_bounds(Bounds(0, 91, 1, 95), WGS84, MERCATOR)
