"""Digests: nulls count nothing, order does not matter, and both lanes see every cell."""

from random import Random

import pyarrow as pa
from hypothesis import given
from hypothesis import strategies as st

from havasu_vc.datasets.digest import Digests, hash_rows
from havasu_vc.model.schema import Schema
from havasu_vc.model.types import Field, Primitive

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
