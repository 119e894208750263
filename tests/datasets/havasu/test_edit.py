"""What an edit does to files: small ones fold, deletes too, and what stays was not rewritten."""

from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from havasu_vc.datasets import sorting
from havasu_vc.datasets.digest import hash_rows
from havasu_vc.datasets.folder import MemoryFolder
from havasu_vc.datasets.havasu import edit as editing
from havasu_vc.datasets.havasu import verify
from havasu_vc.datasets.havasu.checks import check_dataset
from havasu_vc.datasets.havasu.delete_writing import write_delete_file
from havasu_vc.datasets.havasu.deletes import Deletion, read_deleted_rows, read_positions
from havasu_vc.datasets.havasu.edit import Edit, meets_all
from havasu_vc.datasets.havasu.ledger import file_blobs
from havasu_vc.datasets.havasu.owners import GoneRows, OwnerReport
from havasu_vc.datasets.havasu.parquet import open_parquet
from havasu_vc.datasets.havasu.verify import verify_delete_file
from havasu_vc.datasets.havasu.view import HavasuDataset
from havasu_vc.datasets.havasu.writing import write_data_files
from havasu_vc.engine.local import LocalEngine
from havasu_vc.errors import CorruptDataFileError, CorruptDatasetError, PatchError
from havasu_vc.formats.havasu.deltas import format_delta
from havasu_vc.formats.havasu.entry import Content, Entry, Origin
from havasu_vc.model.changes import ChangeBatch
from havasu_vc.model.commits import ChangeCounts
from havasu_vc.model.schema import Schema
from havasu_vc.model.types import Decimal, Field, Geometry, List, Primitive, Struct
from havasu_vc.testing.dataset_contract import Change, changes_between, described, stream_of
from havasu_vc.testing.memory import MemoryDatasets, recomputed_digests, rows_in, run_all
from havasu_vc.testing.tables import Row, batch_of, canonical_row
from tests.datasets.thresholds import tiny_thresholds

SCHEMA = Schema(
    (
        Field(1, "fid", Primitive.INT, required=True),
        Field(2, "name", Primitive.STRING, required=True),
        Field(3, "area", Primitive.FLOAT),
    ),
    (1,),
)
ROWS: list[Row] = [{1: n, 2: f"name {n}", 3: n / 2} for n in range(40)]


@pytest.fixture
def datasets(tmp_path: Path) -> MemoryDatasets:
    return MemoryDatasets(tmp_path)


def apply(
    datasets: MemoryDatasets, view: HavasuDataset, before: list[Row], after: list[Row]
) -> HavasuDataset:
    changes = changes_between(before, after, view.schema)
    return datasets.apply(view, stream_of(changes, view.schema))


def of(view: HavasuDataset, content: Content) -> list[Entry]:
    return [entry for entry in view.entries.values() if entry.content is content]


def same(view: HavasuDataset, rows: list[Row]) -> bool:
    found, wanted = (
        sorted(repr(canonical_row(row, view.schema)) for row in side)
        for side in (rows_in(view), rows)
    )
    return found == wanted


def test_edits_that_only_delete_fold(datasets: MemoryDatasets) -> None:
    with tiny_thresholds(most_deltas=4):
        view, rows = datasets.new(SCHEMA, ROWS), ROWS
        (large,) = view.entries
        for _ in range(11):
            view, rows = apply(datasets, view, rows, rows[1:]), rows[1:]
            assert len(of(view, Content.DELETES)) <= 4
            assert large in view.entries

    assert same(view, rows)


def test_small_files_fold(datasets: MemoryDatasets) -> None:
    with tiny_thresholds(most_deltas=4):
        view, rows = datasets.new(SCHEMA, ROWS), ROWS
        for number in range(12):
            after = [*rows, {1: 100 + number, 2: "new", 3: None}]
            view, rows = apply(datasets, view, rows, after), after
            assert len(of(view, Content.DATA)) <= 5

    assert same(view, rows)


@pytest.mark.thorough
def test_folded_rows_stand_in_key_order(datasets: MemoryDatasets) -> None:
    with tiny_thresholds(most_deltas=3, group_rows=4):
        view, rows = datasets.new(SCHEMA, ROWS), ROWS
        for number in range(9):
            after = [{1: -10 * number, 2: "new", 3: None}, *rows]
            view, rows = apply(datasets, view, rows, after), after
        small = apply(datasets, view, rows, rows[:-1])
        with tiny_thresholds(most_deltas=0):
            merged = apply(datasets, small, rows[:-1], [*rows[:-1], {1: -5, 2: "x", 3: None}])

    assert len(of(merged, Content.DATA)) <= len(of(small, Content.DATA))
    for each in (view, merged):
        files = [each.file_path(entry) for entry in of(each, Content.DATA)]
        for keys in (pq.read_table(file, columns=["fid"])["fid"].to_pylist() for file in files):
            assert keys == sorted(keys)


