import struct
from collections.abc import Callable, Iterator, Sequence
from functools import partial
from pathlib import Path
from typing import Any, get_args

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from havasu_vc.errors import GeometryError
from havasu_vc.geo.wkb import Encoding, equal, from_canonical, to_canonical
from tests.geo.shapes import (
    NAN,
    Dialect,
    Shape,
    dialects,
    encode,
    numbers,
    quiet_dialects,
    shapes,
    sound_shapes,
    with_srid,
)

EWKB = Dialect(iso=False)
POINT = "0101000000000000000000f03f0000000000000040"
srids = st.integers(-(2**31), 2**31 - 1)


def column(*values: str | bytes | None) -> Any:
    return pa.array([bytes.fromhex(v) if isinstance(v, str) else v for v in values], pa.binary())


def column_of(trees: Sequence[Shape | None]) -> Any:
    return column(*(None if tree is None else encode(tree) for tree in trees))


def canonical(*values: str | bytes | None, encoding: Encoding = "ewkb") -> list[str | None]:
    found, _ = to_canonical(column(*values), encoding)
    return [None if value is None else value.hex() for value in found.to_pylist()]


def srid_of(value: str) -> int:
    _, found = to_canonical(column(value), "ewkb")
    return 0 if found is None else int(found[0])


SPECIFIED = {
    "HAV-17": "POINT(1 1)",
    "HAV-18": "LINESTRING(1 1, 2 2)",
    "HAV-19": "POLYGON((1 1, 2 1, 2 2, 1 2, 1 1))",
    "HAV-20": "MULTIPOINT((1 1), (2 2))",
    "HAV-20-bare": "MULTIPOINT(1 1, 2 2)",
    "HAV-21": "MULTILINESTRING((1 1, 2 2), (3 3, 4 4))",
    "HAV-22": "MULTIPOLYGON(((1 1, 2 1, 2 2, 1 2, 1 1)), ((3 3, 4 3, 4 4, 3 4, 3 3)))",
    "HAV-23": "GEOMETRYCOLLECTION(POINT(1 1), LINESTRING(1 1, 2 2))",
}


@pytest.mark.parametrize("text", SPECIFIED.values(), ids=SPECIFIED.keys())
@pytest.mark.parametrize("encoding", get_args(Encoding))
@pytest.mark.rule("HAV-13", "HAV-17", "HAV-18", "HAV-19", "HAV-20", "HAV-21", "HAV-22", "HAV-23")
def test_each_type_passes_through_each_encoding(text: str, encoding: Encoding) -> None:
    wkb, none = to_canonical(pa.array([None, text, text]), "wkt")

    again, found = to_canonical(from_canonical(wkb, none, encoding), encoding)

    assert again.equals(wkb)
    assert again.null_count == 1
    assert none is None
    assert found is None


@pytest.mark.parametrize(
    ("rule", "value", "srid"),
    [
        ("HAV-15", "0101000020ffffffff000000000000f03f0000000000000040", -1),
        ("HAV-15", "0101000020ffffff7f000000000000f03f0000000000000040", 2147483647),
        ("HAV-16", "01010000203f420f00000000000000f03f0000000000000040", 999999),
        ("HAV-91-le", "0101000020e6100000000000000000f03f0000000000000040", 4326),
        ("HAV-91-be", "0020000001000010e63ff00000000000004000000000000000", 4326),
        ("HAV-94", POINT, 0),
        ("HAV-95", "010100002000000000000000000000f03f0000000000000040", 0),
    ],
)
@pytest.mark.rule("HAV-14", "HAV-15", "HAV-91", "HAV-92", "HAV-93", "HAV-94", "HAV-95")
def test_ewkb_is_an_optional_srid_and_plain_wkb(rule: str, value: str, srid: int) -> None:
    wkb, found = to_canonical(column(value), "ewkb")

    assert (wkb.to_pylist()[0].hex(), srid_of(value)) == (POINT, srid)  # HAV-92
    written = from_canonical(wkb, found, "ewkb").to_pylist()[0].hex()
    flagged = POINT if srid == 0 else "0101000020" + struct.pack("<i", srid).hex() + POINT[10:]
    assert written == flagged  # HAV-93, HAV-95


@pytest.mark.rule("HAV-15")
def test_hav_15_an_srid_has_32_bits() -> None:
    with pytest.raises(GeometryError, match=r"row 1, 2147483648"):
        from_canonical(column(POINT, POINT), np.array([1, 2**31]), "ewkb")


@pytest.mark.rule("HAV-14")
def test_hav_14_rows_with_and_without_srid_share_a_column() -> None:
    given = column("0101000020e6100000000000000000f03f0000000000000040", None, POINT)

    wkb, found = to_canonical(given, "ewkb")

    assert wkb.to_pylist() == column(POINT, None, POINT).to_pylist()
    assert found is not None
    assert found.tolist() == [4326, 0, 0]
    assert from_canonical(wkb, found, "ewkb").equals(given)


