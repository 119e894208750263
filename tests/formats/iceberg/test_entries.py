"""Entries as Iceberg's data files and back: bounds, truncation, geometry."""

from __future__ import annotations

import math
import struct
from dataclasses import replace
from datetime import UTC, date, datetime, time
from decimal import Decimal as Number
from typing import Any
from uuid import UUID

import pytest
from hypothesis import given
from hypothesis import strategies as st

from havasu_vc.errors import CorruptDatasetError
from havasu_vc.formats.havasu.entry import ColumnStatistics, Content, Entry, Origin, to_scalar
from havasu_vc.formats.havasu.properties import PartitionField, PartitionSpec
from havasu_vc.formats.iceberg.entries import (
    LONGEST,
    corner,
    data_file_of,
    point_of,
)
from havasu_vc.formats.iceberg.single_values import from_single_value, to_single_value
from havasu_vc.formats.iceberg.values import DataFile, DataFileContent, Flavour
from havasu_vc.model.bounds import EVERYWHERE, Bounds, GeographicBounds
from havasu_vc.model.schema import Schema
from havasu_vc.model.types import (
    Decimal,
    Encoding,
    Field,
    Fixed,
    Geometry,
    List,
    Primitive,
    Struct,
    Type,
)
from tests.formats.iceberg.strategies import values_of
from tests.model.strategies import simple_types

P = Primitive
PATH = "/tables/parcels/data/x.parquet"


def entry_of(**given_: Any) -> Entry:
    base = Entry("ab" * 32, Content.DATA, 1704, 3, "", "", "", Origin.IMPORT, splits=(4,))
    return replace(base, **given_)


def one_column(type_: Type, **given_: Any) -> Schema:
    return Schema((Field(1, "c", type_, **given_),))


def bounds(type_: Type, lower: Any, upper: Any) -> tuple[bytes | None, bytes | None]:
    statistics = {1: ColumnStatistics(3, 0, 40, lower=lower, upper=upper)}
    file = data_file_of(entry_of(statistics=statistics), PATH, schema=one_column(type_))
    assert file.lower_bounds is not None
    assert file.upper_bounds is not None
    return file.lower_bounds.get(1), file.upper_bounds.get(1)


@pytest.mark.rule("ICE-12")
def test_a_data_file_says_what_its_entry_says() -> None:
    schema = Schema(
        (
            Field(1, "id", P.LONG),
            Field(2, "geom", P.BINARY, geometry=Geometry()),
            Field(3, "height", P.DOUBLE),
            Field(4, "in", Struct((Field(5, "deep", P.INT),))),
        )
    )
    statistics = {
        1: ColumnStatistics(3, 0, 40, lower=1, upper=9),
        2: ColumnStatistics(3, 1, 90),
        3: ColumnStatistics(3, 0, 30, nans=2, lower=0.5, upper=0.5),
        5: ColumnStatistics(3, 3, 8),
        99: ColumnStatistics(3, 0, 1, lower=1, upper=1),
    }
    entry = entry_of(statistics=statistics, bounds={2: Bounds(1, -2, 5, 1)})
    file = data_file_of(entry, PATH, schema=schema, sort_order_id=1)
    assert file == DataFile(
        PATH,
        3,
        1704,
        column_sizes={1: 40, 2: 90, 3: 30, 5: 8},
        value_counts={1: 3, 2: 3, 3: 3, 5: 3},
        null_value_counts={1: 0, 2: 1, 3: 0, 5: 3},
        nan_value_counts={3: 2},
        lower_bounds={1: (1).to_bytes(8, "little"), 3: to_single_value(0.5, P.DOUBLE)},
        upper_bounds={1: (9).to_bytes(8, "little"), 3: to_single_value(0.5, P.DOUBLE)},
        split_offsets=(4,),
        sort_order_id=1,
        geometry_lower={2: corner(1, -2)},
        geometry_upper={2: corner(5, 1)},
    )


@pytest.mark.parametrize(
    ("type_", "given_", "value"),
    [
        (P.BOOLEAN, True, True),
        (P.DATE, "2017-11-16", date(2017, 11, 16)),
        (P.TIME, "10:00:00", time(10)),
        (P.TIMESTAMP, "2017-11-16T22:31:08", datetime(2017, 11, 16, 22, 31, 8)),
        (P.TIMESTAMPTZ, "2017-11-16T22:31:08Z", datetime(2017, 11, 16, 22, 31, 8, tzinfo=UTC)),
        (Decimal(9, 2), "14.20", Number("14.20")),
        (P.UUID, "f79c3e09677c4bbda4793f349cb785e7", UUID("f79c3e09677c4bbda4793f349cb785e7")),
        (Fixed(3), "000102", b"\x00\x01\x02"),
        (P.BINARY, "000102", b"\x00\x01\x02"),
        (P.STRING, "é", "é"),
        (P.DOUBLE, 3, 3.0),
    ],
)
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
    "ICE-36",
    "ICE-37",
)
def test_ice_27_to_37_bounds_by_type(type_: Type, given_: Any, value: Any) -> None:
    assert bounds(type_, given_, given_) == (to_single_value(value, type_),) * 2


