from collections.abc import Callable

import numpy as np
import pyarrow as pa
import pytest
import shapely
from hypothesis import example, given
from hypothesis import strategies as st

from havasu_vc.errors import InvalidArgumentError
from havasu_vc.geo.bounds import bounds_of
from havasu_vc.geo.crs import parse_crs
from havasu_vc.geo.predicates import (
    SpatialPredicate,
    Window,
    box_array,
    geometry_files,
    raster_files,
)
from havasu_vc.model.bounds import EVERYWHERE, Bounds, GeographicBounds
from tests.geo.shapes import Shape, encode, sound_shapes

INTERSECTS, WITHIN, CONTAINS = SpatialPredicate
ROW_TESTS: dict[str, tuple[SpatialPredicate, Callable[..., bool]]] = {
    "intersects": (INTERSECTS, shapely.intersects),
    "within": (WITHIN, shapely.within),
    "covered by": (WITHIN, shapely.covered_by),
    "contains": (CONTAINS, shapely.contains),
    "covers": (CONTAINS, shapely.covers),
}


def window(*corners: float) -> Window:
    return Window.of_bounds(Bounds(*corners))


def planned(predicate: SpatialPredicate, asked: Window, *files: Bounds | None) -> list[bool]:
    found: list[bool] = geometry_files(predicate, asked, box_array(files)).tolist()
    return found


def rasters(
    predicate: SpatialPredicate, asked: Window, *files: GeographicBounds | None
) -> list[bool]:
    found: list[bool] = raster_files(predicate, asked, box_array(files)).tolist()
    return found


FILE = Bounds(0, 0, 10, 10)


@pytest.mark.rule("HAV-70f")
def test_hav_70f_rows_within_a_window_need_a_file_that_meets_it() -> None:
    assert planned(WITHIN, window(9, 9, 20, 20), FILE) == [True]
    assert planned(WITHIN, window(11, 11, 20, 20), FILE) == [False]


@pytest.mark.rule("HAV-70g")
def test_hav_70g_rows_that_contain_a_window_need_a_file_that_covers_it() -> None:
    assert planned(CONTAINS, window(2, 2, 3, 3), FILE) == [True]
    assert planned(CONTAINS, window(9, 9, 12, 12), FILE) == [False]
    assert planned(CONTAINS, window(0, 0, 10, 10), FILE) == [True]  # touches the boundary alone
    assert planned(CONTAINS, Window.parse("POINT (10 10)"), FILE) == [True]


@pytest.mark.rule("HAV-70j")
def test_hav_70j_bounds_that_are_a_point_or_a_line() -> None:
    point, line = Bounds(5, 5, 5, 5), Bounds(0, 5, 10, 5)
    triangle = Window.parse("POLYGON ((0 0, 10 0, 10 10, 0 0))")

    for asked in (window(5, 5, 6, 6), window(4, 4, 6, 6), triangle, Window.parse("POINT (5 5)")):
        assert planned(INTERSECTS, asked, point, line) == [True, True]
    assert planned(INTERSECTS, window(6, 6, 7, 7), point, line) == [False, False]
    assert planned(CONTAINS, Window.parse("POINT (5 5)"), point, line) == [True, True]


def test_what_is_not_known_is_read() -> None:
    for predicate in SpatialPredicate:
        assert planned(predicate, window(50, 50, 51, 51), None, EVERYWHERE, FILE) == [
            True,
            True,
            False,
        ]
        assert rasters(predicate, window(50, 50, 51, 51), None) == [True]
        assert planned(predicate, Window.parse("POLYGON EMPTY"), FILE) == [True]
        assert rasters(predicate, Window.parse("POINT EMPTY"), None) == [True]


def test_the_shape_of_the_window_counts_not_its_bounds_alone() -> None:
    triangle = Window.parse("POLYGON ((0 0, 10 10, 0 10, 0 0))")

    assert planned(INTERSECTS, triangle, Bounds(6, 1, 9, 2), Bounds(1, 6, 2, 9)) == [False, True]


def test_a_window_that_is_not_valid_counts_as_its_bounds() -> None:
    bow_tie = Window.parse("POLYGON ((0 0, 10 10, 10 0, 0 10, 0 0))")

    assert planned(INTERSECTS, bow_tie, Bounds(4, 8, 6, 9)) == [True]


@pytest.mark.parametrize(
    "value",
    [
        "POINT (3 4)",
        '{"type": "Point", "coordinates": [3, 4]}',
        shapely.to_wkb(shapely.Point(3, 4)),
        shapely.to_wkb(shapely.set_srid(shapely.Point(3, 4), 2193), include_srid=True),
    ],
)
def test_windows_are_read_in_every_form(value: str | bytes) -> None:
    asked = Window.parse(value)

    assert asked.bounds == Bounds(3, 4, 3, 4)
    assert (asked.crs is not None) == (isinstance(value, bytes) and len(value) > 21)


@pytest.mark.parametrize("value", ["", "POINT (1", b"\x01", '{"type": "Feature"}', "parcels"])
def test_what_is_no_window_is_said_in_one_line(value: str | bytes) -> None:
    with pytest.raises(InvalidArgumentError, match="window"):
        Window.parse(value)


@pytest.mark.rule("HAV-70")
def test_hav_70_raster_bounds_wrap() -> None:
    crossing = GeographicBounds(170, 10, -170, 20)

    for longitude, meets in ((175, True), (-175, True), (0, False), (180, True), (-180, True)):
        asked = Window.parse(f"POINT ({longitude} 15)")
        assert rasters(INTERSECTS, asked, crossing) == [meets]
        assert rasters(CONTAINS, asked, crossing) == [meets]


