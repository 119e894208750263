import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from havasu_vc.model.bounds import EVERYWHERE, Bounds

coordinates = st.integers(-6, 6).map(float)


@st.composite
def boxes(draw: st.DrawFn) -> Bounds:
    xmin, xmax = sorted((draw(coordinates), draw(coordinates)))
    ymin, ymax = sorted((draw(coordinates), draw(coordinates)))
    return Bounds(xmin, ymin, xmax, ymax)


def corners(box: Bounds) -> list[tuple[float, float]]:
    return [(x, y) for x in (box.xmin, box.xmax) for y in (box.ymin, box.ymax)]


def holds(box: Bounds, x: float, y: float) -> bool:
    return box.xmin <= x <= box.xmax and box.ymin <= y <= box.ymax


GRID = [(x / 2, y / 2) for x in range(-12, 13) for y in range(-12, 13)]


@given(boxes(), boxes())
def test_intersects_is_sharing_a_point(a: Bounds, b: Bounds) -> None:
    assert a.intersects(b) == any(holds(a, *p) and holds(b, *p) for p in GRID)
    assert a.intersects(b) == b.intersects(a)


@given(boxes(), boxes())
def test_covers_is_holding_every_corner(a: Bounds, b: Bounds) -> None:
    assert a.covers(b) == all(holds(a, *corner) for corner in corners(b))
    assert a.covers(a)


@given(boxes(), boxes(), boxes())
def test_the_union_is_the_least_that_covers_both(a: Bounds, b: Bounds, c: Bounds) -> None:
    union = a.union(b)

    assert union.covers(a)
    assert union.covers(b)
    assert not (c.covers(a) and c.covers(b)) or c.covers(union)
    assert union == b.union(a)
    assert a.union(EVERYWHERE) == EVERYWHERE
    assert Bounds.of([None, a, None, b]) == union


@given(boxes(), st.lists(boxes(), min_size=1), boxes())
@pytest.mark.rule("HAV-70e")
def test_hav_70e_a_file_with_a_matching_row_is_planned(
    row: Bounds, others: list[Bounds], window: Bounds
) -> None:
    file = Bounds.of([row, *others])
    assert file is not None

    assert not row.intersects(window) or file.intersects(window)
    assert not window.covers(row) or file.intersects(window)
    assert not row.covers(window) or file.covers(window)
    assert EVERYWHERE.covers(window)


FILE = Bounds(0, 0, 10, 10)


@pytest.mark.rule("HAV-70f")
def test_hav_70f_within_projects_to_intersects() -> None:
    assert FILE.intersects(Bounds(9, 9, 20, 20))
    assert not FILE.intersects(Bounds(11, 11, 20, 20))


@pytest.mark.rule("HAV-70g")
def test_hav_70g_contains_projects_to_covers() -> None:
    assert FILE.covers(Bounds(2, 2, 3, 3))
    assert not FILE.covers(Bounds(9, 9, 12, 12))
    assert FILE.covers(Bounds(0, 2, 0, 3))


@pytest.mark.rule("HAV-70j")
def test_hav_70j_bounds_may_be_a_point_or_a_line() -> None:
    point, line = Bounds(1, 1, 1, 1), Bounds(0, 1, 5, 1)

    assert point.intersects(line)
    assert line.covers(point)
    assert point.covers(point)
    assert not point.intersects(Bounds(2, 2, 2, 2))


@pytest.mark.parametrize("sides", [(1, 0, 0, 0), (0, 1, 0, 0), (math.nan, 0, 1, 1)])
def test_what_is_no_rectangle_is_refused(sides: tuple[float, float, float, float]) -> None:
    with pytest.raises(ValueError, match="not bounds"):
        Bounds(*sides)


def test_everywhere_cannot_be_written_down() -> None:
    assert FILE.finite
    assert not EVERYWHERE.finite
