"""The contract of every kind of dataset, as tests: make a subclass that says how to make one.

    class TestHavasu(DatasetContract):
        @pytest.fixture
        def table(self, tmp_path):
            datasets = MemoryDatasets(tmp_path)
            return TableOf(SCHEMA, lambda rows: datasets.new(SCHEMA, rows))

The rows have a text and a number beside an integer key, which every kind can hold.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any, TypeAlias

import pyarrow as pa
import pytest

from havasu_vc.datasets.chosen import ChosenKeys
from havasu_vc.datasets.folder import TreeFolder
from havasu_vc.datasets.kinds import findings_in, kind_named, kind_of, require_files
from havasu_vc.datasets.pairing import pair_rows
from havasu_vc.datasets.protocol import Dataset, Predicate, Reading, TreeEdit
from havasu_vc.engine.local import LocalEngine
from havasu_vc.errors import (
    CorruptDatasetError,
    KeyViolationError,
    NotYetSupportedError,
    PatchError,
    StateError,
)
from havasu_vc.history.diff import row_changes
from havasu_vc.model.changes import ChangeBatch, struct_of
from havasu_vc.model.commits import ChangeCounts
from havasu_vc.model.schema import Schema
from havasu_vc.model.task import Task, run_task
from havasu_vc.model.types import Field, Primitive
from havasu_vc.records import dataclass
from havasu_vc.testing.tables import (
    Row,
    batch_of,
    canonical,
    canonical_row,
    key_of,
    key_order,
)

__all__ = [
    "SCHEMA",
    "Change",
    "DatasetContract",
    "TableOf",
    "changes_between",
    "described",
    "expected_changes",
    "stream_of",
]

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
RENAMED: tuple[Row, ...] = (*FIRST[:5], {**FIRST[5], 2: "another"}, *FIRST[6:])


@dataclass(frozen=True, slots=True)
class TableOf:
    """How to make datasets of one kind."""

    schema: Schema
    """The columns of the datasets, in place of `SCHEMA`."""
    new: Callable[[Sequence[Row]], Dataset]
    """Makes one with some rows."""


class DatasetContract:
    """Laws of scans, diffs and edits. A subclass gives the fixture `table`."""

    @pytest.fixture
    def table(self) -> TableOf:
        """Return how to make datasets; every subclass must say."""
        raise NotImplementedError

    def test_a_scan_yields_every_row(self, table: TableOf) -> None:
        """Rows come out as they came in."""
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
        after = old.after(edit)
        assert read(after) == known(second, table.schema)
        assert compare(after, new) == []
        assert edit.counts.total == len(changes_between(first, second, table.schema))

    def test_emptied_it_has_its_columns_and_no_rows(self, table: TableOf) -> None:
        """And all of its rows come when it is compared with itself as it was."""
        whole = table.new(FIRST)
        empty = whole.emptied()
        assert (empty.schema, empty.rows, read(empty)) == (whole.schema, 0, [])
        assert sum(batch.counts.inserts for batch in compare(empty, whole)) == len(FIRST)

    def test_it_stands_where_it_is_said_to(self, table: TableOf) -> None:
        """Another path, folder or revision changes nothing else."""
        first, second = table.new(FIRST), table.new(SECOND)
        moved = first.with_path("a/b").with_storage(second.storage)
        assert (moved.path, moved.kind, moved.marker) == ("a/b", first.kind, first.marker)
        assert moved.storage is second.storage
        assert read(moved) == read(first)
        named = first.after(first.apply(iter(compare(first, second))), "the edit")
        assert (named.revision, first.after(TreeEdit(first.path, {})).revision) == (
            "the edit",
            first.revision,
        )

    def test_its_kind_opens_it_again(self, table: TableOf) -> None:
        """The registry knows it by its folder's name, and by its kind's."""
        view = table.new(FIRST)
        kind = kind_of(view.path, view.marker)
        assert (kind.name, kind_named(view.kind), kind.marker) == (view.kind, kind, view.marker)
        assert kind.in_files is (view.in_files is not None)
        if isinstance(view.folder, TreeFolder):
            again = kind.open(view.path, view.folder, view.storage, "again")
            assert (again.revision, read(again)) == ("again", read(view))

    def test_it_is_sound(self, table: TableOf, tmp_path: Path) -> None:
        """By itself and by what its kind asks of its folder; a folder without documents is not."""
        view = table.new(FIRST)
        kind = kind_of(view.path, view.marker)
        view.check_guard()
        kind.check(view.folder, view.path, "HEAD", view.marker, tmp_path / "sound")
        broken = {name: None for name, _ in view.folder.blobs("") if name.endswith(".json")}
        with pytest.raises((CorruptDatasetError, StateError)):
            view.after(TreeEdit(view.path, broken)).check_guard()

    def test_a_check_finds_nothing_wrong_with_it(self, table: TableOf) -> None:
        """Not in its documents, and not in its rows."""
        view = committed(table.new(FIRST))
        with LocalEngine(threads=1) as engine:
            assert list(findings_in(view, engine, full=False)) == []
            assert list(findings_in(view, engine, full=True)) == []

    def test_rows_are_found_by_key(self, table: TableOf) -> None:
        """Those that are there, and no others."""
        view = table.new(FIRST)
        ids = [field.id for field in view.schema.fields]
        keys = pa.RecordBatch.from_pydict({"fid": pa.array([3, 99, 7, -1], pa.int64())})
        rows = [
            dict(zip(ids, r.values(), strict=True)) for r in view.rows_with_keys(keys).to_pylist()
        ]
        wanted = [row for row in FIRST if row[1] in (3, 7)]
        assert known(rows, view.schema) == known(wanted, table.schema)

    def test_rows_are_counted_as_they_are_compared(self, table: TableOf) -> None:
        """By a kind that can tell without reading them."""
        old, new = table.new(FIRST), table.new(SECOND)
        both = {row[1] for row in (*FIRST, *SECOND)} | {99}
        keys = pa.RecordBatch.from_pydict({"fid": pa.array(sorted(both), pa.int64())})
        rows = new.rows_with_keys(keys)
        counted = old.count_apart(keys, lambda: rows)
        compared = list(pair_rows(old.rows_with_keys(keys), rows, old.schema, new.schema))
        assert counted in (None, sum((batch.counts for batch in compared), ChangeCounts()))
        if counted is not None:
            assert counted.inserts and counted.updates and counted.deletes
            assert old.count_apart(keys, lambda: old.rows_with_keys(keys)) == ChangeCounts()

    def test_a_comparison_of_some_rows_has_them_all(self, table: TableOf) -> None:
        """Where a kind can tell at all; else all changes are looked at."""
        old, new = table.new(FIRST), table.new(SECOND)
        assert old.compare(new) is not None
        tasks = old.compare_rows(new, [(4,), (5,), (0,)])
        if tasks is not None:
            changes = [ChangeBatch(b) for task in tasks for b in run_task(task) if b.num_rows]
            keys = {row["fid"] for batch in changes for row in batch.old_rows().to_pylist()}
            assert keys == {4, 5}

    def test_chosen_rows_are_read_where_they_may_differ(self, table: TableOf) -> None:
        """Where nothing is to be read nothing changed, whatever else did."""
        first, second = table.new(FIRST), table.new(SECOND)
        for number in (*range(20), -3, 1 << 40, 100):
            keys = pa.record_batch({"fid": pa.array([number], pa.int64())})
            old, new = (
                [repr(canonical_row(row, table.schema)) for row in rows if row[1] == number]
                for rows in (FIRST, SECOND)
            )
            chosen = ChosenKeys(keys, first.schema)
            same = first.plan_chosen(first, chosen, live=False)
            differing = first.plan_chosen(second, chosen, live=bool(new))
            assert old == new or differing is not Reading.NOTHING, number
            assert same is Reading.NOTHING, number

    def test_another_schema_is_fitted_to_its_key(self, table: TableOf) -> None:
        """Its own columns fit as they are, and others get its key."""
        view = table.new(FIRST)
        assert view.fitted(view.schema) == view.schema
        other = view.fitted(Schema(view.schema.fields[:2], ()))
        assert other.key.names == view.key.names
        assert other.names == view.schema.names[:2]
        assert view.schema_of_items(view.columns_item(other), keep_ids=True) == other

    def test_a_listing_has_every_row_once(self, table: TableOf) -> None:
        """In an order of its own, or in that of its keys."""
        view = table.new(FIRST)
        keys = pa.record_batch({"fid": pa.array([row[1] for row in SECOND], pa.int64())})
        order = view.listing_order(keys, view.schema)
        assert order is None or sorted(order.to_pylist()) == list(range(len(SECOND)))

    def test_its_items_are_those_of_its_header(self, table: TableOf) -> None:
        """As text, and without the columns, which are the other item."""
        view = table.new(FIRST)
        titled = view.after(TreeEdit(view.path, {"meta/title": b"A title"}))
        assert dict(titled.items) == {**view.items, "title": b"A title"}
        assert {*titled.items, "schema.json"} <= titled.header.meta.keys()
        assert titled.header.meta["title"] == "A title"

    def test_its_schema_item_means_its_schema(self, table: TableOf) -> None:
        """The item that it shows can be set again, and changes nothing."""
        view = table.new(FIRST)
        assert view.schema_of_items(view.header.meta["schema.json"]) == view.schema

    def test_a_new_column_has_an_id_that_no_other_had(self, table: TableOf) -> None:
        """The things that the kind makes ids of."""
        view = table.new(FIRST)
        added = {"name": "more", "dataType": "text"}
        schema = view.schema_of_items([*view.header.meta["schema.json"], added])
        assert schema.names == (*view.schema.names, "more")
        assert len(schema.by_id) == len(schema.fields)
        assert view.last_column_id >= max(view.schema.by_id)

    def test_a_crs_is_kept_as_wkt(self, table: TableOf) -> None:
        """By whatever name it is given."""
        kept = table.new(FIRST).crs_item("EPSG:2193")
        assert b"New Zealand Transverse Mercator" in kept

    def test_an_item_of_others_is_named_well(self, table: TableOf) -> None:
        """No kind takes one that leads elsewhere."""
        assert not table.new(FIRST).takes_item("../title")

    def test_an_edit_evolves_and_collects(self, table: TableOf) -> None:
        """Under another schema rows keep their other values."""
        old = table.new(FIRST)
        schema = Schema(old.schema.fields[:2], old.schema.identifier_ids)
        documents, edit = old.evolved(schema)
        with edit:
            edit.collect(iter(()))
            assert (edit.schema.names, edit.counts.total) == (schema.names, 0)
            after = old.after(edit.finish())
        assert documents
        assert after.schema.names == ("fid", "name")
        assert len(read(after)) == len(FIRST)

    def test_an_edit_writes_documents(self, table: TableOf) -> None:
        """And takes them away."""
        old = table.new(FIRST)
        with old.edit() as edit:
            edit.add_documents({"meta/title": b"A title"})
            titled = old.after(edit.finish())
        with titled.edit() as edit:
            edit.add_documents({"meta/title": None})
            plain = titled.after(edit.finish())
        assert titled.items["title"] == b"A title"
        assert "title" not in plain.items

    def test_a_dropped_column_comes_back(self, table: TableOf) -> None:
        """With what it held: because rows keep it, or because it is revived."""
        whole = table.new(FIRST)
        _, edit = whole.evolved(Schema(whole.schema.fields[:2], whole.schema.identifier_ids))
        with edit:
            dropped = whole.after(edit.finish())
        back = frozenset({whole.schema.fields[2].id})
        shown, documents = dropped.revived(whole.schema, back, run_all)
        if not whole.keeps_dropped:
            assert read(shown) == read(dropped.after(TreeEdit(whole.path, documents)))
            assert read(shown) == read(whole)

    def test_only_what_is_in_files_can_be_shown_as_such(self, table: TableOf) -> None:
        """Others say so in one line, and how to get there."""
        view = table.new(FIRST)
        if view.in_files is None:
            with pytest.raises(NotYetSupportedError) as error:
                require_files(view, "this thing")
            assert "this thing cannot be done" in error.value.message
            assert error.value.hints
        else:
            assert require_files(view) is view.in_files

    def test_it_is_known_by_its_identity_wherever_it_is(self, table: TableOf) -> None:
        """As far as its kind has such a thing."""
        view = table.new(FIRST)
        assert view.with_path("elsewhere").identity == view.identity
        assert view.likely_identity == view.identity

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

    def test_another_version_of_it_takes_rows_in(self, table: TableOf) -> None:
        """Rows that are written here are counted; others go to files that an engine writes."""
        view = table.new(FIRST)
        new = view.remade(view.schema)
        assert new.schema.names == view.schema.names
        assert (new.files is None) == (view.in_files is None)
        if new.files is None:
            new.write([batch_of(SECOND, view.schema)])
            assert new.finish().counts == ChangeCounts(inserts=len(SECOND))

    def test_a_source_has_its_columns(self, table: TableOf) -> None:
        """All of them, where no key was made for its rows."""
        view = table.new(FIRST)
        assert view.keys_item is None
        assert view.columns_of_source(view.schema) == view.schema

    def test_what_its_columns_sum_up_to_tells_which_differ(self, table: TableOf) -> None:
        """Where it has sums they are those of the values, and of no column else."""
        first, again, second = (table.new(rows) for rows in (FIRST, FIRST, RENAMED))
        sums = [view.digests for view in (first, again, second)]
        if sums[0] is None:
            assert sums == [None, None, None]
            return
        name = first.schema.by_name["name"].id
        assert sums[0] == sums[1]
        assert sums[2] is not None
        assert {id for id in first.schema.by_id if sums[0][id] != sums[2][id]} == {name}


def committed(view: Dataset) -> Dataset:
    """Return a dataset with the files that a commit would have taken in."""
    storage = view.storage
    return view.with_storage(replace(storage, files=storage.staging))


def compare(old: Dataset, new: Dataset) -> list[ChangeBatch]:
    with LocalEngine(threads=1) as engine:
        return list(row_changes(old, new, engine))


def run_all(tasks: Sequence[Task]) -> Iterator[pa.RecordBatch]:
    for task in tasks:
        yield from run_task(task)


def read(dataset: Dataset) -> list[str]:
    rows = [row for task in dataset.scan() for b in run_task(task) for row in b.to_pylist()]
    ids = [field.id for field in dataset.schema.fields]
    return known([dict(zip(ids, row.values(), strict=True)) for row in rows], dataset.schema)


def known(rows: Sequence[Row], schema: Schema) -> list[str]:
    return sorted(repr(canonical_row(row, schema)) for row in rows)


# Change streams for tests: made from rows of a plain model, and turned back into it.


Change: TypeAlias = tuple[Row | None, Row | None]
"""A row before and after; None where it is not there."""


def changes_between(old: Sequence[Row], new: Sequence[Row], schema: Schema) -> list[Change]:
    """Return the changes from some rows to others, in key order."""
    if not schema.key:
        return _changes_of_rows(old, new, schema)
    before = {key_of(row, schema): row for row in old}
    after = {key_of(row, schema): row for row in new}
    found: list[Change] = []
    for key in sorted(before.keys() | after.keys(), key=key_order):
        pair = before.get(key), after.get(key)
        if None in pair or canonical_row(pair[0], schema) != canonical_row(pair[1], schema):  # type: ignore[arg-type]
            found.append(pair)
    return found


def _changes_of_rows(old: Sequence[Row], new: Sequence[Row], schema: Schema) -> list[Change]:
    before = Counter(canonical_row(row, schema) for row in old)
    after = Counter(canonical_row(row, schema) for row in new)
    gone, come = before - after, after - before
    found: list[Change] = []
    for row in old:
        if gone[canonical_row(row, schema)] > 0:
            gone[canonical_row(row, schema)] -= 1
            found.append((row, None))
    for row in new:
        if come[canonical_row(row, schema)] > 0:
            come[canonical_row(row, schema)] -= 1
            found.append((None, row))
    return found


def stream_of(
    changes: Sequence[Change],
    old_schema: Schema,
    new_schema: Schema | None = None,
    *,
    cut: int = 1 << 20,
) -> Iterator[ChangeBatch]:
    """Yield changes as batches of at most `cut`."""
    for start in range(0, len(changes), cut):
        part = changes[start : start + cut]
        sides = (
            _side([old for old, _ in part], old_schema),
            _side([new for _, new in part], new_schema or old_schema),
        )
        yield ChangeBatch.from_structs(*sides)


def _side(rows: Sequence[Row | None], schema: Schema) -> pa.StructArray:
    nothing: Row = dict.fromkeys(schema.by_id)
    batch = batch_of([nothing if row is None else row for row in rows], schema)
    absent = [row is None for row in rows]
    return struct_of(batch, mask=pa.array(absent) if any(absent) else None)


def described(
    batches: Iterable[ChangeBatch], old_schema: Schema, new_schema: Schema
) -> list[tuple[Any, Any]]:
    """Return each change of a stream as a pair of what its rows have in common with equal ones."""
    found = []
    for batch in batches:
        batch.data.validate(full=True)
        for old, new in zip(batch.old.to_pylist(), batch.new.to_pylist(), strict=True):
            found.append((_described(old, old_schema), _described(new, new_schema)))
    return found


def _described(row: dict[str, Any] | None, schema: Schema) -> Any:
    if row is None:
        return None
    assert tuple(row) == schema.names
    return tuple(canonical(row[field.name], field) for field in schema.fields)


def expected_changes(
    old: Sequence[Row], new: Sequence[Row], old_schema: Schema, new_schema: Schema
) -> list[tuple[Any, Any]]:
    """Return what `described` gives for the diff of two tables, by the rules that diffs follow.

    A column that only the old side has counts for nothing; one that only the new side has
    counts as null on the old.
    """
    if not new_schema.key:
        return _expected_of_rows(old, new, old_schema, new_schema)
    before = {key_of(row, new_schema): row for row in old}
    after = {key_of(row, new_schema): row for row in new}
    found = []
    for key in sorted(before.keys() | after.keys(), key=key_order):
        first, second = before.get(key), after.get(key)
        if _compared(first, old_schema, new_schema) != _compared(second, new_schema, new_schema):
            found.append(
                (
                    None if first is None else canonical_row(first, old_schema),
                    None if second is None else canonical_row(second, new_schema),
                )
            )
    return found


def _compared(row: Row | None, schema: Schema, new_schema: Schema) -> Any:
    """Return what of a row a diff looks at: the columns of the new side."""
    if row is None:
        return None
    return tuple(
        canonical(row[f.id], f) if f.id in schema.by_id else None for f in new_schema.fields
    )


def _expected_of_rows(
    old: Sequence[Row], new: Sequence[Row], old_schema: Schema, new_schema: Schema
) -> list[tuple[Any, Any]]:
    before = Counter(_compared(row, old_schema, new_schema) for row in old)
    after = Counter(_compared(row, new_schema, new_schema) for row in new)
    gone, come = before - after, after - before
    # Which of several rows that agree in all that counts is shown does not matter.
    return [(key, None) for key in gone.elements()] + [(None, key) for key in come.elements()]
