from typing import Any
from uuid import UUID

import pytest
from hypothesis import given
from hypothesis import strategies as st

from havasu_vc.formats.havasu.entry import from_scalar, to_scalar
from havasu_vc.model.types import Decimal, Fixed, Primitive, Type
from tests.formats.iceberg.strategies import values_of
from tests.model.strategies import simple_types


@given(st.data(), simple_types)
def test_values_come_back(data: st.DataObject, type_: Type) -> None:
    value = data.draw(values_of(type_))
    said = to_scalar(value, type_)
    if said is None:
        assert value in (float("inf"), float("-inf"))
        return
    found = from_scalar(said, type_)

    assert found == (value.bytes if isinstance(value, UUID) else value)
    assert to_scalar(found, type_) == said


@pytest.mark.parametrize(
    ("type_", "wrong"),
    [
        (Primitive.BOOLEAN, 1),
        (Primitive.INT, True),
        (Primitive.LONG, 1.0),
        (Primitive.DOUBLE, "1"),
        (Primitive.FLOAT, False),
        (Primitive.DATE, "2024-02-30"),
        (Primitive.TIME, 5),
        (Primitive.TIMESTAMP, "soon"),
        (Primitive.UUID, "00"),
        (Primitive.BINARY, "0"),
        (Primitive.STRING, 3),
        (Decimal(9, 2), "one"),
        (Fixed(2), b"ab"),
    ],
    ids=str,
)
def test_what_says_none_of_a_type_is_refused(type_: Type, wrong: Any) -> None:
    with pytest.raises((ValueError, TypeError, ArithmeticError)):
        from_scalar(wrong, type_)
