"""Single values: the vectors of Iceberg's specification, and laws."""

from __future__ import annotations

from datetime import UTC, date, datetime, time, timedelta, timezone
from decimal import Decimal as Number
from typing import Any
from uuid import UUID

import pytest
from hypothesis import given
from hypothesis import strategies as st

from havasu_vc.formats.iceberg.single_values import from_single_value, to_single_value
from havasu_vc.model.types import Decimal, Fixed, Primitive, Struct, Type
from tests.formats.iceberg.strategies import values_of
from tests.model.strategies import simple_types

P = Primitive
VECTORS: dict[str, tuple[Type, Any, str]] = {
    "ice_27_true": (P.BOOLEAN, True, "01"),
    "ice_27_false": (P.BOOLEAN, False, "00"),
    "ice_28_int": (P.INT, 34, "22000000"),
    "ice_29_long": (P.LONG, 34, "2200000000000000"),
    "ice_30_float": (P.FLOAT, 1.5, "0000c03f"),
    "ice_31_double": (P.DOUBLE, -0.25, "000000000000d0bf"),
    "ice_32_decimal": (Decimal(9, 2), Number("14.20"), "058c"),
    "ice_32_negative": (Decimal(9, 2), Number("-1.00"), "9c"),
    "ice_33_date": (P.DATE, date(2017, 11, 16), "4e440000"),
    "ice_34_time": (P.TIME, time(10), "0068c46108000000"),
    "ice_35_timestamp": (P.TIMESTAMP, datetime(2017, 11, 16, 22, 31, 8), "00c3262d215e0500"),
    "ice_37_string": (P.STRING, "iceberg", "69636562657267"),
    "ice_37_fixed": (Fixed(3), b"\x00\x01\x02", "000102"),
    "ice_37_binary": (P.BINARY, b"\x00\x01\x02", "000102"),
    "ice_37_uuid": (
        P.UUID,
        UUID("f79c3e09-677c-4bbd-a479-3f349cb785e7"),
        "f79c3e09677c4bbda4793f349cb785e7",
    ),
}


@pytest.mark.parametrize(("type_", "value", "wanted"), VECTORS.values(), ids=VECTORS)
@pytest.mark.rule(
    "ICE-27",
    "ICE-28",
    "ICE-29",
    "ICE-30",
    "ICE-31",
    "ICE-32",
    "ICE-33",
    "ICE-34",
    "ICE-35",
    "ICE-37",
)
def test_vectors(type_: Type, value: Any, wanted: str) -> None:
    assert to_single_value(value, type_).hex() == wanted
    assert from_single_value(bytes.fromhex(wanted), type_) == value


@pytest.mark.rule("ICE-36")
def test_ice_36_timestamptz_is_stored_as_utc() -> None:
    western = datetime(2017, 11, 16, 17, 10, 34, tzinfo=timezone(timedelta(hours=-8)))
    stored = to_single_value(western, P.TIMESTAMPTZ)
    assert from_single_value(stored, P.TIMESTAMPTZ) == datetime(2017, 11, 17, 1, 10, 34, tzinfo=UTC)
    assert stored == to_single_value(datetime(2017, 11, 17, 1, 10, 34), P.TIMESTAMP)


@pytest.mark.parametrize(
    ("written", "value", "read"), [(P.INT, -34, P.LONG), (P.FLOAT, 1.5, P.DOUBLE)]
)
@pytest.mark.rule("ICE-28", "ICE-30")
def test_ice_28_and_30_bounds_of_promoted_columns(written: P, value: Any, read: P) -> None:
    assert from_single_value(to_single_value(value, written), read) == value


@given(st.data(), simple_types)
def test_any_value_comes_back(data: st.DataObject, type_: Type) -> None:
    value = data.draw(values_of(type_))
    assert from_single_value(to_single_value(value, type_), type_) == value


@given(st.data(), st.integers(1, 38).flatmap(lambda p: st.just(Decimal(p, p // 2))))
@pytest.mark.rule("ICE-32")
def test_ice_32_decimals_take_as_few_bytes_as_hold_them(
    data: st.DataObject, type_: Decimal
) -> None:
    stored = to_single_value(data.draw(values_of(type_)), type_)
    assert len(stored) == 1 or not (
        (stored[0] == 0 and stored[1] < 128) or (stored[0] == 255 and stored[1] >= 128)
    )


@given(st.binary(max_size=20), simple_types)
def test_hostile_bytes_are_a_value_or_a_value_error(data: bytes, type_: Type) -> None:
    try:
        value = from_single_value(data, type_)
    except ValueError:
        return
    assert value is not None


@pytest.mark.parametrize("type_", [P.INT, P.LONG, P.DOUBLE, P.BOOLEAN, P.UUID, Decimal(9, 2)])
def test_bytes_of_a_wrong_length_are_refused(type_: Type) -> None:
    with pytest.raises(ValueError, match="17 bytes are no"):
        from_single_value(bytes(17), type_)


def test_what_does_not_fit_is_refused() -> None:
    with pytest.raises(ValueError, match="does not fit int"):
        to_single_value(2**31, P.INT)
    with pytest.raises(ValueError, match="does not fit float"):
        to_single_value(1e300, P.FLOAT)
    with pytest.raises(ValueError, match="has no single values"):
        to_single_value({}, Struct(()))
    with pytest.raises(ValueError, match="beyond the range of date"):
        from_single_value(b"\xff\xff\xff\x7f", P.DATE)
