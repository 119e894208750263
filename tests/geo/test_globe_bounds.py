"""Bounds of what runs on the globe, held against ways that PROJ finds along it."""

import itertools
from typing import Any

import numpy as np
import pyarrow as pa
import pyproj
import pytest
import shapely
from hypothesis import given
from hypothesis import strategies as st

from havasu_vc.geo.bounds import (
    globe_box,
    globe_row_bounds,
    may_reach,
    meets_on_globe,
    reach_of_rows,
    united_globe_bounds,
)
from havasu_vc.model.bounds import Bounds

GLOBES = {
    "spherical": pyproj.Geod(a=6371000, b=6371000),
    "karney": pyproj.Geod(ellps="WGS84"),
}
longitudes = st.floats(-180, 180) | st.sampled_from([-180.0, -179.9, 0.0, 90.0, 180.0])
latitudes = st.floats(-90, 90) | st.sampled_from([-90.0, 0.0, 60.0, 90.0])
places = st.tuples(longitudes, latitudes)
steps = st.tuples(st.floats(-3, 3), st.floats(-3, 3))


def column(*texts: str) -> pa.Array:
    return pa.array(shapely.to_wkb(shapely.from_wkt(list(texts))).tolist(), pa.binary())


def box_of(text: str) -> list[float]:
    found: list[float] = globe_row_bounds(column(text))[0].round(6).tolist()
    return found


def holds(bounds: Any, way: Any) -> bool:
    west, south, east, north = bounds
    width = east - west + (360 if west > east else 0)
    within = np.mod(way[:, 0] - west + 1e-6, 360) <= width + 2e-6
    # At a pole, and next to it, longitudes say nothing.
    within |= np.abs(way[:, 1]) > 90 - 1e-9
    return bool((within & (way[:, 1] >= south - 1e-9) & (way[:, 1] <= north + 1e-9)).all())


@pytest.mark.parametrize(
    ("text", "box"),
    [
        ("POINT (175 1)", [175, 1, 175, 1]),
        ("LINESTRING (175 0, -175 10)", [175, 0, -175, 10]),
        ("LINESTRING (-175 0, 175 10)", [175, 0, -175, 10]),
        ("LINESTRING (0 60, 90 60)", [0, 60, 90, 67.792346]),
        ("LINESTRING (0 -60, 90 -60)", [0, -67.792346, 90, -60]),
        ("LINESTRING (0 10, 0 20)", [0, 10, 0, 20]),
        ("LINESTRING (0 10, 180 10)", [0, 10, 180, 90]),
        ("LINESTRING (0 0, 100 0, -160 0, -60 0, 40 0)", [-180, 0, 180, 0]),
        ("MULTIPOINT (1 1, -179 5, 179 7)", [1, 1, -179, 7]),
        ("MULTILINESTRING ((170 0, -170 1), (-175 5, -160 7))", [170, 0, -160, 7]),
        ("POLYGON ((170 -1, -170 -1, -170 1, 170 1, 170 -1))", [170, -1.015373, -170, 1.015373]),
        ("POLYGON ((0 60, 120 60, -120 60, 0 60))", [-180, 60, 180, 90]),
        ("POLYGON ((0 60, -120 60, 120 60, 0 60))", [-180, 60, 180, 90]),
        ("POLYGON ((0 -60, 120 -60, 240 -60, 0 -60))", [-180, -90, 180, -60]),
        ("GEOMETRYCOLLECTION (POINT (179 1), POINT EMPTY, POINT (-179 2))", [179, 1, -179, 2]),
    ],
)
def test_bounds(text: str, box: list[float]) -> None:
    assert box_of(text) == pytest.approx(box, abs=2e-3)


def test_nothing_has_no_bounds_and_arcs_may_reach_anywhere() -> None:
    arc = bytes.fromhex("0108000000") + (3).to_bytes(4, "little") + np.arange(6.0).tobytes()
    values = pa.array([None, shapely.to_wkb(shapely.Point()), arc], pa.binary())

    found = globe_row_bounds(values)

    assert np.isnan(found[:2]).all() and found[2].tolist() == [-180, -90, 180, 90]


