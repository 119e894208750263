"""An interval of keys is edited as a plain table of Python's would be, and its report says so."""

from collections.abc import Iterator, Sequence
from dataclasses import replace
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given
from hypothesis import strategies as st

from havasu_vc.datasets import sorting
from havasu_vc.datasets.dealing import Cuts
from havasu_vc.datasets.digest import hash_rows
from havasu_vc.datasets.havasu import ledger, owning, pieces
from havasu_vc.datasets.havasu.edit import Edit
from havasu_vc.datasets.havasu.owners import Owner, OwnerReport
from havasu_vc.datasets.havasu.owning import Owning, _groups_with, parts_of
from havasu_vc.datasets.havasu.pieces import Interval
from havasu_vc.datasets.havasu.view import HavasuDataset
from havasu_vc.errors import KeyViolationError, PatchError
from havasu_vc.formats.havasu.entry import Content, Origin
from havasu_vc.history.owned_edits import owner_values
from havasu_vc.model.commits import ChangeCounts
from havasu_vc.model.schema import Schema
from havasu_vc.model.types import Field, Primitive
from havasu_vc.testing.dataset_contract import changes_between, stream_of
from havasu_vc.testing.memory import MemoryDatasets, recomputed_digests, rows_in
from havasu_vc.testing.tables import Row, batch_of
from tests.datasets.thresholds import tiny_thresholds
from tests.support.examples import examples

SCHEMA = Schema(
    (Field(1, "id", Primitive.LONG, required=True), Field(2, "name", Primitive.STRING)), (1,)
)
Table = dict[int, Any]
"""Names by id: a plain model."""


def listed(table: Table) -> list[Row]:
    return [{1: key, 2: table[key]} for key in sorted(table)]


def held(rows: Sequence[Row]) -> Table:
    found = {row[1]: row[2] for row in rows}
    assert len(found) == len(rows), "no key is there twice"
    return found


@pytest.fixture
def datasets(tmp_path: Path) -> MemoryDatasets:
    return MemoryDatasets(tmp_path)


def made(datasets: MemoryDatasets, *edits: Table, groups: int = 3) -> HavasuDataset:
    """Return a table after some edits, each of which makes files of its own."""
    with tiny_thresholds(most_deltas=99, group_rows=groups):
        view = datasets.new(SCHEMA, listed(edits[0]))
        for before, after in pairwise(edits):
            changes = changes_between(listed(before), listed(after), SCHEMA)
            view = datasets.apply(view, stream_of(changes, SCHEMA))
    return view


def owners(edit: Edit, mode: str, *cuts: int, few: int = 0) -> list[Owner]:
    found = owner_values(edit, Cuts(("id",), cuts), mode)
    return [replace(owner, few=few) for owner in found]


def in_batches(table: Table, size: int = 4) -> Iterator[pa.RecordBatch]:
    rows = listed(table)
    return (batch_of(rows[n : n + size], SCHEMA) for n in range(0, len(rows), size))


def within(table: Table, interval: Interval) -> Table:
    low, high = interval.low, interval.high
    return {
        key: name
        for key, name in table.items()
        if (low is None or key >= low) and (high is None or key < high)
    }


def taken(owner: Owner, given: Table) -> OwnerReport:
    mine = within(given, owner.interval)
    odd = {key: name for key, name in mine.items() if key % 2}
    even = {key: name for key, name in mine.items() if not key % 2}
    with Owning(owner) as work:
        work.take([in_batches(odd), in_batches(even)])
        assert work.num_rows == len(mine)
        return work.finish()


def counted(before: Table, after: Table) -> ChangeCounts:
    both = before.keys() & after.keys()
    return ChangeCounts(
        inserts=len(after.keys() - both),
        updates=sum(before[key] != after[key] for key in both),
        deletes=len(before.keys() - both),
    )


def check_report(report: OwnerReport, before: Table, after: Table) -> None:
    """Compare what a report says with a plain table before and after."""
    differ = {
        key
        for key in before.keys() | after.keys()
        if (key in before, before.get(key)) != (key in after, after.get(key))
    }
    goes = {key: before[key] for key in differ & before.keys()}
    comes = {key: after[key] for key in differ & after.keys()}
    assert report.counts == counted(before, after)
    for found, rows in ((report.old, goes), (report.new, comes)):
        wanted = hash_rows(batch_of(listed(rows), SCHEMA), SCHEMA).digests
        assert {id_: found.get(id_, (0, 0)) for id_ in wanted} == wanted
    keys = hash_rows(batch_of(listed(dict.fromkeys(differ)), SCHEMA), SCHEMA).keys
    if report.keys is not None:
        assert report.keys.tolist() == sorted(set(keys.tolist()))
    else:
        assert len(differ) > ledger.MOST_KEYS