def test_deletes_fold_together_with_small_files(datasets: MemoryDatasets) -> None:
    with tiny_thresholds(most_deltas=4):
        view, rows = datasets.new(SCHEMA, ROWS), ROWS
        folds, before = 0, 0
        for number in range(12):
            after = [row | {3: 0.25} if row[1] == number else row for row in rows]
            view, rows = apply(datasets, view, rows, after), after
            if len(of(view, Content.DATA)) < before:
                folds += 1
                assert len(of(view, Content.DELETES)) == 1
            before = len(of(view, Content.DATA))

    assert folds >= 2
    assert same(view, rows)


def test_an_edit_adds_one_delta_whatever_is_there(datasets: MemoryDatasets) -> None:
    view = datasets.new(SCHEMA, ROWS)
    after = [*ROWS[:-1], {1: 90, 2: "new", 3: None}]

    changed = apply(datasets, view, ROWS, after)

    assert changed.deltas.keys() > view.deltas.keys()
    assert len(changed.deltas) == 2
    assert [len(of(changed, content)) for content in Content] == [2, 1]
    assert same(changed, after)


def test_an_edit_never_rewrites_what_it_mostly_deletes(datasets: MemoryDatasets) -> None:
    view = datasets.new(SCHEMA, ROWS)

    changed = apply(datasets, view, ROWS, ROWS[-1:])

    assert changed.entries.keys() > view.entries.keys()
    assert same(changed, ROWS[-1:])


def test_a_file_that_is_mostly_deleted_is_rewritten(datasets: MemoryDatasets) -> None:
    with tiny_thresholds(most_deltas=100, most_keys=6):
        view = datasets.new(SCHEMA, ROWS)
        view = apply(datasets, view, ROWS, ROWS[5:])
        assert len(of(view, Content.DELETES)) == 1
        view = apply(datasets, view, ROWS[5:], ROWS[20:])

    assert len(view.entries) == 1
    assert same(view, ROWS[20:])


def test_a_large_file_that_is_mostly_deleted_is_rewritten_by_itself(
    datasets: MemoryDatasets,
) -> None:
    more: list[Row] = [{1: 100 + n, 2: "more", 3: None} for n in range(40)]
    with tiny_thresholds(most_deltas=100, small_file=0, most_keys=10):
        view = datasets.new(SCHEMA, ROWS)
        (first,) = view.entries
        view = apply(datasets, view, ROWS, [*ROWS, *more])
        (second,) = set(view.entries) - {first}
        few = [*ROWS[2:], *more[2:]]
        view = apply(datasets, view, [*ROWS, *more], few)
        (deletes,) = of(view, Content.DELETES)
        assert set(deletes.targets) == {first, second}
        rest = [*ROWS[20:], *more[2:]]
        view = apply(datasets, view, few, rest)

    (deletes,) = of(view, Content.DELETES)
    assert set(deletes.targets) == {second}
    assert first not in view.entries and second in view.entries
    (rewritten,) = [e for e in of(view, Content.DATA) if e.file != second]
    assert (rewritten.rows, rewritten.origin) == (20, Origin.IMPORT)
    assert same(view, rest)


def test_a_table_may_become_empty_and_full_again(datasets: MemoryDatasets) -> None:
    with tiny_thresholds(most_keys=3):
        view = datasets.new(SCHEMA, ROWS)
        empty = apply(datasets, view, ROWS, [])
        assert not empty.entries
        assert empty.rows == 0
        again = apply(datasets, empty, [], ROWS)

    assert again.snapshot.digests == view.snapshot.digests


def test_many_new_rows_are_not_merged_in_memory(
    datasets: MemoryDatasets, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sorting, "MOST_BYTES", 10)
    monkeypatch.setattr(editing, "sort_by_key", lambda *_: pytest.fail("all rows at once"))
    with tiny_thresholds(most_deltas=99, most_keys=3):
        view = datasets.new(SCHEMA, ROWS)
        after = [*ROWS[30:], *({1: 100 + n, 2: "new", 3: None} for n in range(50))]
        view = apply(datasets, view, ROWS, after)

    assert same(view, after)
    assert not of(view, Content.DELETES)


def test_large_values_are_carried_as_digests(datasets: MemoryDatasets) -> None:
    rows: list[Row] = [{1: n, 2: "x" * (n * 10), 3: None} for n in range(10)]
    with tiny_thresholds():
        view = datasets.new(SCHEMA, rows)
        after = apply(datasets, view, rows, rows[:3] + rows[5:])
        (deletes,) = of(after, Content.DELETES)
        path = after.file_path(deletes)
        with open_parquet(path) as file:
            carried = file.read().column("row").to_pylist()
        assert [row["name"] for row in carried] == [None, None]
        positions = read_positions(path)
        data = {name: str(after.storage.path(name)) for name in positions}
        (deletion,) = read_deleted_rows(path, SCHEMA, positions, data)
        found = described(run_changes(view, after), SCHEMA, SCHEMA)

    assert deletion.rows.column("name").to_pylist() == ["x" * 30, "x" * 40]
    assert [old[1] for old, _ in found] == ["x" * 30, "x" * 40]


