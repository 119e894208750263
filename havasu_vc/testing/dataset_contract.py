"""What every kind of dataset promises, as tests: make a subclass that says how to make one.

    class TestHavasu(DatasetContract):
        @pytest.fixture
        def table(self, tmp_path):
            datasets = MemoryDatasets(tmp_path)
            return TableOf(SCHEMA, lambda rows: datasets.new(SCHEMA, rows), datasets.after)

The rows have a text and a number beside an integer key, which every kind can hold.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import pytest

from havasu_vc.datasets.protocol import Dataset, Predicate, TreeEdit
from havasu_vc.engine.local import LocalEngine
from havasu_vc.errors import KeyViolationError, PatchError
from havasu_vc.history.diff import row_changes
from havasu_vc.model.changes import ChangeBatch
from havasu_vc.model.schema import Schema
from havasu_vc.model.task import run_task
from havasu_vc.model.types import Field, Primitive
from havasu_vc.records import dataclass
from havasu_vc.testing.changes import changes_between, described, stream_of
from havasu_vc.testing.tables import Row, canonical_row

__all__ = ["SCHEMA", "DatasetContract", "TableOf"]

SCHEMA = Schema(
    (
        Field(1, "fid", Primitive.LONG, required=True),
        Field(2, "name", Primitive.STRING),
        Field(3, "area", Primitive.DOUBLE),
    ),
    (1,),
)
FIRST: tuple[Row, ...] = tuple({1: n, 2: f"name {n}", 3: n / 4} for n in range(20))
SECOND: tuple[Row, ...] = (
    *FIRST[:4],
    {**FIRST[4], 2: None},
    *FIRST[7:],
    {1: -3, 2: "before all", 3: None},
    {1: 1 << 40, 2: "after all", 3: float("nan")},
)


@dataclass(frozen=True, slots=True)
class TableOf:
    """How to make datasets of one kind."""

    schema: Schema
    """What the datasets have as `SCHEMA`."""
    new: Callable[[Sequence[Row]], Dataset]
    """Makes one with some rows."""
    after: Callable[[Any, TreeEdit], Dataset]
    """Gives one as it is after an edit."""


class DatasetContract:
    """Laws of scans, diffs and edits. A subclass gives the fixture `table`."""

    @pytest.fixture
    def table(self) -> TableOf:
        """Return how to make datasets; every subclass must say."""
        raise NotImplementedError

    def test_a_scan_yields_every_row(self, table: TableOf) -> None:
        """What came in comes out."""
        assert read(table.new(FIRST)) == known(FIRST, table.schema)
        assert read(table.new(())) == []

    def test_it_counts_its_rows(self, table: TableOf) -> None:
        """Its count is that of a scan."""
        assert table.new(FIRST).rows == len(FIRST)

    def test_a_scan_may_take_columns_and_keys(self, table: TableOf) -> None:
        """Rows are found by key, and keys that are not there give nothing."""
        chosen = Predicate(keys=((3,), (99,)))
        batches = [b for task in table.new(FIRST).scan(["name"], chosen) for b in run_task(task)]
        assert [row for batch in batches for row in batch.to_pylist()] == [{"name": "name 3"}]

    def test_a_diff_is_what_differs_in_key_order(self, table: TableOf) -> None:
        """Inserts, updates and deletes, each once."""
        found = compare(table.new(FIRST), table.new(SECOND))
        wanted = changes_between(FIRST, SECOND, table.schema)
        assert described(found, table.schema, table.schema) == [
            tuple(None if row is None else canonical_row(row, table.schema) for row in change)
            for change in wanted
        ]

    def test_a_diff_of_equal_tables_is_empty(self, table: TableOf) -> None:
        """Also when they were made apart."""
        assert compare(table.new(FIRST), table.new(FIRST)) == []

    def test_a_diff_backwards_is_inverted(self, table: TableOf) -> None:
        """Old and new change places."""
        old, new = table.new(FIRST), table.new(SECOND)
        backwards = [batch.invert() for batch in compare(new, old)]
        assert described(backwards, table.schema, table.schema) == described(
            compare(old, new), table.schema, table.schema
        )

    @pytest.mark.parametrize(("first", "second"), [(FIRST, SECOND), (FIRST, ()), ((), SECOND)])
    def test_applying_a_diff_gives_the_other(
        self, table: TableOf, first: Sequence[Row], second: Sequence[Row]
    ) -> None:
        """Apply what differs, and nothing differs."""
        old, new = table.new(first), table.new(second)
        edit = old.apply(iter(compare(old, new)))
        after = table.after(old, edit)
        assert read(after) == known(second, table.schema)
        assert compare(after, new) == []
        assert edit.counts.total == len(changes_between(first, second, table.schema))

    @pytest.mark.parametrize(
        ("change", "error"),
        [
            (({1: 3, 2: "other", 3: 0.0}, None), PatchError),
            (({1: 99, 2: "none", 3: 0.0}, None), PatchError),
            ((None, FIRST[3]), PatchError),
            ((None, {1: None, 2: "no key", 3: 0.0}), KeyViolationError),
        ],
    )
    def test_changes_that_do_not_apply_are_refused(
        self, table: TableOf, change: tuple[Row | None, Row | None], error: type[Exception]
    ) -> None:
        """An old row that is another, or none; an insert of what is there, or of no key."""
        with pytest.raises(error):
            table.new(FIRST).apply(stream_of([change], table.schema))


def compare(old: Dataset, new: Dataset) -> list[ChangeBatch]:
    with LocalEngine(threads=1) as engine:
        return list(row_changes(old, new, engine))


def read(dataset: Dataset) -> list[str]:
    rows = [row for task in dataset.scan() for b in run_task(task) for row in b.to_pylist()]
    ids = [field.id for field in dataset.schema.fields]
    return known([dict(zip(ids, row.values(), strict=True)) for row in rows], dataset.schema)


def known(rows: Sequence[Row], schema: Schema) -> list[str]:
    return sorted(repr(canonical_row(row, schema)) for row in rows)