def after(datasets: MemoryDatasets, edit: Edit, reports: Sequence[OwnerReport]) -> HavasuDataset:
    for report in reports:
        edit.take_report(report)
    return datasets.after(edit.dataset, edit.finish())  # type: ignore[arg-type]


MODES = ("upsert", "append", "delete", "overwrite")
NAMES = st.sampled_from([None, "a", "b", "a longer name"])
TABLES = st.dictionaries(st.integers(0, 30), NAMES, max_size=25)


def meant(before: Table, given: Table, mode: str) -> Table:
    if mode == "overwrite":
        return given
    if mode == "delete":
        return {key: name for key, name in before.items() if key not in given}
    return {**before, **given}


@examples(80)
@given(
    st.lists(TABLES.filter(bool), min_size=1, max_size=3),
    TABLES,
    st.sampled_from(MODES),
    st.sets(st.integers(0, 30), max_size=2),
    st.sampled_from([0, 1, 5, 1000]),
    st.sampled_from([2, 6, 1000]),
    st.sampled_from([0, 1 << 20]),
)
def test_an_edit_by_owners_is_that_of_a_plain_table(
    tmp_path_factory: pytest.TempPathFactory,
    edits: list[Table],
    given_: Table,
    mode: str,
    cuts: set[int],
    few: int,
    most_keys: int,
    small: int,
) -> None:
    datasets = MemoryDatasets(tmp_path_factory.mktemp("owning"))
    view, before = made(datasets, *edits), edits[-1]
    if mode == "append":
        given_ = {key: name for key, name in given_.items() if key not in before}
    wanted = meant(before, given_, mode)
    with (
        tiny_thresholds(most_keys=most_keys, small_file=small, most_deltas=99),
        pytest.MonkeyPatch.context() as patch,
        Edit(view) as edit,
    ):
        patch.setattr(pieces, "ROWS_A_TASK", 4)
        reports = []
        for owner in owners(edit, mode, *sorted(cuts), few=few):
            report = taken(owner, given_)
            mine = within(before, owner.interval), within(wanted, owner.interval)
            check_report(report, *mine)
            counts = report.counts
            changed = max(counts.total, counts.updates + counts.deletes)
            if changed > few:
                assert not report.come and not report.gone
            elif not report.removed:
                assert not report.files
                come = [row for batch in report.come for row in batch.to_pylist()]
                assert {row["id"]: row["name"] for row in come}.items() <= mine[1].items()
                gone = [row for each in report.gone for row in each.rows.to_pylist()]
                assert {row["id"] for row in gone} <= mine[0].keys()
                assert len(come) == counts.inserts + counts.updates
                assert len(gone) == counts.deletes + counts.updates
            reports.append(report)
        found = after(datasets, edit, reports)
    assert held(rows_in(found)) == wanted
    assert dict(found.snapshot.digests) == recomputed_digests(found)


@examples(60)
@given(
    st.lists(TABLES.filter(bool), min_size=1, max_size=3),
    TABLES,
    st.sets(st.integers(0, 30), max_size=2),
    st.sampled_from([0, 1000]),
    st.booleans(),
)
def test_changes_by_owners_are_those_of_a_plain_table(
    tmp_path_factory: pytest.TempPathFactory,
    edits: list[Table],
    wanted: Table,
    cuts: set[int],
    few: int,
    rewrites: bool,
) -> None:
    """With files that leave too, of which each owner writes its rows again."""
    datasets = MemoryDatasets(tmp_path_factory.mktemp("owning"))
    view, before = made(datasets, *edits), edits[-1]
    with tiny_thresholds(most_keys=1000, most_deltas=99), Edit(view) as edit:
        leaving = frozenset(each.file for each in view.data_entries[:1] if rewrites)
        if leaving:
            edit.touch(None)
            edit.remove(view.data_entries[0])
        reports = []
        for owner in owners(edit, "change", *sorted(cuts), few=few):
            names = leaving & {file.name for file in owner.files}
            mine = [within(each, owner.interval) for each in (before, wanted)]
            changes = changes_between(listed(mine[0]), listed(mine[1]), SCHEMA)
            with Owning(replace(owner, rewritten=names)) as work:
                work.change(stream_of(changes, SCHEMA, cut=2))
                report = work.finish()
            check_report(report, *mine)
            reports.append(report)
        found = after(datasets, edit, reports)
    assert not leaving & found.entries.keys()
    assert held(rows_in(found)) == wanted
    assert dict(found.snapshot.digests) == recomputed_digests(found)


