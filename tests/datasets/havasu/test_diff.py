"""Large diffs, cut into intervals or dealt out by key, give what small ones give."""

from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from havasu_vc.datasets.havasu.diff import plan_diff
from havasu_vc.engine.local import LocalEngine
from havasu_vc.history.diff import row_changes
from havasu_vc.model.schema import Schema
from havasu_vc.model.types import Field, Geometry, Primitive
from havasu_vc.testing.changes import changes_between, described, expected_changes, stream_of
from havasu_vc.testing.memory import MemoryDatasets
from havasu_vc.testing.tables import Row, key_of, rows_of, schemas
from tests.datasets.thresholds import tiny_thresholds

GEOMETRY = Field(99, "where", Primitive.BINARY, geometry=Geometry())


def in_order(found: list[Any], schema: Schema) -> list[Any]:
    return found if schema.key else sorted(found, key=repr)


@settings(max_examples=40, deadline=None)
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

    if first and second and (hilbert or not schema.key) and plan.old:
        assert plan.dealt
    wanted = expected_changes(first, second, schema, schema)
    assert in_order(found, schema) == in_order(wanted, schema)
    assert in_order(undone, schema) == in_order(wanted, schema)


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
