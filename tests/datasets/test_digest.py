"""Digests: nulls count nothing, order does not matter, and both lanes see every cell."""

import datetime as dt
import math
import uuid
from dataclasses import replace
from decimal import Decimal as Number
from random import Random
from typing import Any

import pyarrow as pa
import pytest
import shapely
from hypothesis import given
from hypothesis import strategies as st

from havasu_vc.datasets.digest import Digests, hash_keys, hash_keys_and_rows, hash_rows
from havasu_vc.model.arrow import arrow_schema
from havasu_vc.model.schema import Schema
from havasu_vc.model.types import (
    Decimal,
    Encoding,
    Field,
    Fixed,
    Geometry,
    List,
    Map,
    Primitive,
    Struct,
)
from tests.datasets.digest_by_hand import of_rows

SCHEMA = Schema(
    (
        Field(1, "id", Primitive.LONG, required=True),
        Field(2, "text", Primitive.STRING),
        Field(3, "number", Primitive.INT),
    ),
    (1,),
)
KEYLESS = Schema(SCHEMA.fields)
Cells = list[tuple[str | None, int | None]]
CELLS = st.lists(
    st.tuples(st.none() | st.sampled_from("ab"), st.none() | st.integers(0, 2)), max_size=6
)


def batch(cells: Cells, ids: list[int] | None = None) -> pa.RecordBatch:
    return pa.RecordBatch.from_pydict(
        {
            "id": pa.array(ids if ids is not None else range(len(cells)), pa.int64()),
            "text": pa.array([text for text, _ in cells], pa.string()),
            "number": pa.array([number for _, number in cells], pa.int32()),
        }
    )


@given(CELLS)
def test_nulls_count_nothing(cells: Cells) -> None:
    for schema in (SCHEMA, KEYLESS):
        rows = batch([(None, number) for _, number in cells])
        found = hash_rows(rows, schema)
        assert found.digests[2] == (0, 0)
        without = hash_rows(rows.select(["id", "number"]), schema.select(("id", "number")))
        assert {**without.digests, 2: (0, 0)} == found.digests
        assert (without.rows == found.rows).all() and (without.keys == found.keys).all()


@given(CELLS, st.randoms())
def test_order_does_not_matter(cells: Cells, random: Random) -> None:
    order = list(range(len(cells)))
    random.shuffle(order)
    whole = hash_rows(batch(cells), SCHEMA).digests
    assert hash_rows(batch([cells[i] for i in order], order), SCHEMA).digests == whole
    sums = Digests()
    for i in order:
        sums.add(hash_rows(batch([cells[i]], [i]), SCHEMA).digests)
    assert sums.of(whole) == whole
    for i in order:
        sums.subtract(hash_rows(batch([cells[i]], [i]), SCHEMA).digests)
    assert sums.of(whole) == dict.fromkeys(whole, (0, 0))


@given(CELLS.filter(bool), st.data())
def test_a_changed_cell_shows_in_both_lanes_of_its_column_alone(
    cells: Cells, data: st.DataObject
) -> None:
    at = data.draw(st.integers(0, len(cells) - 1))
    text, number = cells[at]
    other = data.draw(st.sampled_from([None, "a", "b"]).filter(lambda each: each != text))
    before = hash_rows(batch(cells), SCHEMA).digests
    after = hash_rows(batch([*cells[:at], (other, number), *cells[at + 1 :]]), SCHEMA).digests
    assert all(one != two for one, two in zip(before[2], after[2], strict=True))
    assert (before[1], before[3]) == (after[1], after[3])


EVERY = Schema(
    (
        Field(3, "id", Primitive.LONG, required=True),
        Field(2, "part", Primitive.STRING, required=True),
        Field(4, "shape", Primitive.BINARY, geometry=Geometry(Encoding.EWKB)),
        Field(5, "flag", Primitive.BOOLEAN),
        Field(6, "narrow", Primitive.FLOAT),
        Field(7, "money", Decimal(38, 2)),
        Field(8, "token", Primitive.UUID),
        Field(9, "fixed", Fixed(5)),
        Field(10, "data", Primitive.BINARY),
        Field(11, "day", Primitive.DATE),
        Field(12, "words", List(Field(13, "element", Primitive.STRING))),
        Field(
            14,
            "named",
            Map(
                Field(15, "key", Primitive.STRING, required=True),
                Field(16, "value", Primitive.DOUBLE),
            ),
        ),
        Field(
            17,
            "parts",
            Struct((Field(18, "a", Primitive.INT), Field(19, "b", Primitive.TIMESTAMP))),
        ),
    ),
    (3, 2),
)