NUMBERED: Table = {key: f"name {key}" for key in range(0, 40, 2)}


@pytest.mark.parametrize(
    ("old", "new", "refused"),
    [
        ({4: "name 4", 5: "x"}, {4: "new", 5: "y"}, "parcels has no row 5"),
        ({99: "x"}, {}, "parcels has no row 99"),
        ({1: "x"}, {}, "parcels has no row 1"),
        ({}, {1: "new", 8: "new", 9: "new"}, "parcels already has a row 8"),
        ({}, {38: "new"}, "parcels already has a row 38"),
        ({}, {0: "new"}, "parcels already has a row 0"),
    ],
)
def test_changes_of_other_rows_are_refused(
    datasets: MemoryDatasets, old: Table, new: Table, refused: str
) -> None:
    with Edit(made(datasets, NUMBERED)) as edit:
        (owner,) = owners(edit, "change")
        changes = stream_of(changes_between(listed(old), listed(new), SCHEMA), SCHEMA)
        with Owning(owner) as work, pytest.raises(PatchError, match=f"^{refused}$"):
            work.change(changes)


def test_rows_that_are_there_are_not_appended(datasets: MemoryDatasets) -> None:
    with Edit(made(datasets, NUMBERED)) as edit:
        (owner,) = owners(edit, "append")
        with pytest.raises(PatchError, match=r"^parcels already has a row 8$"):
            taken(owner, {1: "new", 8: "there", 9: "new", 10: "there"})


def changing(edit: Edit, before: Table, wanted: Table, **more: Any) -> OwnerReport:
    """Let the one owner of all keys make a change."""
    (owner,) = owners(edit, "change")
    with Owning(replace(owner, **more)) as work:
        work.change(stream_of(changes_between(listed(before), listed(wanted), SCHEMA), SCHEMA))
        return work.finish()


MANY: Table = {key: f"name {key}" for key in range(100)}


@pytest.mark.parametrize(
    ("few", "size", "back"), [(30, 1 << 20, True), (29, 1 << 20, False), (30, 0, False)]
)
def test_few_rows_come_back(
    datasets: MemoryDatasets, monkeypatch: pytest.MonkeyPatch, few: int, size: int, back: bool
) -> None:
    monkeypatch.setattr(owning, "FEW_BYTES", size)
    with Edit(made(datasets, MANY)) as edit:
        report = changing(edit, MANY, {**MANY, **dict.fromkeys(range(30), "new")}, few=few)
    assert bool(report.come) == bool(report.gone) == back
    assert bool(report.files) != back


def test_the_bytes_that_come_back_are_those_of_both_sides(
    datasets: MemoryDatasets, monkeypatch: pytest.MonkeyPatch
) -> None:
    long = dict.fromkeys(range(100), "x" * 1000)
    view = made(datasets, long)
    for wanted, size in (
        (long | dict.fromkeys(range(10), "y" * 1000), 20_000),
        ({key: name for key, name in long.items() if key > 9}, 10_000),
        (long | dict.fromkeys(range(100, 110), "y" * 1000), 10_000),
    ):
        for most, back in ((size - 500, False), (size + 2000, True)):
            monkeypatch.setattr(owning, "FEW_BYTES", most)
            with Edit(view) as edit:
                report = changing(edit, long, wanted, few=50)
            assert bool(report.come or report.gone) == back


@pytest.mark.parametrize(
    ("keys", "gone", "leaves"), [(29, 30, True), (30, 30, False), (20, 29, False)]
)
def test_a_file_that_is_mostly_deleted_leaves_where_an_epoch_closes(
    datasets: MemoryDatasets, keys: int, gone: int, leaves: bool
) -> None:
    """Three tenths of its rows are most of them."""
    view = made(datasets, MANY)
    (file,) = view.entries
    wanted = {key: name for key, name in MANY.items() if key >= gone}
    with tiny_thresholds(most_keys=keys, most_deltas=99), Edit(view) as edit:
        report = changing(edit, MANY, wanted)
        found = after(datasets, edit, [report])
    assert report.removed == ((file,) if leaves else ())
    assert [each.entry.content for each in report.files] == (
        [Content.DATA] if leaves else [Content.DELETES]
    )
    if leaves:
        assert report.files[0].entry.origin is Origin.IMPORT
    assert held(rows_in(found)) == wanted