def run_changes(old: HavasuDataset, new: HavasuDataset) -> list[ChangeBatch]:
    return [ChangeBatch(batch) for batch in run_all(old.diff(new)) if batch.num_rows]


def test_deleted_rows_keep_columns_that_were_dropped_since(datasets: MemoryDatasets) -> None:
    without = Schema(SCHEMA.fields[:2], (1,))
    with tiny_thresholds(most_deltas=100):
        view = datasets.new(SCHEMA, ROWS)
        deleted: list[Change] = [(ROWS[7], None)]
        both = datasets.evolve(view, without, stream_of(deleted, SCHEMA, without))
        found = described(run_changes(view, both), SCHEMA, without)

    assert found == [(canonical_row(ROWS[7], SCHEMA), None)]


def test_rows_inserted_under_a_wider_key(datasets: MemoryDatasets) -> None:
    wide = Schema((replace(SCHEMA.fields[0], type=Primitive.LONG), *SCHEMA.fields[1:]), (1,))
    coming: Row = {1: 1 << 40, 2: "far", 3: None}
    with tiny_thresholds(most_deltas=100):
        view = datasets.new(SCHEMA, ROWS)
        after = datasets.evolve(view, wide, stream_of([(None, coming)], SCHEMA, wide))
        found = described(run_changes(after, view), wide, SCHEMA)

    assert same(after, [*ROWS, coming])
    assert found == [(canonical_row(coming, wide), None)]


def test_schema_evolution_rewrites_no_data(datasets: MemoryDatasets) -> None:
    fid, name, area = SCHEMA.fields
    schema = Schema(
        (
            Field(9, "added", List(Field(10, "element", Decimal(5, 1)))),
            replace(area, type=Primitive.DOUBLE),
            replace(fid, name="id", physical_name="fid", type=Primitive.LONG),
        ),
        (1,),
    )
    assert name.id not in schema.by_id
    with tiny_thresholds():
        view = datasets.new(SCHEMA, ROWS)
        after = datasets.evolve(view, schema)

    assert after.entries == view.entries
    assert rows_in(after) == [{9: None, 3: row[3], 1: row[1]} for row in ROWS]
    assert after.snapshot.digests == {
        9: (0, 0),
        3: view.snapshot.digests[3],
        1: view.snapshot.digests[1],
    }


@pytest.mark.parametrize(
    ("cuts", "refused"), [((2, 3), "comes twice"), ((3, 2), "comes twice"), ((1, 4), "comes twice")]
)
def test_a_key_that_comes_twice_is_refused_across_batches(
    datasets: MemoryDatasets, cuts: tuple[int, int], refused: str
) -> None:
    from havasu_vc.errors import KeyViolationError

    view = datasets.new(SCHEMA, ROWS)
    rows: list[Row] = [{1: key, 2: "new", 3: None} for key in (50, 60, 60, 70, 80)]
    changes: list[Change] = [(None, row) for row in rows]
    batches = [
        *stream_of(changes[: cuts[0]], SCHEMA),
        *stream_of(changes[cuts[0] :], SCHEMA),
    ]

    with pytest.raises(KeyViolationError, match=refused):
        view.apply(iter(batches))


def test_batches_out_of_order_are_a_mistake(datasets: MemoryDatasets) -> None:
    view = datasets.new(SCHEMA, ROWS)
    late, early = ({1: key, 2: "new", 3: None} for key in (60, 50))
    batches = [*stream_of([(None, late)], SCHEMA), *stream_of([(None, early)], SCHEMA)]

    with pytest.raises(ValueError, match="not in key order"):
        view.apply(iter(batches))


def test_an_old_row_that_was_deleted_is_refused(datasets: MemoryDatasets) -> None:
    with tiny_thresholds(most_deltas=100):
        view = apply(datasets, datasets.new(SCHEMA, ROWS), ROWS, ROWS[1:])
        with pytest.raises(PatchError, match="has no row 0"):
            view.apply(stream_of([(ROWS[0], None)], SCHEMA))


def test_a_delete_file_that_lies_is_found(datasets: MemoryDatasets) -> None:
    with tiny_thresholds(most_deltas=100):
        view = apply(datasets, datasets.new(SCHEMA, ROWS), ROWS, ROWS[2:])
        (entry,) = of(view, Content.DELETES)
        verify_delete_file(view, entry)
        other = datasets.new(SCHEMA, [{**row, 2: "other"} for row in ROWS])
        (target,) = other.entries
        # The same deletes, said of a file with other rows.
        lying = replace(entry, targets={target: 2})
        with pytest.raises(CorruptDataFileError, match="other rows than its entry says"):
            verify_delete_file(view, lying)


