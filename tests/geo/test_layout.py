import struct

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from havasu_vc.errors import GeometryError
from havasu_vc.geo.buffers import MAX_DEPTH, byte_column
from havasu_vc.geo.layout import GeometryLayout, scan
from tests.geo.shapes import Dialect, Shape, dialects, encode, kinds_of, shapes, vertices_of

ALL_ALONE, SIDE_BY_SIDE = 1 << 40, 0


def scan_bytes(values: list[bytes | None], narrow: int = SIDE_BY_SIDE) -> GeometryLayout:
    return scan(byte_column(pa.array(values, pa.binary())), narrow=narrow)


def outcome(values: list[bytes | None], narrow: int) -> tuple[object, ...] | str:
    try:
        layout = scan_bytes(values, narrow)
    except GeometryError as error:
        return error.message
    names = ("value", "position", "kind", "dimensions", "has_srid", "big", "iso", "count")
    found = [getattr(layout, name).tolist() for name in names]
    return (*found, layout.start[layout.count > 0].tolist())


def nested(depth: int) -> bytes:
    return struct.pack("<BII", 1, 7, 1) * depth + encode(Shape(1, vertices=((1.0, 2.0),)))


@given(st.lists(shapes(curves=True), max_size=4), st.data())
def test_every_geometry_and_vertex_is_found(trees: list[Shape], data: st.DataObject) -> None:
    layout = scan_bytes([encode(tree, lambda: data.draw(dialects)) for tree in trees])

    assert layout.kind[layout.kind > 0].tolist() == [k for tree in trees for k in kinds_of(tree)]
    assert layout.count.sum() == sum(len(list(vertices_of(tree))) for tree in trees)


@given(st.lists(shapes(curves=True), max_size=4), st.data())
def test_walking_alone_finds_the_same(trees: list[Shape], data: st.DataObject) -> None:
    values: list[bytes | None] = [
        None,
        *(encode(tree, lambda: data.draw(dialects)) for tree in trees),
    ]
    found = {repr(outcome(values, narrow)) for narrow in (ALL_ALONE, SIDE_BY_SIDE, 2, 3)}

    assert len(found) == 1


@st.composite
def damaged(draw: st.DrawFn) -> bytes:
    value = bytearray(encode(draw(shapes(curves=True)), lambda: draw(dialects)))
    for _ in range(draw(st.integers(1, 3))):
        place = draw(st.integers(0, len(value) - 1))
        match draw(st.sampled_from(["set", "cut", "insert", "count"])):
            case "set":
                value[place] = draw(st.integers(0, 255))
            case "cut":
                del value[place:]
                value = value or bytearray(b"\x01")
            case "insert":
                value[place:place] = draw(st.binary(max_size=5))
            case "count":
                value[place : place + 4] = draw(st.sampled_from([b"\xff" * 4, b"\x00\x00\x00\x80"]))
    return bytes(value)


@given(st.lists(st.one_of(damaged(), st.binary(max_size=40)), min_size=1, max_size=4))
def test_damaged_bytes_have_the_same_outcome_whichever_way_they_are_walked(
    values: list[bytes | None],
) -> None:
    found = {repr(outcome(values, narrow)) for narrow in (ALL_ALONE, SIDE_BY_SIDE, 2)}

    assert len(found) == 1


@pytest.mark.parametrize("narrow", [ALL_ALONE, SIDE_BY_SIDE])
def test_collections_nest_so_deep_and_no_deeper(narrow: int) -> None:
    assert scan_bytes([nested(MAX_DEPTH)], narrow).kind[-1] == 1
    with pytest.raises(GeometryError, match=r"row 1 .*nest deeper"):
        scan_bytes([nested(1), nested(MAX_DEPTH + 1)], narrow)
    with pytest.raises(GeometryError, match="nest deeper"):
        scan_bytes([nested(2000)], narrow)


@pytest.mark.parametrize("narrow", [ALL_ALONE, SIDE_BY_SIDE])
@pytest.mark.parametrize("kind", [2, 3, 4, 5, 6, 7, 8, 9, 15, 16, 17])
def test_a_huge_count_is_refused_before_anything_is_allocated(kind: int, narrow: int) -> None:
    bomb = struct.pack("<BII", 1, kind, 0xFFFFFFFF) + bytes(64)

    with pytest.raises(GeometryError, match=r"row 1 .*counts more parts or vertices"):
        scan_bytes([None, bomb], narrow)


@pytest.mark.parametrize(
    ("value", "reason"),
    [
        ("", "truncated"),
        ("01", "truncated"),
        ("01010000", "truncated"),
        ("0101000000000000000000f03f", "more parts or vertices|truncated"),
        ("010200000001", "truncated"),
        ("02010000000000000000000000000000000000000000", "byte order"),
        ("0163000000", "not known"),
        ("010d00000000000000", "not known"),
        ("0188130000000000000000000000000000000000", "not known"),
        ("010400000001000000010200000000000000", "does not belong"),
        ("0101000000000000000000f03f0000000000000040ff", "follow the end"),
    ],
)
@pytest.mark.parametrize("narrow", [ALL_ALONE, SIDE_BY_SIDE])
def test_what_is_wrong_is_named_with_its_row(value: str, reason: str, narrow: int) -> None:
    with pytest.raises(GeometryError, match=f"row 2 .*({reason})"):
        scan_bytes([nested(0), None, bytes.fromhex(value), b""], narrow)


def test_a_multipoint_of_mixed_byte_orders_is_read_point_by_point() -> None:
    parts = tuple(Shape(1, vertices=((float(n), 0.0),)) for n in range(3))
    orders = iter([Dialect(), Dialect(), Dialect(big=True), Dialect()])

    layout = scan_bytes([encode(Shape(4, parts=parts), lambda: next(orders))])

    assert layout.big.tolist() == [False, False, True, False]
    assert layout.kind.tolist() == [4, 1, 1, 1]


@pytest.mark.thorough
def test_a_million_points_in_one_value_take_one_step() -> None:
    count = 1_000_000
    points = np.zeros(count, np.dtype([("order", "u1"), ("type", "<u4"), ("xy", "<f8", 2)]))
    points["order"] = points["type"] = 1
    value = struct.pack("<BII", 1, 4, count) + points.tobytes()

    layout = scan_bytes([value], ALL_ALONE)

    assert layout.count.sum() == count


@given(st.lists(st.one_of(st.none(), shapes().map(encode)), max_size=6), st.data())
def test_slices_and_large_offsets_are_seen_through(
    values: list[bytes | None], data: st.DataObject
) -> None:
    start = data.draw(st.integers(0, len(values)))
    large = data.draw(st.booleans())
    array = pa.array(values, pa.large_binary() if large else pa.binary())

    column = byte_column(array[start:])

    present = [(n, v) for n, v in enumerate(values[start:]) if v is not None]
    assert column.rows.tolist() == [n for n, _ in present]
    found = [column.data[s:e].tobytes() for s, e in zip(column.starts, column.ends, strict=True)]
    assert found == [value for _, value in present]
