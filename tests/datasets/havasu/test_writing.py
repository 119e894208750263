"""Equal rows make equal files however they come; files that must stand twice are told apart."""

import datetime
from collections.abc import Iterator
from itertools import pairwise
from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from havasu_vc.datasets.havasu import writing
from havasu_vc.datasets.havasu.documents import layout_documents, layout_of
from havasu_vc.datasets.havasu.parquet import key_ranges, read_row_groups
from havasu_vc.datasets.havasu.plan import FileLayout
from havasu_vc.datasets.havasu.writing import (
    cut_row_groups,
    distinct_files,
    row_sizes,
    write_data_files,
)
from havasu_vc.formats.havasu.entry import Origin
from havasu_vc.formats.havasu.properties import PartitionSpec, SortOrder
from havasu_vc.model.arrow import arrow_schema
from havasu_vc.model.schema import Schema
from havasu_vc.model.types import Field, Primitive, Struct
from havasu_vc.store.files import DataFileStore
from havasu_vc.testing.tables import batch_of, rows_of, schemas
from tests.datasets.thresholds import tiny_thresholds
from tests.support.examples import examples

TEXT = Schema((Field(1, "name", Primitive.STRING),))


def layout(schema: Schema, target_bytes: int = 1 << 30) -> FileLayout:
    found = layout_of(schema, layout_documents(schema, PartitionSpec(), SortOrder()))
    return FileLayout(
        schema, found.schema_hash, found.partition_hash, found.sort_hash, target_bytes=target_bytes
    )


def texts(*values: str | None) -> pa.RecordBatch:
    return pa.RecordBatch.from_arrays([pa.array(values, pa.string())], schema=arrow_schema(TEXT))


def write(store: DataFileStore, batches: list[pa.RecordBatch], chosen: FileLayout) -> list[str]:
    written = write_data_files(batches, chosen, store, None, origin=Origin.EDIT)
    return [file.entry.file for file in written]


@examples(40, deadline=None)
@given(data=st.data(), schema=schemas(), most_bytes=st.sampled_from([1, 64, 200, 1 << 20]))
def test_the_same_rows_cut_otherwise_make_the_same_files(
    data: st.DataObject,
    schema: Schema,
    most_bytes: int,
    tmp_path_factory: pytest.TempPathFactory,
) -> None:
    rows = data.draw(st.lists(rows_of(schema), min_size=1, max_size=12))
    whole = batch_of(rows, schema)
    cuts = sorted(data.draw(st.sets(st.integers(1, len(rows)), max_size=4)) | {0, len(rows)})
    # Slices of one batch, and batches that never were part of another.
    sliced = [whole.slice(a, b - a) for a, b in pairwise(cuts)]
    alone = [batch_of(rows[a:b], schema) for a, b in pairwise(cuts)]
    store = DataFileStore(tmp_path_factory.mktemp("writing"))
    with tiny_thresholds(group_rows=5), pytest.MonkeyPatch.context() as patch:
        patch.setattr(writing, "GROUP_BYTES", most_bytes)
        files = [write(store, each, layout(schema, 600)) for each in ([whole], sliced, alone)]

    assert files[0] == files[1] == files[2]


@given(
    data=st.data(), schema=schemas(), most_rows=st.integers(1, 5), most_bytes=st.integers(1, 300)
)
def test_row_groups_keep_rows_and_limits(
    data: st.DataObject, schema: Schema, most_rows: int, most_bytes: int
) -> None:
    batches = [
        batch_of(rows, schema)
        for rows in data.draw(st.lists(st.lists(rows_of(schema), max_size=6), max_size=4))
    ]

    groups = list(cut_row_groups(batches, most_rows=most_rows, most_bytes=most_bytes))

    target = arrow_schema(schema)
    assert pa.Table.from_batches(groups, target).to_pylist().__repr__() == (
        pa.Table.from_batches(batches, target).to_pylist().__repr__()
    )
    sizes = [row_sizes(group) for group in groups]
    for size in sizes:
        assert len(size) <= most_rows
        assert len(size) == 1 or size.sum() <= most_bytes
    for size, following in pairwise(sizes):
        # No group could have taken one row more.
        assert len(size) == most_rows or size.sum() + following[0] > most_bytes