# The parts of an edit, one by one


def table_of(datasets: MemoryDatasets, *, edits: int = 0) -> HavasuDataset:
    """Return a table with a file of an import, and a small one for each of some edits."""
    view, rows = datasets.new(SCHEMA, ROWS), ROWS
    for number in range(edits):
        after = [*rows, {1: 100 + number, 2: "new", 3: None}]
        view, rows = apply(datasets, view, rows, after), after
    return view


def new_row(number: int) -> pa.RecordBatch:
    return batch_of([{1: number, 2: "new", 3: None}], SCHEMA)


def bring(edit: Edit, rows: pa.RecordBatch) -> None:
    """Bring new rows, and count them."""
    edit.insert(rows)
    nothing = hash_rows(rows.slice(0, 0), SCHEMA)
    edit.count(ChangeCounts(inserts=rows.num_rows), nothing, hash_rows(rows, SCHEMA))


def delete_first(edit: Edit, entry: Entry) -> None:
    """Take the first row of the import away, and count it."""
    rows = batch_of(ROWS[:1], SCHEMA)
    edit.delete(entry, np.array([0]), rows)
    nothing = hash_rows(rows.slice(0, 0), SCHEMA)
    edit.count(ChangeCounts(deletes=1), hash_rows(rows, SCHEMA), nothing)


def imported(view: HavasuDataset) -> Entry:
    return next(entry for entry in view.entries.values() if entry.origin is Origin.IMPORT)


def after(datasets: MemoryDatasets, edit: Edit, **options: Any) -> HavasuDataset:
    """Return the table after an edit, which is sound."""
    assert isinstance(edit.dataset, HavasuDataset)
    found = datasets.after(edit.dataset, edit.finish(**options))
    found.check_guard()
    return found


def marked(view: HavasuDataset) -> int:
    """Return how many markers there are."""
    return sum(name.count("/") > 1 for name, _ in view.folder.blobs("edits"))


def test_rows_put_aside_go_when_an_edit_ends(
    datasets: MemoryDatasets, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sorting, "MOST_BYTES", 0)
    view = table_of(datasets)
    scratch = datasets.storage.staging.scratch
    with Edit(view) as edit:
        bring(edit, new_row(100))
        assert list(scratch.iterdir())
    assert not list(scratch.iterdir())


def test_each_row_that_changes_has_a_marker(datasets: MemoryDatasets) -> None:
    view = table_of(datasets)
    before = marked(view)
    with Edit(view) as edit:
        for number in range(3):
            bring(edit, new_row(100 + number))
        delete_first(edit, imported(view))
        edit.touch(np.array([1 << 60], np.uint64))
        assert marked(after(datasets, edit)) == before + 5


@pytest.mark.parametrize(("count", "epoch"), [(4, 0), (5, 1)])
def test_an_edit_of_too_many_rows_closes_the_epoch(
    datasets: MemoryDatasets, count: int, epoch: int
) -> None:
    with tiny_thresholds(most_deltas=100, most_keys=4), Edit(table_of(datasets)) as edit:
        for number in range(count):
            bring(edit, new_row(100 + number))
        assert after(datasets, edit).epoch.number == epoch
    with Edit(table_of(datasets)) as edit:
        edit.touch(None)
        assert after(datasets, edit).epoch.number == 1


def test_documents_come_and_go(datasets: MemoryDatasets) -> None:
    view = table_of(datasets)
    with Edit(view, documents={"meta/title": b"One"}) as edit:
        edit.add_documents({"meta/description": b"Two"})
        view = after(datasets, edit)
    assert view.folder.read("meta/title") == b"One"
    assert view.folder.read("meta/description") == b"Two"
    with Edit(view) as edit:
        edit.add_documents({"meta/title": None})
        assert after(datasets, edit).folder.read("meta/title") is None


def test_a_file_goes_with_all_of_its_rows(datasets: MemoryDatasets) -> None:
    view = table_of(datasets, edits=1)
    entry = imported(view)
    with Edit(view) as edit:
        edit.remove(entry)
        gone = hash_rows(batch_of(ROWS, SCHEMA), SCHEMA)
        edit.count_digests(ChangeCounts(deletes=len(ROWS)), gone.digests, {})
        found = after(datasets, edit)
    assert entry.file not in found.entries
    assert same(found, [{1: 100, 2: "new", 3: None}])
    assert found.rows == 1


