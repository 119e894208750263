"""Large diffs, cut into intervals or dealt out by key, give what small ones give."""

import gc
import pickle
import weakref
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from havasu_vc.datasets.havasu import deletes, kernels
from havasu_vc.datasets.havasu.diff import plan_diff
from havasu_vc.datasets.havasu.parquet import Positions
from havasu_vc.engine.local import LocalEngine
from havasu_vc.history import diff
from havasu_vc.history.diff import (
    Note,
    bytes_between,
    changes_counted,
    diff_datasets,
    row_changes,
)
from havasu_vc.model.changes import count_changes
from havasu_vc.model.commits import ChangeCounts
from havasu_vc.model.schema import Schema
from havasu_vc.model.task import run_task
from havasu_vc.model.types import Field, Geometry, Primitive
from havasu_vc.testing.dataset_contract import (
    changes_between,
    described,
    expected_changes,
    stream_of,
)
from havasu_vc.testing.memory import MemoryDatasets
from havasu_vc.testing.tables import Row, key_of, rows_of, schemas
from tests.datasets.thresholds import tiny_thresholds
from tests.support.examples import examples

GEOMETRY = Field(99, "where", Primitive.BINARY, geometry=Geometry())


def in_order(found: list[Any], schema: Schema) -> list[Any]:
    return found if schema.key else sorted(found, key=repr)


def counted(changes: list[Any]) -> ChangeCounts:
    inserts = sum(old is None for old, _ in changes)
    deletes = sum(new is None for _, new in changes)
    return ChangeCounts(inserts, len(changes) - inserts - deletes, deletes)


@pytest.mark.thorough
@examples(40, deadline=None)
@given(data=st.data(), schema=schemas(), hilbert=st.booleans(), threads=st.sampled_from([1, 2]))
def test_large_diffs_are_small_ones(
    data: st.DataObject,
    schema: Schema,
    hilbert: bool,
    threads: int,
    tmp_path_factory: pytest.TempPathFactory,
) -> None:
    schema = Schema((*schema.fields, GEOMETRY), schema.identifier_ids)
    unique_by = (lambda row: key_of(row, schema)) if schema.key else None
    tables = st.lists(rows_of(schema), max_size=20, unique_by=unique_by)
    first, second = data.draw(tables), data.draw(tables)
    datasets = MemoryDatasets(tmp_path_factory.mktemp("diff"))
    folder = tmp_path_factory.mktemp("engine")
    with (
        tiny_thresholds(diffs=True),
        LocalEngine(threads=threads, scratch=folder) as engine,
    ):
        old = datasets.new(schema, first, hilbert=99 if hilbert else None)
        new = datasets.new(schema, second, hilbert=99 if hilbert else None)
        plan = plan_diff(old, new)
        found = described(row_changes(old, new, engine), schema, schema)
        back = [batch.invert() for batch in row_changes(new, old, engine)]
        undone = described(back, schema, schema)
        counts = changes_counted(old, new, engine)

    if first and second and (hilbert or not schema.key) and plan.old:
        assert plan.dealt
    wanted = expected_changes(first, second, schema, schema)
    assert in_order(found, schema) == in_order(wanted, schema)
    assert in_order(undone, schema) == in_order(wanted, schema)
    assert counts == counted(wanted)