def test_what_is_written_again_with_rows_of_edits_is_no_import(datasets: MemoryDatasets) -> None:
    both = MANY | dict.fromkeys(range(100, 140), "edited")
    view = made(datasets, MANY, both)
    wanted = {key: name for key, name in both.items() if 40 <= key < 115}
    with tiny_thresholds(most_keys=10, most_deltas=99), Edit(view) as edit:
        report = changing(edit, both, wanted)
    assert set(report.removed) == set(view.entries)
    assert {each.entry.origin for each in report.files} == {Origin.FOLD}


def test_a_file_of_which_nothing_is_left_leaves_nothing_behind(datasets: MemoryDatasets) -> None:
    view = made(datasets, MANY)
    with tiny_thresholds(most_keys=10, most_deltas=99), Edit(view) as edit:
        report = changing(edit, MANY, {7: "name 7"} | dict.fromkeys(range(200, 203), "new"))
        whole = changing(edit, MANY, dict.fromkeys(range(200, 203), "new"))
    assert {each.entry.origin for each in report.files} == {Origin.IMPORT}
    assert sum(each.entry.rows for each in report.files) == 4
    assert {each.entry.origin for each in whole.files} == {Origin.EDIT}
    assert sum(each.entry.rows for each in whole.files) == 3


def test_large_delete_files_leave_with_what_they_delete_from(datasets: MemoryDatasets) -> None:
    """What they say of files that stay is written again."""
    both = MANY | dict.fromkeys(range(100, 200), "edited")
    less = {key: name for key, name in both.items() if key % 10}
    with tiny_thresholds(most_keys=10, most_deltas=99, small_file=0):
        view = made(datasets, MANY, both, less)
        first, second = (each.file for each in view.data_entries)
        (deleted,) = view.delete_entries
        wanted = {key: name for key, name in less.items() if key >= 50 and key != 101}
        with Edit(view) as edit:
            report = changing(edit, less, wanted)
            found = after(datasets, edit, [report])
    assert sorted(report.removed) == sorted([first, deleted.file])
    (new,) = (each.entry for each in report.files if each.entry.content is Content.DELETES)
    assert new.targets == {second: 11}
    assert held(rows_in(found)) == wanted