@pytest.mark.parametrize("elsewhere", [None, False, True])
def test_what_an_owner_reports_is_taken_in(
    datasets: MemoryDatasets, elsewhere: bool | None
) -> None:
    # A check looks at what a commit would have stored.
    object.__setattr__(datasets.storage, "staging", datasets.storage.files)
    view = table_of(datasets, edits=1)
    first, small = imported(view), next(e for e in view.entries.values() if e.rows == 1)
    come, gone = new_row(500), batch_of(ROWS[3:4], SCHEMA)
    written = write_data_files(
        [new_row(600)],
        view.layout,
        datasets.storage.staging,
        datasets.storage.keys,
        origin=Origin.EDIT,
    )
    both = pa.concat_batches([come, new_row(600)])
    went = pa.concat_batches([gone, new_row(100)])
    hashed = [hash_rows(rows, SCHEMA) for rows in (went, both)]
    report = OwnerReport(
        files=tuple(written),
        removed=(small.file,),
        counts=ChangeCounts(inserts=2, deletes=2),
        old=hashed[0].digests,
        new=hashed[1].digests,
        keys=np.concatenate([each.keys for each in hashed]),
        come=(come,),
        gone=(GoneRows(first.file, np.array([3]), gone, None),),
    )
    before = marked(view)
    with Edit(view) as edit:
        if elsewhere is None:
            edit.take_report(report)
        else:
            edit.take_report(report, elsewhere=elsewhere)
        made = edit.finish()
    assert made.elsewhere == ({report.files[0].entry.file} if elsewhere else set())
    assert made.counts == report.counts
    found = datasets.after(view, made)
    found.check_guard()
    rows = [{1: number, 2: "new", 3: None} for number in (500, 600)]
    assert same(found, [*ROWS[:3], *ROWS[4:], *rows])
    assert marked(found) == before + 3, "the row that came and went again had one"
    with LocalEngine(threads=1) as engine:
        assert list(check_dataset(found, engine, full=True)) == []


def test_what_owners_wrote_is_folded_by_nobody_else(
    datasets: MemoryDatasets, monkeypatch: pytest.MonkeyPatch
) -> None:
    with tiny_thresholds(most_deltas=100):
        view, rows = table_of(datasets, edits=4), ROWS
        for _ in range(4):
            view, rows = apply(datasets, view, rows, rows[1:]), rows[1:]
    gone = batch_of(rows[:1], SCHEMA)
    hashed = hash_rows(gone, SCHEMA)
    deletes = write_delete_file(
        [Deletion(imported(view).file, np.array([4]), gone)],
        view.layout,
        datasets.storage.staging,
        origin=Origin.EDIT,
    )
    assert deletes is not None
    come = new_row(700)
    (data,) = write_data_files(
        [come],
        view.layout,
        datasets.storage.staging,
        datasets.storage.keys,
        origin=Origin.EDIT,
    )
    with tiny_thresholds(most_deltas=2):
        for keys in (None, hashed.keys):
            with Edit(view) as edit:
                edit.take_report(
                    OwnerReport(
                        files=(deletes,),
                        counts=ChangeCounts(deletes=1),
                        old=hashed.digests,
                        keys=keys,
                    )
                )
                found = after(datasets, edit)
            assert found.entries.keys() == {*view.entries, deletes.entry.file}
        with monkeypatch.context() as patch:
            patch.setattr(verify, "verify_delete_file", lambda *_: pytest.fail("it is read again"))
            wanted = {imported(view).file: np.array([4])}
            assert verify.verify_deletes(found, [deletes.entry], wanted) == []
        # A data file that comes as it is may be folded with others.
        with Edit(view) as edit:
            edit.adopt(data.entry)
            nothing = hash_rows(come.slice(0, 0), SCHEMA)
            edit.count(ChangeCounts(inserts=1), nothing, hash_rows(come, SCHEMA))
            assert len(of(after(datasets, edit), Content.DATA)) == len(of(view, Content.DATA))
        # Those that stay as they are come as they are.
        with tiny_thresholds(most_deltas=100), Edit(view) as edit:
            edit.adopt(data.entry)
            edit.count(ChangeCounts(inserts=1), nothing, hash_rows(come, SCHEMA))
            assert after(datasets, edit).entries.keys() == {*view.entries, data.entry.file}


def test_what_another_side_has_alone_is_superseded(datasets: MemoryDatasets) -> None:
    base = table_of(datasets, edits=1)
    with Edit(base) as edit:
        assert not edit.join(base)
        assert not edit.adopt_rows(base, base)
    theirs = apply(
        datasets, base, [*ROWS, {1: 100, 2: "new", 3: None}], [*ROWS, {1: 100, 2: "x", 3: None}]
    )
    (alone,) = theirs.deltas.keys() - base.deltas.keys()
    with Edit(base) as edit:
        assert edit.join(theirs)
        found = after(datasets, edit)
    assert found.epoch == base.epoch
    assert found.folded[alone] in found.deltas
    with Edit(theirs) as edit:
        assert not edit.join(base), "which has nothing alone"


def closed(datasets: MemoryDatasets, view: HavasuDataset, number: int) -> HavasuDataset:
    """Return a table in its next epoch, by an edit that brings a row."""
    with Edit(view) as edit:
        bring(edit, new_row(number))
        edit.touch(None)
        return after(datasets, edit, fold=False)