@pytest.mark.thorough
@examples(40, deadline=None)
@given(data=st.data(), schema=schemas(), task_bytes=st.sampled_from([1, 400, 1 << 20]))
def test_large_diffs_of_tables_in_nearly_one_order(
    data: st.DataObject,
    schema: Schema,
    task_bytes: int,
    tmp_path_factory: pytest.TempPathFactory,
) -> None:
    """Rows are edited, come, go and move; row groups that match are compared in place."""
    schema = Schema((*schema.fields, GEOMETRY), schema.identifier_ids)
    unique_by = (lambda row: key_of(row, schema)) if schema.key else None
    drawn = data.draw(st.lists(rows_of(schema), max_size=40, unique_by=unique_by))
    share = data.draw(st.integers(0, len(drawn)))
    first, more = drawn[share // 4 :], drawn[: share // 4]
    place = data.draw(st.integers(0, len(first)))
    second = [*first[:place], *more, *first[place + data.draw(st.integers(0, 4)) :]]
    turn = data.draw(st.integers(0, len(second)))
    second = [*second[turn:], *second[:turn]]
    for number in data.draw(st.lists(st.integers(0, 39), max_size=3)):
        if number < len(second):
            second[number] = {**second[number], 99: data.draw(rows_of(schema))[99]}
    datasets = MemoryDatasets(tmp_path_factory.mktemp("diff"))
    with (
        tiny_thresholds(diffs=True, task_bytes=task_bytes),
        LocalEngine(threads=1, scratch=tmp_path_factory.mktemp("engine")) as engine,
    ):
        old = datasets.new(schema, first, hilbert=99)
        new = datasets.new(schema, second, hilbert=99)
        found = described(row_changes(old, new, engine), schema, schema)
        counts = changes_counted(old, new, engine)

    wanted = expected_changes(first, second, schema, schema)
    assert in_order(found, schema) == in_order(wanted, schema)
    assert counts == counted(wanted)


KEYED = Schema(
    (Field(1, "fid", Primitive.LONG, required=True), Field(2, "name", Primitive.STRING)), (1,)
)


def test_a_large_diff_is_cut_into_intervals(tmp_path: Path) -> None:
    rows: list[Row] = [{1: number, 2: "old"} for number in range(30)]
    datasets = MemoryDatasets(tmp_path)
    with tiny_thresholds(diffs=True):
        old = datasets.new(KEYED, rows)
        new = datasets.new(KEYED, [{**row, 2: "new"} for row in rows])
        plan = plan_diff(old, new)
        # A change to the rows alone would be in every row group.
        assert len(plan.intervals) > 5
        with LocalEngine(threads=2) as engine:
            found = list(row_changes(old, new, engine))

    assert sum(len(batch) for batch in found) == 30
    assert [row.key[0] for batch in found for row in batch.rows(("fid",))] == list(range(30))


@pytest.mark.thorough
@examples(40, deadline=None)
@given(data=st.data(), hilbert=st.booleans(), large=st.booleans())
def test_large_diffs_of_versions_that_share_data_files(
    data: st.DataObject, hilbert: bool, large: bool, tmp_path_factory: pytest.TempPathFactory
) -> None:
    """Both took rows away from the same files, some the same ones, in a commit or in two."""
    schema = Schema((*KEYED.fields, GEOMETRY), KEYED.identifier_ids)
    base: list[Row] = [{1: number, 2: "x" * (number % 20), 99: None} for number in range(24)]
    text = st.sampled_from(["", "new", "a text that is long"])
    edits = st.dictionaries(st.integers(0, 30), st.none() | text, max_size=20)
    datasets = MemoryDatasets(tmp_path_factory.mktemp("diff"))
    with (
        tiny_thresholds(diffs=large, most_deltas=100, small_file=0),
        LocalEngine(threads=1, scratch=tmp_path_factory.mktemp("engine")) as engine,
    ):
        sides = []
        for steps in data.draw(st.tuples(*2 * [st.lists(edits, max_size=2)])):
            rows, version = base, datasets.new(schema, base, hilbert=99 if hilbert else None)
            for step in steps:
                by_key = {row[1]: row for row in rows}
                by_key |= {key: {1: key, 2: text, 99: None} for key, text in step.items()}
                after = [by_key[key] for key in sorted(by_key) if step.get(key, "") is not None]
                changes = changes_between(rows, after, schema)
                rows, version = after, datasets.apply(version, stream_of(changes, schema))
            sides.append((rows, version))
        (first, old), (second, new) = sides
        found = described(row_changes(old, new, engine), schema, schema)
        counts = changes_counted(old, new, engine)

    wanted = expected_changes(first, second, schema, schema)
    assert found == wanted
    assert counts == counted(wanted)


def test_a_plan_does_not_grow_with_rows_taken_away(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Which they are is looked up by the tasks, in those row groups that have their keys."""
    base: list[Row] = [{1: number, 2: "old"} for number in range(600)]
    datasets = MemoryDatasets(tmp_path)
    with tiny_thresholds(diffs=True, most_deltas=100, small_file=0):
        table = datasets.new(KEYED, base)
        sides = []
        for text, start in (("ours", 300), ("theirs", 400)):
            after = [{**row, 2: text} if row[1] >= start else row for row in base]
            changes = changes_between(base, after, KEYED)
            sides.append(datasets.apply(table, stream_of(changes, KEYED)))
        asked: list[str] = []
        read_positions = deletes.read_positions

        def ask(path: str) -> Mapping[str, Positions]:
            asked.append(path)
            return read_positions(path)

        monkeypatch.setattr(kernels, "read_positions", ask)
        plan = plan_diff(*sides)
        assert not asked
        tasks = plan.tasks()
        assert len(tasks) > 50 and max(len(pickle.dumps(task)) for task in tasks) < 3000
        decoded: list[int] = []
        wanted_rows = deletes._wanted_rows

        def decode(batch: pa.RecordBatch, *how: Any) -> Iterator[deletes.Deletion]:
            decoded.append(batch.num_rows)
            yield from wanted_rows(batch, *how)

        monkeypatch.setattr(deletes, "_wanted_rows", decode)
        found = [batch.num_rows for task in tasks for batch in run_task(task)]

    assert sum(found) == 300
    # A row group or two of either delete file for each interval, and not all of both.
    assert sum(decoded) < 10 * 500 < len(tasks) * 500


def test_only_what_does_not_match_is_dealt_out(tmp_path: Path) -> None:
    schema = Schema((*KEYED.fields, GEOMETRY), (1,))
    first: list[Row] = [{1: -number, 2: "old", 99: None} for number in range(60)]
    second: list[Row] = [{**row, 2: "new"} if row[1] == -20 else row for row in first]
    # One row comes early, so that all that follow stand one place further on.
    second.insert(4, {1: 7, 2: "comes", 99: None})
    datasets = MemoryDatasets(tmp_path)
    with tiny_thresholds(diffs=True, group_rows=6), LocalEngine(threads=1) as engine:
        old = datasets.new(schema, first, hilbert=99)
        new = datasets.new(schema, second, hilbert=99)
        alignment = plan_diff(old, new).alignment
        halves = [
            sum(batch.num_rows for batch in engine.run(tasks))
            for tasks in plan_diff(old, new).halves()
        ]
        found = described(row_changes(old, new, engine), schema, schema)
        for path in datasets.storage.keys.iterdir():
            path.unlink()
        without = plan_diff(old, new).alignment
        again = described(row_changes(old, new, engine), schema, schema)

    assert alignment is not None and len(alignment.matches) == 10
    # A row that slipped into the next group seems to go from one and to come in another.
    assert halves[:2] == [0, 0] and 3 <= halves[2] < 25
    assert found == [((-20, "old", None), (-20, "new", None)), (None, (7, "comes", None))]
    assert without is not None and not without.matches
    assert again == found


def test_rows_without_a_key_come_sorted_by_their_hash(tmp_path: Path) -> None:
    """Whether they were paired in one place or dealt out."""
    schema = Schema(KEYED.fields)
    first: list[Row] = [{1: number, 2: "old"} for number in range(30)]
    second: list[Row] = [{1: number, 2: "new"} for number in range(30)]
    datasets = MemoryDatasets(tmp_path)
    old, new = datasets.new(schema, first), datasets.new(schema, second)
    with LocalEngine(threads=1) as engine:
        small = described(row_changes(old, new, engine), schema, schema)
        with tiny_thresholds(diffs=True):
            assert plan_diff(old, new).dealt
            large = described(row_changes(old, new, engine), schema, schema)

    assert small == large
    assert len(small) == 60


def test_a_diff_opens_only_what_differs(tmp_path: Path) -> None:
    rows: list[Row] = [{1: number, 2: "old"} for number in range(30)]
    datasets = MemoryDatasets(tmp_path)
    with tiny_thresholds(most_deltas=100):
        old = datasets.new(KEYED, rows)
        (large,) = old.entries
        after = [{**row, 2: "new"} if row[1] == 3 else row for row in rows]
        changes = changes_between(rows, after, KEYED)
        new = datasets.apply(old, stream_of(changes, KEYED))
        path = datasets.storage.path(large)
        path.rename(path.with_name("elsewhere"))
        with LocalEngine(threads=1) as engine:
            found = described(row_changes(old, new, engine), KEYED, KEYED)

    assert found == [((3, "old"), (3, "new"))]


@pytest.mark.parametrize("large", [False, True])
def test_tables_made_apart_with_other_types_under_one_id(tmp_path: Path, large: bool) -> None:
    other = Schema(
        (Field(1, "fid", Primitive.BINARY, required=True), Field(2, "name", Primitive.LONG)), (1,)
    )
    datasets = MemoryDatasets(tmp_path)
    with tiny_thresholds(diffs=large), LocalEngine(threads=1) as engine:
        old = datasets.new(KEYED, [{1: 7, 2: "seven"}, {1: 8, 2: None}])
        new = datasets.new(other, [{1: b"7", 2: 7}])
        found = described(row_changes(old, new, engine), KEYED, other)

    assert sorted(found, key=repr) == sorted(
        [((7, "seven"), None), ((8, None), None), (None, (b"7", 7))], key=repr
    )


def test_about_how_many_bytes_a_diff_reads(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    schema = Schema((Field(1, "id", Primitive.LONG, required=True),), (1,))
    datasets = MemoryDatasets(tmp_path)
    rows: list[Row] = [{1: number} for number in range(100)]
    old = datasets.new(schema, rows)
    new = datasets.apply(old, stream_of(changes_between(rows, rows[1:], schema), schema))
    (deletes,) = new.delete_entries
    whole = old.size + new.size
    assert bytes_between(old, new) == whole, "which is little"
    monkeypatch.setattr(diff, "FEW_BYTES", 0)
    assert bytes_between(old, new) == deletes.size < whole
    assert bytes_between(None, new) == new.size
    assert bytes_between(old, None) == old.size
    assert bytes_between(None, None) == 0


def test_rows_that_nothing_is_here_to_compare_with_are_told(tmp_path: Path) -> None:
    schema = Schema((Field(1, "id", Primitive.LONG, required=True),), (1,))
    datasets = MemoryDatasets(tmp_path)
    rows: list[Row] = [{1: number} for number in range(10)]
    old = datasets.new(schema, rows)
    new = datasets.apply(old, stream_of(changes_between(rows, rows[1:], schema), schema))

    def read(note: Note | None) -> list[Any]:
        with LocalEngine(threads=1) as engine:
            changes = row_changes(old, new, engine, note=note)
            return [row.key for batch in changes for row in batch.rows(("id",))]

    heard: list[str] = []
    assert read(heard.append) == [(0,)]
    assert heard == []
    # As in a clone without its data: the delete file says what went, and nobody compared it.
    for path in datasets.storage.keys.glob("*-verified"):
        path.unlink()
    (entry,) = old.data_entries
    Path(old.file_path(entry)).unlink()
    assert read(heard.append) == [(0,)]
    assert len(heard) == 1
    assert "parcels: deleted rows are shown unverified" in heard[0]
    assert len(heard) == 1
    assert read(None) == [(0,)]


def test_what_is_counted_has_been_read(tmp_path: Path) -> None:
    datasets = MemoryDatasets(tmp_path)
    old, new = (datasets.new(KEYED, [{1: 1, 2: name}, {1: 2, 2: "b"}]) for name in ("a", "c"))
    held = weakref.ref(new)
    found = diff_datasets("table", old, new, lambda: LocalEngine(threads=1))
    del new
    assert count_changes(found.changes) == ChangeCounts(0, 1, 0)
    gc.collect()
    assert held() is None, "nothing is left to be read from it"
    assert list(found.changes) == [] and count_changes(found.changes) == ChangeCounts()
