import numpy as np
import pyarrow as pa
import pyproj
import pytest

from havasu_vc.geo.crs import parse_crs
from havasu_vc.geo.raster_v1 import GeoReference, Raster, format_rasters, raster_headers
from havasu_vc.geo.raster_v1_outlines import (
    places_of_rasters,
    raster_row_bounds,
    united_places,
)
from havasu_vc.geo.reproject import geographic_positions
from havasu_vc.model.bounds import GeographicBounds


def placed(
    crs: str | None, size: tuple[int, int], cell: float, corner: tuple[float, float]
) -> Raster:
    """Return a raster by the corner of its first cell, or by what is in its middle."""
    reference = GeoReference.of_affine((cell, 0, corner[0], 0, -cell, corner[1]))
    return Raster(*size, reference, (), crs and pyproj.CRS(crs).to_wkt())


def bounds_of_rasters(column: pa.Array) -> GeographicBounds | None:
    return united_places([places_of_rasters(raster_headers(column))])


def bounds(*rasters: Raster | None) -> tuple[float, ...] | None:
    found = bounds_of_rasters(format_rasters(rasters))
    return None if found is None else (found.west, found.south, found.east, found.north)


WGS84 = placed("EPSG:4326", (3, 2), 10, (100, 50))


@pytest.mark.rule("HAV-66", "HAV-70d")
def test_hav_66_70d_half_a_cell_beyond_the_centres_longitude_first() -> None:
    assert bounds(WGS84) == (100, 30, 130, 50)


@pytest.mark.parametrize(
    ("raster", "expected"),
    [
        pytest.param(
            placed("EPSG:3857", (2, 2), 1000, (0, 0)),
            (0, -0.017966, 0.017966, 0),
            id="HAV-65",
        ),
        pytest.param(
            placed("EPSG:3413", (200, 200), 1e4, (-1e6, 1e6)),
            (-180, 76.998816, 180, 90),
            id="HAV-68-north",
        ),
        pytest.param(
            placed("EPSG:3031", (200, 200), 1e4, (-1e6, 1e6)),
            (-180, -90, 180, -77.037401),
            id="HAV-68-south",
        ),
        pytest.param(
            placed("EPSG:32660", (20, 20), 1e4, (7e5, 2e5)),
            (178.797053, 0, -179.405897, 1.80856),
            id="HAV-69",
        ),
    ],
)
def test_bounds_of_one_raster(raster: Raster, expected: tuple[float, ...]) -> None:
    assert bounds(raster) == pytest.approx(expected, abs=2e-5)


@pytest.mark.rule("HAV-65")
def test_hav_65_by_the_centre_of_the_first_cell() -> None:
    wkt = pyproj.CRS("EPSG:3857").to_wkt()
    raster = Raster(2, 2, GeoReference(1000, -1000, 0, 0, 500, -500), (), wkt)

    assert bounds(raster) == pytest.approx((0, -0.017966, 0.017966, 0), abs=1e-6)


@pytest.mark.rule("HAV-67")
def test_hav_67_skewed_rasters_lie_inside_their_bounds() -> None:
    crs = "EPSG:2193"
    reference = GeoReference(2000, -1500, 700, 900, 1_600_000, 5_400_000)
    raster = Raster(300, 200, reference, (), pyproj.CRS(crs).to_wkt())
    found = bounds_of_rasters(format_rasters([raster]))
    assert found is not None
    random = np.random.default_rng(3).uniform((-0.5, -0.5), (299.5, 199.5), (1000, 2))
    world = np.array([reference.world(*cell) for cell in random])

    assert all(found.contains(*place) for place in geographic_positions(world, parse_crs(crs)))


@pytest.mark.rule("HAV-70b")
def test_hav_70b_rasters_of_a_file_are_united_across_the_antimeridian() -> None:
    west = placed("EPSG:4326", (1, 1), 5, (172, 5))
    east = placed("EPSG:4326", (1, 1), 5, (-179, 5))

    assert bounds(west, None, east) == (172, 0, -174, 5)


@pytest.mark.rule("HAV-70c")
def test_hav_70c_a_raster_without_a_place_takes_the_bounds_from_all() -> None:
    for crs in (None, 'LOCAL_CS["site",UNIT["metre",1]]'):
        lost = Raster(1, 1, WGS84.georeference, (), crs)
        assert bounds(WGS84, lost) is None
        rows = raster_row_bounds(raster_headers(format_rasters([WGS84, None, lost])))
        assert rows == [GeographicBounds(100, 30, 130, 50), None, None]
    unread = Raster(1, 1, WGS84.georeference, (), "no system")
    assert bounds(unread) is None


def test_rasters_without_cells_are_nowhere() -> None:
    assert bounds(WGS84, Raster(0, 5, WGS84.georeference), None) == (100, 30, 130, 50)
    assert bounds(Raster(0, 5, WGS84.georeference)) is None
    assert bounds() is None
    assert bounds_of_rasters(pa.nulls(3)) is None
