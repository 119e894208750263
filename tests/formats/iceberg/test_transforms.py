"""Partition transforms: the specification's vectors, arrays against single values, PyIceberg."""

from __future__ import annotations

from datetime import UTC, date, datetime, time
from decimal import Decimal as Number
from typing import Any
from uuid import UUID

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from havasu_vc.errors import UnsupportedError
from havasu_vc.formats.iceberg.transforms import Transform, murmur3, parse_transform
from havasu_vc.model.arrow import arrow_type
from havasu_vc.model.types import Decimal, Fixed, List, Primitive, Struct, Type
from havasu_vc.model.types import Field as Column
from tests.formats.iceberg.strategies import values_of

P = Primitive
UNHASHED = (P.BOOLEAN, P.FLOAT, P.DOUBLE)


@pytest.mark.parametrize(
    ("type_", "value", "wanted"),
    [
        (P.INT, 34, 2017239379),
        (P.LONG, 34, 2017239379),
        (Decimal(9, 2), Number("14.20"), -500754589),
        (P.DATE, date(2017, 11, 16), -653330422),
        (P.TIME, time(22, 31, 8), -662762989),
        (P.TIMESTAMP, datetime(2017, 11, 16, 22, 31, 8), -2047944441),
        (P.TIMESTAMPTZ, datetime(2017, 11, 16, 22, 31, 8, tzinfo=UTC), -2047944441),
        (P.STRING, "iceberg", 1210000089),
        (P.UUID, UUID("f79c3e09-677c-4bbd-a479-3f349cb785e7"), 1488055340),
        (Fixed(4), b"\x00\x01\x02\x03", -188683207),
        (P.BINARY, b"\x00\x01\x02\x03", -188683207),
    ],
)
@pytest.mark.rule("ICE-84")
def test_ice_84_bucket_hashes_as_the_specification_has_it(
    type_: Type, value: Any, wanted: int
) -> None:
    bucket = parse_transform("bucket[999999937]")
    assert bucket.apply(value, type_) == ((wanted & 0x7FFFFFFF) % 999999937)


@pytest.mark.parametrize(
    ("name", "type_", "value", "wanted"),
    [
        ("bucket[16]", P.INT, 34, 3),
        ("truncate[10]", P.INT, 1, 0),
        ("truncate[10]", P.INT, -1, -10),
        ("truncate[10]", P.LONG, 11, 10),
        ("truncate[50]", Decimal(9, 2), Number("10.65"), Number("10.50")),
        ("truncate[3]", P.STRING, "iceberg", "ice"),
        ("truncate[3]", P.BINARY, b"\x00\x01\x02\x03", b"\x00\x01\x02"),
        ("year", P.DATE, date(1969, 12, 31), -1),
        ("year", P.DATE, date(2017, 11, 16), 47),
        ("month", P.DATE, date(2017, 11, 16), 574),
        ("month", P.DATE, date(1969, 12, 31), -1),
        ("day", P.TIMESTAMP, datetime(1969, 12, 31, 23), date(1969, 12, 31)),
        ("hour", P.TIMESTAMP, datetime(2017, 11, 16, 22, 31, 8), 419686),
        ("hour", P.TIMESTAMP, datetime(1969, 12, 31, 23, 59), -1),
        ("identity", P.STRING, "x", "x"),
        ("void", P.STRING, "x", None),
        ("bucket[16]", P.STRING, None, None),
    ],
)
@pytest.mark.rule("ICE-84")
def test_ice_84_vectors(name: str, type_: Type, value: Any, wanted: Any) -> None:
    assert parse_transform(name).apply(value, type_) == wanted


@given(st.binary(max_size=70))
@pytest.mark.rule("ICE-84")
def test_ice_84_hash_against_mmh3(data: bytes) -> None:
    mmh3 = pytest.importorskip("mmh3")
    assert murmur3(data) == mmh3.hash(data, signed=False)


@given(
    st.data(),
    st.sampled_from([*Primitive, Decimal(9, 2), Decimal(38, 5), Fixed(5)]),
    st.sampled_from(["identity", "bucket[7]", "truncate[5]", "year", "month", "day", "hour"]),
)
def test_arrays_have_what_single_values_have(data: st.DataObject, type_: Type, name: str) -> None:
    transform = parse_transform(name)
    if not transform.accepts(type_):
        return
    drawn = data.draw(st.lists(st.none() | values_of(type_), max_size=6))
    if name == "truncate[5]" and type_ in (P.INT, P.LONG):
        drawn = [None if v is None else max(v, -(2**31) + 5) for v in drawn]
    if name == "truncate[5]" and isinstance(type_, Decimal):
        # As with integers, what lies below the least number of a type is in none of its files.
        least = -(10**type_.precision - 5)
        drawn = [
            None if v is None else max(v, v.__class__(least).scaleb(-type_.scale)) for v in drawn
        ]
    stored = [v.bytes if isinstance(v, UUID) else v for v in drawn]
    array = pa.array([None, *stored], arrow_type(type_))[1:]
    wanted = [transform.apply(v, type_) for v in drawn]
    found = transform.apply_array(array, type_).to_pylist()
    assert found == [v.bytes if isinstance(v, UUID) else v for v in wanted]


@pytest.mark.rule("ICE-84")
def test_ice_84_names() -> None:
    for name in ("identity", "bucket[16]", "truncate[3]", "year", "month", "day", "hour", "void"):
        assert str(parse_transform(name)) == name
        assert parse_transform(name).known
    assert parse_transform("identity") == Transform("identity")
    assert parse_transform("void") == Transform("void")
    for name in ("bucket", "bucket[0]", "bucket[-1]", "truncate[x]", "zorder", "Year", ""):
        assert str(parse_transform(name)) == name
        assert not parse_transform(name).known


@pytest.mark.parametrize("type_", [Struct(()), List(Column(1, "element", P.INT)), P.FLOAT])
@pytest.mark.rule("ICE-84")
def test_what_cannot_be_partitioned_by_is_refused(type_: Type) -> None:
    with pytest.raises(UnsupportedError, match="cannot be used on"):
        parse_transform("bucket[4]").result_type(type_)
    with pytest.raises(UnsupportedError, match="cannot be used on"):
        parse_transform("zorder").apply(1, P.INT)


@pytest.mark.parametrize("type_", UNHASHED)
def test_bucket_takes_no_floats_and_booleans(type_: P) -> None:
    assert not parse_transform("bucket[4]").accepts(type_)
    assert parse_transform("identity").accepts(type_)
