"""`havasu_vc.geo.areas`: which geometries an area lets in, as Kart decides it."""

import hashlib

import pyarrow as pa
import pytest
import shapely

from havasu_vc.errors import CrsError, InvalidArgumentError
from havasu_vc.geo.areas import parse_area
from havasu_vc.geo.crs import parse_crs

SQUARE = "POLYGON ((0 0, 2 0, 2 2, 0 2, 0 0))"
TRIANGLE = "POLYGON ((0 0, 2 0, 0 2, 0 0))"


def inside(polygon: str, *texts: str | None) -> list[bool]:
    area = parse_area("EPSG:4326", polygon).local(None)
    wkb = [None if text is None else shapely.to_wkb(shapely.from_wkt(text)) for text in texts]
    return list(area.matches(pa.array(wkb, pa.binary()), "wkb"))


@pytest.mark.parametrize(
    ("text", "square", "triangle"),
    [
        ("POINT (0.5 0.5)", True, True),
        ("POINT (1.5 1.5)", True, False),
        ("POINT (3 1)", False, False),
        ("POINT (0 1)", False, False),  # on the box alone
        ("POINT (1 1)", True, True),  # on an edge within the box
        ("LINESTRING (-1 1, 3 1)", True, True),
        ("LINESTRING (1.6 1.6, 1.9 1.9)", True, False),
        ("POLYGON ((-9 -9, 9 -9, 9 9, -9 9, -9 -9))", True, True),
        ("POINT EMPTY", False, False),
        ("GEOMETRYCOLLECTION (POINT (8 8), POINT (0.5 0.5))", True, True),
        (None, True, True),
    ],
)
def test_a_row_is_inside_as_in_kart(text: str | None, square: bool, triangle: bool) -> None:
    assert inside(SQUARE, text, "POINT (9 9)") == [square, False]
    assert inside(TRIANGLE, text, "POINT (9 9)") == [triangle, False]


def test_what_geos_does_not_hold_is_told_by_its_box() -> None:
    arc = bytes.fromhex("0108000000" + "03000000") + b"".join(
        bytes(each)
        for each in (pa.array([v], pa.float64()).buffers()[1] for v in (0, 0, 1, 1, 2, 0))
    )
    found = parse_area("EPSG:4326", SQUARE).local(None).matches(pa.array([arc], pa.binary()), "wkb")
    assert list(found) == [True]


def test_vertices_are_brought_to_another_system() -> None:
    area = parse_area("EPSG:4326", "POLYGON ((174 -42, 175 -42, 175 -41, 174 -41, 174 -42))")
    box = area.local(parse_crs("EPSG:3857")).bounds
    assert (box.xmin, box.xmax) == pytest.approx((19369591.4, 19480910.9), abs=0.1)
    assert area.degrees == (174, -42, 175, -41)


def test_it_is_known_by_karts_hash() -> None:
    area = parse_area(" EPSG:4326", SQUARE)
    wkb = shapely.to_wkb(shapely.from_wkt(SQUARE), byte_order=1)
    assert area.fingerprint == hashlib.sha256(b"EPSG:4326" + wkb).hexdigest()[:40]
    assert parse_area("EPSG:4326", wkb.hex()) == parse_area("EPSG:4326", area.wkt) == area


@pytest.mark.parametrize("number", ["0.1", "1e-7", "174.74761234567891", "-41.286461111111108"])
def test_its_text_means_the_same_area(number: str) -> None:
    area = parse_area("EPSG:4326", f"POLYGON ((0 0, {number} 0, 0 {number}, 0 0))")
    assert parse_area("EPSG:4326", area.wkt) == area


@pytest.mark.parametrize(
    ("crs", "polygon", "says"),
    [
        ("EPSG:4326", "foobar", "Invalid geometry"),
        ("EPSG:4326", "POINT (1 1)", "Expected geometry .* POLYGON|MULTIPOLYGON but found: POINT"),
        ("EPSG:4326", "POLYGON EMPTY", "it is empty"),
        ("EPSG:4326", "0102030405060708", "Invalid geometry"),
        ("ABCD:1234", SQUARE, "Invalid or unknown coordinate reference system"),
    ],
)
def test_what_is_no_area_is_refused(crs: str, polygon: str, says: str) -> None:
    with pytest.raises(InvalidArgumentError, match=says):
        parse_area(crs, polygon)


def test_an_area_that_cannot_be_brought_to_a_system_is_refused() -> None:
    area = parse_area("EPSG:4326", "POLYGON ((0 -100, 9 -100, 9 100, 0 100, 0 -100))")
    with pytest.raises(CrsError, match="spatial filter cannot be brought to EPSG:3857"):
        area.local(parse_crs("EPSG:3857"))


def test_an_area_is_parsed_once() -> None:
    text = "POLYGON((0 0, 1 0, 1 1, 0 0))"
    assert parse_area("EPSG:4326", text) is parse_area("EPSG:4326", text)