Z = "01e9030000000000000000f03f00000000000000400000000000000840"


@pytest.mark.rule("HAV-96")
def test_hav_96_ewkb_has_flags_and_wkb_has_iso_codes_for_z() -> None:
    flagged = "01010000a0e6100000000000000000f03f00000000000000400000000000000840"

    wkb, found = to_canonical(column(flagged, Z), "ewkb")

    assert [value.hex() for value in wkb.to_pylist()] == [Z, Z]
    assert found is not None
    assert found.tolist() == [4326, 0]
    assert from_canonical(wkb, found, "ewkb").to_pylist()[0].hex() == flagged
    assert from_canonical(wkb, None, "wkb").to_pylist()[1].hex() == Z


@pytest.mark.rule("HAV-97")
def test_hav_97_only_the_outermost_geometry_has_an_srid() -> None:
    parts = "0101000000000000000000f03f0000000000000040"
    child_with_srid = "0101000020e6100000000000000000f03f0000000000000040"
    written = "0104000020e610000001000000" + parts

    for value in (written, "0104000020e610000001000000" + child_with_srid):
        wkb, found = to_canonical(column(value), "ewkb")
        assert wkb.to_pylist()[0].hex() == "010400000001000000" + parts
        assert from_canonical(wkb, found, "ewkb").to_pylist()[0].hex() == written


@pytest.mark.rule("HAV-98")
def test_hav_98_other_encodings_hold_no_srid() -> None:
    srid = np.array([0, 3857], np.int32)
    for encoding in ("wkb", "wkt", "geojson", "gpkg"):
        with pytest.raises(GeometryError, match=r"row 1 has SRID 3857") as caught:
            from_canonical(column(POINT, POINT), srid, encoding)
        assert caught.value.hints
        assert len(from_canonical(column(POINT, POINT), srid, encoding, drop_srids=True)) == 2
    wgs84 = np.array([4326, 0], np.int32)
    assert len(from_canonical(column(POINT, POINT), wgs84, "geojson")) == 2


@pytest.mark.parametrize(
    "value",
    [
        "010800000003000000" + "00" * 48,
        "010a00000001000000" + "010200000000000000",
        "011000000000000000",
        "010f00000000000000",
    ],
    ids=["HAV-24-circularstring", "HAV-24-curvepolygon", "HAV-24-tin", "HAV-24-polyhedral"],
)
@pytest.mark.rule("HAV-24")
def test_hav_24_curves_and_surfaces_pass_through_wkb_and_are_refused_as_text(value: str) -> None:
    assert canonical(value) == [value]
    assert canonical(from_canonical(column(value), None, "gpkg")[0].as_py(), encoding="gpkg") == [
        value
    ]
    for encoding in ("wkt", "geojson"):
        with pytest.raises(GeometryError, match="row 0"):
            from_canonical(column(value), None, encoding)


@pytest.mark.rule("HAV-26")
def test_hav_26_null_and_empty_points() -> None:
    empty = "0101000000000000000000f87f000000000000f87f"
    other_nan = "0101000000a20700000000f07fa20700000000f0ff"  # what R writes

    assert canonical(empty, None, other_nan) == [empty, None, empty]
    assert canonical(other_nan) == [empty]
    assert canonical(POINT, other_nan, "010200000000000000") == [POINT, empty, "010200000000000000"]
    assert to_canonical(pa.array(["POINT EMPTY"]), "wkt")[0].to_pylist()[0].hex() == empty


@pytest.mark.parametrize("text", ["MULTIPOINT Z EMPTY", "MULTIPOLYGON ZM EMPTY", "POINT M EMPTY"])
def test_empties_keep_their_dimensions_in_text(text: str) -> None:
    wkb, _ = to_canonical(pa.array([text, None, "POINT (1 2)"]), "wkt")

    assert from_canonical(wkb, None, "wkt").to_pylist() == [text, None, "POINT (1 2)"]


def test_a_canonical_column_is_returned_as_it_is() -> None:
    points = column(POINT, None, POINT)
    mixed = column(POINT, "010200000000000000", Z, encode(Shape(6, parts=(Shape(3),))))

    assert to_canonical(points, "wkb")[0] is points
    assert to_canonical(mixed, "ewkb")[0] is mixed
    assert from_canonical(points, None, "ewkb") is points


def drawn(first: Iterator[Dialect], data: st.DataObject) -> Dialect:
    return next(first, None) or data.draw(dialects)