@pytest.mark.rule("ICE-93")
def test_ice_93_text_is_cut_by_characters_and_rounded_up() -> None:
    long = "é" * 20
    lower, upper = bounds(P.STRING, long, long)
    assert lower == ("é" * 16).encode()
    assert upper == ("é" * 15 + "ê").encode()
    assert bounds(P.STRING, "z" * 16, "z" * 16) == (b"z" * 16, b"z" * 16)
    last = chr(0x10FFFF)
    assert bounds(P.STRING, last * 17, last * 17)[1] is None
    assert bounds(P.STRING, "a", "a" + last * 16)[1] == b"b"
    assert bounds(P.STRING, "a", "\ud7ff" * 17)[1] == ("\ud7ff" * 15 + "\ue000").encode()


@pytest.mark.rule("ICE-93")
def test_ice_93_bytes_are_cut_and_rounded_up() -> None:
    lower, upper = bounds(P.BINARY, "00" * 15 + "ff" * 2, "00" * 15 + "ff" * 2)
    assert lower == bytes(15) + b"\xff"
    assert upper == bytes(14) + b"\x01"
    assert bounds(P.BINARY, "ff" * 17, "ff" * 17)[1] is None


@given(st.text(max_size=40) | st.binary(max_size=40))
@pytest.mark.rule("ICE-93")
def test_ice_93_cut_bounds_still_bound(value: str | bytes) -> None:
    type_ = P.STRING if isinstance(value, str) else P.BINARY
    given_ = value if isinstance(value, str) else value.hex()
    lower, upper = bounds(type_, given_, given_)
    assert lower is not None
    least = from_single_value(lower, type_)
    assert least <= value
    assert len(least) <= LONGEST
    if upper is not None:
        most = from_single_value(upper, type_)
        assert value <= most
        assert len(most) <= LONGEST


@pytest.mark.rule("ICE-94")
def test_ice_94_zero_is_negative_below_and_positive_above() -> None:
    for given_ in (0.0, -0.0, 0):
        lower, upper = bounds(P.DOUBLE, given_, given_)
        assert lower is not None
        assert upper is not None
        assert math.copysign(1, from_single_value(lower, P.DOUBLE)) == -1
        assert math.copysign(1, from_single_value(upper, P.DOUBLE)) == 1


@pytest.mark.rule("ICE-94")
def test_ice_94_nan_is_never_a_bound() -> None:
    assert bounds(P.DOUBLE, math.nan, math.nan) == (None, None)


@pytest.mark.parametrize(
    ("type_", "wrong"),
    [
        (P.INT, "1"),
        (P.INT, True),
        (P.INT, 2**31),
        (P.DATE, "yesterday"),
        (P.DATE, 3),
        (Decimal(9, 2), "x"),
        (Decimal(9, 2), "1.234"),
        (P.UUID, "00"),
        (P.BINARY, "0"),
        (P.STRING, 3),
        (P.BOOLEAN, 1),
        (P.FLOAT, 1e300),
        (P.STRING, "\ud800"),
    ],
)
def test_bounds_of_another_type_are_refused(type_: Type, wrong: Any) -> None:
    with pytest.raises(CorruptDatasetError, match=r"bound .* is no"):
        bounds(type_, wrong, None)


@given(st.data(), simple_types)
def test_values_lie_between_their_bounds(data: st.DataObject, type_: Type) -> None:
    value = data.draw(values_of(type_))
    said = to_scalar(value, type_)
    lower, upper = bounds(type_, said, said)

    if said is None:
        assert (lower, upper) == (None, None)
        return
    assert lower is not None
    assert from_single_value(lower, type_) <= value
    assert upper is None or value <= from_single_value(upper, type_)
    if len(lower) < LONGEST:
        assert from_single_value(lower, type_) == value


def test_columns_in_lists_have_counts_and_no_bounds() -> None:
    schema = Schema((Field(1, "c", List(Field(2, "element", P.INT))),))
    statistics = {2: ColumnStatistics(5, 0, 9, lower=1, upper=2)}
    file = data_file_of(entry_of(statistics=statistics), PATH, schema=schema)
    assert (file.value_counts, file.lower_bounds, file.upper_bounds) == ({2: 5}, {}, {})


@pytest.mark.parametrize("encoding", Encoding)
@pytest.mark.rule("HAV-64")
def test_hav_64_geometries_have_no_ordinary_bounds(encoding: Encoding) -> None:
    type_ = P.BINARY if encoding.is_binary else P.STRING
    schema = one_column(type_, geometry=Geometry(encoding))
    statistics = {1: ColumnStatistics(3, 0, 40, lower="00", upper="ff")}
    file = data_file_of(entry_of(statistics=statistics), PATH, schema=schema)
    assert (file.lower_bounds, file.upper_bounds) == ({}, {})


