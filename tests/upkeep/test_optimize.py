"""Optimizing changes files and nothing else: rows, digests and diffs stay as they are."""

from collections.abc import Iterator
from dataclasses import replace
from itertools import pairwise
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from havasu_vc.datasets.havasu.checks import check_dataset
from havasu_vc.datasets.havasu.view import HavasuDataset
from havasu_vc.engine.local import LocalEngine
from havasu_vc.errors import CorruptDatasetError
from havasu_vc.formats.havasu.deltas import format_delta
from havasu_vc.formats.havasu.entry import Content
from havasu_vc.history.diff import row_changes
from havasu_vc.model.schema import Schema
from havasu_vc.model.types import Field, Geometry, Primitive
from havasu_vc.testing.dataset_contract import changes_between, stream_of
from havasu_vc.testing.memory import MemoryDatasets, recomputed_digests, rows_in
from havasu_vc.testing.tables import Row, canonical_row, key_of, rows_of, schemas
from havasu_vc.upkeep.maintenance import optimize_dataset
from tests.datasets.thresholds import tiny_thresholds
from tests.support.examples import examples

SCHEMA = Schema(
    (Field(1, "fid", Primitive.LONG, required=True), Field(2, "name", Primitive.STRING)), (1,)
)
ROWS: list[Row] = [{1: number, 2: f"name {number}"} for number in range(40)]


@pytest.fixture
def datasets(tmp_path: Path) -> MemoryDatasets:
    return MemoryDatasets(tmp_path)


def optimized(datasets: MemoryDatasets, view: HavasuDataset) -> HavasuDataset | None:
    with LocalEngine(threads=2) as engine:
        edit = optimize_dataset(view, engine)
    return None if edit is None else datasets.after(view, edit)


def edited(datasets: MemoryDatasets, schema: Schema, *versions: list[Row]) -> HavasuDataset:
    view = datasets.new(schema, versions[0])
    for before, after in pairwise(versions):
        view = datasets.apply(view, stream_of(changes_between(before, after, schema), schema))
    return view


def changes(old: HavasuDataset, new: HavasuDataset) -> int:
    with LocalEngine(threads=1) as engine:
        return sum(len(batch) for batch in row_changes(old, new, engine))


def table(view: HavasuDataset) -> list[str]:
    return sorted(repr(canonical_row(row, view.schema)) for row in rows_in(view))


@pytest.mark.thorough
@examples(40, deadline=None)
@given(data=st.data(), schema=schemas(), diffs=st.booleans())
def test_the_same_rows_in_clean_files(
    data: st.DataObject, schema: Schema, diffs: bool, tmp_path_factory: pytest.TempPathFactory
) -> None:
    datasets = MemoryDatasets(tmp_path_factory.mktemp("optimize"))
    object.__setattr__(datasets.storage, "staging", datasets.storage.files)
    unique_by = (lambda row: key_of(row, schema)) if schema.key else None
    tables = st.lists(rows_of(schema), max_size=12, unique_by=unique_by)
    with tiny_thresholds(most_deltas=100, diffs=diffs):
        before = edited(datasets, schema, *data.draw(st.lists(tables, min_size=1, max_size=4)))
        after = optimized(datasets, before)
        if after is None:
            assert not before.deletes
            assert len(before.data_entries) < 2
            return
        assert table(after) == table(before)
        assert after.snapshot.digests == before.snapshot.digests == recomputed_digests(after)
        assert changes(before, after) == changes(after, before) == 0
        assert not after.deletes
        assert len(after.data_entries) == min(after.rows, 1)
        assert optimized(datasets, after) is None
        with LocalEngine(threads=1) as engine:
            assert list(check_dataset(after, engine, full=True)) == []


def test_rows_are_in_key_order(datasets: MemoryDatasets) -> None:
    with tiny_thresholds(most_deltas=100):
        view = edited(datasets, SCHEMA, ROWS[::2], ROWS[5:], ROWS)
        after = optimized(datasets, view)

    assert after is not None
    assert len(after.data_entries) == 1
    assert [row[1] for row in rows_in(after)] == list(range(40))


