import pytest
from hypothesis import given
from hypothesis import strategies as st

from havasu_vc.model.bounds import Bounds, GeographicBounds


def around(west: float, east: float) -> GeographicBounds:
    return GeographicBounds(west, 0, east, 1)


@pytest.mark.rule("HAV-70")
def test_hav_70_crossing_bounds_have_two_parts() -> None:
    crossing = GeographicBounds(170, 10, -170, 20)

    assert crossing.parts == (Bounds(170, 10, 180, 20), Bounds(-180, 10, -170, 20))
    assert crossing.width == 20
    assert crossing.contains(175, 15)
    assert crossing.contains(-175, 15)
    assert not crossing.contains(0, 15)
    assert not crossing.contains(175, 9)
    assert (around(10, 25).width, around(10, 10).width) == (15, 0)
    assert not around(10, 10).crosses
    assert GeographicBounds(1, 2, 3, 4).parts == (Bounds(1, 2, 3, 4),)


@pytest.mark.rule("HAV-70b")
def test_hav_70b_unions_know_of_the_wrap() -> None:
    crossing = around(170, -170)

    assert crossing.union(around(175, 178)) == crossing
    assert crossing.union(around(-175, -160)) == around(170, -160)
    with_far = crossing.union(around(0, 10))
    assert all(with_far.contains(longitude, 0) for longitude in (170, 180, -180, -170, 0, 5, 10))
    assert around(-180, 180).union(around(3, 4)) == around(-180, 180)
    assert around(-180, -170).union(around(170, 180)) == crossing
    assert around(10, 20).union(around(-20, -10)) == around(-20, 20)
    # Half a degree less the one way around than the other.
    assert around(-90, -80).union(around(95, 95.5)) == around(95, -80)
    # The meridian of -180 is that of 180, and lies in what holds it by either name.
    assert around(-180, -180).union(around(170, 180)) == around(170, -180)


@pytest.mark.parametrize(
    "corners",
    [
        (181, 0, 0, 0),
        (-180.5, 0, 0, 0),
        (0, 1, 0, 0),
        (0, 0, 0, 91),
        (0, -90.5, 0, 0),
        (float("nan"), 0, 0, 0),
        (0, 0, 0, float("nan")),
    ],
)
def test_what_is_no_rectangle_on_the_globe(corners: tuple[float, float, float, float]) -> None:
    with pytest.raises(ValueError, match="bounds"):
        GeographicBounds(*corners)


@pytest.mark.parametrize(
    ("west", "east", "expected"),
    [
        (170, 190, (170, -170)),
        (-190, -170, (170, -170)),
        (180, 190, (-180, -170)),
        (530, 540, (170, 180)),
        (0, 360, (-180, 180)),
        (-180, 180, (-180, 180)),
        (0, 359, (0, -1)),
        (5, 5, (5, 5)),
        (-180, -180, (-180, -180)),
        (170, 180.5, (170, -179.5)),
        (-180.5, -170, (179.5, -170)),
        (530, 539.5, (170, 179.5)),
    ],
)
def test_longitudes_of_any_turn(west: float, east: float, expected: tuple[float, float]) -> None:
    found = GeographicBounds.around(west, -95, east, 95)

    assert (found.west, found.east) == expected
    assert (found.south, found.north) == (-90, 90)
    with pytest.raises(ValueError, match="west"):
        GeographicBounds.around(1, 0, 0, 0)


degrees = st.integers(-18, 18).map(lambda tens: tens * 10.0)
spans = st.builds(around, degrees, degrees)


@given(st.lists(spans, min_size=1, max_size=5))
def test_unions_hold_all_and_are_the_narrowest(bounds: list[GeographicBounds]) -> None:
    union = GeographicBounds.of(bounds)
    assert union is not None
    held = [
        longitude
        for longitude in range(-180, 181, 5)
        if any(one.contains(longitude, 0.5) for one in bounds)
    ]

    assert all(union.contains(longitude, 0.5) for longitude in held)
    if 5 < union.width < 360:
        # Without either end some of it would be lost.
        for west, east in ((union.west + 5, union.east), (union.west, union.east - 5)):
            less = GeographicBounds.around(west, 0, east + (360 if east < west else 0), 1)
            assert not all(less.contains(longitude, 0.5) for longitude in held)
    assert GeographicBounds.of([*bounds, union]) == union


@given(spans, spans)
def test_unions_do_not_depend_on_order(one: GeographicBounds, other: GeographicBounds) -> None:
    assert one.union(other).width == other.union(one).width
    assert one.union(one).width == one.width


def test_nothing_has_no_union() -> None:
    assert GeographicBounds.of([]) is None
