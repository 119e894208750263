"""A batch of changes: what it counts, how it is undone, and what it shows row by row."""

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from havasu_vc.model.changes import ChangeBatch, ChangeKind, RowChange, count_changes, struct_of
from havasu_vc.model.commits import ChangeCounts

ROW = pa.struct([pa.field("id", pa.int64(), nullable=False), pa.field("name", pa.string())])


@st.composite
def batches(draw: st.DrawFn) -> ChangeBatch:
    keys = draw(st.lists(st.integers(0, 50), unique=True, max_size=8))
    kinds = [draw(st.sampled_from(ChangeKind)) for _ in keys]
    names = st.none() | st.text("ab", max_size=2)

    def side(absent: ChangeKind) -> pa.StructArray:
        rows = [
            None if kind is absent else {"id": key, "name": draw(names)}
            for key, kind in zip(sorted(keys), kinds, strict=True)
        ]
        return pa.array(rows, ROW)

    return ChangeBatch.from_structs(side(ChangeKind.INSERT), side(ChangeKind.DELETE))


@given(batches())
def test_counts_are_those_of_the_rows(batch: ChangeBatch) -> None:
    kinds = [change.kind for change in batch.rows(("id",))]

    assert batch.counts == ChangeCounts(
        kinds.count(ChangeKind.INSERT),
        kinds.count(ChangeKind.UPDATE),
        kinds.count(ChangeKind.DELETE),
    )
    assert batch.counts.total == len(batch)


@given(batches())
def test_undoing_twice_is_doing(batch: ChangeBatch) -> None:
    back = batch.invert()

    assert back.invert().data.equals(batch.data)
    assert (back.counts.inserts, back.counts.deletes) == (
        batch.counts.deletes,
        batch.counts.inserts,
    )
    assert back.new_rows().equals(batch.old_rows())


@given(batches(), st.integers(0, 9), st.integers(0, 9))
def test_slices_are_changes_like_any_other(batch: ChangeBatch, start: int, length: int) -> None:
    start = min(start, len(batch))
    part = batch.slice(start, length)
    whole = list(batch.rows(("id",)))[start : start + length]

    assert list(part.rows(("id",))) == whole
    assert part.new_rows().to_pylist() == [change.new for change in whole if change.new is not None]
    assert part.old_rows().to_pylist() == [change.old for change in whole if change.old is not None]


@given(st.lists(batches(), max_size=4))
def test_a_stream_counts_as_the_sum_of_its_batches(stream: list[ChangeBatch]) -> None:
    assert count_changes(stream).total == sum(len(batch) for batch in stream)


def test_a_change_has_a_side() -> None:
    with pytest.raises(ValueError, match="neither an old row nor a new one"):
        RowChange((1,))


def test_a_batch_has_two_columns() -> None:
    with pytest.raises(ValueError, match="not a change batch"):
        ChangeBatch(pa.record_batch({"new": pa.array([1]), "old": pa.array([1])}))


def test_masked_rows_are_absent() -> None:
    rows = pa.record_batch({"id": pa.array([1, 2])})

    assert struct_of(rows, mask=pa.array([True, False])).to_pylist() == [None, {"id": 2}]