@given(st.lists(places, min_size=2, max_size=6), st.sampled_from(list(GLOBES)))
def test_a_way_stays_in_its_bounds(ends: list[tuple[float, float]], edges: str) -> None:
    globe = GLOBES[edges]
    line = pa.array([shapely.to_wkb(shapely.LineString(ends))], pa.binary())
    (bounds,) = globe_row_bounds(line, "wkb", edges)
    xs, ys = [x for x, _ in ends], [y for _, y in ends]
    box = globe_box(Bounds(min(xs), min(ys), max(xs), max(ys)))

    for (x, y), (to_x, to_y) in itertools.pairwise(ends):
        if globe.inv(x, y, to_x, to_y)[2] > 19_990_000:
            continue  # from one side of the globe to the other no way is the shortest
        way = np.array([(x, y), *globe.npts(x, y, to_x, to_y, 60), (to_x, to_y)])
        assert holds(bounds, way)
        assert holds((box.xmin, box.ymin, box.xmax, box.ymax), way)


@given(places, st.lists(steps, min_size=2, max_size=5))
def test_short_ways_have_tight_bounds(start: tuple[float, float], moves: Any) -> None:
    """Away from the poles nothing is all around that is not."""
    x, y = start[0], start[1] / 2
    ends = [(x, y)]
    for right, up in moves:
        x, y = (x + right + 180) % 360 - 180, y + up
        ends.append((x, y))
    line = pa.array([shapely.to_wkb(shapely.LineString(ends))], pa.binary())

    ((west, south, east, north),) = globe_row_bounds(line)

    assert east - west + (360 if west > east else 0) <= 3 * len(moves) + 1e-6
    lows = [latitude for _, latitude in ends]
    assert min(lows) - 0.1 <= south <= min(lows) and max(lows) <= north <= max(lows) + 0.1


@given(st.lists(st.lists(places, min_size=1, max_size=4), min_size=1, max_size=5))
def test_rows_do_not_depend_on_each_other(rows: list[list[tuple[float, float]]]) -> None:
    values = [shapely.to_wkb(shapely.MultiPoint(points)) for points in rows]
    together = globe_row_bounds(pa.array(values, pa.binary()))
    alone = [globe_row_bounds(pa.array([value], pa.binary()))[0] for value in values]

    assert together.tolist() == [each.tolist() for each in alone]
    united = united_globe_bounds(together)
    assert united is not None
    assert all(holds(united, np.array(points)) for points in rows)
    assert all(holds(bounds, np.array(points)) for bounds, points in zip(alone, rows, strict=True))


@given(st.lists(places, min_size=1, max_size=4), places, places)
def test_a_box_that_holds_a_vertex_is_met(
    points: list[tuple[float, float]], low: tuple[float, float], high: tuple[float, float]
) -> None:
    window = (low[0], min(low[1], high[1]), high[0], max(low[1], high[1]))
    bounds = globe_row_bounds(pa.array([shapely.to_wkb(shapely.MultiPoint(points))], pa.binary()))
    width = window[2] - window[0] + (360 if window[0] > window[2] else 0)
    inside = any((x - window[0]) % 360 <= width and window[1] <= y <= window[3] for x, y in points)

    assert not inside or meets_on_globe(window, bounds)[0]
    xs, ys = [x for x, _ in points], [y for _, y in points]
    assert not inside or may_reach(Bounds(min(xs), min(ys), max(xs), max(ys)), window)


def test_the_antimeridian_is_one_line_and_a_pole_one_place() -> None:
    bounds = globe_row_bounds(column("POINT (180 3)", "POINT (0 90)", "POINT (0 3)"))

    assert meets_on_globe((-180, 0, -170, 5), bounds).tolist() == [True, False, False]
    assert meets_on_globe((100, 80, 110, 90), bounds).tolist() == [False, True, False]
    assert meets_on_globe((175, 0, 185, 5), bounds).tolist() == [True, False, False]


def test_who_compares_numbers_gets_all_around_for_a_row_that_crosses() -> None:
    found = reach_of_rows(column("LINESTRING (175 0, -175 0)", "POINT (3 4)"), "wkb", "spherical")

    assert found.tolist() == [[-180, 0, 180, 0], [3, 4, 3, 4]]