def test_an_epoch_is_closed_beyond_one_that_another_side_closed(
    datasets: MemoryDatasets,
) -> None:
    base = table_of(datasets)
    mine, theirs = closed(datasets, base, 300), closed(datasets, base, 400)
    assert mine.epoch != theirs.epoch
    later = closed(datasets, theirs, 401)
    for one, other, number in ((mine, theirs, 2), (mine, later, 3), (later, mine, 2)):
        with Edit(one) as edit:
            assert edit.join(other)
            assert after(datasets, edit, fold=False).epoch.number == number


def test_files_fold_on_the_default_branch_alone(datasets: MemoryDatasets) -> None:
    with tiny_thresholds(most_deltas=2):
        branch = replace(datasets.storage, folds=False)
        view = replace(table_of(datasets, edits=2), storage=branch)
        before = len(of(view, Content.DATA))
        assert before == 3
        for storage, options, count in (
            (branch, {}, 4),
            (datasets.storage, {"fold": False}, 4),
            (datasets.storage, {}, 2),
        ):
            with Edit(replace(view, storage=storage)) as edit:
                bring(edit, new_row(900))
                assert len(of(after(datasets, edit, **options), Content.DATA)) == count
        # Where an epoch is closed, files fold on every branch.
        with Edit(view) as edit:
            bring(edit, new_row(900))
            edit.touch(None)
            assert len(of(after(datasets, edit), Content.DATA)) == 2


def test_what_brings_no_rows_folds_none(datasets: MemoryDatasets) -> None:
    with tiny_thresholds(most_deltas=100):
        many = table_of(datasets, edits=5)
    with tiny_thresholds(most_deltas=2):
        with Edit(many, documents={"meta/title": b"One"}) as edit:
            assert of(after(datasets, edit), Content.DATA) == of(many, Content.DATA)
        # As many as may stand do stay where rows only go.
        view = table_of(datasets, edits=2)
        with Edit(view) as edit:
            delete_first(edit, imported(view))
            assert of(after(datasets, edit), Content.DATA) == of(view, Content.DATA)


def test_delete_files_that_were_written_just_now_are_known_to_be_right(
    datasets: MemoryDatasets, monkeypatch: pytest.MonkeyPatch
) -> None:
    view = table_of(datasets)
    with Edit(view) as edit:
        delete_first(edit, imported(view))
        found = after(datasets, edit)
    (entry,) = of(found, Content.DELETES)
    monkeypatch.setattr(verify, "verify_delete_file", lambda *_: pytest.fail("it is read again"))
    assert verify.verify_deletes(found, [entry], {imported(view).file: np.array([0])}) == []


def test_rows_that_were_not_counted_are_noticed(datasets: MemoryDatasets) -> None:
    with Edit(table_of(datasets)) as edit:
        edit.insert(new_row(100))
        with pytest.raises(CorruptDatasetError, match="41 rows where 40 were counted"):
            edit.finish()


def test_digests_of_columns_that_go_inside_others_are_worked_out_anew(
    datasets: MemoryDatasets,
) -> None:
    """Cells that stay hash differently then, so all are hashed again."""
    object.__setattr__(datasets.storage, "staging", datasets.storage.files)
    parts = (Field(3, "a", Primitive.INT), Field(4, "b", Primitive.INT))
    schema = Schema((SCHEMA.fields[0], Field(2, "s", Struct(parts))), (1,))
    rows: list[Row] = [{1: n, 2: {"a": n, "b": 2 * n}} for n in range(5)]
    view = datasets.new(schema, rows)
    fewer = Schema((schema.fields[0], Field(2, "s", Struct(parts[:1]))), (1,))
    found = datasets.evolve(view, fewer)
    assert found.epoch.number == 1
    again = datasets.new(fewer, [{1: n, 2: {"a": n}} for n in range(5)])
    assert found.snapshot.digests == again.snapshot.digests
    with LocalEngine(threads=1) as engine:
        assert list(check_dataset(found, engine, full=True)) == []


KEY = Field(1, "fid", Primitive.INT, required=True)
OTHER = Field(2, "n", Primitive.INT)
THIRD = Field(3, "s", Struct((Field(4, "a", Primitive.INT), Field(5, "b", Primitive.INT))))
BYTES = Field(6, "g", Primitive.BINARY)
PLACE = replace(BYTES, geometry=Geometry())


