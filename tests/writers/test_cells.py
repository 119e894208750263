"""Which cells differ, where values are odd."""

import struct

import pyarrow as pa
import pytest

from havasu_vc.model.types import Encoding, Field, Geometry, Primitive
from havasu_vc.writers.values import equal_cells

LITTLE = struct.pack("<BI2d", 1, 1, 1.0, 2.0)
BIG = struct.pack(">BI2d", 0, 1, 1.0, 2.0)
SHAPE = Field(1, "geom", Primitive.BINARY, geometry=Geometry(Encoding.WKB))


def equal(field: Field, old: list[object], new: list[object]) -> list[bool]:
    kind = pa.binary() if field.geometry is not None else pa.float64()
    found = equal_cells((field, pa.array(old, kind)), (field, pa.array(new, kind)))
    return list(found.to_pylist())


def test_a_shape_is_itself_in_any_byte_order() -> None:
    assert equal(SHAPE, [LITTLE, LITTLE, None, None], [BIG, None, BIG, None]) == [
        True,
        False,
        False,
        True,
    ]


@pytest.mark.parametrize("bad", [b"", b"\x01\x02", LITTLE + b"\x00"])
def test_shapes_that_cannot_be_read_are_compared_by_their_bytes(bad: bytes) -> None:
    found = equal(SHAPE, [bad, bad, None, LITTLE], [bad, LITTLE, bad, LITTLE])

    assert found == [True, False, False, True]


def test_nan_is_itself() -> None:
    field = Field(1, "x", Primitive.DOUBLE)

    assert equal(field, [float("nan"), 0.0], [float("nan"), 1.0]) == [True, False]
