"""Text is read in the types of an earlier release, and what is none of them is named."""

import datetime
import decimal
from typing import Any

import pyarrow as pa
import pytest

from havasu_vc.exchange.csv_types import Misfit, misfits, typed
from havasu_vc.model.arrow import arrow_type
from havasu_vc.model.types import Decimal, Field, Fixed, List, Primitive, Struct, Type

PART = Struct((Field(1, "x", Primitive.LONG), Field(2, "y", List(Field(3, "e", Primitive.STRING)))))
FITS: list[tuple[Type, list[str | None], list[Any]]] = [
    (Primitive.STRING, ["007", "", None, "true"], ["007", "", None, "true"]),
    (Primitive.BOOLEAN, ["TRUE", "f", "1", "0", "", None], [True, False, True, False, None, None]),
    (Primitive.INT, ["1.0", "-2", "+3", "0", None], [1, -2, 3, 0, None]),
    (Primitive.LONG, ["9007199254740993", "5.", ""], [9007199254740993, 5, None]),
    (Primitive.FLOAT, ["0.5", "-inf", "3"], [0.5, float("-inf"), 3.0]),
    (Primitive.DOUBLE, ["1", "1e3", "0.1", "007"], [1.0, 1000.0, 0.1, 7.0]),
    (Decimal(4, 2), ["1", "-1.5", "2.500", ""], ["1.00", "-1.50", "2.50", None]),
    (
        Primitive.DATE,
        ["1066-10-14", "2020-01-31 00:00:00", "2020-01-31T00:00:00.000"],
        [datetime.date(1066, 10, 14), *[datetime.date(2020, 1, 31)] * 2],
    ),
    (
        Primitive.TIMESTAMP,
        ["2020-01-31", "1969-12-31 23:59:59.999999"],
        [
            datetime.datetime(2020, 1, 31),
            datetime.datetime(1969, 12, 31, 23, 59, 59, 999999),
        ],
    ),
    (
        Primitive.TIMESTAMPTZ,
        ["2020-01-31T10:00:00+02:00", ""],
        [datetime.datetime(2020, 1, 31, 8, tzinfo=datetime.UTC), None],
    ),
    (
        Primitive.TIME,
        ["10:00", "23:59:59.5"],
        [datetime.time(10), datetime.time(23, 59, 59, 500000)],
    ),
    (
        Primitive.UUID,
        ["00010203-0405-0607-0809-0A0B0C0D0E0F", ""],
        [bytes(range(16)), None],
    ),
    (Primitive.BINARY, ["00ff", "", "AB"], [b"\0\xff", None, b"\xab"]),
    (Fixed(2), ["00ff", None, "abcd"], [b"\0\xff", None, b"\xab\xcd"]),
    (
        PART,
        ['{"x": 1, "y": ["z"]}', "", '{"x":2.0}'],
        [{"x": 1, "y": ["z"]}, None, {"x": 2, "y": None}],
    ),
]  # fmt: skip

MISFITS: list[tuple[Type, str]] = [
    (PART, '{"x": 1'),
    (PART, '{"x": 1.5, "y": []}'),
    (PART, '{"x": true, "y": []}'),
    (PART, '{"x": 1, "q": []}'),
    (PART, '{"x": 1, "y": [3]}'),
    (PART, "[1]"),
    (Primitive.BOOLEAN, "yes"),
    (Primitive.INT, "1.5"),
    (Primitive.INT, "3000000000"),
    (Primitive.LONG, "007"),
    (Primitive.LONG, "9223372036854775808"),
    (Primitive.FLOAT, "1e39"),
    (Primitive.FLOAT, "0.1234567891"),
    (Primitive.DOUBLE, "0.12345678901234567891"),
    (Primitive.DOUBLE, "1e999"),
    (Primitive.DOUBLE, "1 000"),
    (Decimal(4, 2), "1.555"),
    (Decimal(4, 2), "100"),
    (Primitive.DATE, "2020-02-31"),
    (Primitive.DATE, "2020-01-31 00:01:00"),
    (Primitive.TIMESTAMP, "2020-01-31T10:00:00Z"),
    (Primitive.TIMESTAMPTZ, "2020-01-31T10:00:00"),
    (Primitive.TIME, "25:00"),
    (Primitive.UUID, "00112233"),
    (Primitive.BINARY, "0"),
    (Primitive.BINARY, "xy"),
    (Fixed(2), "00ffaa"),
]


def as_batch(values: list[str | None]) -> pa.RecordBatch:
    """Return a batch of one column of text."""
    return pa.record_batch({"c": pa.array(values, pa.string())})


@pytest.mark.parametrize(("type_", "values", "wanted"), FITS, ids=lambda each: str(each)[:20])
def test_values_are_read(type_: Type, values: list[str | None], wanted: list[Any]) -> None:
    batch = as_batch(values)

    assert misfits([batch], {"c": type_}) == {}
    column = typed(batch.column(0), type_)

    assert column.type == arrow_type(type_)
    said = [str(each) if isinstance(each, decimal.Decimal) else each for each in column.to_pylist()]
    assert said == wanted


@pytest.mark.parametrize(("type_", "value"), MISFITS, ids=str)
def test_a_value_that_does_not_fit_is_named_with_its_row(type_: Type, value: str) -> None:
    some = next(values[0] for other, values, _ in FITS if other == type_)
    batches = [as_batch([some, None]), as_batch([some, some, some, value, some, value])]

    assert misfits(batches, {"c": type_}) == {"c": Misfit(6, value)}


@pytest.mark.parametrize("type_", [each[0] for each in FITS], ids=str)
def test_a_column_without_values_is_of_any_type(type_: Type) -> None:
    column = typed(pa.array([None, None], pa.string()), type_)

    assert (column.type, column.null_count) == (arrow_type(type_), 2)
    assert typed(pa.array([], pa.string()), type_).type == arrow_type(type_)