@pytest.mark.parametrize(
    ("before", "now", "expected"),
    [
        # What says nothing of rows that are there: names, order, columns that come or go.
        ((KEY, OTHER), (KEY, OTHER), False),
        ((KEY, OTHER), (KEY, replace(OTHER, name="m")), False),
        ((KEY, OTHER), (OTHER, KEY), False),
        ((KEY, OTHER), (KEY, OTHER, THIRD), False),
        ((KEY, OTHER, THIRD), (KEY, OTHER), False),
        ((KEY, PLACE), (KEY,), False),
        ((KEY,), (KEY, PLACE), False),
        ((KEY, replace(OTHER, required=True)), (KEY, OTHER), False),
        ((KEY,), (KEY, replace(OTHER, required=True)), False),
        # A part of a value that goes, bytes that become a geometry, another system, no nulls.
        ((KEY, THIRD), (KEY, replace(THIRD, type=Struct((Field(4, "a", Primitive.INT),)))), True),
        ((KEY, BYTES), (KEY, PLACE), True),
        ((KEY, PLACE), (KEY, BYTES), True),
        ((KEY, PLACE), (KEY, replace(PLACE, geometry=Geometry(crs="EPSG:3857"))), True),
        ((KEY, OTHER), (KEY, replace(OTHER, required=True)), True),
    ],
)
def test_what_bears_on_every_row(
    datasets: MemoryDatasets, before: tuple[Field, ...], now: tuple[Field, ...], expected: bool
) -> None:
    view = datasets.new(Schema(before, (1,)), [])
    assert meets_all(view, Schema(now, (1,)), {}) is expected


def test_another_key_bears_on_every_row(datasets: MemoryDatasets) -> None:
    other = replace(OTHER, required=True)
    view = datasets.new(Schema((KEY, other), (1,)), [])
    for key, expected in (((1,), False), ((2,), True), ((1, 2), True), ((), True)):
        assert meets_all(view, Schema((KEY, other), key), {}) is expected
    # Without a key each column counts for the row.
    view = datasets.new(Schema((KEY, OTHER)), [])
    assert meets_all(view, Schema((KEY,)), {})
    assert not meets_all(view, Schema((KEY, OTHER, THIRD)), {})


def test_a_system_that_is_defined_otherwise_bears_on_every_row(datasets: MemoryDatasets) -> None:
    view = datasets.new(SCHEMA, ROWS)
    with Edit(view, documents={"meta/crs/local.wkt": b"one", "meta/title": b"one"}) as edit:
        view = after(datasets, edit)
    for path, data, expected in (
        ("meta/crs/local.wkt", b"one", False),
        ("meta/crs/local.wkt", b"two", True),
        ("meta/crs/local.wkt", None, True),
        ("meta/crs/other.wkt", b"two", False),
        ("meta/title", b"two", False),
    ):
        assert meets_all(view, SCHEMA, {path: data}) is expected


# Which files leave where an epoch is closed


def files_after(
    datasets: MemoryDatasets,
    gone: int,
    *,
    come: int = 0,
    linked: bool = False,
    spilled: bool = False,
    small: int = 8 << 20,
    most: int = 100,
) -> tuple[list[int], int, list[Origin]]:
    """Return the rows of each data file after so many rows of an import went and others came.

    How many rows are deleted of files that stay, and who wrote the files, come with them.
    """
    with tiny_thresholds(most_deltas=100):
        view = table_of(datasets, edits=1)
    if linked:
        entry = imported(view)
        delta = next(d for d in view.deltas.values() if entry in d.files)
        there = replace(entry, location=str(view.file_path(entry)))
        assert isinstance(view.folder, MemoryFolder)
        files = dict(view.folder.files)
        del files[entry.pointer_path]
        documents = {delta.path: format_delta(replace(delta, files=(there,)))}
        folder = MemoryFolder({**files, **documents, **file_blobs(there)})
        view = replace(view, folder=folder)
    entry = imported(view)
    with (
        tiny_thresholds(most_deltas=most, small_file=small, group_rows=100),
        pytest.MonkeyPatch.context() as patch,
        Edit(view) as edit,
    ):
        if spilled:
            patch.setattr(sorting, "MOST_BYTES", 10)
        rows = batch_of(ROWS[:gone], SCHEMA)
        if gone:
            edit.delete(entry, np.arange(gone), rows)
        for number in range(come):
            bring(edit, new_row(700 + number))
        nothing = hash_rows(new_row(0).slice(0, 0), SCHEMA)
        edit.count(ChangeCounts(deletes=gone), hash_rows(rows, SCHEMA), nothing)
        edit.touch(None)
        found = after(datasets, edit)
    wanted = [*ROWS[gone:], {1: 100, 2: "new", 3: None}]
    wanted += [{1: 700 + number, 2: "new", 3: None} for number in range(come)]
    assert same(found, wanted)
    data = sorted(of(found, Content.DATA), key=lambda entry: (entry.rows, entry.origin.value))
    deleted = sum(entry.rows for entry in of(found, Content.DELETES))
    return [entry.rows for entry in data], deleted, [entry.origin for entry in data]


EDITED, IMPORTED, FOLDED = Origin.EDIT, Origin.IMPORT, Origin.FOLD