@given(st.lists(st.one_of(st.none(), shapes(curves=True)), max_size=5), st.data())
def test_all_dialects_of_wkb_have_one_canonical_form(
    trees: list[Shape | None], data: st.DataObject
) -> None:
    srid = data.draw(srids)
    written: list[bytes | None] = []
    for tree in trees:
        if tree is None:
            written.append(None)
            continue
        first = data.draw(dialects)
        outermost = iter([Dialect(first.big, first.iso, srid or None)])
        written.append(encode(tree, partial(drawn, outermost, data)))

    wkb, found = to_canonical(column(*written), "ewkb")

    assert wkb.to_pylist() == [tree and encode(tree) for tree in trees]
    expected = [srid if tree else 0 for tree in trees]
    assert (found.tolist() if found is not None else [0] * len(trees)) == expected
    assert to_canonical(wkb, "wkb") == (wkb, None)
    ewkb = from_canonical(wkb, found, "ewkb")
    with_it = [
        tree and (with_srid(tree, srid, EWKB) if srid else encode(tree, lambda: EWKB))
        for tree in trees
    ]
    assert ewkb.to_pylist() == with_it


@given(st.lists(st.one_of(st.none(), shapes(curves=True)), max_size=5))
def test_gpkg_brings_every_geometry_back(trees: list[Shape | None]) -> None:
    wkb = column_of(trees)

    assert to_canonical(from_canonical(wkb, None, "gpkg"), "gpkg")[0].equals(wkb)


def unsigned(shape: Shape) -> Shape:
    """Return a geometry whose zeros have no sign, for which GEOS's text has no place."""
    return Shape(
        shape.kind,
        shape.dimensions,
        tuple(tuple(n + 0.0 for n in vertex) for vertex in shape.vertices),
        tuple(tuple(tuple(n + 0.0 for n in v) for v in ring) for ring in shape.rings),
        tuple(unsigned(part) for part in shape.parts),
    )


@given(st.lists(st.one_of(st.none(), sound_shapes().map(unsigned)), max_size=5))
def test_wkt_brings_every_sound_geometry_back(trees: list[Shape | None]) -> None:
    wkb = column_of(trees)

    again, found = to_canonical(from_canonical(wkb, None, "wkt"), "wkt")

    assert again.to_pylist() == wkb.to_pylist()
    assert found is None


@given(st.lists(st.one_of(st.none(), sound_shapes(dimensions=(0, 1)).map(unsigned)), max_size=5))
def test_geojson_brings_every_sound_geometry_back(trees: list[Shape | None]) -> None:
    wkb = column_of(trees)

    again, _ = to_canonical(from_canonical(wkb, None, "geojson"), "geojson")

    assert again.to_pylist() == wkb.to_pylist()


@given(
    st.lists(st.one_of(st.none(), shapes(curves=True).map(encode)), max_size=5),
    st.data(),
)
def test_slices_make_no_difference(values: list[bytes | None], data: st.DataObject) -> None:
    start, stop = sorted(data.draw(st.lists(st.integers(0, 6), min_size=2, max_size=2)))
    wkb = column(*values)
    for encoding in ("ewkb", "gpkg"):
        srid = np.arange(len(values), dtype=np.int32) * (encoding == "ewkb")
        whole = from_canonical(wkb, srid, encoding)
        part = from_canonical(wkb[start:stop], srid[start:stop], encoding)
        assert part.to_pylist() == whole.to_pylist()[start:stop]
        found, numbers = to_canonical(whole[start:stop], encoding)
        assert found.to_pylist() == values[start:stop]
        if numbers is not None:
            assert (
                numbers.tolist()
                == [n if v is not None else 0 for n, v in enumerate(values)][start:stop]
            )


@pytest.mark.parametrize("kind", [pa.binary(), pa.large_binary(), pa.binary_view(), pa.binary(21)])
def test_all_binary_types_are_taken(kind: Any) -> None:
    array = column(POINT, None).cast(kind)

    assert to_canonical(array, "wkb")[0].to_pylist() == [bytes.fromhex(POINT), None]
    assert to_canonical(pa.chunked_array([array, array]), "ewkb")[0].null_count == 2


def test_text_may_come_as_bytes() -> None:
    for kind in (pa.binary(), pa.large_binary()):
        texts = pa.array([None, b"POINT (1 2)"], kind)

        assert to_canonical(texts, "wkt")[0].to_pylist() == [None, bytes.fromhex(POINT)]


def test_other_columns_are_a_mistake_of_the_caller() -> None:
    with pytest.raises(TypeError, match="int64"):
        to_canonical(pa.array([1]), "wkb")
    with pytest.raises(ValueError, match="twkb"):
        to_canonical(column(POINT), "twkb")  # type: ignore[arg-type]


@pytest.mark.parametrize("encoding", get_args(Encoding))
def test_columns_without_values(encoding: Encoding) -> None:
    kind = pa.string() if encoding in ("wkt", "geojson") else pa.binary()
    for size in (0, 3):
        wkb, found = to_canonical(pa.nulls(size, kind), encoding)
        assert wkb.null_count == size
        assert found is None
        assert from_canonical(wkb, None, encoding).null_count == size


