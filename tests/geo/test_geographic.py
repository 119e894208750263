import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from havasu_vc.errors import CrsError
from havasu_vc.geo.crs import parse_crs
from havasu_vc.geo.reproject import geographic_bounds, geographic_positions
from havasu_vc.model.bounds import EVERYWHERE, Bounds, GeographicBounds
from tests.support.examples import examples


def bounds(crs: str, *corners: float) -> GeographicBounds | None:
    return geographic_bounds(Bounds(*corners), parse_crs(crs))


@pytest.mark.parametrize(
    ("crs", "corners", "expected"),
    [
        pytest.param("EPSG:3857", (0, -2e3, 2e3, 0), (0, -0.017966, 0.017966, 0), id="HAV-65"),
        pytest.param("EPSG:4326", (100, 30, 130, 50), (100, 30, 130, 50), id="HAV-70d"),
        pytest.param(
            "EPSG:3413", (-1e6, -1e6, 1e6, 1e6), (-180, 76.998816, 180, 90), id="HAV-68-north"
        ),
        pytest.param(
            "EPSG:3031", (-1e6, -1e6, 1e6, 1e6), (-180, -90, 180, -77.037401), id="HAV-68-south"
        ),
        pytest.param(
            "EPSG:32660",
            (7e5, 0, 9e5, 2e5),
            (178.797053, 0, -179.405897, 1.80856),
            id="HAV-69-utm",
        ),
        pytest.param(
            "EPSG:2193",
            (1.8e6, 5.4e6, 2.4e6, 6e6),
            (175.222391, -41.526672, -177.471076, -35.817402),
            id="HAV-69-nztm",
        ),
        pytest.param(
            "EPSG:3832",
            (3e6, 0, 4e6, 1e6),
            (176.949458, 0, -174.067389, 9.005883),
            id="HAV-69-pdc",
        ),
        pytest.param("EPSG:4326", (170, -9, 190, 9), (170, -9, -170, 9), id="beyond 180"),
        pytest.param("EPSG:4326", (0, -90.5, 360, 90.5), (-180, -90, 180, 90), id="half a cell"),
        pytest.param("EPSG:4267", (170, -9, 190, 9), (170, -9, -170, 9), id="another datum"),
        pytest.param("EPSG:4267", (-181, -91, 180, 91), (-180, -90, 180, 90), id="all of it"),
        pytest.param("EPSG:3832", (-3e6, 0, 4.1e7, 1e6), (-180, 0, 180, 9.005883), id="two turns"),
    ],
)
@pytest.mark.rule("HAV-65", "HAV-68", "HAV-69", "HAV-70d")
def test_bounds_are_found(
    crs: str, corners: tuple[float, ...], expected: tuple[float, ...]
) -> None:
    found = bounds(crs, *corners)

    assert found is not None
    assert (found.west, found.south, found.east, found.north) == pytest.approx(expected, abs=2e-5)


def test_degrees_stay_as_they_are() -> None:
    assert bounds("EPSG:4326", 0.1, 0.2, 0.3, 0.7) == GeographicBounds(0.1, 0.2, 0.3, 0.7)
    assert bounds("OGC:CRS84", 0.1, 0.2, 0.3, 0.7) == GeographicBounds(0.1, 0.2, 0.3, 0.7)


@pytest.mark.parametrize(
    ("crs", "corners"),
    [
        ("+proj=geos +h=35785831 +lon_0=0 +datum=WGS84", (-5.5e6, -5.5e6, 5.5e6, 5.5e6)),
        ("+proj=ortho +lat_0=80 +lon_0=0 +datum=WGS84", (-7e6, -1e6, 7e6, 1e6)),
        ("EPSG:4326", (0, 95, 1, 96)),
    ],
)
def test_what_is_not_all_on_the_globe_has_none(crs: str, corners: tuple[float, ...]) -> None:
    assert bounds(crs, *corners) is None


def test_what_is_not_finite_has_none() -> None:
    assert geographic_bounds(EVERYWHERE, parse_crs("EPSG:2193")) is None


def test_a_system_of_a_building_site_is_not_on_the_globe() -> None:
    site = parse_crs('LOCAL_CS["site",UNIT["metre",1]]')

    with pytest.raises(CrsError):
        geographic_bounds(Bounds(0, 0, 1, 1), site)


SYSTEMS = {
    "EPSG:32660": (2e5, -9e6, 8e5, 9e6),
    "EPSG:2193": (1e6, 4.7e6, 2.1e6, 6.2e6),
    "EPSG:3857": (-2.004e7, -1.5e7, 2.004e7, 1.5e7),
    "EPSG:3413": (-4e6, -5e6, 4e6, 5e6),
    "EPSG:3031": (-3e6, -3e6, 3e6, 3e6),
    "EPSG:3035": (2e6, 1e6, 7e6, 5e6),
    "EPSG:3832": (-4e6, -8e6, 6e6, 8e6),
    "EPSG:4267": (-400, -90, 400, 90),
    "ESRI:102017": (-6e6, -6e6, 6e6, 6e6),
}
fractions = st.floats(0, 1)


@given(
    st.sampled_from(sorted(SYSTEMS)),
    st.tuples(fractions, fractions),
    st.floats(1, 4).map(lambda power: 10**-power),
    st.integers(0, 2**32),
)
@examples(60)
@pytest.mark.rule("HAV-67")
def test_hav_67_all_that_lies_inside_is_inside(
    crs: str, corner: tuple[float, float], size: float, seed: int
) -> None:
    west, south, east, north = SYSTEMS[crs]
    xmin, ymin = west + corner[0] * (east - west), south + corner[1] * (north - south)
    area = Bounds(xmin, ymin, xmin + size * (east - west), ymin + size * (north - south))
    found = geographic_bounds(area, parse_crs(crs))
    if found is None:
        return
    random = np.random.default_rng(seed)
    points = random.uniform((area.xmin, area.ymin), (area.xmax, area.ymax), (200, 2))

    for longitude, latitude in geographic_positions(points, parse_crs(crs)):
        turned = (longitude + 180) % 360 - 180 if abs(longitude) > 180 else longitude
        assert found.contains(turned, latitude)