def test_rows_are_taken_away_by_their_places(
    datasets: MemoryDatasets, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(owning, "PIECE_ROWS", 3)
    both = MANY | dict.fromkeys(range(100, 120), "edited")
    view = made(datasets, MANY, both)
    first, second = (each.file for each in view.data_entries)
    places = {first: np.array([0, 3, 4, 50, 99]), second: np.array([0, 1])}
    gone = {0, 3, 4, 50, 99, 100, 101}
    for few in (0, 100):
        with Edit(view) as edit:
            (owner,) = owners(edit, "change", few=few)
            with Owning(owner) as work:
                work.drop(places)
                report = work.finish()
            assert report.counts == ChangeCounts()
            goes = batch_of(listed({key: both[key] for key in gone}), SCHEMA)
            assert dict(report.old) == hash_rows(goes, SCHEMA).digests
            assert bool(report.gone) == (few > 0)
            edit.count_digests(ChangeCounts(deletes=7), {}, {})
            found = after(datasets, edit, [report])
        assert held(rows_in(found)) == {k: name for k, name in both.items() if k not in gone}


def test_rows_given_twice_are_refused(datasets: MemoryDatasets) -> None:
    hints = {"upsert": "give each row once", "overwrite": "choose other columns"}
    for mode, hint in hints.items():
        with Edit(made(datasets, MANY)) as edit, Owning(owners(edit, mode)[0]) as work:
            with pytest.raises(KeyViolationError, match="the key 7 is there twice") as caught:
                work.take([in_batches({7: "a"}), in_batches({7: "b"})])
            assert any(hint in each for each in caught.value.hints)


def test_an_owner_leaves_no_temporary_files(
    datasets: MemoryDatasets, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sorting, "MOST_BYTES", 0)
    with Edit(made(datasets, MANY)) as edit:
        changing(edit, MANY, {**MANY, 200: "new"}, few=100)
        folder = datasets.storage.staging.scratch
        with Owning(owners(edit, "upsert")[0]) as work:
            before = sorted(folder.rglob("*"))
            work.take([in_batches(dict.fromkeys(range(50), "x"))])
            assert len(sorted(folder.rglob("*"))) > len(before)
        assert len(sorted(folder.rglob("*"))) <= len(before)


def test_columns_that_are_not_given_stay_as_they_are(datasets: MemoryDatasets) -> None:
    table: Table = {number: f"name {number}" for number in range(8)}
    with Edit(made(datasets, table)) as edit, Owning(owners(edit, "upsert", few=100)[0]) as work:
        given = pa.record_batch({"id": pa.array([0, 3, 9])})
        work.take([iter([given])])
        report = work.finish()
        assert report.counts == ChangeCounts(inserts=1)
        assert [row for batch in report.come for row in batch.to_pylist()] == [
            {"id": 9, "name": None}
        ]


def test_row_groups_that_nothing_is_given_of_go_with_an_overwrite(datasets: MemoryDatasets) -> None:
    view = made(datasets, dict.fromkeys(range(20), "old"))
    with Edit(view) as edit:
        (owner,) = owners(edit, "overwrite")
        found = after(datasets, edit, [taken(owner, {0: "new"})])
    assert held(rows_in(found)) == {0: "new"}


def test_keys_are_kept_where_a_folder_for_them_is_told(datasets: MemoryDatasets) -> None:
    folder = datasets.storage.keys
    with Edit(made(datasets, {1: "old"})) as edit:
        (owner,) = owners(edit, "upsert")
        for keys, more in ((None, 0), (str(folder), 1)):
            before = len([each for each in folder.rglob("*") if each.is_file()])
            report = taken(replace(owner, keys=keys), {2: f"{more}", 3: "new"})
            assert len(report.files) == 1
            after_ = len([each for each in folder.rglob("*") if each.is_file()])
            assert after_ - before == more


# Where an interval is cut, and what is looked up in a file


def test_an_interval_is_cut_where_row_groups_begin(
    datasets: MemoryDatasets, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(pieces, "ROWS_A_TASK", 6)
    with Edit(made(datasets, dict.fromkeys(range(24), "x"))) as edit:
        for cuts, wanted in (
            ((), [[6, 12, 18]]),
            ((12,), [[6], [18]]),
            ((6, 13), [[], [12], [18]]),
            ((1, 23), [[], [6, 12, 18], []]),
        ):
            for owner, inside in zip(owners(edit, "upsert", *cuts), wanted, strict=True):
                parts = parts_of(replace(owner, files=edit_files(edit)))
                assert [each.low for each in parts] == [owner.interval.low, *inside]
                assert [each.high for each in parts] == [*inside, owner.interval.high]


def edit_files(edit: Edit) -> Any:
    """Return the files of all, which an owner of some may have too."""
    (owner,) = owners(edit, "upsert")
    return owner.files


def test_row_groups_are_read_where_wanted_keys_may_be(datasets: MemoryDatasets) -> None:
    view = made(datasets, dict.fromkeys(range(0, 48, 4), "x"))  # 0 4 8 | 12 16 20 | …
    path = view.file_path(view.data_entries[0])
    whole = Interval(1, None, None)
    for keys, found in (
        ([-1], []),
        ([0], [0]),
        ([8], [0]),
        ([9, 10, 11], []),
        ([9, 12], [1]),
        ([5, 20, 44], [0, 1, 3]),
        ([45], []),
        ([3, 99], [0]),
    ):
        assert list(_groups_with(path, range(4), pa.array(keys, pa.int64()), whole)) == found
    assert _groups_with(path, [1, 3], pa.array([5, 20, 44], pa.int64()), whole) == (1, 3)


def test_row_groups_of_unknown_keys_are_read(tmp_path: Path) -> None:
    column = pa.field("id", pa.int64(), metadata={b"PARQUET:field_id": b"1"})
    table = pa.table([pa.array([1, 2, 3], pa.int64())], schema=pa.schema([column]))
    pq.write_table(table, tmp_path / "x", row_group_size=1, write_statistics=False)
    keys = pa.array([2], pa.int64())
    assert _groups_with(str(tmp_path / "x"), range(3), keys, Interval(1, None, None)) == (0, 1, 2)
