"""When two values of one column are the same: bit for bit, except that a NaN is a NaN."""

import math

import pyarrow as pa
import pytest

from havasu_vc.datasets.pairing import comparable, equal_columns
from havasu_vc.model.types import Decimal, Field, Primitive, Type


def same(old: pa.Array, new: pa.Array, before: Type, after: Type) -> list[bool]:
    mask = equal_columns(old, new, Field(1, "v", before), Field(1, "v", after))
    return [bool(each) for each in mask]


@pytest.mark.parametrize(
    ("type_", "arrow"), [(Primitive.FLOAT, pa.float32()), (Primitive.DOUBLE, pa.float64())]
)
def test_floating_point_numbers(type_: Primitive, arrow: pa.DataType) -> None:
    old = pa.array([0.0, -0.0, math.nan, math.nan, None, None, 1.5, math.inf], arrow)
    new = pa.array([-0.0, -0.0, math.nan, 1.0, None, 0.0, 1.5, -math.inf], arrow)
    expected = [False, True, True, False, True, False, True, False]
    assert same(old, new, type_, type_) == expected
    assert same(new, old, type_, type_) == expected


def test_widened_columns() -> None:
    old, new = pa.array([1, None, 3], pa.int32()), pa.array([1, None, 1 << 40], pa.int64())
    assert same(old, new, Primitive.INT, Primitive.LONG) == [True, True, False]
    halves = pa.array([0.5, 0.1, math.nan, -0.0], pa.float32())
    doubles = pa.array([0.5, 0.1, math.nan, 0.0], pa.float64())
    expected = [True, False, True, False]
    assert same(halves, doubles, Primitive.FLOAT, Primitive.DOUBLE) == expected


def test_types_that_have_nothing_in_common() -> None:
    assert not comparable(Primitive.STRING, Primitive.LONG)
    assert not comparable(Decimal(9, 2), Decimal(9, 3))
    texts, numbers = pa.array(["1", None, "x", None]), pa.array([1, None, None, 4], pa.int64())
    expected = [False, True, False, False]
    assert same(texts, numbers, Primitive.STRING, Primitive.LONG) == expected