def test_rows_lie_along_the_curve_where_the_dataset_says_so(datasets: MemoryDatasets) -> None:
    import struct

    def point(x: float, y: float) -> bytes:
        return struct.pack("<BIdd", 1, 1, x, y)

    schema = Schema(
        (
            Field(1, "fid", Primitive.LONG, required=True),
            Field(2, "geom", Primitive.BINARY, geometry=Geometry()),
        ),
        (1,),
    )
    # By key the corners alternate; along the curve each corner's points are together.
    corners = [(0.0, 0.0), (0.0, 100.0), (100.0, 100.0), (100.0, 0.0)]
    rows: list[Row] = [
        {1: i, 2: point(corners[i % 4][0] + i * 0.01, corners[i % 4][1])} for i in range(20)
    ]
    with tiny_thresholds(most_deltas=100):
        first = datasets.new(schema, rows[:10], hilbert=2)
        changed = changes_between(rows[:10], rows, schema)
        view = datasets.apply(first, stream_of(changed, schema))
        after = optimized(datasets, view)

    assert after is not None
    assert after.order.is_hilbert
    found = [row[1] % 4 for row in rows_in(after)]
    assert sum(a != b for a, b in pairwise(found)) == 3


def test_large_clean_files_stay(datasets: MemoryDatasets) -> None:
    with tiny_thresholds(most_deltas=100):
        view = datasets.new(SCHEMA, ROWS)
        more: list[Row] = [*ROWS, {1: 100, 2: "new"}, {1: 200, 2: "newer"}]
        for end in (41, 42):
            stream = stream_of(changes_between(more[: end - 1], more[:end], SCHEMA), SCHEMA)
            view = datasets.apply(view, stream)
        large = max(view.data_entries, key=lambda entry: entry.rows)
        view.__dict__["layout"] = replace(view.layout, target_bytes=(large.size - 1) * 4)
        small = [entry.file for entry in view.data_entries if entry.file != large.file]
        assert len(small) == 2
        after = optimized(datasets, view)

    assert after is not None
    assert large.file in after.entries
    assert not set(small) & set(after.entries)
    assert table(after) == table(view)


@pytest.fixture
def lying(datasets: MemoryDatasets) -> Iterator[HavasuDataset]:
    with tiny_thresholds():
        view = edited(datasets, SCHEMA, ROWS, ROWS[1:])
        delta = replace(next(iter(view.deltas.values())), digests={1: (1, 2), 2: (3, 4)})
        view.folder.files[delta.path] = format_delta(delta)  # type: ignore[attr-defined]
        yield datasets.view(view.folder)


def test_a_dataset_whose_digests_are_wrong_is_left_alone(
    datasets: MemoryDatasets, lying: HavasuDataset
) -> None:
    with pytest.raises(CorruptDatasetError):
        optimized(datasets, lying)


def test_sorting_uses_ranges_that_fit(
    datasets: MemoryDatasets, monkeypatch: pytest.MonkeyPatch
) -> None:
    from havasu_vc.datasets import sorting
    from havasu_vc.upkeep import maintenance

    monkeypatch.setattr(sorting, "RUN_BYTES", 1)
    monkeypatch.setattr(sorting, "_SAMPLE", 1)
    monkeypatch.setattr(sorting, "_BATCH", 2)
    monkeypatch.setattr(sorting, "RANGE_BYTES", 100)
    monkeypatch.setattr(maintenance, "RUN_TASKS", 1)
    monkeypatch.setattr(maintenance, "SMALL_SHARE", 0.001)
    with tiny_thresholds(most_deltas=100):
        view = edited(datasets, SCHEMA, ROWS[::2], ROWS[5:], ROWS)
        view.__dict__["layout"] = replace(view.layout, target_bytes=600)
        after = optimized(datasets, view)

    assert after is not None
    assert len([e for e in after.entries.values() if e.content is Content.DATA]) > 1
    assert [row[1] for row in rows_in(after)] == list(range(40))
    assert not list(datasets.storage.staging.scratch.glob("*"))