@pytest.mark.parametrize(
    ("encoding", "text"),
    [
        ("wkt", "POINT(1"),
        ("wkt", ""),
        ("wkt", "CIRCULARSTRING(0 0,1 1,2 0)"),
        ("wkt", "SRID=4326;POINT(1 2)"),
        ("wkt", "POLYGON((0 0,1 1,2 2,3 3))"),
        ("wkt", "GEOMETRYCOLLECTION(" * 100_000 + "POINT(1 1)" + ")" * 100_000),
        ("wkt", "geometrycollection (" * 100_000),
        ("geojson", "{"),
        ("geojson", "null"),
        ("geojson", "[1]"),
        ("geojson", '{"type":"Point"}'),
        ("geojson", '{"type":"Point","coordinates":[1,null]}'),
        ("geojson", '{"type":"Point","coordinates":' + "[" * 100_000),
        ("geojson", '{"type":"GeometryCollection","geometries":[' * 100_000 + "]}" * 100_000),
        # HAV-90: a bare geometry object, and nothing else
        ("geojson", '{"type":"Feature","geometry":{"type":"Point","coordinates":[1,2]}}'),
        ("geojson", '{"type":"\\u0046eature","geometry":{"type":"Point","coordinates":[1,2]}}'),
        ("geojson", '{"type":"FeatureCollection","features":[]}'),
    ],
)
def test_text_that_is_no_geometry_is_refused_with_its_row(encoding: Encoding, text: str) -> None:
    good = {"wkt": "POINT(1 2)", "geojson": '{"type":"Point","coordinates":[1,2]}'}[encoding]

    with pytest.raises(GeometryError, match="row 2 ") as caught:
        to_canonical(pa.array([good, None, text, good]), encoding)

    assert "\n" not in caught.value.message
    assert len(caught.value.message) < 250


def test_geojson_holds_neither_m_nor_nan() -> None:
    with_m = encode(Shape(1, 2, vertices=((1.0, 2.0, 3.0),)))
    with_nan = encode(Shape(2, vertices=((1.0, NAN), (1.0, 2.0))))
    for value, reason in ((with_m, "no M"), (with_nan, "NaN")):
        with pytest.raises(GeometryError, match=rf"row 1 .*{reason}"):
            from_canonical(column(POINT, value), None, "geojson")


@given(st.lists(st.binary(max_size=30), max_size=3), st.sampled_from(get_args(Encoding)))
def test_hostile_bytes_are_a_geometry_error_or_a_value(
    values: list[bytes], encoding: Encoding
) -> None:
    prefix = b"GP\0\1\0\0\0\0" if encoding == "gpkg" else b""
    array = pa.array([prefix + value for value in values], pa.binary())
    if encoding in ("wkt", "geojson"):
        array = pa.Array.from_buffers(pa.string(), len(array), array.buffers())
    try:
        wkb, found = to_canonical(array, encoding)
    except GeometryError:
        return
    assert len(wkb) == len(values)
    assert found is None or len(found) == len(values)


@pytest.fixture(scope="module")
def parsed(shared_data: Path) -> Callable[[str], list[str | None]]:
    def read(name: str) -> list[str | None]:
        lines = (shared_data / "geometry" / name).read_text().splitlines()[1:]
        values = [line.split("\t")[2] for line in lines]
        return [None if value in ("", "NA") else value for value in values]

    return read


def test_three_encodings_of_the_same_rows_agree(
    parsed: Callable[[str], list[str | None]],
) -> None:
    wkb = column(*parsed("example-wkb-le.tsv"))
    ewkb = column(*parsed("example-ewkb-le.tsv"))
    wkt = pa.array(parsed("example-wkt.tsv"), pa.string())

    assert len(wkb) == len(wkt) > 100
    assert wkb.null_count > 0
    first = to_canonical(wkb, "wkb")[0]
    assert first.to_pylist() == to_canonical(ewkb, "ewkb")[0].to_pylist()
    assert first.to_pylist() == to_canonical(wkt, "wkt")[0].to_pylist()
    assert all(equal(ewkb, wkt, "ewkb", "wkt").to_pylist())


@given(st.lists(st.tuples(numbers, numbers), min_size=1, max_size=20), st.data())
def test_points_of_every_dialect_agree(
    vertices: list[tuple[float, float]], data: st.DataObject
) -> None:
    dialect = data.draw(quiet_dialects)
    points = [Shape(1, vertices=(vertex,)) for vertex in vertices]

    found, _ = to_canonical(column(*(encode(point, lambda: dialect) for point in points)), "wkb")

    assert found.to_pylist() == [encode(point) for point in points]