def every_row(number: int, *, nulls: bool = True) -> dict[str, Any]:
    n = number
    srid = (0, 4326, 2193, 999_999)[n % 4]
    point = shapely.set_srid(shapely.Point(n / 4, -n), srid)
    values = {
        "shape": shapely.to_wkb(point, include_srid=srid != 0, byte_order=1),
        "flag": n % 3 == 0,
        "narrow": math.nan if n % 10 == 9 else n / 3,
        "money": Number(n - 20) * 10 ** (n % 33) / 100,
        "token": uuid.UUID(int=n << 70 | n).bytes,
        "fixed": bytes([n, 0, 255, n, n]),
        "data": bytes(range(n)),
        "day": dt.date(1969, 12, 20) + dt.timedelta(n),
        "words": [None if each % 3 == 2 else "ä" * each for each in range(n % 7)],
        "named": [(f"k{each}", each / 2 if each else None) for each in range(n % 4)],
        "parts": {"a": None if n % 4 == 1 else -n, "b": dt.datetime(1960 + n, 1, 2, 3, 4, 5, n)},
    }
    kept = {
        name: None if nulls and (n + at) % 6 == 5 else value
        for at, (name, value) in enumerate(values.items())
    }
    return {"id": n * 77 - 900, "part": "ab"[n % 2] * n, **kept}


@pytest.mark.parametrize("nulls", [True, False])
@pytest.mark.parametrize("keys", [(3, 2), (2, 3), (2,), (), (9, 11)])
def test_digests_are_those_worked_out_by_hand(keys: tuple[int, ...], nulls: bool) -> None:
    """Value by value, also where a batch is a slice of others."""
    schema = Schema(
        tuple(replace(f, required=f.id in keys) for f in EVERY.fields), identifier_ids=keys
    )
    rows = [every_row(number, nulls=nulls and not set(keys) & {9, 11}) for number in range(45)]
    whole = pa.RecordBatch.from_pylist(rows, schema=arrow_schema(schema))
    # As stored: floats are rounded.
    shown = [
        {**row, "token": row["token"] and uuid.UUID(bytes=row["token"])}
        for row in whole.to_pylist()
    ]
    for start, end in ((0, 45), (7, 31), (44, 45), (3, 3)):
        found = hash_rows(whole.slice(start, end - start), schema)
        assert dict(found.digests) == of_rows(shown[start:end], schema)
        assert int(found.rows.sum(dtype="u8")) == (
            sum(first for first, _ in found.digests.values()) & (1 << 64) - 1
        )
        if keys:
            assert (hash_keys(whole.slice(start, end - start), schema) == found.keys).all()


def test_rows_longer_than_a_block() -> None:
    """Values and rows pass the sizes at which hashing goes in blocks."""
    schema = Schema(
        (Field(1, "id", Primitive.LONG, required=True), Field(2, "text", Primitive.STRING)), (1,)
    )
    texts = ["x" * (700_000 if n == 5 else n % 40) for n in range(70_000)]
    rows = pa.RecordBatch.from_pydict({"id": pa.array(range(70_000)), "text": texts})
    whole = hash_rows(rows, schema)
    parts = Digests()
    for start in range(0, 70_000, 9_999):
        parts.add(hash_rows(rows.slice(start, 9_999), schema).digests)
    assert parts.of((1, 2)) == dict(whole.digests)
    few = [{"id": n, "text": texts[n]} for n in range(4, 7)]
    assert dict(hash_rows(rows.slice(4, 3), schema).digests) == of_rows(few, schema)


def _told_apart(values: list[tuple[int | None, int | None]], ids: tuple[int, int]) -> list[int]:
    """Return the hashes that tell rows of one key apart."""
    columns = (Field(number, f"c{number}", Primitive.LONG) for number in ids)
    fields = (Field(1, "id", Primitive.LONG, required=True), *columns)
    first, second = ([row[n] for row in values] for n in (0, 1))
    arrays = [pa.array(each, pa.int64()) for each in ([7] * len(values), first, second)]
    rows = pa.RecordBatch.from_arrays(arrays, [field.name for field in fields])
    return [int(n) for n in hash_keys_and_rows(rows, Schema(fields, (1,)))[1]]


@given(
    st.lists(st.tuples(*[st.one_of(st.none(), st.integers(-2, 2))] * 2), min_size=2, unique=True),
    st.tuples(st.integers(2, 40), st.integers(41, 80)),
)
def test_rows_of_one_key_are_told_apart(
    values: list[tuple[int | None, int | None]], ids: tuple[int, int]
) -> None:
    """Zeros, nulls and values that change places too; a column that is not there is null."""
    found = _told_apart(values, ids)
    assert len(set(found)) == len(values)
    fields = (Field(1, "id", Primitive.LONG, required=True), Field(ids[0], "c", Primitive.LONG))
    alone = [first for first, second in values if second is None]
    arrays = [pa.array(each, pa.int64()) for each in ([7] * len(alone), alone)]
    rows = pa.RecordBatch.from_arrays(arrays, ["id", "c"])
    assert hash_keys_and_rows(rows, Schema(fields, (1,)))[1].tolist() == [
        told for told, (_, second) in zip(found, values, strict=True) if second is None
    ]