GEOMETRY = one_column(P.BINARY, geometry=Geometry())
RASTER = one_column(Struct(()), raster="v1")
finite = st.floats(allow_nan=False, allow_infinity=False)


@pytest.mark.rule("HAV-57", "HAV-58", "HAV-131")
def test_hav_57_58_corners_are_little_endian_points() -> None:
    assert corner(170, 10).hex() == "010100000000000000004065400000000000002440"
    assert corner(-170, 20).hex() == "010100000000000000004065c00000000000003440"


@pytest.mark.rule("HAV-59")
def test_hav_59_either_byte_order_is_read() -> None:
    big = bytes.fromhex("000000000140654000000000004024000000000000")
    assert point_of(big) == (170, 10)


@pytest.mark.rule("HAV-60")
def test_hav_60_bounds_are_plain_points_and_others_are_tolerated() -> None:
    assert len(corner(1, 2)) == 21
    srid = bytes.fromhex("0101000020e6100000000000000000f03f0000000000000040")
    assert point_of(srid) == (1, 2)
    flagged_z = bytes.fromhex("01010000a0e6100000000000000000f03f00000000000000400000000000000840")
    assert point_of(flagged_z) == (1, 2)
    iso_z = bytes.fromhex("01e9030000000000000000f03f00000000000000400000000000000840")
    assert point_of(iso_z) == (1, 2)


@pytest.mark.parametrize("flavour", Flavour)
@pytest.mark.rule("HAV-61")
def test_hav_61_no_bounds_no_keys(flavour: Flavour) -> None:
    file = data_file_of(entry_of(), PATH, schema=GEOMETRY, flavour=flavour)
    assert (file.geometry_lower, file.geometry_upper) == (None, None)
    everywhere = entry_of(bounds={1: EVERYWHERE})
    assert data_file_of(everywhere, PATH, schema=GEOMETRY).geometry_lower is None


@pytest.mark.parametrize(
    "wrong",
    [
        b"",
        b"\x01" * 20,
        b"\x02" + bytes(20),
        corner(math.nan, 1),
        corner(1, math.inf),
        b"\x01\x02\0\0\0" + bytes(16),
        bytes.fromhex("0101000020") + bytes(16),
    ],
)
@pytest.mark.rule("HAV-62")
def test_hav_62_what_is_no_point_is_no_bound(wrong: bytes) -> None:
    assert point_of(wrong) is None


@given(st.binary(max_size=40))
def test_any_bytes_are_a_point_or_none(value: bytes) -> None:
    found = point_of(value)
    assert found is None or point_of(corner(*found)) == found


@given(finite, finite)
def test_corners_come_back_as_they_were(x: float, y: float) -> None:
    found = point_of(corner(x, y))
    assert found is not None
    assert struct.pack("<dd", *found) == struct.pack("<dd", x, y)


@pytest.mark.rule("HAV-70")
def test_bounds_of_rasters_stand_in_manifests_as_they_are() -> None:
    entry = entry_of(areas={1: GeographicBounds(170, 10, -170, 20)})
    file = data_file_of(entry, PATH, schema=RASTER)
    assert file.geometry_lower == {1: corner(170, 10)}
    assert file.geometry_upper == {1: corner(-170, 20)}
    plain = data_file_of(entry, PATH, schema=RASTER, flavour=Flavour.ICEBERG)
    assert plain.geometry_lower is None
    assert data_file_of(entry, PATH, schema=GEOMETRY).geometry_lower is None


def test_flavour_iceberg_has_no_geometry_bounds() -> None:
    entry = entry_of(bounds={1: Bounds(0, 0, 1, 1)})
    for flavour in Flavour:
        file = data_file_of(entry, PATH, schema=GEOMETRY, flavour=flavour)
        assert (file.geometry_lower is None) == (flavour is Flavour.ICEBERG)


def test_partition_values() -> None:
    schema = Schema((Field(1, "d", P.DATE), Field(2, "name", P.STRING)))
    spec = PartitionSpec(
        (PartitionField(1, 1000, "d_day", "day"), PartitionField(2, 1001, "b", "bucket[4]"))
    )
    entry = entry_of(partition={"1000": "2017-11-16", "1001": 3})
    file = data_file_of(entry, PATH, schema=schema, spec=spec)
    assert file.partition == {1000: date(2017, 11, 16), 1001: 3}
    with pytest.raises(CorruptDatasetError, match="partition field 'b'"):
        data_file_of(replace(entry, partition={"1001": "x"}), PATH, schema=schema, spec=spec)


def test_delete_files_are_not_made_here() -> None:
    with pytest.raises(ValueError, match="is no data file"):
        data_file_of(entry_of(content=Content.DELETES), PATH, schema=GEOMETRY)
    assert DataFile(PATH, 1, 1).content is DataFileContent.DATA
