"""Rows that hardly changed: pairs as comparing every row with every other one finds them."""

from collections.abc import Sequence

import numpy as np
import pyarrow as pa
from hypothesis import given
from hypothesis import strategies as st

from havasu_vc.datasets.kart.build import SimilarRows, related_hashes
from havasu_vc.model.arrow import arrow_schema
from havasu_vc.model.schema import Schema
from havasu_vc.model.types import Field, Primitive

SCHEMA = Schema(
    (
        Field(1, "key", Primitive.LONG, required=True),
        Field(2, "name", Primitive.STRING),
        Field(3, "n", Primitive.INT),
        Field(4, "height", Primitive.DOUBLE),
    ),
    (1,),
)
Row = tuple[str | None, int | None, float | None]

rows = st.tuples(
    st.sampled_from(["a", "b", None]), st.sampled_from([0, 1, None]), st.sampled_from([0.5, -0.0])
)


def batch(found: Sequence[Row], schema: Schema = SCHEMA) -> pa.RecordBatch:
    columns = [list(range(100, 100 + len(found))), *([row[at] for row in found] for at in range(3))]
    return pa.RecordBatch.from_arrays(
        [pa.array(c, f.type) for c, f in zip(columns, arrow_schema(SCHEMA), strict=True)],
        names=list(schema.names),
    )


def paired(old: Sequence[Row], new: Sequence[Row], cut: int = 0) -> dict[int, int]:
    found = SimilarRows(related_hashes(batch(new), SCHEMA))
    for part in (batch(old).slice(0, cut), batch(old).slice(cut)):
        keys = part.column("key").to_numpy()
        found.add(related_hashes(part, SCHEMA), keys)
    return dict(found.pairs())


@given(st.lists(rows, max_size=6), st.lists(rows, min_size=1, max_size=6), st.integers(0, 6))
def test_pairs_are_those_of_comparing_all_with_all(
    old: list[Row], new: list[Row], cut: int
) -> None:
    def shared(side: Sequence[Row], row: Row, without: int | None) -> list[int]:
        def rest(each: Row) -> tuple[object, ...]:
            return tuple(value for at, value in enumerate(each) if at != without)

        return [at for at, each in enumerate(side) if rest(each) == rest(row)]

    alike = set()
    for number, row in enumerate(new):
        for without in (None, 0, 1, 2):
            before = shared(old, row, without)
            if len(before) == 1 and len(shared(new, row, without)) == 1:
                alike.add((number, 100 + before[0]))
    alone = {
        (now, was)
        for now, was in alike
        if [n for n, _ in alike].count(now) == 1 and [w for _, w in alike].count(was) == 1
    }
    assert paired(old, new, cut) == dict(alone)


def test_one_column_may_differ_and_no_two() -> None:
    old: list[Row] = [("a", 1, 0.5), ("b", 2, 1.5)]
    assert paired(old, [("x", 1, 0.5), ("y", 3, 1.5)]) == {0: 100}
    assert paired(old, [("a", None, 0.5)]) == {0: 100}
    assert paired(old, [("a", 1, 0.25), ("a", 1, 0.75)]) == {}


def test_columns_are_known_by_their_ids() -> None:
    renamed = Schema(
        (*SCHEMA.fields[:2], Field(3, "number", Primitive.INT), SCHEMA.fields[3]), (1,)
    )
    other = Schema((*SCHEMA.fields[:2], Field(9, "n", Primitive.INT), SCHEMA.fields[3]), (1,))
    found = [related_hashes(batch([("a", 1, 0.5)], s), s)[0] for s in (SCHEMA, renamed, other)]
    assert np.array_equal(found[0], found[1])
    # All values but those of the column that went are there.
    assert (found[0] == found[2]).tolist() == [False, False, True, False]