@pytest.mark.few(8)
@pytest.mark.parametrize(
    ("options", "expected"),
    [
        # Less than three tenths of it are deleted: it stays.
        ({"gone": 11}, ([1, 40], 11, [EDITED, IMPORTED])),
        ({"gone": 12}, ([1, 28], 0, [EDITED, EDITED])),
        ({"gone": 11, "small": 1}, ([1, 40], 11, [EDITED, IMPORTED])),
        ({"gone": 12, "small": 1}, ([1, 28], 0, [EDITED, IMPORTED])),
        # More of it: it joins what is new where it is small, and is written again where not.
        ({"gone": 20}, ([1, 20], 0, [EDITED, EDITED])),
        ({"gone": 20, "come": 2}, ([1, 22], 0, [EDITED, EDITED])),
        ({"gone": 20, "come": 2, "small": 1}, ([1, 2, 20], 0, [EDITED, EDITED, IMPORTED])),
        ({"gone": 20, "small": 1}, ([1, 20], 0, [EDITED, IMPORTED])),
        # All of it: it goes, whatever its size.
        ({"gone": 40}, ([1], 0, [EDITED])),
        ({"gone": 40, "small": 1, "come": 2}, ([1, 2], 0, [EDITED, EDITED])),
        # A linked file stays as long as something in it lives.
        ({"gone": 39, "linked": True}, ([1, 40], 39, [EDITED, IMPORTED])),
        ({"gone": 40, "linked": True}, ([1], 0, [EDITED])),
        # So many new rows that they are not kept in memory make a file of their own.
        ({"gone": 11, "come": 2, "spilled": True}, ([1, 2, 40], 11, [EDITED, EDITED, IMPORTED])),
        ({"gone": 12, "come": 2, "spilled": True}, ([1, 2, 28], 0, [EDITED, EDITED, IMPORTED])),
        ({"gone": 40, "come": 2, "spilled": True}, ([1, 2], 0, [EDITED, EDITED])),
        (
            {"gone": 39, "come": 2, "spilled": True, "linked": True},
            ([1, 2, 40], 39, [EDITED, EDITED, IMPORTED]),
        ),
        # Small files of edits are folded once they are too many with what comes.
        ({"gone": 1, "come": 1, "most": 2}, ([1, 1, 40], 1, [EDITED, EDITED, IMPORTED])),
        ({"gone": 1, "come": 1, "most": 1}, ([2, 40], 1, [FOLDED, IMPORTED])),
        ({"gone": 1, "most": 1}, ([1, 40], 1, [EDITED, IMPORTED])),
    ],
)
def test_which_files_leave_where_an_epoch_is_closed(
    datasets: MemoryDatasets,
    options: dict[str, Any],
    expected: tuple[list[int], int, list[Origin]],
) -> None:
    assert files_after(datasets, **options) == expected


def test_bytes_that_become_a_geometry_are_summed_anew(datasets: MemoryDatasets) -> None:
    places = [bytes.fromhex(f"0000000001{n:016x}{n:016x}") for n in range(9)]
    view = datasets.new(Schema((KEY, BYTES), (1,)), [{1: n, 6: p} for n, p in enumerate(places)])
    after = datasets.evolve(view, Schema((KEY, PLACE), (1,)))
    assert after.snapshot.digests == recomputed_digests(after)
    assert after.snapshot.digests != view.snapshot.digests


def test_equal_rows_of_two_edits_make_two_files(datasets: MemoryDatasets) -> None:
    view = datasets.new(Schema((KEY, OTHER)), [{1: 0, 2: None}])
    rows: list[Row] = [{1: 1, 2: None}]
    for count in (1, 2, 3):
        change = stream_of([(None, row) for row in rows], view.schema)
        view = datasets.apply(view, change)
        assert len(of(view, Content.DATA)) == 1 + count
        assert rows_in(view).count(rows[0]) == count


def test_a_small_file_that_was_taken_away_is_not_folded(datasets: MemoryDatasets) -> None:
    with tiny_thresholds(most_deltas=99):
        view, rows = datasets.new(SCHEMA, ROWS), ROWS
        for number in range(4):
            after = [*rows, {1: 100 + number, 2: "new", 3: None}]
            view, rows = apply(datasets, view, rows, after), after
    few = [entry for entry in of(view, Content.DATA) if entry.rows == 1]
    gone = min(few, key=lambda entry: (entry.size, entry.file))  # which would be folded first
    (row,) = pq.read_table(view.file_path(gone), columns=["fid"])["fid"].to_pylist()
    left = [each for each in rows if each[1] != row]
    with tiny_thresholds(most_deltas=2), Edit(view) as edit:
        edit.remove(gone)
        lost = hash_rows(batch_of([each for each in rows if each[1] == row], SCHEMA), SCHEMA)
        edit.count(ChangeCounts(deletes=1), lost, hash_rows(batch_of([], SCHEMA), SCHEMA))
        folded = datasets.after(view, edit.finish())
    assert len(of(folded, Content.DATA)) < 4
    assert same(folded, left)