def test_rasters_on_both_sides_of_the_antimeridian_meet() -> None:
    assert rasters(INTERSECTS, window(-180, 0, -170, 1), GeographicBounds(170, 0, 180, 1)) == [True]
    assert rasters(INTERSECTS, window(0, 89, 1, 90), GeographicBounds(50, 80, 51, 90)) == [True]
    assert rasters(INTERSECTS, window(0, 89, 1, 90), GeographicBounds(50, 80, 51, 89)) == [False]


@pytest.mark.rule("HAV-70h")
def test_hav_70h_the_window_is_brought_to_wgs84_first() -> None:
    mercator, nztm = parse_crs("EPSG:3857"), parse_crs("EPSG:2193")
    files = GeographicBounds(10, 10, 11, 11), GeographicBounds(174, -42, 175, -41)

    near = Window.of_bounds(Bounds(1_150_000, 1_150_000, 1_160_000, 1_160_000), mercator)
    assert rasters(INTERSECTS, near, *files) == [True, False]
    south = Window.of_bounds(Bounds(1_740_000, 5_420_000, 1_750_000, 5_430_000), nztm)
    assert rasters(INTERSECTS, south, *files) == [False, True]
    assert rasters(CONTAINS, south, *files) == [False, True]


def test_a_window_that_has_no_place_on_the_globe_leaves_no_file_out() -> None:
    disc = parse_crs("+proj=ortho +lat_0=80 +lon_0=0 +datum=WGS84")
    asked = Window.of_bounds(Bounds(-7e6, -7e6, 7e6, 7e6), disc)

    assert rasters(INTERSECTS, asked, GeographicBounds(0, -80, 1, -79)) == [True]


@st.composite
def near_shapes(draw: st.DrawFn) -> shapely.Geometry:
    """Small integers make shapes touch, share edges and fall together."""
    number = st.integers(0, 6)
    point = st.tuples(number, number)
    match draw(st.sampled_from(["point", "line", "box", "triangle", "points"])):
        case "point":
            return shapely.Point(draw(point))
        case "line":
            return shapely.LineString(draw(st.lists(point, min_size=2, max_size=4)))
        case "box":
            (west, south), width, height = draw(point), draw(number), draw(number)
            return shapely.box(west, south, west + width + 1, south + height + 1)
        case "triangle":
            corners = draw(st.lists(point, min_size=3, max_size=4, unique=True))
            return shapely.Polygon(corners)
        case _:
            return shapely.MultiPoint(draw(st.lists(point, min_size=1, max_size=4)))


@given(st.lists(st.lists(near_shapes(), max_size=3), min_size=1, max_size=4), near_shapes())
@pytest.mark.rule("HAV-70e")
def test_hav_70e_a_file_with_a_row_that_matches_is_read(
    files: list[list[shapely.Geometry]], asked: shapely.Geometry
) -> None:
    boxes = box_array(bounds_of(pa.array([row.wkb for row in rows], pa.binary())) for rows in files)
    for name, (predicate, test) in ROW_TESTS.items():
        found = geometry_files(predicate, Window(asked), boxes)
        for rows, read in zip(files, found, strict=True):
            matches = [row for row in rows if row.is_valid and asked.is_valid and test(row, asked)]
            assert read or not matches, name


@given(sound_shapes(dimensions=(0,)), sound_shapes(dimensions=(0,)))
@example(
    Shape(2, vertices=((0.0, 0.0), (0.0, 4e16), (5e296, 0.0), (-5e296, -1.0))),
    Shape(2, vertices=((0.0, 5e16), (0.0, 0.0))),
)
@pytest.mark.rule("HAV-70e")
def test_hav_70e_whatever_the_numbers(row: object, asked: object) -> None:
    geometries = [shapely.from_wkb(encode(one)) for one in (row, asked)]  # type: ignore[arg-type]
    if not all(geometry.is_valid for geometry in geometries):
        return
    boxes = box_array([bounds_of(pa.array([geometries[0].wkb]))])
    with np.errstate(all="ignore"):
        for predicate, test in ROW_TESTS.values():
            if test(*geometries):
                assert geometry_files(predicate, Window(geometries[1]), boxes)[0]


longitudes, latitudes = (
    st.integers(-18, 18).map((10.0).__mul__),
    st.integers(-9, 9).map((10.0).__mul__),
)


@st.composite
def geographic(draw: st.DrawFn) -> GeographicBounds:
    south, north = sorted((draw(latitudes), draw(latitudes)))
    return GeographicBounds(draw(longitudes), south, draw(longitudes), north)


@given(st.lists(geographic(), min_size=1, max_size=4), longitudes, latitudes)
@pytest.mark.rule("HAV-70e")
def test_hav_70e_a_point_in_a_raster_finds_its_file(
    rows: list[GeographicBounds], longitude: float, latitude: float
) -> None:
    united = GeographicBounds.of(rows)
    asked = Window.parse(f"POINT ({longitude} {latitude})")
    for predicate in (INTERSECTS, CONTAINS):
        if any(row.contains(longitude, latitude) for row in rows):
            assert rasters(predicate, asked, united) == [True]


def test_many_files_take_one_call() -> None:
    west = np.arange(100_000, dtype=float)
    boxes = np.column_stack([west, west, west + 1, west + 1])

    found = geometry_files(INTERSECTS, window(10.5, 10.5, 12.5, 12.5), boxes)

    assert np.flatnonzero(found).tolist() == [10, 11, 12]