def test_row_sizes_do_not_depend_on_what_nulls_span() -> None:
    spanning = pa.ListArray.from_arrays(
        pa.array([0, 2, 4]), pa.array([1, 2, 3, 4]), mask=pa.array([False, True])
    )
    plain = pa.array([[1, 2], None], spanning.type)

    first, second = (row_sizes(pa.record_batch({"a": column})) for column in (spanning, plain))

    assert np.array_equal(first, second)


def test_equal_files_of_one_run_are_told_apart(tmp_path: Path) -> None:
    store = DataFileStore(tmp_path)
    with tiny_thresholds():
        files = write(store, [texts(*["same"] * 9)], layout(TEXT, 1))

    assert len(set(files)) == 3
    for file in files:
        (batch,) = read_row_groups(str(store.path(file)), TEXT)
        assert batch.column(0).to_pylist() == ["same"] * 3


def test_equal_files_of_two_runs_are_told_apart(tmp_path: Path) -> None:
    store = DataFileStore(tmp_path)
    chosen = layout(TEXT)
    runs = [
        file
        for _ in range(3)
        for file in write_data_files([texts("same")], chosen, store, None, origin=Origin.IMPORT)
    ]
    assert len({file.entry.file for file in runs}) == 1

    found = distinct_files(runs, chosen, store, None, seen=[runs[0].entry.file])

    names = {file.entry.file for file in found}
    assert len(names) == 3
    assert runs[0].entry.file not in names
    assert [file.digests for file in found] == [file.digests for file in runs]
    again = distinct_files(runs, chosen, store, None, seen=[runs[0].entry.file])
    assert [file.entry for file in again] == [file.entry for file in found]


def test_statistics_are_of_their_own_column(tmp_path: Path) -> None:
    """Names may hold dots, so that two columns have one path in the file."""
    inner = Struct((Field(3, "b", Primitive.LONG),))
    schema = Schema((Field(1, "a", inner), Field(2, "a.b", Primitive.LONG, required=True)), (2,))
    batch = batch_of([{1: {"b": 100}, 2: 7}], schema)
    store = DataFileStore(tmp_path)

    (file,) = write_data_files([batch], layout(schema), store, None, origin=Origin.EDIT)

    assert {n: s.lower for n, s in file.entry.statistics.items()} == {3: 100, 2: 7}
    assert key_ranges(str(store.path(file.entry.file)), 2) == [(7, 7)]


def test_dates_that_python_does_not_know_have_no_bounds(tmp_path: Path) -> None:
    schema = Schema((Field(1, "when", Primitive.TIMESTAMP, required=True),), (1,))
    column = pa.array([0, 1 << 62], pa.timestamp("us"))
    batch = pa.RecordBatch.from_arrays([column], schema=arrow_schema(schema))
    store = DataFileStore(tmp_path)

    (file,) = write_data_files([batch], layout(schema), store, None, origin=Origin.EDIT)

    assert file.entry.statistics[1].upper is None
    assert key_ranges(str(store.path(file.entry.file)), 1) == [None]
    early = batch.slice(0, 1)
    (known,) = write_data_files([early], layout(schema), store, None, origin=Origin.EDIT)
    assert known.entry.statistics[1].upper == datetime.datetime(1970, 1, 1).isoformat()


def test_a_failure_leaves_nothing_behind(tmp_path: Path) -> None:
    store = DataFileStore(tmp_path)

    def failing() -> Iterator[pa.RecordBatch]:
        yield texts("a", "b", "c", "d")
        raise RuntimeError("no more rows")

    with tiny_thresholds(), pytest.raises(RuntimeError):
        list(
            write_data_files(failing(), layout(TEXT), store, tmp_path / "keys", origin=Origin.EDIT)
        )

    assert list(store.iter()) == []
    assert list(store.scratch.iterdir()) == []
    assert not (tmp_path / "keys").exists()
