import struct

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from havasu_vc.errors import GeometryError
from havasu_vc.geo.wkb import equal, from_canonical, to_canonical
from tests.geo.shapes import Shape, encode, shapes, vertices_of


def gpkg(*texts: str) -> list[str]:
    wkb, _ = to_canonical(pa.array(texts), "wkt")
    return [value.hex() for value in from_canonical(wkb, None, "gpkg").to_pylist()]


def normal(value: bytes) -> bytes:
    wkb, srids = to_canonical(pa.array([value]), "gpkg")
    assert srids is None
    written: bytes = from_canonical(wkb, None, "gpkg").to_pylist()[0]
    return written


VECTORS = {
    "KART-62-point": (
        "POINT (1 2)",
        "47500001000000000101000000000000000000f03f0000000000000040",
    ),
    "KART-62-empty": (
        "POINT EMPTY",
        "47500011000000000101000000000000000000f87f000000000000f87f",
    ),
    "KART-69-empty": ("MULTIPOLYGON EMPTY", "4750001100000000010600000000000000"),
    "KART-62-point-z": (
        "POINT Z (1 2 3)",
        "475000010000000001e9030000000000000000f03f00000000000000400000000000000840",
    ),
}


@pytest.mark.parametrize(("text", "expected"), VECTORS.values(), ids=VECTORS.keys())
def test_points_and_empties_have_no_envelope(text: str, expected: str) -> None:
    assert gpkg(text) == [expected]
    assert gpkg(text, "LINESTRING (0 0, 2 1)")[0] == expected


@pytest.mark.parametrize(
    ("text", "flags", "envelope", "code"),
    [
        pytest.param("LINESTRING (0 0, 2 1)", 3, (0, 2, 0, 1), 2, id="KART-61"),
        pytest.param("LINESTRING Z (0 0 5, 2 1 7)", 5, (0, 2, 0, 1, 5, 7), 1002, id="KART-63"),
        pytest.param("LINESTRING M (0 0 5, 2 1 7)", 3, (0, 2, 0, 1), 2002, id="KART-64-m"),
        pytest.param(
            "LINESTRING ZM (0 0 5 9, 2 1 7 8)", 5, (0, 2, 0, 1, 5, 7), 3002, id="KART-64-zm"
        ),
        pytest.param("POLYGON ((3 -1, 4 0, 3 5, 3 -1))", 3, (3, 4, -1, 5), 3, id="KART-65"),
        pytest.param("MULTIPOINT ((3 -1))", 3, (3, 3, -1, -1), 4, id="KART-61-multipoint"),
    ],
)
def test_all_others_have_one(text: str, flags: int, envelope: tuple[float, ...], code: int) -> None:
    header = b"GP\0" + bytes([flags]) + bytes(4) + struct.pack(f"<{len(envelope)}d", *envelope)

    written = bytes.fromhex(gpkg(text)[0])

    assert written[: len(header)] == header
    assert written[len(header) : len(header) + 5] == struct.pack("<BI", 1, code)  # KART-67


def test_a_collection_of_empties_is_empty() -> None:
    parts = (Shape(1, vertices=((float("nan"),) * 2,)), Shape(2))

    written = from_canonical(pa.array([encode(Shape(7, parts=parts))]), None, "gpkg")

    assert written[0].as_py()[:8].hex() == "4750001100000000"


KART = "47500001000000000101000000000000000000f03f0000000000000040"


@pytest.mark.parametrize(
    "value",
    [
        pytest.param("475000010000000000000000013ff00000000000004000000000000000", id="KART-60"),
        pytest.param("47500000000010e60101000000000000000000f03f0000000000000040", id="KART-59"),
        pytest.param("47500001e61000000101000000000000000000f03f0000000000000040", id="KART-66"),
        pytest.param(
            "47500003e6100000" + "00" * 32 + "0101000000000000000000f03f0000000000000040",
            id="an envelope where there is none",
        ),
        pytest.param(
            "4750000900000000" + "00" * 64 + "0101000020e6100000000000000000f03f0000000000000040",
            id="EWKB inside",
        ),
    ],
)
def test_other_forms_are_read_and_written_as_kart_does(value: str) -> None:
    assert normal(bytes.fromhex(value)).hex() == KART
    both = equal(
        pa.array([bytes.fromhex(value), bytes.fromhex(KART)]),
        pa.array([bytes.fromhex(KART), bytes.fromhex(value)]),
        "gpkg",
        "gpkg",
    )
    assert both.to_pylist() == [True, True]


@given(st.lists(shapes().map(encode), min_size=1, max_size=4))
def test_kart_70_normal_bytes_stay_as_they_are(values: list[bytes]) -> None:
    for written in from_canonical(pa.array(values), None, "gpkg").to_pylist():
        assert normal(written) == written


@given(shapes())
def test_the_envelope_holds_every_vertex(tree: Shape) -> None:
    written = from_canonical(pa.array([encode(tree)]), None, "gpkg").to_pylist()[0]
    if not written[3] & 0x0E:
        return
    xmin, xmax, ymin, ymax = struct.unpack_from("<4d", written, 8)
    for x, y, *_ in vertices_of(tree):
        assert x != x or y != y or (xmin <= x <= xmax and ymin <= y <= ymax)


@pytest.mark.parametrize(
    ("value", "reason"),
    [
        pytest.param("4750002100000000" + KART[16:], "extended", id="KART-58"),
        pytest.param(KART[16:], "not GeoPackage", id="WKB without header"),
        pytest.param("4750", "truncated", id="short"),
        pytest.param("4750000300000000" + "00" * 20, "truncated", id="short envelope"),
        pytest.param("4750000b00000000" + KART[16:], "envelope", id="envelope code"),
        pytest.param("4750010100000000" + KART[16:], "version", id="version"),
        pytest.param("4750000100000000", "truncated", id="no geometry"),
    ],
)
def test_what_is_not_standard_is_refused(value: str, reason: str) -> None:
    array = pa.array([None, bytes.fromhex(KART), bytes.fromhex(value)])

    with pytest.raises(GeometryError, match=rf"row 2 .*{reason}"):
        to_canonical(array, "gpkg")
